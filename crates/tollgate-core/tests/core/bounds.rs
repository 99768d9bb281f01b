//! Searches every history of small limits: each bound holds, and some history reaches it.
//!
//! Time advances tick by tick. At every tick an adversary may call as often as is admitted and, in
//! searches with refunds, refund any call that it has kept. Each tick starts from the set of states
//! that the tick before could reach, so histories that lead to the same state are followed once.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, State};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, Receipt, SlidingBuckets, SlidingCounter,
    SlidingLog, Timestamp,
};

/// The sizes that are searched: an amount and a window in ticks.
const SIZES: [(u64, u64); 5] = [(1, 3), (2, 4), (3, 4), (3, 6), (4, 4)];

#[test]
fn sliding_log_admits_at_most_n_in_any_window() {
    for (amount, window) in SIZES {
        let log = SlidingLog::new(quota(amount, window)).unwrap();
        let most = search(log, window, 4 * window);
        assert_eq!(most[at(window)], amount, "{amount}/{window}");
    }
}

#[test]
fn sliding_log_that_counts_denied_calls_admits_at_most_n_in_any_window() {
    for (amount, window) in SIZES {
        let log = SlidingLog::new(quota(amount, window)).unwrap();
        let most = search(log.count_denied(), window, 3 * window);
        assert_eq!(most[at(window)], amount, "{amount}/{window}");
    }
}

#[test]
fn gcra_admits_at_most_its_burst_and_what_refills_in_any_span() {
    for (amount, window) in SIZES {
        for burst in 1..=amount {
            let bucket = Gcra::with_burst(quota(amount, window), burst).unwrap();
            let longest = window + 2;
            let most = search(bucket, longest, 3 * window);
            for span in 1..=longest {
                let bound = burst + (span * amount).div_ceil(window) - 1;
                // The first and the last tick of a span are only `span - 1` ticks apart.
                let reached = burst + (span - 1) * amount / window;
                let case = format!("{amount}/{window},burst={burst} in {span}");
                assert!(most[at(span)] <= reached && reached <= bound, "{case}");
                // With a burst of 1, a call that is due between two ticks waits for the second.
                if burst > 1 || window.is_multiple_of(amount) {
                    assert_eq!(most[at(span)], reached, "{case}");
                }
                if (span * amount).is_multiple_of(window) {
                    assert_eq!(reached, bound, "{case}");
                }
            }
        }
    }
}

#[test]
fn aligned_windows_admit_at_most_two_n_in_any_window() {
    for (amount, window) in SIZES {
        let most = search(
            FixedWindow::aligned(quota(amount, window)),
            window,
            4 * window,
        );
        assert_eq!(most[at(window)], 2 * amount, "{amount}/{window}");
    }
}

#[test]
fn anchored_windows_admit_at_most_two_n_less_one_in_any_window() {
    for (amount, window) in SIZES {
        let most = search(
            FixedWindow::anchored(quota(amount, window)),
            window,
            4 * window,
        );
        assert_eq!(most[at(window)], 2 * amount - 1, "{amount}/{window}");
    }
}

#[test]
fn fixed_windows_that_count_denied_calls_keep_their_bounds() {
    for (amount, window) in SIZES {
        let aligned = FixedWindow::aligned(quota(amount, window)).count_denied();
        let anchored = FixedWindow::anchored(quota(amount, window)).count_denied();
        let most = search(aligned, window, 3 * window);
        assert_eq!(most[at(window)], 2 * amount, "aligned {amount}/{window}");
        let most = search(anchored, window, 3 * window);
        assert_eq!(
            most[at(window)],
            2 * amount - 1,
            "anchored {amount}/{window}"
        );
    }
}

#[test]
fn sliding_counter_admits_at_most_two_n_less_one_and_paces_the_excess() {
    for (amount, window) in SIZES {
        let counter = SlidingCounter::new(quota(amount, window)).unwrap();
        let most = search(counter, window, 4 * window);
        // The bound is reached only if the previous window weighs exactly 1 at some tick.
        if window >= 2 * amount {
            assert_eq!(most[at(window)], 2 * amount - 1, "{amount}/{window}");
        }
        assert!(most[at(window)] < 2 * amount, "{amount}/{window}");
        for span in 1..=window {
            let bound = amount + amount * span / window;
            assert!(most[at(span)] <= bound, "{amount}/{window} in {span}");
        }
    }
}

#[test]
fn sliding_buckets_admit_at_most_n_in_any_window() {
    for (amount, window) in SIZES {
        // Some of these do not divide the window, and the last exceeds it.
        for buckets in 1..=window + 1 {
            let ring = SlidingBuckets::new(quota(amount, window), buckets).unwrap();
            let most = search(ring, window, 4 * window);
            assert_eq!(
                most[at(window)],
                amount,
                "{amount}/{window},buckets={buckets}"
            );
        }
    }
}

#[test]
fn refunds_never_let_the_calls_that_are_kept_exceed_a_bound() {
    for (amount, window) in [(1, 3), (2, 3), (2, 4), (3, 3)] {
        let quota = quota(amount, window);
        let mut bounds: Vec<(Algorithm, u64)> = vec![
            (SlidingLog::new(quota).unwrap().into(), amount),
            (
                SlidingLog::new(quota).unwrap().count_denied().into(),
                amount,
            ),
            (FixedWindow::aligned(quota).into(), 2 * amount),
            (
                FixedWindow::aligned(quota).count_denied().into(),
                2 * amount,
            ),
            (FixedWindow::anchored(quota).into(), 2 * amount - 1),
            (
                FixedWindow::anchored(quota).count_denied().into(),
                2 * amount - 1,
            ),
            (SlidingCounter::new(quota).unwrap().into(), 2 * amount - 1),
            (SlidingBuckets::new(quota, 1).unwrap().into(), amount),
            (SlidingBuckets::new(quota, 2).unwrap().into(), amount),
        ];
        for burst in 1..=amount {
            let bucket = Gcra::with_burst(quota, burst).unwrap();
            bounds.push((bucket.into(), burst + amount - 1));
        }
        for (algorithm, bound) in bounds {
            let most = search_with_refunds(algorithm, window, 2 * window + 2);
            // As without refunds, calls at whole ticks cannot reach some bounds.
            let coarse = match algorithm {
                Algorithm::SlidingCounter(_) => window < 2 * amount,
                Algorithm::Gcra(bucket) => bucket.burst() == 1 && !window.is_multiple_of(amount),
                _ => false,
            };
            assert!(
                most == bound || (coarse && most < bound),
                "{algorithm}: {most}"
            );
        }
    }
}

fn quota(amount: u64, window: u64) -> Quota {
    Quota::new(amount, Duration::from_micros(window)).unwrap()
}

fn at(span: u64) -> usize {
    usize::try_from(span).unwrap()
}

fn time(tick: u64) -> Timestamp {
    Timestamp::from_micros(tick).unwrap()
}

/// Forgets a state that no longer counts, as a store may, so that the search meets fewer states.
fn settled(limit: &Limit, state: State, tick: u64) -> State {
    if state.is_fresh(limit, time(tick)) {
        return State::default();
    }
    state
}

/// Returns a text that is equal for equal states; of running totals, only differences matter.
fn identity(state: &State) -> String {
    let shown = format!("{state:?}");
    let Some((_, before)) = shown.split_once("before: ") else {
        return shown;
    };
    let mut parts = shown.split("total: ");
    let mut identity = parts.next().unwrap().to_owned();
    for part in parts {
        let (total, rest) = number(part);
        identity += &format!("held: {}", total - number(before).0);
        identity += rest.split("before: ").next().unwrap();
    }
    identity
}

/// Returns the number that `text` starts with, and what follows it.
fn number(text: &str) -> (u64, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].parse().unwrap(), &text[end..])
}

/// Returns, for each span up to `longest`, the most that any history of `ticks` ticks admits in it.
fn search(algorithm: impl Into<Algorithm>, longest: u64, ticks: u64) -> Vec<u64> {
    let limit = Limit::new("searched", algorithm).unwrap();
    let counts_denied = limit.algorithm().counts_denied();
    let mut most = vec![0; at(longest) + 1];
    // A state, and what was admitted in each of the last ticks, newest first.
    let mut reached = vec![(State::default(), vec![0u64; at(longest)])];
    let capacity = limit.algorithm().capacity();
    for tick in 0..ticks {
        let mut seen = HashSet::new();
        let mut next = Vec::new();
        // The third field counts this tick's denied calls; `capacity` of them are enough.
        let mut reached_now: Vec<_> = std::mem::take(&mut reached)
            .into_iter()
            .map(|(state, admitted)| (settled(&limit, state, tick), admitted, 0))
            .collect();
        while let Some((state, admitted, denials)) = reached_now.pop() {
            if !seen.insert((identity(&state), admitted.clone(), denials)) {
                continue;
            }
            for span in 1..=longest {
                let sum = admitted[..at(span)].iter().sum();
                most[at(span)] = most[at(span)].max(sum);
            }
            // Calls that cost 1 are enough: one call that costs n equals n of them.
            let mut called = state.clone();
            let request = Request::consume(Check::new(&limit, "key", 1));
            let allowed = request.decide_on(&mut called, time(tick)).is_allowed();
            if allowed {
                let mut admitted = admitted.clone();
                admitted[0] += 1;
                reached_now.push((called, admitted, denials));
            } else if counts_denied && denials < capacity {
                reached_now.push((called, admitted.clone(), denials + 1));
            }
            let mut later = admitted;
            later.rotate_right(1);
            later[0] = 0;
            next.push((state, later));
        }
        reached = next;
    }
    most
}

/// Returns the most units kept in any span of `window` ticks, whichever calls are refunded.
fn search_with_refunds(algorithm: Algorithm, window: u64, ticks: u64) -> u64 {
    let limit = Limit::new("searched", algorithm).unwrap();
    let (capacity, counts_denied) = (algorithm.capacity(), algorithm.counts_denied());
    let mut most = 0;
    // A state, and the calls that were kept: when, and at what cost.
    let mut reached: Vec<(State, Vec<(u64, u64)>)> = vec![(State::default(), Vec::new())];
    for tick in 0..ticks {
        let mut seen = HashSet::new();
        let mut next = Vec::new();
        let mut reached_now: Vec<_> = std::mem::take(&mut reached)
            .into_iter()
            .map(|(state, mut kept)| {
                // Drop calls that are in no later window and whose refund changes nothing.
                kept.retain(|&(at, cost)| {
                    at + window > tick || refunded(&limit, &state, tick, (at, cost)).is_some()
                });
                (settled(&limit, state, tick), kept, 0)
            })
            .collect();
        while let Some((state, kept, denials)) = reached_now.pop() {
            if !seen.insert((identity(&state), kept.clone(), denials)) {
                continue;
            }
            for cost in 1..=capacity {
                let mut called = state.clone();
                let request = Request::consume(Check::new(&limit, "key", cost));
                let allowed = request.decide_on(&mut called, time(tick)).is_allowed();
                if allowed {
                    let mut kept = kept.clone();
                    kept.push((tick, cost));
                    kept.sort_unstable();
                    reached_now.push((called, kept, denials));
                } else if counts_denied && denials < capacity {
                    reached_now.push((called, kept.clone(), denials + 1));
                }
            }
            for index in 0..kept.len() {
                let mut kept = kept.clone();
                let call = kept.remove(index);
                if let Some(returned) = refunded(&limit, &state, tick, call) {
                    reached_now.push((returned, kept, denials));
                }
            }
            // Calls kept here may still be refunded later; this counts the history without that.
            most = most.max(most_in_a_window(&kept, window));
            next.push((state, kept));
        }
        reached = next;
    }
    most
}

/// Returns `state` after the refund of a call of `cost` at `at`, or `None` if nothing changes.
fn refunded(limit: &Limit, state: &State, tick: u64, (at, cost): (u64, u64)) -> Option<State> {
    let mut returned = state.clone();
    let receipt = receipt(limit, at, cost);
    let _ =
        Request::refund(&receipt, Check::new(limit, "key", 0)).decide_on(&mut returned, time(tick));
    (identity(&returned) != identity(state)).then_some(returned)
}

/// Returns the most units of `kept` in any half-open span of `window` ticks.
fn most_in_a_window(kept: &[(u64, u64)], window: u64) -> u64 {
    let ending_at = |end: u64| {
        let inside = kept
            .iter()
            .filter(|(at, _)| *at <= end && at + window > end);
        inside.map(|(_, cost)| cost).sum()
    };
    kept.iter().map(|&(at, _)| ending_at(at)).max().unwrap_or(0)
}

/// Returns the receipt of a call of `cost` at `tick`.
fn receipt(limit: &Limit, tick: u64, cost: u64) -> Receipt {
    let request = Request::new(Operation::Consume, [Check::new(limit, "key", cost)]);
    let decision = request.decide_on(&mut State::default(), time(tick));
    decision.into_receipt().unwrap()
}

//! `Forecast`: tells when calls can be admitted at the earliest, from what the store has answered.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Algorithm;
use tollgate_core::store::{Check, Operation, Request, State, Verdict, Verdicts};
use tollgate_core::{Limit, Quota, Timestamp};

use super::caller::Asker;
use crate::costs::LimitCosts;

/// What is known about the limits of one key.
///
/// For a bucket (GCRA), the latest answer says all. For windows, this process counts what it has
/// consumed itself. Other processes and earlier calls can only have consumed more, so a forecast is
/// the least that a call waits. If an answer shows that something was given back, what was counted
/// is forgotten. An anchored window, which ends earlier if somebody else has begun it, is taken over
/// from each answer.
#[derive(Default)]
pub(super) struct Forecast {
    granted: Vec<State>,
    /// When each limit has its full capacity again, as of the latest answer.
    full: Vec<Instant>,
    /// The runtime's clock and the store's, at the latest answer.
    clocks: Option<(Instant, Timestamp)>,
}

impl Forecast {
    /// Takes note of the answer to a call that was made at `asked`, and decided at `decided`, and of
    /// what it consumed. Of an answer that does not tell what is left, that is all that is certain.
    pub(super) fn learn(
        &mut self,
        asker: Asker<'_>,
        asked: Instant,
        decided: Timestamp,
        consumed: Option<&LimitCosts>,
        answer: &Verdicts,
    ) {
        if decided == Timestamp::UNIX_EPOCH {
            // A store that does not say when it decided.
            return;
        }
        let age = self
            .clocks
            .map_or(Greater, |(_, latest)| decided.cmp(&latest));
        let tells = answer.source().tells_what_is_left();
        if tells && age != Less {
            self.clocks = Some((asked, decided));
        }
        let count = asker.limits.len();
        self.granted.resize_with(count, State::default);
        self.full.resize(count, asked);
        for (index, verdict) in answer.as_slice().iter().enumerate().take(count) {
            let reset = verdict.reset_after().duration().unwrap_or_default();
            let full = asked.checked_add(reset).unwrap_or(asked);
            match age {
                _ if !tells => {}
                Less => {}
                Equal => self.full[index] = self.full[index].max(full),
                Greater => self.full[index] = full,
            }
            let mut window = Window {
                limit: asker.limit(index),
                state: &mut self.granted[index],
                now: decided,
            };
            let consumed = consumed.map(|costs| costs.of(index));
            window.learn(tells.then_some(verdict), age == Greater, consumed);
        }
    }

    /// Returns whether anything is known.
    pub(super) fn is_known(&self) -> bool {
        self.clocks.is_some()
    }

    /// Returns the earliest instant at which a call of `cost` may be admitted, and the limit that it
    /// waits for, or `None` if nothing is known, or it never is.
    pub(super) fn ready(
        &mut self,
        asker: Asker<'_>,
        cost: &LimitCosts,
    ) -> Option<(Instant, usize)> {
        let (asked, _) = self.clocks?;
        let cost = |limit| u128::from(cost.of(limit));
        let (wait, limit) = self.longest(asker, asked, cost, |window, cost| window.wait(cost))?;
        Some((asked.checked_add(wait)?, limit))
    }

    /// Returns the least time from `from` until calls are admitted that cost together what `total`
    /// returns for each limit, and the limit that they wait for, or `None` if nothing is known. No
    /// call costs more than the capacity of a limit.
    ///
    /// It is exact for one limit and calls that cost as much as each other. It takes the same time
    /// for any number of calls.
    pub(super) fn least_wait(
        &mut self,
        asker: Asker<'_>,
        from: Instant,
        total: impl Fn(usize) -> u128,
    ) -> Option<(Duration, usize)> {
        self.longest(asker, from, total, |window, total| window.admits(total))
    }

    /// Returns the longest of the times from `from` until each limit admits what `total` returns for
    /// it, and the first limit with the longest. For windows, `wait` returns the microseconds.
    fn longest(
        &mut self,
        asker: Asker<'_>,
        from: Instant,
        total: impl Fn(usize) -> u128,
        wait: impl Fn(&mut Window<'_, '_>, u128) -> u128,
    ) -> Option<(Duration, usize)> {
        let (asked, decided) = self.clocks?;
        let now = decided.saturating_add(from.duration_since(asked));
        let states = self.granted.iter_mut().zip(&self.full).enumerate();
        // Nobody waits for a limit in shadow.
        let states = states.filter(|(index, _)| !asker.limit(*index).is_shadow());
        let waits = states.map(|(index, (state, full))| {
            let limit = asker.limit(index);
            let total = total(index);
            let wait = match limit.algorithm() {
                // What costs nothing is always admitted.
                _ if total == 0 => 0,
                Algorithm::Gcra(bucket) => {
                    let leaks = full.duration_since(from);
                    drains(limit.algorithm().quota(), bucket.burst(), leaks, total)
                }
                _ => {
                    let mut window = Window { limit, state, now };
                    wait(&mut window, total)
                }
            };
            (
                Duration::from_micros(u64::try_from(wait).unwrap_or(u64::MAX)),
                index,
            )
        });
        waits.reduce(|longest, other| if other.0 > longest.0 { other } else { longest })
    }
}

/// Returns the least number of microseconds until a bucket, which is full after `leaks`, admits
/// `total`.
fn drains(quota: Quota, burst: u64, leaks: Duration, total: u128) -> u128 {
    let (amount, window) = (
        u128::from(quota.amount().max(1)),
        u128::from(quota.window_us()),
    );
    let (leaks, burst) = (leaks.as_micros(), u128::from(burst));
    match total.checked_sub(burst) {
        Some(beyond) => leaks.saturating_add(beyond.saturating_mul(window) / amount),
        // What is subtracted is rounded up, so that the wait is rounded down.
        None => leaks.saturating_sub(((burst - total) * window).div_ceil(amount)),
    }
}

/// The most windows that are looked at one by one: a month has as many days, and a year as many weeks,
/// but a line that long is refused long before.
const MOST_TURNS: usize = 1_000;

/// A key; these states are of one whatever it is.
const ANY: &str = "";

/// A limit of windows, and what this process has consumed of it.
struct Window<'a, 's> {
    limit: &'a Limit,
    state: &'s mut State,
    now: Timestamp,
}

impl Window<'_, '_> {
    /// Takes note of a verdict, if it tells what is left, and of the cost if the call was allowed.
    fn learn(&mut self, verdict: Option<&Verdict>, is_latest: bool, consumed: Option<u64>) {
        match self.limit.algorithm() {
            // The verdict itself says all: when the bucket is full.
            Algorithm::Gcra(_) => return,
            Algorithm::FixedWindow(fixed) if fixed.is_anchored() => {
                if let Some(verdict) = verdict {
                    self.take_over(verdict);
                }
                return;
            }
            _ => {}
        }
        if let Some(verdict) = verdict.filter(|_| is_latest) {
            // What would remain if nobody but this process had consumed anything.
            let most = self.peek(0).remaining();
            let most = most.saturating_sub(consumed.unwrap_or(0));
            if verdict.remaining() > most {
                // Something was given back.
                *self.state = State::default();
            }
        }
        if let Some(cost) = consumed {
            self.consume(cost);
        }
    }

    /// Takes over the anchored window that `verdict` tells of. One that an earlier call has begun
    /// ends earlier than what this process knows.
    fn take_over(&mut self, verdict: &Verdict) {
        *self.state = State::default();
        let used = verdict.capacity().saturating_sub(verdict.remaining());
        let ends = verdict.reset_after().as_micros().unwrap_or_default();
        let ends = verdict.decided_at().as_micros().saturating_add(ends);
        let length = self.limit.algorithm().quota().window_us();
        self.now = Timestamp::saturating_from_micros(ends.saturating_sub(length));
        self.consume(used);
    }

    fn consume(&mut self, cost: u64) {
        // The store has admitted it; what this process knows can only leave more room.
        let check = Check::new(self.limit, ANY, cost);
        let _ = Request::consume(check).decide_on(self.state, self.now);
    }

    /// Returns the least number of microseconds until `total` units are admitted.
    fn admits(&mut self, total: u128) -> u128 {
        let algorithm = self.limit.algorithm();
        let amount = u128::from(algorithm.capacity().max(1));
        let window = u128::from(algorithm.quota().window_us());
        match algorithm {
            // Each unit is admitted a window after the one that came `amount` units before it.
            Algorithm::SlidingLog(_) => {
                let first = (total - 1) % amount + 1;
                self.wait(first) + (total - first) / amount * window
            }
            // Each is admitted when the bucket leaves the window that holds that one.
            Algorithm::SlidingBuckets(buckets) => {
                let first = (total - 1) % amount + 1;
                let wait = self.wait(first);
                let Some(rounds @ 1..) = (total - first).checked_div(amount) else {
                    return wait;
                };
                let bucket = window.div_ceil(u128::from(buckets.buckets()));
                let stays = (u128::from(buckets.buckets()) + 1) * bucket;
                let now = u128::from(self.now.as_micros());
                let began = (now + wait) / bucket * bucket;
                (began + rounds * stays).saturating_sub(now)
            }
            Algorithm::FixedWindow(fixed) => {
                let left = self.peek(0);
                let Some(beyond @ 1..) = total.checked_sub(u128::from(left.remaining())) else {
                    return 0;
                };
                let ends = if fixed.is_anchored() {
                    let begun = left.reset_after().as_micros().filter(|reset| *reset > 0);
                    begun.map_or(window, u128::from)
                } else {
                    self.until_aligned(window)
                };
                ends + (beyond - 1) / amount * window
            }
            // At most `amount` units begin in each aligned window.
            Algorithm::SlidingCounter(_) => {
                let left = self.peek(0).remaining();
                if total <= u128::from(left) {
                    return 0;
                }
                let mut state = self.state.clone();
                let mut without = Window {
                    state: &mut state,
                    ..*self
                };
                without.consume(left);
                let next = without.wait(1);
                let later = total.checked_sub(amount + 1);
                let later = later.map(|more| self.until_aligned(window) + more / amount * window);
                next.max(later.unwrap_or(0))
            }
            _ => self.in_turns(total),
        }
    }

    /// Returns the least number of microseconds until `total` units are admitted, each as soon as it
    /// may, or less if that takes very many turns.
    fn in_turns(&self, total: u128) -> u128 {
        let mut state = self.state.clone();
        let mut turn = Window {
            state: &mut state,
            ..*self
        };
        let (mut left, mut waited) = (total, 0);
        for _ in 0..MOST_TURNS {
            let room = turn.peek(0).remaining();
            left = match left.checked_sub(u128::from(room)) {
                Some(left @ 1..) => left,
                _ => break,
            };
            turn.consume(room);
            let Some(wait @ 1..) = turn.peek(1).retry_after().as_micros() else {
                break;
            };
            waited += u128::from(wait);
            turn.now = turn.now.saturating_add(Duration::from_micros(wait));
        }
        waited
    }

    /// Returns the microseconds until the window ends that all limits of this length share.
    fn until_aligned(&self, window: u128) -> u128 {
        window - u128::from(self.now.as_micros()) % window
    }

    /// Returns the microseconds until one call of this cost is admitted.
    fn wait(&mut self, cost: u128) -> u128 {
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let wait = self.peek(cost).retry_after().as_micros();
        u128::from(wait.unwrap_or(0))
    }

    fn peek(&mut self, cost: u64) -> Verdicts {
        #[cfg(test)]
        tests::DECIDED.with(|decided| decided.set(decided.get() + 1));
        let check = Check::new(self.limit, ANY, cost);
        Request::new(Operation::Peek, [check]).decide_on(self.state, self.now)
    }
}

#[cfg(test)]
pub(super) mod tests;

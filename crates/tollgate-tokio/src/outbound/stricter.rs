//! Stricter limits: what somebody else's limit becomes, so that calls keep to it when they arrive.

use std::time::Duration;

use tollgate_core::{
    Algorithm, Gcra, Limit, LimitError, Quota, SlidingBuckets, SlidingCounter, SlidingLog,
};

use super::OutboundError;

/// Returns whether `limit` counts calls. A block does not.
pub(super) fn counts(limit: &Limit) -> bool {
    !limit.algorithm().can_block()
}

/// Returns the limit to keep to at departure, so that calls keep to `limit` on arrival, if some of
/// them take up to `margin` microseconds longer than others.
///
/// Why that is enough: if a call departs at `t` and takes `L`, with `l <= L <= l + J`, it arrives
/// at `t + L`. So calls that arrive in a span of length `W` have departed in a span of length
/// `W + J`.
///
/// - Windows: at most `N` calls depart in any span of length `T + J`, so at most `N` arrive in any
///   span of length `T`.
/// - Buckets: at most `B' + (W + J) * N / T` units depart in any span of length `W + J`. With
///   `B' = B - ceil(J * N / T)`, at most `B + W * N / T` arrive in a span of length `W`, which is
///   what a bucket of `B` admits.
/// - If that leaves no burst, calls depart one by one, `T / N + J` apart. They arrive at least
///   `T / N` apart, which any bucket with a burst of at least 1 admits.
///
/// # Errors
///
/// If a stricter limit cannot be counted exactly, or there is none.
pub(super) fn on_arrival(limit: &Limit, margin: u64) -> Result<Limit, OutboundError> {
    if margin == 0 {
        return Ok(limit.clone());
    }
    let quota = limit.algorithm().quota();
    let margin = u128::from(margin);
    let (amount, window) = (u128::from(quota.amount()), u128::from(quota.window_us()));
    let algorithm: Algorithm = match limit.algorithm() {
        Algorithm::SlidingLog(_) => SlidingLog::new(longer(quota, margin)?)?.into(),
        Algorithm::SlidingCounter(_) => SlidingCounter::new(longer(quota, margin)?)?.into(),
        Algorithm::SlidingBuckets(buckets) => {
            SlidingBuckets::new(longer(quota, margin)?, buckets.buckets())?.into()
        }
        Algorithm::Gcra(bucket) if bucket.burst() > 0 => {
            let arrive_together = (margin * amount).div_ceil(window);
            let arrive_together = u64::try_from(arrive_together).unwrap_or(u64::MAX);
            match bucket.burst().saturating_sub(arrive_together) {
                0 => Gcra::with_burst(longer(quota, margin * amount)?, 1)?.into(),
                burst => Gcra::with_burst(quota, burst)?.into(),
            }
        }
        // A bucket that admits nothing.
        Algorithm::Gcra(_) => return Ok(limit.clone()),
        _ if !counts(limit) => return Ok(limit.clone()),
        // Of the calendar, too.
        _ => {
            return Err(OutboundError::FixedWindowWithMargin {
                limit: limit.name().to_owned(),
            });
        }
    };
    Ok(Limit::new(limit.name(), algorithm)?)
}

/// Returns `quota` with a window that is longer by `by` microseconds.
fn longer(quota: Quota, by: u128) -> Result<Quota, LimitError> {
    let window = u128::from(quota.window_us()) + by;
    let window = u64::try_from(window).unwrap_or(u64::MAX);
    Quota::new(quota.amount(), Duration::from_micros(window))
}

/// Returns the limit for background calls, which leaves `kept` units of `limit` to urgent ones,
/// or `None` for a block, which counts nothing.
///
/// # Errors
///
/// If that leaves nothing, or the new limit cannot be counted exactly.
pub(super) fn for_background(limit: &Limit, kept: u64) -> Result<Option<Limit>, OutboundError> {
    let quota = limit.algorithm().quota();
    if !counts(limit) {
        return Ok(None);
    }
    let Some(amount @ 1..) = quota.amount().checked_sub(kept) else {
        return Err(OutboundError::NothingForBackground {
            limit: limit.name().to_owned(),
            kept,
            most: quota.amount().saturating_sub(1),
        });
    };
    let algorithm = match limit.algorithm() {
        Algorithm::Gcra(bucket) => {
            // A lower rate, too: with the burst alone, background calls could use all that comes
            // back, and what is kept would never be there again once it was used.
            let burst = bucket.burst().saturating_sub(kept).max(1);
            Gcra::with_burst(Quota::new(amount, quota.window())?, burst)?.into()
        }
        other => other.with_amount(amount)?,
    };
    Ok(Some(Limit::new(
        &name_for_background(limit.name()),
        algorithm,
    )?))
}

/// Returns the name of the limit for background calls that the limit called `name` has, if it has one.
pub(super) fn name_for_background(name: &str) -> String {
    format!("{name}-background")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(limit: &str, margin: u64) -> String {
        let limit: Limit = limit.parse().unwrap();
        on_arrival(&limit, margin).unwrap().to_string()
    }

    #[test]
    fn windows_are_longer_by_the_margin() {
        for limit in [
            "a=sliding-log:10/1m",
            "a=sliding-counter:10/1m",
            "a=sliding-buckets:10/1m,buckets=7",
        ] {
            assert_eq!(strict(limit, 50_000), limit.replace("1m", "60050ms"));
            assert_eq!(strict(limit, 0), limit);
        }
    }

    #[test]
    fn buckets_are_smaller_by_what_arrives_together() {
        // In 30 ms, three tokens come; in 31 ms or 30.001 ms, part of a fourth.
        let bucket = "a=gcra:100/1s,burst=10";
        assert_eq!(strict(bucket, 30_000), "a=gcra:100/1s,burst=7");
        assert_eq!(strict(bucket, 30_001), "a=gcra:100/1s,burst=6");
        assert_eq!(strict(bucket, 1), "a=gcra:100/1s,burst=9");
        assert_eq!(strict(bucket, 90_000), "a=gcra:100/1s,burst=1");
        // Nothing is left: one call every 10 ms and the margin.
        assert_eq!(strict(bucket, 90_001), "a=gcra:100/10000100us,burst=1");
        assert_eq!(strict(bucket, 100_000), "a=gcra:100/11s,burst=1");
        let spaced = "a=gcra:100/1s,burst=1";
        assert_eq!(strict(spaced, 5_000), "a=gcra:100/1500ms,burst=1");
        let nothing = "a=gcra:0/1s";
        assert_eq!(strict(nothing, 5_000), strict(nothing, 0));
    }

    #[test]
    fn windows_that_begin_at_set_times_know_no_margin() {
        for limit in ["a=fixed-window:10/1m", "a=fixed-window:10/month@UTC"] {
            let limit: Limit = limit.parse().unwrap();
            let error = on_arrival(&limit, 1).unwrap_err().to_string();
            assert!(error.contains("sliding-log"), "{error}");
            assert_eq!(on_arrival(&limit, 0).unwrap(), limit);
        }
        let block: Limit = "a=block:5m".parse().unwrap();
        assert_eq!(on_arrival(&block, 1).unwrap(), block);
    }

    #[test]
    fn what_departs_within_stricter_limits_arrives_within_the_service_s() {
        use tollgate_core::Timestamp;
        use tollgate_core::store::{Check, Request, State};

        // Calls depart as soon as they may, and take the least or the most time, as a fixed
        // pattern says. The service is another limit, at the instants of arrival.
        for (ours, service, margin) in [
            ("a=sliding-log:7/100us", "a=sliding-log:7/100us", 13),
            ("a=sliding-log:7/100us", "a=fixed-window:7/100us", 13),
            (
                "a=sliding-log:7/100us",
                "a=fixed-window:7/100us,anchored",
                13,
            ),
            (
                "a=sliding-buckets:7/100us,buckets=10",
                "a=sliding-log:7/100us",
                13,
            ),
            ("a=gcra:7/100us", "a=gcra:7/100us", 13),
            ("a=gcra:7/100us,burst=3", "a=gcra:7/100us,burst=3", 29),
            ("a=gcra:7/100us,burst=2", "a=gcra:7/100us,burst=2", 29),
            ("a=gcra:7/100us,burst=1", "a=gcra:7/100us,burst=1", 3),
            ("a=gcra:6/100us,burst=1", "a=sliding-counter:7/100us", 3),
        ] {
            let (ours, service): (Limit, Limit) = (ours.parse().unwrap(), service.parse().unwrap());
            let stricter = on_arrival(&ours, margin).unwrap();
            for pattern in 1..=64_u64 {
                let (mut state, mut now) = (State::default(), 1_000_000 + pattern);
                let mut arrivals = Vec::new();
                for number in 0..300_u64 {
                    loop {
                        let check = Check::new(&stricter, "k", 1);
                        let at = Timestamp::from_micros(now).unwrap();
                        let verdicts = Request::consume(check).decide_on(&mut state, at);
                        if verdicts.is_allowed() {
                            break;
                        }
                        now += verdicts.retry_after().as_micros().unwrap();
                    }
                    let is_slow = (number * number * pattern / 7 + number / pattern) % 2 == 0;
                    arrivals.push(now + 500 + if is_slow { margin } else { 0 });
                }
                arrivals.sort_unstable();
                let mut state = State::default();
                for arrival in arrivals {
                    let at = Timestamp::from_micros(arrival).unwrap();
                    let check = Check::new(&service, "k", 1);
                    let verdicts = Request::consume(check).decide_on(&mut state, at);
                    assert!(
                        verdicts.is_allowed(),
                        "{ours}, {service}, pattern {pattern}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_taken_from_amount_and_burst() {
        for row in [
            "sliding-log:10/1m sliding-log:7/1m",
            "sliding-counter:10/1m sliding-counter:7/1m",
            "sliding-buckets:10/1m,buckets=7 sliding-buckets:7/1m,buckets=7",
            "fixed-window:10/1m fixed-window:7/1m",
            "fixed-window:10/1m,anchored fixed-window:7/1m,anchored",
            "fixed-window:10/month@UTC fixed-window:7/month@UTC",
            "gcra:10/1m,burst=8 gcra:7/1m,burst=5",
            "gcra:10/1m,burst=5 gcra:7/1m,burst=2",
            "gcra:10/1m,burst=2 gcra:7/1m,burst=1",
        ] {
            let (limit, left) = row.split_once(' ').unwrap();
            let limit: Limit = format!("a={limit}").parse().unwrap();
            let expected = format!("a-background={left}");
            let background = for_background(&limit, 3).unwrap().unwrap();
            assert_eq!(background, expected.parse().unwrap());
            assert_eq!(background.to_string(), expected);
            assert!(for_background(&limit, 9).is_ok());
            for kept in [10, 11, u64::MAX] {
                let error = for_background(&limit, kept).unwrap_err().to_string();
                assert!(error.contains("at most 9"), "{error}");
            }
        }
        let nothing: Limit = "a=sliding-log:0/1m".parse().unwrap();
        let error = for_background(&nothing, 1).unwrap_err().to_string();
        assert!(error.contains("leave out `keep_for_urgent`"), "{error}");
        let block: Limit = "a=block:1s".parse().unwrap();
        for kept in [3, u64::MAX] {
            assert_eq!(for_background(&block, kept).unwrap(), None);
        }
    }
}

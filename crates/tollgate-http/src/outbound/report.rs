//! `Hints::report`: shares what a response says about limits with all processes.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::store::Verdict;
use tollgate_core::{Limit, Store, StoreError};
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::Permit;

use crate::hints::Hints;
use crate::limit_hint::LimitHint;

impl Hints {
    /// Reports to the store what the response to the request of `permit` says about the limits of
    /// its service, if that is less than the store knows.
    ///
    /// Which limit a hint lowers:
    ///
    /// - The limit of its name, so name limits as the service's headers do.
    /// - Otherwise, the first with its amount and its window, or with the one of these that it tells.
    /// - If it tells neither, the only limit; or, if there are several and it has no name, the one that
    ///   [`Outbound::observe`] chooses.
    ///
    /// Any other hint is about a limit that this `Outbound` does not keep, and matters only if nothing
    /// remains: then the key is paused until the reset.
    ///
    /// No pause is longer than `longest_pause`. This does not read `Retry-After`: after a response
    /// that refuses the request, call [`Outbound::penalize`] with [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use http::HeaderMap;
    /// use tollgate_http::Hints;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=sliding-log:100/1m"]).build()?;
    /// let permit = outbound.call("api.example.com").await?;
    ///
    /// // Somebody else uses the same limit.
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-limit", "100".parse()?);
    /// headers.insert("x-ratelimit-remaining", "7".parse()?);
    /// let hints = Hints::read(&headers, SystemTime::now());
    /// hints.report(&permit, Duration::from_secs(3_600)).await?;
    /// assert_eq!(outbound.call("api.example.com").await?.remaining(), 6);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn report<S: Store + 'static>(
        &self,
        permit: &Permit<S>,
        longest_pause: Duration,
    ) -> Result<(), StoreError> {
        self.report_from(0, permit, longest_pause).await
    }

    /// Does the same, but only for the limits of which at least `least` remains.
    pub(super) async fn report_from<S: Store + 'static>(
        &self,
        least: u64,
        permit: &Permit<S>,
        longest_pause: Duration,
    ) -> Result<(), StoreError> {
        let (outbound, key) = (permit.outbound(), permit.key());
        // The least report about each limit, however often the response repeats it.
        let mut reports = BTreeMap::new();
        // For the key of the call, whatever key the limit is counted for.
        let mut pause = None;
        for hint in self.limits() {
            let Some(remaining) = hint.remaining().filter(|remaining| *remaining >= least) else {
                continue;
            };
            let about = about(outbound, hint);
            if about.is_some_and(|index| remaining >= left(permit, index)) {
                continue;
            }
            if remaining == 0 {
                let reset_after = hint.reset_after().map(|reset| reset.min(longest_pause));
                pause = pause.max(reset_after);
            }
            if let Some(index) = about {
                let known = reports.entry(index).or_insert(remaining);
                *known = remaining.min(*known);
            }
        }
        if let Some(pause) = pause {
            let _ = outbound.penalize(key, pause).await?;
        }
        for (index, remaining) in reports {
            let name = outbound.limits()[index].name();
            let key = permit.key_of(name).unwrap_or(key);
            outbound.observe_limit(key, name, remaining, None).await?;
        }
        Ok(())
    }
}

/// Returns how much may be left of the limit with this index: any amount, if the store's answer does not
/// tell.
fn left<S: Store + 'static>(permit: &Permit<S>, index: usize) -> u64 {
    let verdicts = permit.verdicts();
    let tells = verdicts.source().tells_what_is_left();
    let told = verdicts.as_slice().get(index).filter(|_| tells);
    told.map_or(u64::MAX, Verdict::remaining)
}

/// Returns the index of the limit that `hint` is about, or `None` if the `Outbound` does not keep it.
fn about<S>(outbound: &Outbound<S>, hint: &LimitHint) -> Option<usize> {
    let index = |(index, _)| index;
    let named = |(_, limit): &(usize, &Limit)| hint.name() == Some(limit.name());
    if let Some(named) = outbound.counting().find(named) {
        return Some(index(named));
    }
    if hint.amount().is_some() || hint.window().is_some() {
        let mut counting = outbound.counting();
        return counting.find(|(_, limit)| fits(limit, hint)).map(index);
    }
    // The name of none of several limits describes none of them.
    if hint.name().is_some() && outbound.counting().nth(1).is_some() {
        return None;
    }
    outbound.described_by(hint.reset_after())
}

/// Returns whether `limit` has the amount, or the burst, and the window of `hint`, as far as it tells
/// them.
fn fits(limit: &Limit, hint: &LimitHint) -> bool {
    let (quota, capacity) = (limit.algorithm().quota(), limit.algorithm().capacity());
    let has_window = hint.window().is_none_or(|window| window == quota.window());
    let amount = hint.amount();
    has_window && amount.is_none_or(|amount| amount == quota.amount() || amount == capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_about_the_limit_that_it_describes() {
        let limits = ["second=gcra:10/1s,burst=5", "minute=sliding-log:10/1m"];
        let several = Outbound::builder((), limits).build().unwrap();
        let one = Outbound::builder((), ["pause=block:1s", "second=gcra:10/1s,burst=5"]);
        let one = one.build().unwrap();
        let second = Some(Duration::from_secs(1));
        let minute = Some(Duration::from_secs(60));
        for (name, amount, window, expected, alone) in [
            (None, None, None, Some(0), Some(1)),
            (Some("tokens"), None, None, None, Some(1)),
            (Some("tokens"), Some(10), second, Some(0), Some(1)),
            (Some("minute"), None, None, Some(1), Some(1)),
            (Some("minute"), Some(3), None, Some(1), None),
            (Some("pause"), Some(3), None, None, None),
            (None, None, minute, Some(1), None),
            (None, None, second, Some(0), Some(1)),
            (None, Some(10), None, Some(0), Some(1)),
            (None, Some(10), second, Some(0), Some(1)),
            (None, Some(10), minute, Some(1), None),
            (None, Some(5), None, Some(0), Some(1)),
            (None, Some(5), minute, None, None),
            (Some("tokens"), Some(40_000), None, None, None),
        ] {
            let hint = LimitHint {
                name: name.map(Into::into),
                amount,
                window,
                ..LimitHint::default()
            };
            assert_eq!(about(&several, &hint), expected, "{hint:?}");
            assert_eq!(about(&one, &hint), alone, "{hint:?}");
        }
    }
}

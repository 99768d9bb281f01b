//! `Hints::report`: shares what a response says about limits with all processes.

use std::time::Duration;

use tollgate_core::{Key, Limit, Store, StoreError};
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::Permit;

use crate::{Hints, LimitHint};

/// Which limit a hint is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum About {
    /// The limit with this index.
    One(usize),
    /// Any of several limits.
    Any,
    /// A limit that the `Outbound` does not keep.
    Another,
}

impl Hints {
    /// Reports to the store what the response to the request of `permit` says about the limits of
    /// its service, if that is less than the store knows.
    ///
    /// A hint is about the limit with its name, or else with its amount and its window, as far as
    /// it tells them. A hint without both is about the only limit; if there are several,
    /// [`Outbound::observe`] chooses. A hint with another amount or window is about a limit that this
    /// `Outbound` does not keep, and matters only if nothing remains: then the key is paused until
    /// the reset.
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
        let (outbound, key) = (permit.outbound(), permit.key());
        let left = left(permit);
        self.report_from(0, outbound, key, &left, longest_pause)
            .await
    }

    /// Does the same for `key`, when this process knows that so much is `left` of each limit, but only for
    /// the limits of which at least `least` remains.
    pub(super) async fn report_from<S: Store + 'static>(
        &self,
        least: u64,
        outbound: &Outbound<S>,
        key: Key<'_>,
        left: &[u64],
        longest_pause: Duration,
    ) -> Result<(), StoreError> {
        for hint in self.limits() {
            let Some(remaining) = hint.remaining().filter(|remaining| *remaining >= least) else {
                continue;
            };
            let about = match about(outbound, hint) {
                // By the time that the service means, however long a pause may be.
                About::Any => outbound.described_by(hint.reset_after()).map(About::One),
                about => Some(about),
            };
            let reset_after = hint.reset_after().map(|reset| reset.min(longest_pause));
            match about {
                Some(About::One(index)) => {
                    if left.get(index).is_some_and(|left| remaining < *left) {
                        let name = outbound.limits()[index].name();
                        let report = outbound.observe_limit(key, name, remaining, reset_after);
                        report.await?;
                    }
                }
                Some(About::Another) if remaining == 0 => {
                    if let Some(reset) = reset_after {
                        let _ = outbound.penalize(key, reset).await?;
                    }
                }
                Some(About::Any | About::Another) | None => {}
            }
        }
        Ok(())
    }
}

/// Returns what may be left of each limit: any amount, if the answer does not tell.
pub(super) fn left<S: Store + 'static>(permit: &Permit<S>) -> Vec<u64> {
    let verdicts = permit.verdicts();
    let tells = verdicts.source().tells_what_is_left();
    let each = verdicts.as_slice().iter();
    each.map(|verdict| if tells { verdict.remaining() } else { u64::MAX })
        .collect()
}

/// Returns which limit `hint` is about.
fn about<S>(outbound: &Outbound<S>, hint: &LimitHint) -> About {
    let limits = || {
        let all = outbound.limits().iter().enumerate();
        all.filter(|(_, limit)| !limit.algorithm().can_block())
    };
    let named = limits().find(|(_, limit)| hint.name() == Some(limit.name()));
    if let Some((index, _)) = named {
        return About::One(index);
    }
    if hint.amount().is_some() || hint.window().is_some() {
        let found = limits().find(|(_, limit)| fits(limit, hint));
        return found.map_or(About::Another, |(index, _)| About::One(index));
    }
    let mut all = limits();
    match (all.next(), all.next()) {
        (Some((index, _)), None) => About::One(index),
        _ => About::Any,
    }
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
            (None, None, None, About::Any, About::One(1)),
            (Some("tokens"), None, None, About::Any, About::One(1)),
            (Some("minute"), None, None, About::One(1), About::One(1)),
            (Some("minute"), Some(3), None, About::One(1), About::Another),
            (Some("pause"), Some(3), None, About::Another, About::Another),
            (None, None, minute, About::One(1), About::Another),
            (None, None, second, About::One(0), About::One(1)),
            (None, Some(10), None, About::One(0), About::One(1)),
            (None, Some(10), second, About::One(0), About::One(1)),
            (None, Some(10), minute, About::One(1), About::Another),
            (None, Some(5), None, About::One(0), About::One(1)),
            (None, Some(5), minute, About::Another, About::Another),
            (
                Some("tokens"),
                Some(40_000),
                None,
                About::Another,
                About::Another,
            ),
        ] {
            let hint = LimitHint {
                name: name.map(str::to_owned),
                amount,
                window,
                ..LimitHint::default()
            };
            assert_eq!(about(&several, &hint), expected, "{hint:?}");
            assert_eq!(about(&one, &hint), alone, "{hint:?}");
        }
    }
}

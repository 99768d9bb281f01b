//! `Advice`: what limits over one window would deny.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::Quota;

use crate::decisions::Windows;
use crate::input::{Caller, Callers};
use crate::text::{grouped, plural, share};
use crate::trace::Trace;

/// The shares of keys, in thousandths, that never exceed the proposed limits.
const SHARES: [usize; 7] = [500, 750, 900, 950, 990, 999, 1_000];

/// The share of keys, in thousandths, that the proposed limit never denies.
const PROPOSED: usize = 990;

/// What exact limits over one window would deny.
#[derive(Serialize)]
pub(super) struct Advice {
    /// As it is written.
    pub(super) window: String,
    /// The least limit that denies requests of at most one key in a hundred.
    pub(super) proposed: Limit,
    /// The least limit that denies no request.
    #[serde(rename = "nobody_denied")]
    pub(super) nobody: Limit,
    /// For the shares of keys, in ascending order.
    pub(super) proposals: Vec<Proposal>,
    /// The keys denied most at the proposed limit, in descending order.
    pub(super) most_denied: Vec<DeniedKey>,
    /// For amounts from 1 on, each about a quarter above the one before, and for the proposed one, in
    /// ascending order.
    pub(super) curve: Vec<Denied>,
    #[serde(skip)]
    pub(super) keys: u64,
    #[serde(skip)]
    pub(super) requests: u64,
}

/// A limit that a share of the keys never exceeds.
#[derive(Serialize)]
pub(super) struct Proposal {
    /// In percent, rounded down.
    #[serde(rename = "keys_never_denied")]
    pub(super) share: String,
    #[serde(flatten)]
    pub(super) limit: Limit,
}

/// A limit, and what it would deny.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Limit {
    pub(super) quota: String,
    #[serde(flatten)]
    pub(super) denied: Denied,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Denied {
    pub(super) amount: u64,
    #[serde(rename = "denied_keys")]
    pub(super) keys: u64,
    #[serde(rename = "denied_requests")]
    pub(super) requests: u64,
}

/// A key that the proposed limit would deny.
#[derive(Serialize)]
pub(super) struct DeniedKey {
    pub(super) key: String,
    /// The most requests within any window.
    #[serde(rename = "most_in_a_window")]
    pub(super) most: u64,
    pub(super) requests: u64,
    #[serde(rename = "denied_requests")]
    pub(super) denied: u64,
    /// Who makes most of the key's requests.
    #[serde(flatten)]
    pub(super) caller: Caller,
}

impl Advice {
    /// Returns advice for `window`, with the `top` keys denied most, which `name` formats.
    pub(super) fn new(
        trace: &Trace,
        callers: &Callers,
        window: Duration,
        top: usize,
        name: impl Fn(usize) -> String,
    ) -> Self {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        let most = Windows::of(trace, window_us).of_each_key();
        let mut sorted = most.clone();
        sorted.sort_unstable();
        let log = Log {
            trace,
            window_us,
            most,
        };
        let limit = |amount| Limit {
            quota: quota(amount, window),
            denied: log.denied(amount),
        };
        let proposal = |&share: &usize| Proposal {
            share: percent(share),
            limit: limit(at_share(&sorted, share)),
        };
        let mut proposals: Vec<_> = SHARES.iter().map(proposal).collect();
        // Of shares with the same limit, the largest says the most.
        proposals.reverse();
        proposals.dedup_by_key(|proposal| proposal.limit.denied.amount);
        proposals.reverse();
        let worst = sorted.last().copied().unwrap_or(0);
        let mut curve: Vec<_> = amounts(worst).map(|amount| log.denied(amount)).collect();
        let proposed = limit(at_share(&sorted, PROPOSED));
        let amount = proposed.denied.amount;
        if let Err(place) = curve.binary_search_by_key(&amount, |point| point.amount) {
            curve.insert(place, proposed.denied);
        }
        Self {
            window: quota(1, window).split_off(2),
            keys: u64::try_from(trace.keys().len()).unwrap_or(u64::MAX),
            requests: trace.requests(),
            proposals,
            most_denied: log.most_denied(amount, top, callers, name),
            nobody: limit(worst),
            proposed,
            curve,
        }
    }

    /// Returns what is proposed: `33/1m, which would deny 346 of 10,000 requests (3.5 %), of 17 of
    /// 1,753 keys; or 108/1m, which would deny no request`.
    pub(super) fn proposal(&self) -> String {
        let denies = |denied: Denied| match denied.requests {
            0 => "no request".to_owned(),
            _ => format!(
                "{} of {} ({}), of {} of {}",
                grouped(denied.requests),
                plural(self.requests, "request", "requests"),
                share(denied.requests, self.requests),
                grouped(denied.keys),
                plural(self.keys, "key", "keys"),
            ),
        };
        let mut choices = vec![&self.proposed, &self.nobody];
        choices.dedup();
        let choices = choices.into_iter().map(|limit| {
            let denied = denies(limit.denied);
            format!("{}, which would deny {denied}", limit.quota)
        });
        choices.collect::<Vec<_>>().join("; or ")
    }

    /// Returns what a point of the curve is about, as it is written.
    pub(super) fn quota(&self, amount: u64) -> String {
        format!("{amount}/{}", self.window)
    }
}

fn quota(amount: u64, window: Duration) -> String {
    // The window is valid, and the amount is a number of requests that were read.
    Quota::new(amount, window).map_or_else(|_| amount.to_string(), |it| it.to_string())
}

/// Formats thousandths as percent: `99.9`, or `50`.
fn percent(thousandths: usize) -> String {
    match thousandths % 10 {
        0 => (thousandths / 10).to_string(),
        tenths => format!("{}.{tenths}", thousandths / 10),
    }
}

struct Log<'t> {
    trace: &'t Trace,
    window_us: u64,
    /// By key index: the most requests within any window.
    most: Vec<u64>,
}

impl Log<'_> {
    fn denied(&self, amount: u64) -> Denied {
        let most = self.most.iter();
        let keys = most.filter(|&&most| most > amount).count();
        let requests = self.denied_of_each_key(amount);
        Denied {
            amount,
            keys: u64::try_from(keys).unwrap_or(u64::MAX),
            requests: requests.iter().sum(),
        }
    }

    /// Returns, by key index, how many requests a limit denies that admits `amount` in every window.
    fn denied_of_each_key(&self, amount: u64) -> Vec<u64> {
        let mut denied = vec![0; self.most.len()];
        let mut admitted = Windows::new(self.trace, self.window_us);
        for event in self.trace.events() {
            let key = event.key.index();
            // The others are never denied.
            if self.most[key] > amount {
                if admitted.count(event) < amount {
                    admitted.admit(event);
                } else {
                    denied[key] += 1;
                }
            }
        }
        denied
    }

    fn most_denied(
        &self,
        amount: u64,
        top: usize,
        callers: &Callers,
        name: impl Fn(usize) -> String,
    ) -> Vec<DeniedKey> {
        let requests = self.trace.requests_of_each_key();
        let denied = self.denied_of_each_key(amount);
        let mut keys: Vec<usize> = (0..denied.len()).filter(|&key| denied[key] > 0).collect();
        // Keys that are denied as often stay in order of first appearance.
        keys.sort_by_key(|&key| std::cmp::Reverse(denied[key]));
        keys.truncate(top);
        let keys = keys.iter().zip(callers.of(&keys));
        let keys = keys.map(|(&key, caller)| DeniedKey {
            key: name(key),
            most: self.most[key],
            requests: requests[key],
            denied: denied[key],
            caller,
        });
        keys.collect()
    }
}

/// Returns the least amount that at least `share` thousandths of the keys never exceed.
fn at_share(sorted: &[u64], share: usize) -> u64 {
    let rank = sorted.len().saturating_mul(share).div_ceil(1_000);
    let worst = sorted.get(rank.saturating_sub(1));
    worst.copied().unwrap_or(0)
}

/// Returns amounts from 1 to `worst`, each about a quarter above the one before.
fn amounts(worst: u64) -> impl Iterator<Item = u64> {
    let next = move |&amount: &u64| {
        let next = amount.saturating_add((amount / 4).max(1)).min(worst);
        (amount < worst).then_some(next)
    };
    std::iter::successors(Some(1), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_rise_by_a_quarter_up_to_the_worst() {
        let all = |worst| amounts(worst).collect::<Vec<_>>();
        assert_eq!(all(0), [1]);
        assert_eq!(all(1), [1]);
        assert_eq!(all(13), [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13]);
        assert!(amounts(u64::MAX).count() < 250);
    }

    #[test]
    fn shares_have_a_decimal_only_if_needed() {
        assert_eq!(percent(999), "99.9");
        assert_eq!(percent(1_000), "100");
        assert_eq!(percent(500), "50");
    }
}

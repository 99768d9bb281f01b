//! `Question`: what a store is asked for a request.

use std::iter;
use std::sync::Arc;

use http::HeaderMap;
use http::header::HeaderValue;
use http::request::Parts;
use smallvec::SmallVec;
#[cfg(feature = "calendar")]
use tollgate_core::LimitError;
use tollgate_core::store::{Check, Operation, Request, Verdict, Verdicts};
use tollgate_core::{Limit, RateLimiter, Receipt, Wait};

use super::client_key::{ClientKey, NoKey};
use super::fields::{Fields, RATE_LIMIT_POLICY, until};
use super::policy::Policy;

/// Limits, and what `RateLimit-Policy` says about them in every response.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) limits: Box<[Limit]>,
    pub(super) header: Option<HeaderValue>,
}

impl Described {
    pub(super) fn new(limits: impl Into<Box<[Limit]>>, fields: &Fields) -> Arc<Self> {
        let limits = limits.into();
        let header = fields.policy(&limits);
        Arc::new(Self { limits, header })
    }

    /// Returns whether a limit needs the zone or the day of a request.
    pub(super) fn is_local(&self) -> bool {
        let is_local = |limit: &Limit| limit.needs_zone() || limit.needs_day();
        self.limits.iter().any(is_local)
    }

    /// Returns the same limits in the zone and on the day of a request, or of any if there is no request; those
    /// that need one stay as they are if the request brings none, or one that does not exist.
    pub(super) fn with_calendar_of(
        self: Arc<Self>,
        policy: &Policy,
        parts: Option<&Parts>,
    ) -> Arc<Self> {
        #[cfg(feature = "calendar")]
        if self.is_local() {
            let needs = |of: fn(&Limit) -> bool| self.limits.iter().any(of);
            let zone = needs(Limit::needs_zone).then(|| policy.zone_of(parts));
            let day = needs(Limit::needs_day).then(|| policy.day_of(parts));
            let (zone, day) = (zone.flatten(), day.flatten());
            let bring = |limit: &Limit| {
                let limit = zone
                    .iter()
                    .try_fold(limit.clone(), |it, zone| it.in_zone(zone))?;
                day.iter().try_fold(limit, |it, day| it.on_day(*day))
            };
            let limits: Result<_, LimitError> = self.limits.iter().map(bring).collect();
            if let Ok(limits) = limits {
                // It is the same in all zones, and on all days.
                let header = self.header.clone();
                return Arc::new(Self { limits, header });
            }
        }
        let _ = (policy, parts);
        self
    }
}

/// One rule's part of what a store is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) limits: Arc<Described>,
    pub(super) key: ClientKey,
    pub(super) cost: u64,
}

/// What a store is asked for a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Question(SmallVec<[Asked; 1]>);

impl Question {
    pub(super) fn push(&mut self, asked: Asked) {
        self.0.push(asked);
    }

    /// Returns whether there is nothing to ask: a limiter may be off.
    pub(super) fn is_empty(&self) -> bool {
        self.checks().next().is_none()
    }

    /// Returns why no limiter could have the limits of all rules, some of which were chosen for the
    /// request.
    pub(super) fn clash(&self) -> Option<NotAsked> {
        if self.is_empty() {
            return None;
        }
        let clash = RateLimiter::new((), self.checks().map(|check| check.limit())).err()?;
        Some(NotAsked::Limits(clash.to_string()))
    }

    pub(super) fn asked(&self) -> &[Asked] {
        &self.0
    }

    pub(super) fn checks(&self) -> impl Iterator<Item = Check<'_>> {
        self.0.iter().flat_map(|asked| {
            let key = asked.key.as_key();
            let limits = asked.limits.limits.iter();
            limits.map(move |limit| Check::new(limit, key, asked.cost))
        })
    }

    /// Returns the request to consume the costs, all or none.
    pub(super) fn request(&self) -> Request<'_> {
        Request::new(Operation::Consume, self.checks())
    }

    /// Returns the request to settle what was consumed: of each rule at its cost, or at what it
    /// was checked at.
    pub(super) fn settlement<'a>(
        &'a self,
        receipt: &'a Receipt,
        costs: &[Option<u64>],
    ) -> Request<'a> {
        let costs = costs.iter().copied().chain(iter::repeat(None));
        let checks = self.0.iter().zip(costs).flat_map(|(asked, cost)| {
            let key = asked.key.as_key();
            let cost = cost.unwrap_or(asked.cost);
            let limits = asked.limits.limits.iter();
            limits.map(move |limit| Check::new(limit, key, cost))
        });
        Request::new(Operation::Settle(receipt), checks)
    }

    /// Returns each limit with its verdict.
    pub(super) fn verdicts<'v>(
        &'v self,
        verdicts: &'v Verdicts,
    ) -> impl Iterator<Item = (&'v Limit, &'v Verdict)> + Clone {
        let limits = self.0.iter().flat_map(|asked| asked.limits.limits.iter());
        limits.zip(verdicts.as_slice())
    }

    /// Writes what the limits said into the headers of the response.
    pub(super) fn write(&self, verdicts: &Verdicts, fields: &Fields, headers: &mut HeaderMap) {
        let policies = self.0.iter();
        for policy in policies.filter_map(|asked| asked.limits.header.as_ref()) {
            let _ = headers.append(RATE_LIMIT_POLICY, policy.clone());
        }
        let each = self.verdicts(verdicts).map(|(limit, said)| (limit, *said));
        fields.write_verdicts(each, verdicts.source(), headers);
    }

    /// Returns how long to wait at most until limits that allowed the request allow it again, if it is
    /// settled at these costs: of each rule at its cost, or at what it was checked at.
    pub(super) fn wait(&self, verdicts: &Verdicts, costs: &[Option<u64>]) -> Wait {
        if !verdicts.source().tells_what_is_left() {
            return Wait::ZERO;
        }
        let costs = self.0.iter().zip(costs).flat_map(|(asked, settled)| {
            let cost = settled.unwrap_or(asked.cost);
            asked.limits.limits.iter().map(move |_| cost)
        });
        let in_force = self.verdicts(verdicts).zip(costs);
        let counts = |limit: &Limit| !limit.is_shadow() && !limit.algorithm().can_block();
        let in_force = in_force.filter(|((limit, _), _)| counts(limit));
        let waits = in_force.map(|((limit, verdict), cost)| until(limit, verdict, cost));
        waits.max().unwrap_or(Wait::ZERO)
    }
}

/// Why a store is not asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NotAsked {
    NoKey(NoKey),
    /// It has no plan, or one that the layer does not know.
    Plan(Option<String>),
    /// A limit counts in the request's time zone, or from its day, and it has none, or none that exists.
    Zone,
    /// There are no limits for it, for this reason.
    Limits(String),
}

impl From<NoKey> for NotAsked {
    fn from(why: NoKey) -> Self {
        Self::NoKey(why)
    }
}

//! `Policy`: which limits a request is checked against, for which key and at which cost.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::{fmt, iter};

use http::header::HeaderValue;
use http::request::Parts;
use http::response;
use smallvec::SmallVec;
use tollgate_core::store::{Check, Operation, Receipt, Request, Verdict, Verdicts};
use tollgate_core::{Limit, LimitError, RateLimiter};

use super::client_key::ClientKey;
use super::fields::Fields;
use super::key_by::{KeyBy, NoKey};

/// Limits that are checked for one key.
#[derive(Clone)]
pub(super) struct Policy {
    pub(super) key: KeyBy,
    pub(super) choice: Choice,
    pub(super) cost: Option<CostOf>,
    pub(super) settle: Option<SettleBy>,
}

type CostOfResponse = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;
pub(super) type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// What a request turns out to cost.
#[derive(Clone)]
pub(super) enum SettleBy {
    /// What this returns for the response; the estimate if nothing.
    Response(Arc<CostOfResponse>),
    /// What the handler said by `Charge`.
    Handler,
    /// One for each so many bytes of the response's body.
    Bytes(NonZeroU64),
}

/// The limits of a policy.
#[derive(Clone)]
pub(super) enum Choice {
    Always(Arc<Limits>),
    ByPlan(PlanOf, HashMap<Box<str>, Arc<Limits>>),
    ByRequest(LimitsOf),
}

/// Returns the limits of a request, none if it is not limited, or why it has none.
pub(super) type LimitsOf = Arc<dyn Fn(&Parts) -> Result<Box<[Limit]>, String> + Send + Sync>;

pub(super) type PlanOf = Arc<dyn Fn(&Parts) -> Option<&str> + Send + Sync>;

impl From<NoKey> for NotAsked {
    fn from(why: NoKey) -> Self {
        Self::NoKey(why)
    }
}

/// Limits, and what the fields say about them in every response.
#[derive(Debug)]
pub(super) struct Limits {
    limits: Box<[Limit]>,
    pub(super) policy: Option<HeaderValue>,
}

impl Limits {
    pub(super) fn new(limits: impl Into<Box<[Limit]>>, fields: &Fields) -> Self {
        let limits = limits.into();
        let policy = fields.policy(&limits);
        Self { limits, policy }
    }

    fn with_fields(&self, fields: &Fields) -> Arc<Self> {
        Arc::new(Self::new(self.limits.clone(), fields))
    }
}

/// Why a request is checked against nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NotAsked {
    NoKey(NoKey),
    /// It has no plan, or one that the layer does not know.
    Plan(Option<String>),
    /// There are no limits for it, for this reason.
    Limits(String),
}

impl Policy {
    /// Returns all limits of all plans.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> {
        let (always, plans) = match &self.choice {
            Choice::Always(limits) => (Some(limits), None),
            Choice::ByPlan(_, plans) => (None, Some(plans.values())),
            Choice::ByRequest(_) => (None, None),
        };
        let limits = always.into_iter().chain(plans.into_iter().flatten());
        limits.flat_map(|limits| &limits.limits)
    }

    /// Returns the most limits that a request is checked against.
    pub(super) fn most_limits(&self) -> usize {
        match &self.choice {
            Choice::Always(limits) => limits.limits.len(),
            Choice::ByPlan(_, plans) => {
                let lengths = plans.values().map(|limits| limits.limits.len());
                lengths.max().unwrap_or(0)
            }
            // Whether there are too many with others is known when a request comes.
            Choice::ByRequest(_) => 1,
        }
    }

    /// Writes the policies anew.
    pub(super) fn set_fields(&mut self, fields: &Fields) {
        match &mut self.choice {
            Choice::Always(limits) => *limits = limits.with_fields(fields),
            Choice::ByPlan(_, plans) => {
                for limits in plans.values_mut() {
                    *limits = limits.with_fields(fields);
                }
            }
            Choice::ByRequest(_) => {}
        }
    }

    /// Returns the policy of these limits, at a cost of one.
    pub(super) fn new(key: KeyBy, choice: Choice) -> Self {
        Self {
            key,
            choice,
            cost: None,
            settle: None,
        }
    }

    /// Returns what to ask for a request, whose response has these fields.
    pub(super) fn ask(
        &self,
        parts: &Parts,
        fields: &Fields,
        needs_key: bool,
    ) -> Result<Asked, NotAsked> {
        let key = self.key.find(parts);
        let (limits, key) = match &self.choice {
            Choice::Always(limits) => (Arc::clone(limits), key?),
            Choice::ByPlan(plan_of, plans) => {
                let key = key?;
                let plan = plan_of(parts);
                let limits = plan.and_then(|plan| plans.get(plan));
                let limits = limits.ok_or_else(|| NotAsked::Plan(plan.map(str::to_owned)))?;
                (Arc::clone(limits), key)
            }
            Choice::ByRequest(limits_of) => {
                let limits = limits_of(parts).map_err(NotAsked::Limits)?;
                let key = match key {
                    // Who is not counted need not say who they are.
                    Err(NoKey::Header(_) | NoKey::Nothing | NoKey::Unknown(_))
                        if limits.is_empty() && !needs_key =>
                    {
                        ClientKey::default()
                    }
                    key => key?,
                };
                (Arc::new(Limits::new(limits, fields)), key)
            }
        };
        // What costs nothing has no receipt, and so could never be settled.
        let least = u64::from(self.settle.is_some());
        let cost = self.cost.as_ref().map_or(1, |cost_of| cost_of(parts));
        Ok(Asked {
            limits,
            key,
            cost: cost.max(least),
        })
    }
}

/// One policy's part of what a store is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    limits: Arc<Limits>,
    pub(super) key: ClientKey,
    cost: u64,
}

/// What a store is asked for a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Question(SmallVec<[Asked; 1]>);

impl Question {
    pub(super) fn push(&mut self, asked: Asked) {
        self.0.push(asked);
    }

    /// Returns whether there is nothing to ask: a layer may have policies without limits.
    pub(super) fn is_empty(&self) -> bool {
        self.checks().next().is_none()
    }

    /// Returns why no limiter could have the limits of all policies, some of which were chosen for the
    /// request.
    pub(super) fn clash(&self) -> Option<NotAsked> {
        match RateLimiter::new((), self.checks().map(|check| check.limit())) {
            Ok(_) | Err(LimitError::NoLimits) => None,
            Err(error) => Some(NotAsked::Limits(error.to_string())),
        }
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

    /// Returns the request to settle what was consumed: of each policy at its cost, or at what it
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

    /// Returns the values of `RateLimit-Policy`.
    pub(super) fn policies(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0
            .iter()
            .filter_map(|asked| asked.limits.policy.as_ref())
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("key", &self.key)
            .field("limits", &self.limits().collect::<Vec<_>>())
            .finish()
    }
}

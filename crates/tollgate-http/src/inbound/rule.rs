//! `Rule`: the limits that are checked under one policy.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tollgate_core::Limit;

use super::client_key::{ClientKey, NoKey};
use super::fields::Fields;
use super::policy::Policy;
use super::question::{Asked, Described, NotAsked};

/// Limits, and the policy that they are checked under.
#[derive(Clone)]
pub(super) struct Rule {
    pub(super) choice: Choice,
    pub(super) policy: Policy,
}

/// Which limits a request is checked against.
#[derive(Clone)]
pub(super) enum Choice {
    Always(Arc<Described>),
    ByPlan(PlanOf, HashMap<Box<str>, Arc<Described>>),
    ByRequest(LimitsOf),
}

pub(super) type PlanOf = Arc<dyn Fn(&Parts) -> Option<&str> + Send + Sync>;

/// Returns the limits of a request, none if it is not limited, or why it has none.
pub(super) type LimitsOf = Arc<dyn Fn(&Parts) -> Result<Box<[Limit]>, String> + Send + Sync>;

impl Rule {
    /// Returns the limits of each plan.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Arc<Described>> {
        let (always, plans) = match &self.choice {
            Choice::Always(limits) => (Some(limits), None),
            Choice::ByPlan(_, plans) => (None, Some(plans.values())),
            Choice::ByRequest(_) => (None, None),
        };
        always.into_iter().chain(plans.into_iter().flatten())
    }

    /// Returns what to ask under these limits before a request comes, with a key that stands for its own.
    pub(super) fn ask_any(&self, limits: &Arc<Described>, key: ClientKey) -> Asked {
        let limits = Arc::clone(limits).with_calendar_of(&self.policy, None);
        self.asked(limits, key, 1)
    }

    fn asked(&self, limits: Arc<Described>, key: ClientKey, cost: u64) -> Asked {
        Asked {
            limits,
            key,
            cost,
            looks: self.policy.looks,
            ban: self.policy.ban.clone(),
        }
    }

    /// Returns all limits of all plans.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.plans().flat_map(|plan| &plan.limits)
    }

    /// Returns the most limits that a request is checked against. If they are chosen for each
    /// request, that is one, and whether there are too many with others is known when it comes.
    pub(super) fn most_limits(&self) -> usize {
        let lengths = self.plans().map(|plan| plan.limits.len());
        lengths.max().unwrap_or(1)
    }

    /// Returns whether the limits are chosen for each request, so that no others are known before.
    pub(super) fn is_by_request(&self) -> bool {
        matches!(self.choice, Choice::ByRequest(_))
    }

    /// Describes the limits anew.
    pub(super) fn set_fields(&mut self, fields: &Fields) {
        let policy = &self.policy;
        let anew = |limits: &mut Arc<Described>| {
            *limits = Described::new(limits.limits.clone(), policy, fields);
        };
        match &mut self.choice {
            Choice::Always(limits) => anew(limits),
            Choice::ByPlan(_, plans) => plans.values_mut().for_each(anew),
            Choice::ByRequest(_) => {}
        }
    }

    /// Returns what to ask for a request, whose response has these fields.
    pub(super) fn ask(
        &self,
        parts: &Parts,
        fields: &Fields,
        needs_key: bool,
    ) -> Result<Asked, NotAsked> {
        let key = self.policy.key.find(parts);
        let limits = match &self.choice {
            Choice::Always(limits) => Ok(Arc::clone(limits)),
            Choice::ByPlan(plan_of, plans) => {
                let plan = plan_of(parts);
                let limits = plan.and_then(|plan| plans.get(plan)).cloned();
                limits.ok_or_else(|| NotAsked::Plan(plan.map(str::to_owned)))
            }
            Choice::ByRequest(limits_of) => match limits_of(parts) {
                Ok(limits) => Ok(Described::new(limits, &self.policy, fields)),
                Err(error) => Err(NotAsked::Limits(error)),
            },
        };
        let is_off = limits.as_ref().is_ok_and(|it| it.limits.is_empty());
        let key = match key {
            // Who is not counted need not say who they are.
            Err(NoKey::Header(_) | NoKey::Nothing | NoKey::Unknown(_)) if is_off && !needs_key => {
                ClientKey::default()
            }
            key => key?,
        };
        let limits = limits?.with_calendar_of(&self.policy, Some(parts));
        if limits.is_local() {
            return Err(NotAsked::Zone);
        }
        Ok(self.asked(limits, key, self.policy.cost_of(parts)))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limits", &self.limits().collect::<Vec<_>>())
            .field("policy", &self.policy)
            .finish()
    }
}

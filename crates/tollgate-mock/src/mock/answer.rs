//! `Answer`: what an expectation answers, named like the methods that say so.

use std::fmt;

use tollgate_core::lease::Lease;
use tollgate_core::schedule::{PlannedEvent, Reason, Refusal};
use tollgate_core::{ErrorKind, Timestamp, Wait};

use super::received::literal;

/// The answer to a call: first those to any, then those of limits, of schedules and of leases.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Fail(ErrorKind),
    Succeed,

    Allow { remaining: Option<u64> },
    Delay(Wait),
    Deny(Wait),
    Grant(u64),

    AlreadyPlanned,
    Cancelled(bool),
    Events(Vec<PlannedEvent>),
    Found(Option<Timestamp>),
    Planned,
    PlannedAt(Timestamp),
    Refused(Refusal),
    RefusedBy(String, Option<Timestamp>),

    AlreadyHeld(Lease),
    Denied(u64, Wait),
    Granted(Lease),
    GrantedAt(Timestamp, u64),
    Lost,
    Occupied(u64),
    Released(bool),
    Renewed(Lease),
}

/// Formats the answer as it is written in a test.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = |lease: &Lease| format!("{} with token {}", literal(lease.id()), lease.token());
        let option = |time: &Option<Timestamp>| match time {
            Some(time) => format!("Some({time})"),
            None => "None".to_owned(),
        };
        match self {
            Self::Fail(kind) => write!(f, "fail({kind:?})"),
            Self::Succeed => f.write_str("succeed()"),

            Self::Allow { remaining: None } => f.write_str("allow()"),
            Self::Allow { remaining: Some(n) } => write!(f, "allow_with_remaining({n})"),
            Self::Delay(delay) => write!(f, "delay_by({delay})"),
            Self::Deny(Wait::NEVER) => f.write_str("deny_forever()"),
            Self::Deny(wait) => write!(f, "deny_for({wait})"),
            Self::Grant(granted) => write!(f, "grant({granted})"),

            Self::AlreadyPlanned => f.write_str("already_planned()"),
            Self::Cancelled(was_planned) => write!(f, "cancelled({was_planned})"),
            Self::Events(events) => write!(f, "events({} events)", events.len()),
            Self::Found(time) => write!(f, "found({})", option(time)),
            Self::Planned => f.write_str("planned()"),
            Self::PlannedAt(time) => write!(f, "planned_at({time})"),
            Self::Refused(refusal) => match refusal.reason() {
                Reason::Past(time) => write!(f, "past({time})"),
                Reason::BeyondHorizon(time) => write!(f, "beyond_horizon({time})"),
                reason => write!(f, "refused({reason:?})"),
            },
            Self::RefusedBy(quota, next) => write!(f, "refused_by({quota:?}, {})", option(next)),

            Self::AlreadyHeld(held) => write!(f, "already_held({})", lease(held)),
            Self::Denied(held, Wait::NEVER) => write!(f, "denied({held}, never)"),
            Self::Denied(held, ends_within) => write!(f, "denied({held}, {ends_within})"),
            Self::Granted(new) => write!(f, "granted({})", lease(new)),
            Self::GrantedAt(now, token) => write!(f, "granted_at({now}, {token})"),
            Self::Lost => f.write_str("lost()"),
            Self::Occupied(held) => write!(f, "occupied({held})"),
            Self::Released(was_held) => write!(f, "released({was_held})"),
            Self::Renewed(renewed) => write!(f, "renewed({})", lease(renewed)),
        }
    }
}

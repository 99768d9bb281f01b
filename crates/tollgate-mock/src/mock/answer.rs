//! `Answer`: what an expectation answers.

use tollgate_core::lease::{self, Lease};
use tollgate_core::schedule::{self, Refusal};
use tollgate_core::{ErrorKind, Timestamp, Wait};

/// The answer to a call, and how the test wrote it.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) reply: Reply,
}

/// What is answered: first what answers any call, then those of limits, of schedules and of leases.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Fail(ErrorKind),
    Succeed,

    Allow(Option<u64>),
    Delay(Wait),
    Deny(Wait),
    Grant(u64),

    Planned { at: Option<Timestamp>, is_new: bool },
    Refused(Refusal),
    RefusedBy(String, Option<Timestamp>),
    Scheduled(schedule::Answer),

    AlreadyHeld(Lease),
    Denied(u64, Wait),
    Granted(Lease),
    GrantedAt(Timestamp, u64),
    Leased(lease::Answer),
    Occupied(u64),
    Renewed(Lease),
}

//! `Verb`: the operations that can be expected, with the words that messages have for them.

use std::fmt;

/// The operation of a call: first those on limits, then those on schedules and on leases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verb {
    Block,
    Check,
    Lower,
    Peek,
    Refund,
    Reserve,
    Reset,
    Settle,
    TakeUpTo,

    Add,
    Cancel,
    LatestFree,
    List,
    NextFree,
    Reschedule,
    ReserveNext,
    ResetSchedule,

    Acquire,
    PeekLeases,
    Release,
    Renew,
    ResetLeases,
}

/// What an operation is on, in the words of messages.
pub(super) struct Subject {
    pub(super) noun: &'static str,
    pub(super) this: &'static str,
    /// What a call may be for besides, where no expectation fits.
    pub(super) other: &'static str,
    /// What an id names, if there are ids.
    pub(super) thing: &'static str,
}

const LIMIT: Subject = Subject {
    noun: "limit",
    this: "this limit",
    other: "at another cost",
    thing: "",
};

const SCHEDULE: Subject = Subject {
    noun: "schedule",
    this: "this schedule",
    other: "for another event or time",
    thing: "event",
};

const LEASES: Subject = Subject {
    noun: "leases",
    this: "these leases",
    other: "for another lease",
    thing: "lease",
};

impl Verb {
    pub(super) fn subject(self) -> &'static Subject {
        use Verb::{Acquire, PeekLeases, Release, Renew, ResetLeases};
        use Verb::{Add, Cancel, LatestFree, List};
        use Verb::{NextFree, Reschedule, ReserveNext, ResetSchedule};
        match self {
            Acquire | PeekLeases | Release | Renew | ResetLeases => &LEASES,
            Add | Cancel | LatestFree | List => &SCHEDULE,
            NextFree | Reschedule | ReserveNext | ResetSchedule => &SCHEDULE,
            _ => &LIMIT,
        }
    }

    /// Returns what follows `expect_` in the name of the method that expects this operation.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Add => "add",
            Self::Block => "block",
            Self::Cancel => "cancel",
            Self::Check => "check",
            Self::LatestFree => "latest_free",
            Self::List => "list",
            Self::Lower => "lower",
            Self::NextFree => "next_free",
            Self::Peek => "peek",
            Self::PeekLeases => "peek_leases",
            Self::Refund => "refund",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Reschedule => "reschedule",
            Self::Reserve => "reserve",
            Self::ReserveNext => "reserve_next",
            Self::Reset => "reset",
            Self::ResetLeases => "reset_leases",
            Self::ResetSchedule => "reset_schedule",
            Self::Settle => "settle",
            Self::TakeUpTo => "take_up_to",
        }
    }

    /// Returns the names of the answers that an expectation of this operation accepts.
    pub(super) fn answers(self) -> &'static str {
        match self {
            Self::Acquire => "`granted`, `granted_at`, `already_held`, `denied` or `fail`",
            Self::Add | Self::Reschedule => {
                "`planned`, `already_planned`, `refused_by`, `past`, `beyond_horizon`, `refused` \
                 or `fail`"
            }
            Self::Block => "`succeed`, `deny_for`, `deny_forever` or `fail`",
            Self::Cancel => "`cancelled` or `fail`",
            Self::Check | Self::Peek => {
                "`allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"
            }
            Self::LatestFree | Self::NextFree => "`found` or `fail`",
            Self::List => "`events` or `fail`",
            Self::Lower | Self::Refund | Self::Settle => {
                "`allow`, `allow_with_remaining` or `fail`"
            }
            Self::PeekLeases => "`occupied` or `fail`",
            Self::Release => "`released` or `fail`",
            Self::Renew => "`renewed`, `lost` or `fail`",
            Self::Reserve => {
                "`allow`, `allow_with_remaining`, `delay_by`, `deny_for`, `deny_forever` or `fail`"
            }
            Self::ReserveNext => {
                "`planned`, `planned_at`, `already_planned`, `refused_by`, `beyond_horizon`, \
                 `refused` or `fail`"
            }
            Self::Reset | Self::ResetLeases | Self::ResetSchedule => "`succeed` or `fail`",
            Self::TakeUpTo => {
                "`grant`, `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"
            }
        }
    }

    /// Returns the answer that messages suggest.
    pub(super) fn usual_answer(self) -> &'static str {
        match self {
            Self::Acquire => "granted_at(now, 1)",
            Self::Add | Self::Reschedule | Self::ReserveNext => "planned()",
            Self::Block | Self::Reset | Self::ResetLeases | Self::ResetSchedule => "succeed()",
            Self::Cancel => "cancelled(true)",
            Self::LatestFree | Self::NextFree => "found(None)",
            Self::List => "events([])",
            Self::PeekLeases => "occupied(0)",
            Self::Release => "released(true)",
            Self::Renew => "lost()",
            _ => "allow()",
        }
    }

    pub(super) fn has_cost(self) -> bool {
        use Verb::{Check, Lower, Peek, Refund, Reserve, Settle, TakeUpTo};
        matches!(
            self,
            Check | Lower | Peek | Refund | Reserve | Settle | TakeUpTo
        )
    }

    /// Returns whether an event or a lease has to be named.
    pub(super) fn has_id(self) -> bool {
        use Verb::{Acquire, Add, Cancel, Release, Renew, Reschedule, ReserveNext};
        matches!(
            self,
            Acquire | Add | Cancel | Release | Renew | Reschedule | ReserveNext
        )
    }

    pub(super) fn has_time(self) -> bool {
        use Verb::{Add, LatestFree, List, NextFree, Reschedule, ReserveNext};
        matches!(
            self,
            Add | LatestFree | List | NextFree | Reschedule | ReserveNext
        )
    }
}

/// Formats the operation like the method of the code under test.
impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeekLeases => "peek",
            Self::ResetLeases | Self::ResetSchedule => "reset",
            other => other.method(),
        })
    }
}

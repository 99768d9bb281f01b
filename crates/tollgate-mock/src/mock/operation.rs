//! The operations that can be expected: each with its method, what it can be narrowed to, and its answers.

use std::fmt;

use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::schedule::Schedule;
use tollgate_core::{Key, RateLimiter};

// The methods that the table makes return expectations, which keep their verb.
use super::{Expectation, MockStore};

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

/// Defines operations, and the methods of `MockStore` that expect them.
macro_rules! operations {
    ($($subject:ident, $caller:ty {$(
        $(#[$doc:meta])*
        $operation:ident = $method:ident($($detail:ident),*) -> $($answer:ident)|+;
    )+})+) => {
        /// The operation of a call.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(super) enum Verb {
            $($($operation,)+)+
        }

        impl Verb {
            pub(super) fn subject(self) -> &'static Subject {
                match self {
                    $($(Self::$operation => &$subject,)+)+
                }
            }

            /// Returns the name of the method that expects this operation.
            pub(super) fn method(self) -> &'static str {
                match self {
                    $($(Self::$operation => stringify!($method),)+)+
                }
            }

            /// Returns the methods that narrow an expectation of this operation.
            pub(super) fn details(self) -> &'static [&'static str] {
                match self {
                    $($(Self::$operation => &[$(stringify!($detail)),*],)+)+
                }
            }

            /// Returns the methods that answer this operation, besides `fail`.
            pub(super) fn answers(self) -> &'static [&'static str] {
                match self {
                    $($(Self::$operation => &[$(stringify!($answer)),+],)+)+
                }
            }
        }

        impl MockStore {$($(
            $(#[$doc])*
            ///
            #[doc = concat!(
                "Answers: ",
                $("[`", stringify!($answer), "`](Expectation::", stringify!($answer), "), ",)+
                "or [`fail`](Expectation::fail)."
            )]
            pub fn $method<'k>(
                &mut self,
                name: &str,
                key: impl Into<Key<'k>>,
            ) -> Expectation<'_, $caller> {
                self.expect(Verb::$operation, name, key)
            }
        )+)+}
    };
}

operations! {
    LIMIT, RateLimiter<Self> {
        /// Expects a call that consumes from the limit `name` for `key`, alone or together with other limits.
        Check = expect_check(cost)
            -> allow | allow_with_remaining | deny_for | deny_forever;

        /// Expects a peek at the limit `name` for `key`, with the cost of the call it asks about.
        Peek = expect_peek(cost)
            -> allow | allow_with_remaining | deny_for | deny_forever;

        /// Expects a call that takes up to its cost from the limit `name` for `key`.
        TakeUpTo = expect_take_up_to(cost)
            -> grant | allow | allow_with_remaining | deny_for | deny_forever;

        /// Expects a reservation with the limit `name` for `key`, alone or together with other limits.
        Reserve = expect_reserve(cost)
            -> allow | allow_with_remaining | delay_by | deny_for | deny_forever;

        /// Expects a refund to the limit `name` for `key`; the cost is what the receipt says was consumed
        /// from that limit.
        Refund = expect_refund(cost) -> allow | allow_with_remaining;

        /// Expects that a call to the limit `name` for `key` is settled; the cost is what it is settled at.
        Settle = expect_settle(cost) -> allow | allow_with_remaining;

        /// Expects that what remains of the limit `name` for `key` is lowered; the cost is what may remain.
        Lower = expect_lower(cost) -> allow | allow_with_remaining;

        /// Expects that `key` is blocked by the limit `name`.
        ///
        /// Answered with [`succeed`](Expectation::succeed), the block lasts as long as the call says, or
        /// else as long as the limit does; with [`deny_for`](Expectation::deny_for), that long.
        Block = expect_block() -> succeed | deny_for | deny_forever;

        /// Expects a reset of the limit `name` for `key`.
        Reset = expect_reset() -> succeed;
    }

    SCHEDULE, Schedule<Self> {
        /// Expects a call that adds events to the schedule `name` for `key`, one or several.
        Add = expect_add(id, time)
            -> planned | already_planned | refused_by | past | beyond_horizon | refused;

        /// Expects a call that moves an event of the schedule `name` for `key`.
        Reschedule = expect_reschedule(id, time)
            -> planned | already_planned | refused_by | past | beyond_horizon | refused;

        /// Expects a `reserve_next` in the schedule `name` for `key`.
        ReserveNext = expect_reserve_next(id, time)
            -> planned | planned_at | already_planned | refused_by | beyond_horizon | refused;

        /// Expects a call that cancels an event of the schedule `name` for `key`.
        Cancel = expect_cancel(id) -> cancelled;

        /// Expects a search for the next free time of the schedule `name` for `key`.
        NextFree = expect_next_free(time) -> found;

        /// Expects a list of the events of the schedule `name` for `key`.
        List = expect_list(time) -> events;

        /// Expects a reset of the schedule `name` for `key`.
        ResetSchedule = expect_reset_schedule() -> succeed;
    }

    LEASES, ConcurrencyLimiter<Self> {
        /// Expects a call that acquires a lease of the concurrency limiter `name` for `key`.
        Acquire = expect_acquire(id) -> granted | granted_at | already_held | denied;

        /// Expects a call that renews a lease of the concurrency limiter `name` for `key`.
        Renew = expect_renew(id) -> renewed | lost;

        /// Expects a call that releases a lease of the concurrency limiter `name` for `key`.
        Release = expect_release(id) -> released;

        /// Expects a call that asks how much the concurrency limiter `name` holds for `key`.
        PeekLeases = expect_peek_leases() -> occupied;

        /// Expects a reset of the concurrency limiter `name` for `key`.
        ResetLeases = expect_reset_leases() -> succeed;
    }
}

impl Verb {
    /// Returns whether an expectation can be narrowed by the method called `detail`.
    pub(super) fn has(self, detail: &str) -> bool {
        self.details().contains(&detail)
    }

    /// Returns the names of the answers, as messages list them.
    pub(super) fn listed_answers(self) -> String {
        let names = self.answers().iter().map(|name| format!("`{name}`"));
        format!("{} or `fail`", names.collect::<Vec<_>>().join(", "))
    }
}

/// Formats the operation like the method of the code under test.
impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method().trim_start_matches("expect_");
        let method = method.trim_end_matches("_leases");
        f.write_str(method.trim_end_matches("_schedule"))
    }
}

//! The operations that can be expected: each with its method and its answers.

use std::fmt;

use tollgate_core::Key;

// The methods that the table makes return expectations, which keep their verb.
use super::answer::Answer;
use super::matcher::Matcher;
use super::{Expectation, MockStore};

/// Defines operations, and the methods of `MockStore` that expect them.
macro_rules! operations {
    ($($(#[$doc:meta])* $operation:ident = $method:ident -> $($answer:ident)|+;)+) => {
        /// The operation of a call.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(super) enum Verb {
            $($operation,)+
        }

        impl Verb {
            /// Returns the name of the method that expects this operation.
            pub(super) fn method(self) -> &'static str {
                match self {
                    $(Self::$operation => stringify!($method),)+
                }
            }

            /// Returns the names of the answers to this operation, besides `fail`.
            fn answers(self) -> &'static [&'static str] {
                match self {
                    $(Self::$operation => &[$(stringify!($answer)),+],)+
                }
            }
        }

        /// Expectations of calls to limits. The name and the key are given as [`Matcher`] says.
        impl MockStore {$(
            $(#[$doc])*
            ///
            #[doc = concat!(
                "Answers: ",
                $("[`", stringify!($answer), "`](Expectation::", stringify!($answer), "), ",)+
                "or [`fail`](Expectation::fail)."
            )]
            pub fn $method<const N: u8, const K: u8>(
                &mut self,
                name: impl Matcher<str, N>,
                key: impl Matcher<Key<'static>, K>,
            ) -> Expectation<'_> {
                Expectation::new(self.expected(), Verb::$operation, name, key)
            }
        )+}
    };
}

operations! {
    /// Expects a call that consumes from the limit `name` for `key`, alone or together with other limits.
    Check = expect_check -> allow | allow_with_remaining | deny_for | deny_forever;

    /// Expects a peek at the limit `name` for `key`, with the cost of the call it asks about.
    Peek = expect_peek -> allow | allow_with_remaining | deny_for | deny_forever;

    /// Expects a call that takes up to its cost from the limit `name` for `key`.
    TakeUpTo = expect_take_up_to
        -> grant | allow | allow_with_remaining | deny_for | deny_forever;

    /// Expects a reservation with the limit `name` for `key`, alone or together with other limits.
    Reserve = expect_reserve
        -> allow | allow_with_remaining | delay_by | deny_for | deny_forever;

    /// Expects a refund to the limit `name` for `key`; the cost is what the receipt says was consumed
    /// from that limit.
    Refund = expect_refund -> allow | allow_with_remaining;

    /// Expects that a call to the limit `name` for `key` is settled; the cost is what it is settled at.
    Settle = expect_settle -> allow | allow_with_remaining;

    /// Expects a charge to the limit `name` for `key`, whether it fits or not.
    Charge = expect_charge -> allow | allow_with_remaining;

    /// Expects that the newest units of the limit `name` for `key` are given back; the cost is how many.
    Give = expect_give -> allow | allow_with_remaining;

    /// Expects that what remains of the limit `name` for `key` is lowered; the cost is what may remain.
    Lower = expect_lower -> allow | allow_with_remaining;

    /// Expects that `key` is blocked by the limit `name`.
    ///
    /// Answered with [`succeed`](Expectation::succeed), the block lasts as long as the call says, or
    /// else as long as the limit does; with [`deny_for`](Expectation::deny_for), that long.
    Block = expect_block -> succeed | deny_for | deny_forever;

    /// Expects a reset of the limit `name` for `key`.
    Reset = expect_reset -> succeed;
}

impl Verb {
    /// Returns whether a call has a cost.
    pub(super) fn has_cost(self) -> bool {
        !matches!(self, Self::Block | Self::Reset)
    }

    /// # Panics
    ///
    /// If `answer` is one to other operations.
    pub(super) fn assert_accepts(self, answer: &Answer) {
        let (text, answers) = (&answer.text, self.listed_answers());
        let name = text.split('(').next().unwrap_or_default();
        let accepts = name == "fail" || self.answers().contains(&name);
        assert!(accepts, "`{text}` answers no {self}: answer with {answers}");
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
        f.write_str(self.method().trim_start_matches("expect_"))
    }
}

//! `Answer`: what an expectation answers.

use std::time::Duration;

use tollgate_core::{ErrorKind, Wait};

use super::Expectation;

/// What a limit answers to an expected call: for [`Expectation::returning`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// How the test wrote it.
    pub(super) text: String,
    pub(super) reply: Reply,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Allow(Option<u64>),
    Delay(Wait),
    Deny(Wait),
    Fail(ErrorKind),
    Grant(u64),
    Succeed,
}

/// Defines answers: functions of [`Answer`], and methods of [`Expectation`].
macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $type:ty)?) = $reply:expr;)+) => {
        impl Answer {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name($($value: $type)?) -> Self {
                let value: &[String] = &[$(format!("{:?}", $value))?];
                let text = format!("{}({})", stringify!($name), value.concat());
                Self { text, reply: $reply }
            }
        )+}

        /// The answers.
        ///
        /// # Panics
        ///
        /// If the operation does not accept the answer: the method that expects it lists those it does.
        impl Expectation<'_> {$(
            $(#[$doc])*
            pub fn $name(self$(, $value: $type)?) {
                self.answer(Answer::$name($($value)?));
            }
        )+}
    };
}

answers! {
    /// Allows the call, as a limit from which nothing was consumed would.
    ///
    /// A `take_up_to` call is granted its cost, or the capacity if that is less.
    allow() = Reply::Allow(None);

    /// Allows the call and leaves `remaining` in the limit.
    ///
    /// If another limit denies the request, what the call would have consumed remains as well.
    allow_with_remaining(remaining: u64) = Reply::Allow(Some(remaining));

    /// Allows the reservation, which starts after `delay`, rounded up to microseconds, and leaves
    /// nothing.
    ///
    /// A request with several limits starts when the slowest of them allows it.
    delay_by(delay: Duration) = Reply::Delay(rounded_up(delay));

    /// Denies the call for `retry_after`, rounded up to microseconds and at least one.
    deny_for(retry_after: Duration) = Reply::Deny(rounded_up(retry_after).max(Wait::from_micros(1)));

    /// Denies the call forever, like one whose cost exceeds the capacity.
    deny_forever() = Reply::Deny(Wait::NEVER);

    /// Fails the call with an error of this kind.
    fail(kind: ErrorKind) = Reply::Fail(kind);

    /// Grants `granted` to a `take_up_to` call; zero denies it for a second.
    ///
    /// A request with several limits is granted the least that any of them grants.
    grant(granted: u64) = Reply::Grant(granted);

    /// Lets the block or reset succeed.
    succeed() = Reply::Succeed;
}

/// Returns `duration`, rounded up to microseconds.
fn rounded_up(duration: Duration) -> Wait {
    let micros = duration.as_nanos().div_ceil(1_000);
    u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros)
}

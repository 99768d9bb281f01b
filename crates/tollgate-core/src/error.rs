//! `LimitError` and `StoreError`: invalid limits, and failures to reach a decision.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An error for a limit, quota or instant that is not valid.
///
/// The message says what is not possible, and what is; the [kind](Self::kind) is for programs. `Debug`
/// writes the same sentence as `Display`, because that is what a program prints whose `main` returns
/// the error, and what `unwrap` prints.
///
/// # Examples
///
/// ```
/// use tollgate_core::{Limit, LimitErrorKind};
///
/// let error = "login=gcra:10/0s".parse::<Limit>().unwrap_err();
/// assert_eq!((error.kind(), error.position()), (LimitErrorKind::Duration, Some(14)));
/// let text = r#""login=gcra:10/0s" is wrong at character 15 ("0s"): a window of 0ns is not possible"#;
/// assert!(error.to_string().starts_with(text));
/// assert_eq!(format!("Error: {error:?}"), format!("Error: {error}"));
/// ```
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct LimitError(pub(crate) Problem);

impl LimitError {
    /// Returns an error of this `kind`, for limits that another crate cannot enforce; `message` should
    /// say what is not possible, and what is.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{LimitError, LimitErrorKind};
    ///
    /// let error = LimitError::new(LimitErrorKind::Count, "2 limits are too many: use one");
    /// assert_eq!(error.to_string(), "2 limits are too many: use one");
    /// ```
    #[must_use]
    pub fn new(kind: LimitErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Problem::Other { kind, message })
    }

    /// Returns the kind of this error.
    #[must_use]
    pub fn kind(&self) -> LimitErrorKind {
        match &self.0 {
            Problem::AmountTooLarge { .. }
            | Problem::BadBuckets { .. }
            | Problem::BurstNotExact { .. }
            | Problem::NeverRefills { .. }
            | Problem::TooManyEvents { .. } => LimitErrorKind::Amount,
            Problem::BadHorizon { .. }
            | Problem::BadTolerance { .. }
            | Problem::BadTtl { .. }
            | Problem::BadWindow { .. } => LimitErrorKind::Duration,
            Problem::BadName { .. }
            | Problem::DuplicateLimit { .. }
            | Problem::UnknownLimit { .. }
            | Problem::UnknownZone { .. } => LimitErrorKind::Name,
            Problem::BadValue { error, .. } => error.kind(),
            Problem::NeverOpen => LimitErrorKind::NeverOpen,
            Problem::Off => LimitErrorKind::Off,
            Problem::NoLimits
            | Problem::NoQuotas
            | Problem::TooManyLimits { .. }
            | Problem::TooManyQuotas { .. } => LimitErrorKind::Count,
            Problem::Other { kind, .. } => *kind,
            Problem::Syntax { .. } => LimitErrorKind::Syntax,
            Problem::TimeOutOfRange => LimitErrorKind::Instant,
        }
    }

    /// Returns the byte offset of what is wrong, if the error is about a text. At the end of the text,
    /// something is missing.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        match self.0 {
            Problem::BadValue { at, .. } | Problem::Syntax { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// The kinds of [`LimitError`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LimitErrorKind {
    /// An amount, a burst or a number of buckets is too large, or cannot be counted exactly; or the
    /// quotas of a schedule allow a key more events than can be kept.
    Amount,
    /// There are no limits or quotas, or too many.
    Count,
    /// A day of a month is not 1 to 31, or a month of a year is not 1 to 12.
    Day,
    /// A window, a time to live, a horizon or a tolerance is too short, too long, or not whole
    /// microseconds.
    Duration,
    /// An instant is before the Unix epoch, or more than 2^53 - 1 microseconds after it.
    Instant,
    /// A name is not 1 to 64 ASCII letters, digits, `-`, `_` or `.`; two limits have the same one; or
    /// no limit or time zone has it.
    Name,
    /// The closed times of a schedule leave no time open.
    NeverOpen,
    /// The text `off`, which switches a limit off where that is possible, is here no limit.
    Off,
    /// A text cannot be read as a limit, an algorithm or a quota.
    Syntax,
}

/// What is not possible, and its numbers.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Problem {
    /// An amount is too large: of a quota or a burst, larger than the algorithm can count exactly;
    /// of a schedule's quota or of leases, larger than `schedule::MAX_AMOUNT` or `MAX_LEASES`.
    #[error("an amount of {amount} is too large: choose at most {most}, or count in a larger unit")]
    AmountTooLarge { amount: u64, most: u64 },
    #[error("{buckets} buckets are not possible: choose 1 to 127")]
    BadBuckets { buckets: u64 },
    /// A schedule's horizon is too long: with these quotas, a key could hold too many events, or closed
    /// times could leave too many times open.
    #[error(
        "a horizon of {horizon:?} is too long: choose at most {most:?}, add a quota with a longer window, \
         or use fewer closed times"
    )]
    BadHorizon { horizon: Duration, most: Duration },
    /// A name is empty, is longer than 64 bytes, or contains characters other than ASCII letters,
    /// digits, `-`, `_` and `.`.
    #[error(
        "{} is not a name: use 1 to 64 ASCII letters, digits, '-', '_' or '.'",
        quoted(name)
    )]
    BadName { name: String },
    /// A schedule's tolerance is too long: with these quotas, a key could hold too many events.
    #[error(
        "a tolerance of {tolerance:?} is too long: choose at most {most:?}, a shorter horizon, or \
         smaller amounts"
    )]
    BadTolerance { tolerance: Duration, most: Duration },
    /// The time to live of leases is not whole microseconds, or is too short or too long.
    #[error(
        "leases of {ttl:?} are not possible: choose whole microseconds, from {least:?} to {most:?}"
    )]
    BadTtl {
        ttl: Duration,
        least: Duration,
        most: Duration,
    },
    /// A text has the right form, but a value in it is not possible.
    #[error("{}: {error}", wrong_at(text, *at))]
    BadValue {
        text: String,
        /// The byte offset of the value.
        at: usize,
        error: Box<LimitError>,
    },
    /// A window is zero, not whole microseconds, or too long.
    #[error(
        "a window of {window:?} is not possible: use whole microseconds, from 1 µs to {most:?}"
    )]
    BadWindow { window: Duration, most: Duration },
    /// A burst cannot be counted exactly at the rate of a `Gcra`: the
    /// amount and the window, in microseconds, have too few divisors in common.
    #[error("{}", not_exact(*amount, *burst, *most, *near))]
    BurstNotExact {
        amount: u64,
        /// The burst that was requested; without an option, it is the amount.
        burst: u64,
        most: u64,
        /// A number whose multiples are amounts for which the burst is accepted, if there is one up
        /// to the amount: the smallest that was found.
        near: Option<u64>,
    },
    #[error("two limits of one limiter are called {name:?}: give each a name of its own")]
    DuplicateLimit { name: String },
    #[error("no limit is called `{name}`: name one of the limiter's, `{}`", names.join("`, `"))]
    UnknownLimit { name: String, names: Vec<String> },
    #[error(
        "these closed times leave no time open: shorten one of them, or leave it out, so that \
         something can be planned"
    )]
    #[cfg_attr(
        not(feature = "calendar"),
        expect(dead_code, reason = "of calendars alone")
    )]
    NeverOpen,
    #[error("a burst of {burst} on a quota of zero would never refill: use a quota of at least 1")]
    NeverRefills { burst: u64 },
    /// A limit is switched off where there must be one.
    #[error(
        "`off` is no limit: only a plan, or an entry in a file of limits, can be switched off by it"
    )]
    Off,
    /// What another crate refuses.
    #[error("{message}")]
    Other {
        /// What the program is told.
        kind: LimitErrorKind,
        message: String,
    },
    #[error("a limiter needs at least one limit, such as `login=gcra:10/1m`")]
    NoLimits,
    #[error("a schedule needs at least one quota that counts events, such as `5/1h`")]
    NoQuotas,
    /// A text cannot be read as a limit, an algorithm or a quota.
    #[error("{}", misread(text, *at, expected))]
    Syntax {
        text: String,
        /// The byte offset of the first part that could not be read.
        at: usize,
        expected: Cow<'static, str>,
    },
    #[error("an instant must lie between the Unix epoch and 2^53 - 1 microseconds after it")]
    TimeOutOfRange,
    /// A schedule's quotas allow too many events of a key, however short the horizon.
    #[error(
        "with these quotas, a key could hold {events} events at a time, and at most {most} are \
         possible: choose at most {amount} for {quota}, {}or divide the events among several keys",
        fewer(*fewer_quotas)
    )]
    TooManyEvents {
        events: u64,
        /// The most that are possible with this number of quotas.
        most: u64,
        /// Whether more are possible with fewer quotas.
        fewer_quotas: bool,
        /// The quota that needs the smallest change.
        quota: String,
        /// The largest amount of that quota with which events can be planned ahead.
        amount: u64,
    },
    #[error(
        "{count} limits in one limiter are too many: use at most {most}, which are decided together"
    )]
    TooManyLimits { count: usize, most: usize },
    #[error("{count} quotas in one schedule are too many: use at most {most}")]
    TooManyQuotas { count: usize, most: usize },
    #[error("{zone:?} is no time zone: use a name such as Europe/Berlin or UTC")]
    #[cfg_attr(
        not(feature = "calendar"),
        expect(dead_code, reason = "of calendars alone")
    )]
    UnknownZone { zone: String },
}

impl fmt::Debug for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Never happens; it lets a function accept a `Limit` as well as its text.
impl From<Infallible> for LimitError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

fn fewer(helps: bool) -> &'static str {
    if helps { "use fewer quotas, " } else { "" }
}

/// Returns the message about a burst that cannot be counted exactly.
fn not_exact(amount: u64, burst: u64, most: u64, near: Option<u64>) -> String {
    let (what, which) = if amount == burst {
        (format!("an amount of {amount}"), "")
    } else {
        (format!("a burst of {burst}"), "an amount that is ")
    };
    let near = near.map(|near| {
        let such = amount - amount % near;
        format!(", or {which}a multiple of {near}, such as {such}")
    });
    let near = near.unwrap_or_default();
    format!("{what} cannot be counted exactly in this window: choose at most {most}{near}")
}

/// Returns the message about a text that is wrong at the byte `at`.
fn misread(text: &str, at: usize, expected: &str) -> String {
    if at >= text.len() {
        return format!("{} ends too early: expected {expected}", quoted(text));
    }
    format!("{}: expected {expected}", wrong_at(text, at))
}

/// Says that `text` is wrong at the byte `at`, and what is there.
fn wrong_at(text: &str, at: usize) -> String {
    let (read, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let character = read.chars().count() + 1;
    let (text, rest) = (quoted(text), quoted(rest));
    format!("{text} is wrong at character {character} ({rest})")
}

/// The most characters of a text that an error quotes.
const LONGEST_QUOTE: usize = 100;

/// Quotes `text`, or its beginning if it is long.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A failure to reach a decision. A denied call is a decision, never an error.
///
/// # Examples
///
/// ```
/// use tollgate_core::{ErrorKind, StoreError};
///
/// let error = StoreError::new(ErrorKind::Unavailable, "no connection to the store");
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "no connection to the store");
/// assert_eq!(error.kind().to_string(), "unavailable");
/// // What a program prints whose `main` returns the error:
/// let error = error.with_source("connection refused");
/// let debug = "no connection to the store (unavailable), caused by \"connection refused\"";
/// assert_eq!(format!("{error:?}"), debug);
/// ```
// One word, since every decision is returned in a `Result` beside it.
#[derive(Clone)]
pub struct StoreError(Box<Failure>);

#[derive(Clone)]
struct Failure {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Returns an error of this `kind`; `message` should say what happened and what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// Returns the error of a store that answers a call as no store may.
    pub(crate) fn another_answer() -> Self {
        Self::new(
            ErrorKind::Protocol,
            "the store's answer is not one to this call: it has a bug",
        )
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// Returns the kind of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same request may be sent again without consuming twice.
    ///
    /// True only if nothing was consumed and a retry may succeed. After [`ErrorKind::Unknown`] the
    /// request may have been counted, so it is not retryable.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Full | ErrorKind::Unavailable)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// Writes the message, the kind and the source.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.kind)?;
        match &self.0.source {
            Some(source) => write!(f, ", caused by {source:?}"),
            None => Ok(()),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store has no room to record the call, and no unused state to drop. Nothing was consumed.
    Full,
    /// The request is not valid; it has two checks of one limit and key, for example. Nothing was
    /// consumed.
    Malformed,
    /// The store's setup prevents the decision. Nothing was consumed, unless the server's user may
    /// run only some of the commands that a decision needs: the first of them may then have run.
    Misconfigured,
    /// The store's reply is not valid. The request may have been counted.
    Protocol,
    /// The store cannot be reached, or cannot decide at the moment. Nothing was consumed.
    Unavailable,
    /// The request was sent, but its outcome is unknown: it may have been counted.
    Unknown,
    /// The store cannot decide this request: see [`Store::supports`](crate::Store::supports), also
    /// for what only a call can find out. Nothing was consumed.
    Unsupported,
}

/// Writes the name in lower case; for [`Unknown`](Self::Unknown), `unknown outcome`.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Malformed => "malformed",
            Self::Misconfigured => "misconfigured",
            Self::Protocol => "protocol",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown outcome",
            Self::Unsupported => "unsupported",
        })
    }
}

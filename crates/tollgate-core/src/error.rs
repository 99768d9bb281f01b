//! What can go wrong: a limit that cannot be, and a decision that could not be reached.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A limit, quota or instant that cannot be constructed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// An amount is larger than the algorithm can count exactly.
    #[error(
        "amount {amount} is too large: this algorithm counts exactly up to {most}; choose a smaller amount, or count in a larger unit"
    )]
    AmountTooLarge {
        /// The amount asked for.
        amount: u64,
        /// The largest that would be accepted.
        most: u64,
    },
    /// The number of buckets is outside 1 to 127.
    #[error("{buckets} buckets are not possible: choose 1 to 127")]
    BadBuckets {
        /// The number asked for.
        buckets: u64,
    },
    /// A name is empty, longer than 64 bytes, or has other characters than ASCII letters, digits, `-`, `_` and `.`.
    #[error("{name:?} is not a limit's name: use 1 to 64 ASCII letters, digits, '-', '_' or '.'")]
    BadName {
        /// The name asked for.
        name: String,
    },
    /// A window is zero, not whole microseconds, or longer than 2^53 - 1 microseconds.
    #[error("{window:?} is not a window: use whole microseconds, at least one and fewer than 2^53")]
    BadWindow {
        /// The window asked for.
        window: Duration,
    },
    /// Two limits of one limiter would share their state.
    #[error(
        "two limits are called {name:?} and would share their state: give each a name of its own"
    )]
    DuplicateLimit {
        /// The name they share.
        name: String,
    },
    /// A burst was asked of a quota of zero, which never refills.
    #[error("a burst of {burst} on a quota of zero would never refill: use a quota of at least 1")]
    NeverRefills {
        /// The burst asked for.
        burst: u64,
    },
    /// A limiter was given no limit.
    #[error("a limiter needs at least one limit")]
    NoLimits,
    /// A text is not a limit, an algorithm or a quota.
    #[error("{}", misread(text, *at, expected))]
    Syntax {
        /// The text given.
        text: String,
        /// The byte of the text from which on it could not be read.
        at: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// An instant lies before 1970 or after 2^53 - 1 microseconds.
    #[error("an instant must lie between the Unix epoch and 2^53 - 1 microseconds after it")]
    TimeOutOfRange,
    /// More limits than one request may name.
    #[error("{count} limits in one limiter are too many: at most {most} are decided together")]
    TooManyLimits {
        /// The number asked for.
        count: usize,
        /// The largest that would be accepted.
        most: usize,
    },
}

/// Never happens: it lets a limit stand where its text may stand too.
impl From<Infallible> for LimitError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Returns what is wrong with a text, and where.
fn misread(text: &str, at: usize, expected: &str) -> String {
    let (read, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    if rest.is_empty() {
        return format!("{text:?} ends too early: expected {expected}");
    }
    let character = read.chars().count() + 1;
    format!("{text:?} is wrong at character {character} ({rest:?}): expected {expected}")
}

/// A failure to reach a decision. That a call is denied is a decision, never an error.
///
/// # Examples
///
/// ```
/// use tollgate_core::{ErrorKind, StoreError};
///
/// let error = StoreError::new(ErrorKind::Unavailable, "no connection to the store");
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "no connection to the store");
/// ```
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Returns an error of `kind`; `message` says what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same request may be sent again without consuming twice.
    ///
    /// True only where nothing was consumed and another try may succeed. An
    /// [`ErrorKind::Unknown`] outcome may already have been counted, so it is not retryable.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Full | ErrorKind::Unavailable)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store holds as many keys as it may, all of them in use. Nothing was consumed.
    Full,
    /// The request is malformed, such as naming one limit and key twice. Nothing was consumed.
    Malformed,
    /// The store is set up so that it cannot serve this. Nothing was consumed, unless a server lets
    /// its user run the first part of what a decision takes and not the rest.
    Misconfigured,
    /// The store answered something that is not an answer.
    Protocol,
    /// The store cannot be reached. Nothing was consumed.
    Unavailable,
    /// The request was sent and its outcome is not known: it may have been counted.
    Unknown,
    /// This store does not do what was asked. Nothing was consumed.
    Unsupported,
}

//! How a store on a server names its keys, tells the time, and how long it waits.

use std::time::Duration;

use crate::error::{ErrorKind, StoreError};

const LONGEST_PREFIX: usize = 64;
/// A part of a key that is longer than this is long.
pub(super) const LONG_PART: usize = 64;
/// A part of a key that is longer than this is hashed whatever the options say.
pub(super) const LONGEST_PART: usize = 200;

/// How a store on a server names its keys, tells the time, and how long it waits.
///
/// A part of a key (partition or rest) of more than 200 bytes is written as `##` and its SHA-256 in
/// 64 hexadecimal digits, so that no key on the server is longer than 1,500 bytes, however long a
/// caller's keys are.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::wire::Options;
///
/// let options = Options::new()
///     .with_prefix("shop")?
///     .with_deadline(Duration::from_millis(50));
/// assert_eq!(options.prefix(), "shop");
/// # Ok::<(), tollgate_core::StoreError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    pub(super) prefix: String,
    pub(super) clock: Clock,
    pub(super) deadline: Duration,
    pub(super) caller_slack: Duration,
    pub(super) hashing: Option<Hashing>,
}

/// Which parts of keys are replaced by a keyed hash.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct Hashing {
    pub(super) secret: [u8; 16],
    pub(super) only_long: bool,
}

/// Whose clock decides a request that names no instant of its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Clock {
    /// The server's, read once by each script: one clock for all callers.
    #[default]
    Server,
    /// This process's, for servers that refuse `TIME` in scripts.
    ///
    /// With callers whose clocks differ by up to `e`, what holds is the quota per `T - 2e`.
    Caller,
}

impl Options {
    /// Returns the defaults: prefix `tollgate`, the server's clock, a deadline of 500 ms, ten
    /// minutes of slack for a caller's clock, and keys in clear up to 200 bytes a part.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prefix: "tollgate".to_owned(),
            clock: Clock::Server,
            deadline: Duration::from_millis(500),
            caller_slack: Duration::from_secs(600),
            hashing: None,
        }
    }

    /// Sets what every key begins with, so that several uses of one server keep apart.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless `prefix` is 1 to 64 ASCII letters, digits, `-`, `_`,
    /// `.` or `:`.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, StoreError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !prefix.bytes().all(legal) {
            return Err(StoreError::new(
                ErrorKind::Misconfigured,
                format!(
                    "{prefix:?} is not a prefix: use 1 to 64 ASCII letters, digits, '-', '_', '.' or ':'"
                ),
            ));
        }
        prefix.clone_into(&mut self.prefix);
        Ok(self)
    }

    /// Sets whose clock decides.
    #[must_use]
    pub const fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long a decision may take, with everything that belongs to it.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how much longer than it is needed a state is kept that was written at a caller's
    /// instant, rounded up to milliseconds.
    ///
    /// The server forgets by its own clock. A caller's clock that falls further behind it than
    /// this, such as that of a replay that takes longer than what it replays, finds states gone
    /// that still count, and is then allowed too much.
    #[must_use]
    pub const fn with_caller_slack(mut self, slack: Duration) -> Self {
        self.caller_slack = slack;
        self
    }

    /// Replaces both parts of every key by a hash keyed with `secret`: 128 bits of SipHash-2-4.
    ///
    /// For addresses, names and tokens that must not be read off the server, where a plain hash
    /// could be reversed by trying. All processes must use the same secret.
    #[must_use]
    pub const fn with_hashed_keys(mut self, secret: [u8; 16]) -> Self {
        self.hashing = Some(Hashing {
            secret,
            only_long: false,
        });
        self
    }

    /// Replaces parts of keys longer than 64 bytes by a keyed hash, as
    /// [`with_hashed_keys`](Self::with_hashed_keys) does for all.
    #[must_use]
    pub const fn with_hashed_long_keys(mut self, secret: [u8; 16]) -> Self {
        self.hashing = Some(Hashing {
            secret,
            only_long: true,
        });
        self
    }

    /// Returns what every key begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whose clock decides.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns how long a decision may take.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Leaves the secret out.
impl std::fmt::Debug for Hashing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hashing")
            .field("only_long", &self.only_long)
            .finish_non_exhaustive()
    }
}

//! `Options` of a store on a server: key names, clock and deadline.

use std::time::Duration;

use tollgate_core::{ErrorKind, StoreError};

const LONGEST_PREFIX: usize = 64;
/// [`Options::with_hashed_long_keys`] hashes parts of keys longer than this, in bytes.
pub const LONG_PART: usize = 64;
/// Parts of keys longer than this, in bytes, are always hashed.
pub(super) const LONGEST_PART: usize = 200;

/// Options of a store on a server: key names, clock and deadline.
///
/// A part of a key (partition or rest) longer than 200 bytes is replaced with `##` and its SHA-256
/// in 64 hexadecimal digits, so no key on the server is longer than 1,500 bytes.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_wire::Options;
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
    pub(super) clock: TimeSource,
    pub(super) deadline: Duration,
    pub(super) caller_slack: Duration,
    pub(super) hashing: Option<Hashing>,
    /// Whether a part that is a hash already is written as it is.
    pub(super) takes_hashes: bool,
    /// The most events of one key that are held as a string.
    pub(super) small_schedule: u32,
    /// The most events of one key that are held as one chunk, if there are more than that.
    pub(super) schedule_chunk: u32,
    pub(super) batches: Batches,
    /// The most limits that the script of a batch decides, unless a single call has more.
    pub(super) batch_limits: usize,
}

/// The most limits of a script: it then holds the server for 0.1 to 0.5 ms, and for 3 ms at most.
const BATCH_LIMITS: usize = 64;

/// A server decides some twenty calls in this time.
const GAP: Duration = Duration::from_micros(150);

/// Which calls are sent together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Batches {
    /// None.
    Never,
    /// Those that are made while others are on their way, the last of which left less than this
    /// time ago.
    Natural(Duration),
    /// All, even a single one.
    Always,
}

impl Batches {
    /// Returns how long a call that left makes later ones wait, or `None` if calls wait always or
    /// never.
    pub(super) fn gap(self) -> Option<Duration> {
        match self {
            Self::Natural(gap) => Some(gap),
            Self::Never | Self::Always => None,
        }
    }
}

/// With more events than this, a check of a string takes a server longer than one of chunks.
pub(super) const SMALL_SCHEDULE: u32 = 256;

/// With more events, a server takes longer to write a chunk; with fewer, to read the directory.
const SCHEDULE_CHUNK: u32 = 256;

/// Which parts of keys are replaced with a keyed hash.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct Hashing {
    pub(super) secret: [u8; 16],
    pub(super) only_long: bool,
}

/// The clock that decides a request without an instant of its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum TimeSource {
    /// The server's clock, read once by each script: one clock for all callers.
    #[default]
    Server,
    /// This process's clock, for servers that refuse `TIME` in scripts.
    ///
    /// If callers' clocks are up to `e` off, the quota holds per `T - 2e` instead of per window
    /// `T`.
    Caller,
}

/// The error of a deadline of zero.
pub(super) fn no_deadline() -> StoreError {
    StoreError::new(
        ErrorKind::Misconfigured,
        "the store's deadline is zero, which no call can meet: set one, such as 500 ms",
    )
}

impl Options {
    /// Returns the default options: prefix `tollgate`, the server's clock, a deadline of 500 ms, a
    /// caller slack of ten minutes, no hashing of key parts up to 200 bytes, and no batches.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prefix: "tollgate".to_owned(),
            clock: TimeSource::Server,
            deadline: Duration::from_millis(500),
            caller_slack: Duration::from_secs(600),
            hashing: None,
            takes_hashes: false,
            small_schedule: SMALL_SCHEDULE,
            schedule_chunk: SCHEDULE_CHUNK,
            batches: Batches::Never,
            batch_limits: BATCH_LIMITS,
        }
    }

    /// Switches batches on or off: calls that are made while many others are in flight are sent
    /// together. They are off by default.
    ///
    /// One script then decides many calls, one after the other in the order in which they were made,
    /// and equal calls cost a server what one costs. Each call keeps its own deadline and errors, but
    /// if a reply is lost, every call in that batch may have been counted.
    ///
    /// A task on the Tokio runtime that polls the calls sends them. If nobody runs that runtime, as when
    /// only [`Handle::block_on`] waits on one of the current thread, then calls fail at their deadline
    /// while more than sixteen are in flight. `docs/internals/batches.md` tells the rest.
    ///
    /// [`Handle::block_on`]: https://docs.rs/tokio/latest/tokio/runtime/struct.Handle.html#method.block_on
    #[must_use]
    pub const fn with_batches(mut self, batches: bool) -> Self {
        self.batches = if batches {
            Batches::Natural(GAP)
        } else {
            Batches::Never
        };
        self
    }

    /// Sets how long after others a call need not wait for them, for tests.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_batch_gap(mut self, gap: Duration) -> Self {
        self.batches = Batches::Natural(gap);
        self
    }

    /// Sends every call as one of a batch, even a single one, for tests.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_batches_only(mut self) -> Self {
        self.batches = Batches::Always;
        self
    }

    /// Sets how many limits a batch has at most, for tests of several batches.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_batch_limits(mut self, limits: usize) -> Self {
        self.batch_limits = limits;
        self
    }

    /// Sets how many events of one key are held as a string, for tests of both forms.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_small_schedule(mut self, events: u32) -> Self {
        self.small_schedule = events;
        self
    }

    /// Sets how many events of one key are a chunk at most, for tests of several chunks.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_schedule_chunk(mut self, events: u32) -> Self {
        self.schedule_chunk = events;
        self
    }

    /// Sets the prefix of every key, so that several programs can share a server.
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

    /// Sets which clock decides: the server's or this process's.
    #[must_use]
    pub const fn with_time_source(mut self, clock: TimeSource) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long a decision may take, including loading scripts and following redirections.
    ///
    /// With a deadline of zero, every call fails with [`ErrorKind::Misconfigured`].
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Returns these options, or an error if every call would fail with them.
    #[doc(hidden)]
    pub fn validated(self) -> Result<Self, StoreError> {
        if self.deadline.is_zero() {
            return Err(no_deadline());
        }
        Ok(self)
    }

    /// Sets the extra TTL of states written at a caller's instant, rounded up to milliseconds.
    ///
    /// Redis expires keys by its own clock. If the caller's clock lags it by more than `slack` (in
    /// a replay slower than real time, say), a key can expire while it still counts, and the
    /// limiter admits more than the quota.
    #[must_use]
    pub const fn with_caller_slack(mut self, slack: Duration) -> Self {
        self.caller_slack = slack;
        self
    }

    /// Replaces both parts of every key with a 128-bit SipHash-2-4, keyed with `secret`.
    ///
    /// Use this for addresses, names and tokens that nobody should read off the server. A plain
    /// hash of these can be reversed by trying all inputs. All processes must use the same secret.
    ///
    /// This also replaces long parts, whatever [`with_hashed_long_keys`](Self::with_hashed_long_keys)
    /// says.
    #[must_use]
    pub const fn with_hashed_keys(mut self, secret: [u8; 16]) -> Self {
        self.hashing = Some(Hashing {
            secret,
            only_long: false,
        });
        self
    }

    /// Replaces parts of keys longer than 64 bytes with a keyed hash, as
    /// [`with_hashed_keys`](Self::with_hashed_keys) does for all parts.
    #[must_use]
    pub const fn with_hashed_long_keys(mut self, secret: [u8; 16]) -> Self {
        if !matches!(&self.hashing, Some(hashing) if !hashing.only_long) {
            self.hashing = Some(Hashing {
                secret,
                only_long: true,
            });
        }
        self
    }

    /// Writes a part of a key that is a hash, as keys have it, as it is: for the program `tollgate`,
    /// whose users copy hashes from what it shows.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_hashes_taken(mut self) -> Self {
        self.takes_hashes = true;
        self
    }

    /// Returns the prefix of every key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the clock that decides.
    #[must_use]
    pub const fn time_source(&self) -> TimeSource {
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

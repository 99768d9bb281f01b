//! `CallId`: an id of a call, by which a repeated call gets the first answer.

use std::fmt;
use std::time::Duration;

use crate::error::{ErrorKind, StoreError};

/// The most bytes of an id.
const MOST_BYTES: usize = 1_000;
/// How long the answer to an id is kept, unless [`CallId::kept`] says otherwise.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// The id of a call: a call repeated with it gets the first answer, and is not counted again.
///
/// Choose ids that no other call for the same key has, such as the id of a request or of a job. A
/// store keeps the answer to a call that was allowed for 10 minutes, or as long as
/// [`kept`](Self::kept) says. The answer to a call that was denied is not kept: repeated, the call
/// is decided anew.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{CallId, RateLimiter, StoreError, SyncStore};
///
/// fn admit(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
///     let id = CallId::new("order-4711").kept(Duration::from_secs(3_600));
///     let first = limiter.check("alice").id(id).run()?;
///     let again = limiter.check("alice").id(id).run()?;
///     assert_eq!(first, again);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct CallId<'a> {
    bytes: &'a [u8],
    kept: Duration,
    repeats: bool,
}

impl<'a> CallId<'a> {
    /// Returns the id `id`: 1 to 1,000 bytes.
    #[must_use]
    pub fn new(id: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            bytes: id.as_ref(),
            kept: KEPT,
            repeats: false,
        }
    }

    /// Sets how long the answer is kept from the decision on, rounded up to milliseconds. The
    /// default is 10 minutes.
    #[must_use]
    pub fn kept(mut self, time: Duration) -> Self {
        self.kept = time;
        self
    }

    /// Lets the store repeat the call once if its reply is lost, while the store's deadline lasts.
    ///
    /// Without this, a lost reply is [`ErrorKind::Unknown`] at once. A store that loses no replies
    /// ignores it.
    #[must_use]
    pub fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns how long the answer is kept, in microseconds, a multiple of 1,000.
    #[must_use]
    pub fn kept_us(&self) -> u64 {
        let millis = self.kept.as_nanos().div_ceil(1_000_000);
        // As long as any state lasts.
        let most = crate::time::MAX_EXACT / 1_000;
        u64::try_from(millis).map_or(most, |millis| millis.min(most)) * 1_000
    }

    /// Returns whether a lost call is repeated.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.repeats
    }

    /// Returns the error of a call whose id was used for another call.
    #[must_use]
    pub fn taken() -> StoreError {
        StoreError::new(
            ErrorKind::Malformed,
            "this id was used for another call, with another cost, quota or limits: use a new id",
        )
    }

    /// Returns an error if no answer can be kept for this id.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        let message = if self.bytes.is_empty() || self.bytes.len() > MOST_BYTES {
            "an id of a call must have 1 to 1,000 bytes: use a shorter one, such as its hash"
        } else if self.kept.is_zero() {
            "the answer to an id is to be kept for no time: keep it as long as the call may be repeated"
        } else {
            return Ok(());
        };
        Err(StoreError::new(ErrorKind::Malformed, message))
    }
}

impl<'a> From<&'a str> for CallId<'a> {
    fn from(id: &'a str) -> Self {
        Self::new(id)
    }
}

impl<'a> From<&'a String> for CallId<'a> {
    fn from(id: &'a String) -> Self {
        Self::new(id)
    }
}

impl<'a> From<&'a [u8]> for CallId<'a> {
    fn from(id: &'a [u8]) -> Self {
        Self::new(id)
    }
}

/// Shows the length only, because an id may name a person or be a secret.
impl fmt::Debug for CallId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallId")
            .field("bytes", &self.bytes.len())
            .field("kept", &self.kept)
            .field("repeats", &self.repeats)
            .finish()
    }
}

//! `Limit`: a quota with a name and an algorithm.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

#[cfg(feature = "calendar")]
use crate::algorithm::Brought;
use crate::algorithm::{Algorithm, Gcra, State};
use crate::bytes::decode;
#[cfg(feature = "calendar")]
use crate::calendar;
use crate::error::{LimitError, Problem, StoreError};
use crate::text::{Reader, from_texts};
use crate::time::Timestamp;

const LONGEST_NAME: usize = 64;

/// Hashes identities with a random secret of this process.
static IDENTITY_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A named limit: a quota and the algorithm that counts it.
///
/// Stores identify a limit's states by its name, its algorithm and the parameters that give the
/// states their meaning, such as a fixed window's length. So a limit may be changed while it is in
/// use:
///
/// - A new amount applies to what has been counted already.
/// - With a new window, a fixed window, a sliding counter and sliding buckets start afresh; a
///   sliding log and GCRA keep their states, for as long as the limit before would have.
///
/// Cloning is cheap.
///
/// # Shadow
///
/// A limit in [shadow](Self::shadow) is decided and counted like any other, in the same step, and never
/// denies: to see what a limit would do before it does it. It counts the calls that the limits beside
/// it allow and that it would allow, too. Its [verdict](crate::Decision::verdict) says whether it
/// would have denied a call; what a [`Decision`](crate::Decision) says about all limits together
/// leaves it out. It has the same states as the limit that is none, so that it can be put into force
/// with what it has counted.
///
/// # Examples
///
/// ```
/// use tollgate_core::{Gcra, Limit, LimitError, LimitErrorKind, Quota};
///
/// let limit = Limit::new("login", Gcra::new(Quota::per_minute(5))?)?;
/// assert_eq!(limit.to_string(), "login=gcra:5/1m");
/// assert_eq!(limit, "login=gcra:5/1m".parse()?);
///
/// assert_eq!(limit, "login=gcra:5/min".parse()?);
///
/// let wrong = "login=gcra:5/1mn".parse::<Limit>().unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     r#""login=gcra:5/1mn" is wrong at character 15 ("mn"): expected a unit: us, ms, s, m, h or d"#
/// );
/// let nameless = Limit::new("", *limit.algorithm()).unwrap_err();
/// assert_eq!(nameless.kind(), LimitErrorKind::Name);
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone)]
pub struct Limit(Arc<Inner>);

/// The limits of a [`RateLimiter`](crate::RateLimiter), no two of which have the same name.
///
/// Dereferences to a slice of them.
// A decision refers to them by one word, where a slice takes two.
#[derive(Debug, Eq, PartialEq)]
pub struct Limits(SmallVec<[Limit; 1]>);

impl Limits {
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self(limits.into_iter().collect())
    }
}

impl Deref for Limits {
    type Target = [Limit];

    #[inline]
    fn deref(&self) -> &[Limit] {
        &self.0
    }
}

#[derive(Clone)]
struct Inner {
    name: Box<str>,
    algorithm: Algorithm,
    /// Of the algorithm, to be read without finding out which it is.
    capacity: u64,
    is_plain: bool,
    identity: Box<str>,
    identity_hash: u64,
    is_shadow: bool,
    is_local: bool,
}

/// The option of a limit in shadow.
const SHADOW: &str = "shadow";
/// The text of a limit that is switched off.
const OFF: &str = "off";

/// Returns the error that none of `limits` is called `name`.
#[cold]
pub(crate) fn unknown_limit(limits: &[Limit], name: &str) -> LimitError {
    LimitError(Problem::UnknownLimit {
        name: name.to_owned(),
        names: limits.iter().map(|limit| limit.name().to_owned()).collect(),
    })
}

impl Limit {
    /// Returns a limit called `name`.
    ///
    /// # Errors
    ///
    /// [`Name`](crate::LimitErrorKind::Name) unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    pub fn new(name: &str, algorithm: impl Into<Algorithm>) -> Result<Self, LimitError> {
        Self::with(name, algorithm.into(), false)
    }

    fn with(name: &str, algorithm: Algorithm, is_shadow: bool) -> Result<Self, LimitError> {
        check_name(name)?;
        let identity = format!("{name}:{}", algorithm.shape()).into_boxed_str();
        Ok(Self(Arc::new(Inner {
            name: name.into(),
            identity_hash: IDENTITY_HASHER.hash_one(&identity),
            identity,
            capacity: algorithm.capacity(),
            is_plain: algorithm.counts() && !algorithm.counts_denied() && !is_shadow,
            is_local: algorithm.needs_zone() || algorithm.needs_day(),
            algorithm,
            is_shadow,
        })))
    }

    /// Returns the same limit in shadow: it never denies. As text, it has the option `shadow`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{Limit, RateLimiter, StoreError, SyncStore};
    ///
    /// fn check(store: impl SyncStore, user: &str) -> Result<bool, StoreError> {
    ///     let limits = ["api=gcra:10/1s", "next=gcra:5/1s,shadow"];
    ///     let limiter = RateLimiter::new(store, limits).expect("the limits are valid");
    ///     let decision = limiter.check(user).run()?;
    ///     if decision.verdict("next").is_some_and(|next| !next.is_allowed()) {
    ///         println!("`next` would have denied a call");
    ///     }
    ///     Ok(decision.is_allowed())
    /// }
    ///
    /// let next: Limit = "next=gcra:5/1s,shadow".parse().unwrap();
    /// assert_eq!(next, "next=gcra:5/1s".parse::<Limit>().unwrap().shadow());
    /// ```
    #[must_use]
    pub fn shadow(&self) -> Self {
        Self(Arc::new(Inner {
            is_shadow: true,
            is_plain: false,
            ..Inner::clone(&self.0)
        }))
    }

    /// Returns whether this limit is in [shadow](Self::shadow).
    #[inline]
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.0.is_shadow
    }

    /// Returns the same limit with another amount, which has the same states: what was counted stays
    /// counted. A burst of GCRA stays as it is, unless it is as large as the amount: then it stays so.
    ///
    /// # Errors
    ///
    /// If the amount cannot be counted exactly. An amount of zero admits nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::Limit;
    ///
    /// for (small, large) in [
    ///     ("api=gcra:5/1m", "api=gcra:500/1m"),
    ///     ("api=gcra:5/1m,burst=2", "api=gcra:500/1m,burst=2"),
    ///     ("api=sliding-log:5/1m", "api=sliding-log:500/1m"),
    /// ] {
    ///     let small: Limit = small.parse()?;
    ///     assert_eq!(small.with_amount(500)?, large.parse()?);
    /// }
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        let quota = self.algorithm().quota();
        let algorithm = match self.algorithm() {
            Algorithm::Gcra(bucket) if bucket.burst() == quota.amount() => {
                Gcra::new(quota.with_amount(amount)?)?.into()
            }
            other => other.with_amount(amount)?,
        };
        Self::with(self.name(), algorithm, self.is_shadow())
    }

    /// Returns whether this limit counts in the time zone of the call, as `fixed-window:10/day@local`
    /// does. It admits nothing before [`in_zone`](Self::in_zone) has put it in one.
    #[must_use]
    pub fn needs_zone(&self) -> bool {
        self.algorithm().needs_zone()
    }

    /// Returns whether the months of this limit begin on the day of the call, as those of
    /// `fixed-window:10/month@UTC,day=local` do. It admits nothing before [`on_day`](Self::on_day).
    #[must_use]
    pub fn needs_day(&self) -> bool {
        self.algorithm().needs_day()
    }

    /// Returns whether this limit needs a zone or a day.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.0.is_local
    }

    /// Returns the same limit in `zone`, if it counts in [that of the call](Self::needs_zone), and
    /// otherwise this one.
    ///
    /// For a [`Request`](crate::store::Request) that is made by hand: a limiter does it for all of its
    /// limits, with [`RateLimiter::in_zone`](crate::RateLimiter::in_zone).
    ///
    /// # Errors
    ///
    /// If `zone` has no name in the database of time zones, by which its states are kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::tz::TimeZone;
    /// use tollgate_core::Limit;
    ///
    /// let local: Limit = "bill=fixed-window:10000/month@local".parse()?;
    /// let berlin = local.in_zone(&TimeZone::get("Europe/Berlin")?)?;
    /// assert_eq!(berlin, "bill=fixed-window:10000/month@Europe/Berlin".parse()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "calendar")]
    pub fn in_zone(&self, zone: &jiff::tz::TimeZone) -> Result<Self, LimitError> {
        self.bring(Brought::Zone(&calendar::name_of(zone)))
    }

    /// Returns the same limit, with months from this `day`, if they begin on
    /// [that of the call](Self::needs_day), and otherwise this one.
    ///
    /// For a [`Request`](crate::store::Request) that is made by hand: see
    /// [`RateLimiter::on_day`](crate::RateLimiter::on_day).
    ///
    /// # Errors
    ///
    /// [`Day`](crate::LimitErrorKind::Day) unless `day` is 1 to 31.
    #[cfg(feature = "calendar")]
    pub fn on_day(&self, day: u8) -> Result<Self, LimitError> {
        self.bring(Brought::Day(day))
    }

    #[cfg(feature = "calendar")]
    pub(crate) fn bring(&self, brought: Brought<'_>) -> Result<Self, LimitError> {
        if !self.is_local() {
            return Ok(self.clone());
        }
        let algorithm = self.algorithm().bring(brought)?;
        Self::with(self.name(), algorithm, self.is_shadow())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the algorithm, which holds the quota.
    #[inline]
    #[must_use]
    pub fn algorithm(&self) -> &Algorithm {
        &self.0.algorithm
    }

    /// Returns the largest cost that can ever be admitted.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// Returns whether a call changes the state exactly if it is allowed.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.is_plain
    }

    /// Returns the string that identifies this limit's states.
    ///
    /// Limits with the same identity share their states.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// See [`inside::identity_hash`](crate::inside::identity_hash).
    #[inline]
    pub(crate) fn identity_hash(&self) -> u64 {
        self.0.identity_hash
    }

    /// Returns whether both are clones of one limit.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline(always)]
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

/// Checks the name of a limit, of a schedule or of leases.
pub(crate) fn check_name(name: &str) -> Result<(), LimitError> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(legal) {
        return Err(LimitError(Problem::BadName {
            name: name.to_owned(),
        }));
    }
    Ok(())
}

impl State {
    /// Returns whether this state holds nothing that `limit` still counts at `now`.
    ///
    /// Such a state may be dropped: no decision changes, unless the clock steps back.
    #[must_use]
    pub fn is_fresh(&self, limit: &Limit, now: Timestamp) -> bool {
        limit.algorithm().status(self, now).reset_after.is_zero()
    }

    /// Returns the state that [`to_bytes`](Self::to_bytes) wrote, for a limit with the same
    /// [identity](Limit::identity): so the amount may be another one.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::ErrorKind::Protocol) if the bytes are damaged, or of something else, so that this limit
    /// cannot come to them, or were written by a newer version of this crate.
    pub fn from_bytes(limit: &Limit, bytes: &[u8]) -> Result<Self, StoreError> {
        let what = || format!("the state of limit `{}`", limit.name());
        decode(
            bytes,
            what,
            |from| limit.algorithm().read_state(from),
            Self::to_bytes,
        )
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    /// Reads `NAME=ALGORITHM:N/WINDOW[,OPTION...]`, such as `login=gcra:10/1m,burst=3`, as
    /// `Display` writes it. `FromStr` of [`Algorithm`] lists the options.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        // An `=` after a colon belongs to an option.
        let named = text.split_once('=').filter(|(name, _)| !name.contains(':'));
        if named.map_or(text, |(_, algorithm)| algorithm) == OFF {
            named.map_or(Ok(()), |(name, _)| check_name(name))?;
            return Err(LimitError(Problem::Off));
        }
        let Some((name, _)) = named else {
            return Err(LimitError(Problem::Syntax {
                text: text.to_owned(),
                at: 0,
                expected: "a name and `=` before the algorithm, such as `login=gcra:10/1m`".into(),
            }));
        };
        let reader = Reader::new(text, name.len() + 1);
        let (algorithm, is_shadow) = Algorithm::read(reader, Some(SHADOW))?;
        Self::with(name, algorithm, is_shadow).map_err(|error| {
            LimitError(Problem::BadValue {
                text: text.to_owned(),
                at: 0,
                error: Box::new(error),
            })
        })
    }
}

from_texts!(Limit);

/// Clones the limit, which is cheap.
impl From<&Self> for Limit {
    fn from(limit: &Self) -> Self {
        limit.clone()
    }
}

/// Compares the name, the algorithm and whether it is in shadow, which are all that a decision
/// depends on.
impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
            && self.0.algorithm == other.0.algorithm
            && self.0.is_shadow == other.0.is_shadow
    }
}

impl Eq for Limit {}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limit({self})")
    }
}

/// Writes `NAME=ALGORITHM`, and `,shadow` after it if the limit is in shadow.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.0.name, self.0.algorithm)?;
        if self.0.is_shadow {
            write!(f, ",{SHADOW}")?;
        }
        Ok(())
    }
}

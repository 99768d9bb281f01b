//! `Lease`, and what a store answers to a request for one.

use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::key::Key;
use crate::lease::terms::Terms;
use crate::time::{Timestamp, Wait};

/// The parts of a lease's time that its holder does not use, for clocks that differ by up to
/// 500 ppm each way from real time: one in this many.
const DRIFT: u64 = 1_000;

/// A place that is held until it is released or ends by itself.
///
/// The lease ends at [`expires_at`](Self::expires_at) by the store's clock, which the holder cannot
/// read. The holder counts [`valid_for`](Self::valid_for) from just *before* it asked.
#[derive(Clone)]
pub struct Lease {
    pub(crate) id: Box<[u8]>,
    pub(crate) token: u64,
    pub(crate) weight: u64,
    pub(crate) decided_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// How long it lasts for its holder: until its end, or for a time to live if that is shorter.
    lasts: Duration,
    /// Of the limiter and the key that it was acquired for, if a limiter returned it.
    owner: Option<u64>,
}

impl Lease {
    /// Returns a lease with these parts: for stores and mocks.
    #[must_use]
    pub fn new(
        id: impl Into<Box<[u8]>>,
        token: u64,
        weight: u64,
        decided_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            id: id.into(),
            token,
            weight,
            decided_at,
            expires_at,
            lasts: expires_at.saturating_duration_since(decided_at),
            owner: None,
        }
    }

    /// Makes this a lease of `key` of the limiter called `name`.
    fn owned_by(mut self, name: &str, key: Key<'_>) -> Self {
        self.owner = Some(owner(name, key));
        self
    }

    /// Returns whether this is a lease of another limiter than the one called `name`, or of another
    /// key. It is not known of a lease that no limiter returned.
    pub(super) fn is_of_another(&self, name: &str, key: Key<'_>) -> bool {
        self.owner.is_some_and(|of| of != owner(name, key))
    }

    /// Bounds [`valid_for`](Self::valid_for) by the time to live of the terms: for stores.
    ///
    /// After the store's clock has stepped back, a lease ends by that clock later than a time to
    /// live from now; once the clock is corrected, it ends sooner.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::lease::Lease;
    /// use tollgate_core::Timestamp;
    ///
    /// let now = Timestamp::from_micros(1_800_000_000_000_000)?;
    /// let ends = now.saturating_add(Duration::from_secs(3_630));
    /// let lease = Lease::new(*b"worker-1", 7, 1, now, ends).with_ttl(Duration::from_secs(30));
    /// assert_eq!(lease.valid_for(), Duration::from_millis(29_970));
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.lasts = self.lasts.min(ttl);
        self
    }

    /// Returns the id that the holder chose.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns the fencing token: greater than that of any lease of this key acquired before. On a
    /// server, that holds unless its clock has stepped back while the key had no lease: a server forgets
    /// the token of a key without leases, and begins again at its own time.
    ///
    /// A holder that was paused may still believe in a lease that has ended. Pass the token along
    /// to what the lease protects: it can refuse whoever comes with a smaller token than it has
    /// seen.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns how much of the amount the lease takes.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the instant of the store's clock at which it decided.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.decided_at
    }

    /// Returns the instant of the store's clock at which the lease ends by itself.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Returns how long the holder may rely on the lease, counted by its own monotonic clock from
    /// before it asked: the time that is left, or the time to live if that is shorter, less a
    /// thousandth, rounded down.
    ///
    /// So the holder stops before the store gives the place to anyone else, as long as both clocks
    /// keep time to 500 ppm.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::lease::Lease;
    /// use tollgate_core::Timestamp;
    ///
    /// let now = Timestamp::from_micros(1_800_000_000_000_000)?;
    /// let ends = now.saturating_add(Duration::from_secs(30));
    /// let lease = Lease::new(*b"worker-1", 7, 1, now, ends);
    /// assert_eq!(lease.valid_for(), Duration::from_millis(29_970));
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        // Instants are at most 2^53.
        let left = u64::try_from(self.lasts.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(left - left.div_ceil(DRIFT))
    }
}

/// Returns a hash of a limiter's name and a key, the same in all of a process.
fn owner(name: &str, key: Key<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// Compares what the store says of a lease.
impl PartialEq for Lease {
    fn eq(&self, other: &Self) -> bool {
        let told = |lease: &Self| {
            let Self {
                token,
                weight,
                decided_at,
                expires_at,
                lasts,
                ..
            } = *lease;
            (token, weight, decided_at, expires_at, lasts)
        };
        self.id == other.id && told(self) == told(other)
    }
}

impl Eq for Lease {}

/// Shows the length of the id only: it may be a secret.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id_bytes", &self.id.len())
            .field("token", &self.token)
            .field("weight", &self.weight)
            .field("decided_at", &self.decided_at)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

/// The answer to a request for a lease: it is granted, or denied.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a lease that was denied protects nothing"]
#[allow(
    clippy::exhaustive_enums,
    reason = "there is no third answer, and a match need not expect one"
)]
pub enum Acquisition {
    /// The lease is held.
    Granted {
        /// The lease.
        lease: Lease,
        /// Whether this call acquired it. If not, a call before it did, with the same id.
        is_new: bool,
    },
    /// There is no room for it, and nothing has changed.
    Denied(NoLease),
}

impl Acquisition {
    /// Returns the lease, or the denial as an error.
    ///
    /// # Errors
    ///
    /// The denial, if the lease was denied.
    pub fn permit(self) -> Result<Lease, NoLease> {
        match self {
            Self::Granted { lease, .. } => Ok(lease),
            Self::Denied(denied) => Err(denied),
        }
    }

    /// Returns whether the lease is held.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// Why a lease was denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoLease {
    pub(crate) held: u64,
    pub(crate) amount: u64,
    pub(crate) ends_within: Wait,
}

impl NoLease {
    /// Returns a denial with these parts: for stores and mocks.
    #[must_use]
    pub fn new(held: u64, amount: u64, ends_within: Wait) -> Self {
        Self {
            held,
            amount,
            ends_within,
        }
    }

    /// Returns how much is held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Returns how much may be held at once.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns how long until enough leases end by themselves, or [`Wait::NEVER`] if the weight
    /// exceeds the amount. It is sooner if leases are released, and later if they are renewed.
    #[must_use]
    pub fn ends_within(&self) -> Wait {
        self.ends_within
    }
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} are held", self.held, self.amount)?;
        if self.ends_within.is_never() {
            f.write_str(", and a lease of this weight never fits: choose a smaller weight")
        } else {
            write!(
                f,
                "; without renewals, there is room in {}",
                self.ends_within
            )
        }
    }
}

impl Error for NoLease {}

/// How much of a key's amount is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Occupancy {
    pub(crate) held: u64,
    pub(crate) amount: u64,
}

impl Occupancy {
    /// Returns an occupancy with these parts: for stores and mocks.
    #[must_use]
    pub fn new(held: u64, amount: u64) -> Self {
        Self { held, amount }
    }

    /// Returns how much is held.
    #[must_use]
    pub fn held(self) -> u64 {
        self.held
    }

    /// Returns how much is free: the largest weight that would be granted now.
    #[must_use]
    pub fn remaining(self) -> u64 {
        self.amount.saturating_sub(self.held)
    }
}

/// What a store answers to a [`Request`](crate::lease::Request).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// To `Acquire`.
    Acquired(Acquisition),
    /// To `Renew`: the lease with its new end, or `None` if it was no longer held.
    Renewed(Option<Lease>),
    /// To `Release`: whether the lease was still held.
    Released(bool),
    /// To `Peek`.
    Occupied(Occupancy),
}

impl Answer {
    /// Bounds a lease in this answer by the time to live, whatever the store made of it, and makes
    /// it one of `key`.
    pub(super) fn of_key(self, terms: &Terms, key: Key<'_>) -> Self {
        let owned = |lease: Lease| lease.with_ttl(terms.ttl()).owned_by(terms.name(), key);
        match self {
            Self::Acquired(Acquisition::Granted { lease, is_new }) => {
                let lease = owned(lease);
                Self::Acquired(Acquisition::Granted { lease, is_new })
            }
            Self::Renewed(lease) => Self::Renewed(lease.map(owned)),
            answer => answer,
        }
    }
}

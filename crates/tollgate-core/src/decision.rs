//! What a store answers.

use std::fmt;
use std::time::Duration;

use crate::few::Few;
use crate::fingerprint::Fingerprint;
use crate::time::{Timestamp, Wait};

/// What one limit says of a call.
///
/// All numbers describe the limit as the call leaves it: after consuming if the call was allowed,
/// unchanged (or with the attempt counted, for limits that count denials) if it was denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Wait,
    pub(crate) reset_after: Wait,
    pub(crate) charged: u64,
    pub(crate) at: Timestamp,
}

impl Verdict {
    /// Returns the verdict of a limit of capacity `limit` that allows a call and then has
    /// `remaining` left.
    ///
    /// For stores that bring verdicts from elsewhere; the machines in
    /// [`algorithm`](crate::algorithm) make their own.
    #[must_use]
    pub fn allow(limit: u64, remaining: u64) -> Self {
        Self {
            allowed: true,
            limit,
            remaining,
            retry_after: Wait::ZERO,
            reset_after: Wait::ZERO,
            charged: 0,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Returns the verdict of a limit of capacity `limit` that refuses a call for `retry_after`,
    /// with `remaining` left.
    #[must_use]
    pub fn deny(limit: u64, remaining: u64, retry_after: Wait) -> Self {
        Self {
            allowed: false,
            retry_after,
            ..Self::allow(limit, remaining)
        }
    }

    /// Sets after what wait nothing is remembered.
    #[must_use]
    pub fn with_reset_after(mut self, reset_after: Wait) -> Self {
        self.reset_after = reset_after;
        self
    }

    /// Sets how much the call consumed, and the instant it was recorded at.
    #[must_use]
    pub fn with_charge(mut self, amount: u64, at: Timestamp) -> Self {
        self.charged = amount;
        self.at = at;
        self
    }

    /// Returns whether this limit, by itself, allowed the call.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the capacity: the largest cost this limit could ever allow at once.
    ///
    /// It is the quota's amount, or the burst of a token bucket.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the largest cost this limit would allow now, rounded down.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the least wait after which this limit allows the same call, if nobody else calls.
    ///
    /// Exact to the microsecond: one earlier it refuses. [`Wait::NEVER`] when the cost exceeds
    /// [`limit`](Self::limit). Of a denied call it may be more than zero even where this limit by
    /// itself allowed the call: one that counts denials has counted the attempt.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.retry_after
    }

    /// Returns the least wait after which nothing consumed is remembered, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.reset_after.duration().unwrap_or(Duration::MAX)
    }

    /// Returns how much this call consumed of this limit.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.charged
    }

    /// Returns the instant at which it was decided, the caller's or the store's.
    ///
    /// Of a call that was counted, it is the instant it was counted at: the last instant this
    /// state had seen, if the clock has stepped back since.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.at
    }
}

/// The answer to a [`Request`](crate::Request): allowed or denied, and what each limit said.
///
/// A request is decided all-or-nothing: it is allowed only if every limit allows it, and a denied
/// request consumes nothing, except that limits which count denials count the attempt.
///
/// # Examples
///
/// ```
/// use tollgate_core::algorithm::{FixedWindow, State};
/// use tollgate_core::{Check, Limit, Quota, Request, Timestamp};
///
/// let limit = Limit::new("login", FixedWindow::aligned(Quota::per_minute(2)))?;
/// let request = Request::consume(Check::new(&limit, "alice", 2));
/// let mut states = [State::default()];
/// let decision = request.decide_on(&mut states, Timestamp::UNIX_EPOCH);
/// assert!(decision.is_allowed());
/// assert_eq!((decision.remaining(), decision.limit()), (0, 2));
/// assert_eq!(decision.reset_after().as_secs(), 60);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone)]
#[must_use = "a decision limits nothing unless the program reads it: call `is_allowed` or `is_denied`"]
pub struct Decision {
    pub(crate) allowed: bool,
    pub(crate) verdicts: Few<Verdict>,
    pub(crate) fingerprint: Fingerprint,
}

impl Decision {
    /// Returns the decision that the limits of a request come to together: allowed if all of
    /// `verdicts` allow it. No verdict at all is a denial.
    ///
    /// For stores that bring verdicts from elsewhere; [`Request::decide_on`] makes its own.
    ///
    /// [`Request::decide_on`]: crate::Request::decide_on
    pub fn new(fingerprint: Fingerprint, verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let verdicts: Few<Verdict> = verdicts.into_iter().collect();
        Self {
            allowed: !verdicts.is_empty() && verdicts.iter().all(Verdict::is_allowed),
            verdicts,
            fingerprint,
        }
    }

    /// Returns the decision on a request about one limit, whose fingerprint is `fingerprint`.
    // Always inlined: a decision that is moved is copied with its room for several verdicts.
    #[inline(always)]
    pub fn of_one(fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allowed,
            verdicts: Few::One(verdict),
            fingerprint,
        }
    }

    /// Returns whether the call may go ahead.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns whether the call must not go ahead.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.allowed
    }

    /// Returns what each limit said, in the order in which the request named them.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the index of the limit that binds: of a denied call, the limit with the longest
    /// [`retry_after`](Verdict::retry_after), a refusing one before others; of an allowed one, the
    /// limit with the least [`remaining`](Verdict::remaining). The first of equals.
    #[must_use]
    pub fn binding(&self) -> usize {
        let mut best = 0;
        for (index, verdict) in self.verdicts.iter().enumerate() {
            let held = &self.verdicts[best];
            let tighter = if self.allowed {
                verdict.remaining < held.remaining
            } else {
                (verdict.retry_after, !verdict.allowed) > (held.retry_after, !held.allowed)
            };
            if tighter {
                best = index;
            }
        }
        best
    }

    /// Returns the capacity of the [binding](Self::binding) limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.verdicts.get(self.binding()).map_or(0, Verdict::limit)
    }

    /// Returns the largest cost that every limit would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdicts
            .iter()
            .map(Verdict::remaining)
            .min()
            .unwrap_or(0)
    }

    /// Returns the least wait after which the same call is allowed, if nobody else calls: zero for
    /// an allowed call, otherwise the longest wait of its limits.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        // A limit that allows an allowed call says zero.
        self.verdicts
            .iter()
            .map(Verdict::retry_after)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns the least wait after which no limit remembers anything, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.verdicts
            .iter()
            .map(Verdict::reset_after)
            .max()
            .unwrap_or(Duration::ZERO)
    }

    /// Returns how much was consumed of every limit; of a request with several costs, the least.
    ///
    /// This is what [`take_up_to`](crate::RateLimiter::take_up_to) was granted.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.verdicts
            .iter()
            .map(Verdict::charged)
            .min()
            .unwrap_or(0)
    }

    /// Returns what is needed to give back what was consumed, or `None` if nothing was.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        let charges: Few<Charge> = self
            .verdicts
            .iter()
            .map(|verdict| Charge {
                amount: verdict.charged,
                at: verdict.at,
            })
            .collect();
        charges
            .iter()
            .any(|charge| charge.amount > 0)
            .then_some(Receipt {
                charges,
                fingerprint: self.fingerprint,
            })
    }
}

/// Equal when both say the same, whatever request they answer.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        (self.allowed, &self.verdicts) == (other.allowed, &other.verdicts)
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.allowed)
            .field("verdicts", &self.verdicts())
            .finish()
    }
}

/// Proof of what a decision consumed, to be given back at most once.
///
/// A receipt belongs to the limits, the keys and the clock (the store's, or the caller's) of the
/// request that consumed. A refund of it with any others is an
/// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) error and changes nothing.
///
/// # After a reset
///
/// A reset forgets what a receipt would give back. What others consume afterwards is safe from an
/// older receipt as far as the state can tell the two apart:
///
/// - A sliding log and an anchored window tell them apart by their instants, unless both were
///   recorded in the same microsecond.
/// - An aligned window, a sliding counter and sliding buckets cannot tell two calls of one window
///   or bucket apart: if the reset was in the same one, the receipt frees units of later calls.
/// - GCRA keeps one debt for all calls: an older receipt lowers it by what has not leaked since.
///
/// So drop the receipts of a key when you reset it.
#[derive(Debug, Eq, PartialEq)]
pub struct Receipt {
    charges: Few<Charge>,
    fingerprint: Fingerprint,
}

impl Receipt {
    /// Returns whether this is of a decision that was stamped with `fingerprint`.
    pub(crate) fn has(&self, fingerprint: Fingerprint) -> bool {
        self.fingerprint == fingerprint
    }

    /// Returns what was consumed of each limit, in the order in which the request named them.
    #[must_use]
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }
}

/// What was consumed of one limit, and when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Charge {
    amount: u64,
    at: Timestamp,
}

impl Charge {
    /// Returns how much was consumed.
    #[must_use]
    pub fn amount(self) -> u64 {
        self.amount
    }

    /// Returns the instant at which it was recorded.
    #[must_use]
    pub fn at(self) -> Timestamp {
        self.at
    }
}

//! `RateLimiter`: one or more limits on a store.

mod amounts;
mod call;
mod change;
mod left;
mod per_limit;
mod settle_error;
mod zones;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use call::{Call, Check, Consume, Consumes, Deciding, Kind, Peek, Reserve};
use change::Act;
pub use change::{Change, Costs, FromAnswer, Once, Refund, Settle, Units};
pub use left::Left;
pub use settle_error::SettleError;

use crate::algorithm::BlockSpan;
use crate::companion::{Companion, Companions};
use crate::decision::Decision;
use crate::error::{LimitError, Problem, StoreError};
use crate::key::Key;
use crate::limit::{Limit, Limits};
use crate::store::{MAX_CHECKS, Operation, Receipt, Verdicts};
use crate::time::Wait;

/// Limits how often something may happen for a key: one or more limits on one store.
///
/// Several limits are decided together, all-or-nothing, in one round trip, also for
/// [different keys](Call::key_of).
///
/// [`check`](Self::check) and the other operations return a call, which does nothing yet. Set its
/// cost or time, then end it with `.await`, or with `.run()` if the store is a [`SyncStore`]:
///
/// ```
/// use tollgate_core::{FixedWindow, Limit, Quota, RateLimiter, Store, StoreError, SyncStore};
///
/// # fn limiter<S>(store: S) -> RateLimiter<S> {
/// let limit = Limit::new("login", FixedWindow::aligned(Quota::per_minute(5))).unwrap();
/// let limiter = RateLimiter::new(store, [limit]).unwrap();
/// # limiter }
///
/// async fn admit(limiter: &RateLimiter<impl Store>, ip: &str) -> Result<bool, StoreError> {
///     Ok(limiter.check(ip).cost(2).await?.is_allowed())
/// }
///
/// fn admit_at_once(limiter: &RateLimiter<impl SyncStore>, ip: &str) -> Result<bool, StoreError> {
///     Ok(limiter.check(ip).cost(2).run()?.is_allowed())
/// }
/// ```
///
/// Clones are cheap and share the store and the limits.
///
/// # When the store fails
///
/// You decide what a store error means, because no default is right for everyone:
/// `decision.is_ok_and(|d| d.is_allowed())` denies the call (fails closed),
/// `decision.map_or(true, |d| d.is_allowed())` allows it (fails open).
///
/// # A decision must be read
///
/// An ignored decision limits nothing, so the compiler warns about it:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use tollgate_core::{RateLimiter, Store, StoreError};
/// async fn admit(limiter: &RateLimiter<impl Store>, ip: &str) -> Result<(), StoreError> {
///     limiter.check(ip).await?;
///     Ok(())
/// }
/// ```
///
/// The compiler also warns about a call that is never awaited or run:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use tollgate_core::{RateLimiter, Store};
/// fn admit(limiter: &RateLimiter<impl Store>, ip: &str) {
///     limiter.check(ip);
/// }
/// ```
///
/// [`SyncStore`]: crate::SyncStore
pub struct RateLimiter<S> {
    shared: Arc<Shared<S>>,
    // Beside `shared`, because a limiter shares it with itself in each time zone.
    store: Arc<S>,
}

struct Shared<S> {
    limits: Limits,
    /// Also without the feature, so that lifetimes in `S` are the same.
    #[cfg_attr(
        not(feature = "calendar"),
        expect(dead_code, reason = "no call is in a zone")
    )]
    zones: zones::Zones<S>,
    amounts: amounts::Amounts<S>,
    companions: Arc<Companions>,
}

impl<S> RateLimiter<S> {
    /// Returns a limiter that enforces `limits` on `store`; each is a [`Limit`] or its text, or a
    /// reference to one.
    ///
    /// # Errors
    ///
    /// - [`Count`](crate::LimitErrorKind::Count) when `limits` is empty.
    /// - [`Count`](crate::LimitErrorKind::Count) when there are more than [`MAX_CHECKS`].
    /// - [`Name`](crate::LimitErrorKind::Name) when two limits have the same name.
    /// - The parse error when a limit's text is not valid.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{LimitError, RateLimiter};
    /// # fn example<S>(store: S) -> Result<(), LimitError> {
    /// let limiter = RateLimiter::new(store, ["burst=gcra:3/1m", "hourly=fixed-window:20/1h"])?;
    /// assert_eq!(limiter.limits()[1].name(), "hourly");
    /// # Ok(())
    /// # }
    /// # example(()).unwrap();
    /// ```
    pub fn new<L>(store: S, limits: impl IntoIterator<Item = L>) -> Result<Self, LimitError>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let limits: Result<Vec<Limit>, _> = limits.into_iter().map(TryInto::try_into).collect();
        let limits = limits?;
        if limits.is_empty() {
            return Err(LimitError(Problem::NoLimits));
        }
        if limits.len() > MAX_CHECKS {
            return Err(LimitError(Problem::TooManyLimits {
                count: limits.len(),
                most: MAX_CHECKS,
            }));
        }
        for (index, limit) in limits.iter().enumerate() {
            let same = |other: &Limit| other.name() == limit.name();
            if limits[..index].iter().any(same) {
                return Err(LimitError(Problem::DuplicateLimit {
                    name: limit.name().to_owned(),
                }));
            }
        }
        Ok(Self::of(limits, Arc::new(store), Arc::default()))
    }

    fn of(limits: Vec<Limit>, store: Arc<S>, companions: Arc<Companions>) -> Self {
        let shared = Shared {
            limits: Limits::new(limits),
            zones: Default::default(),
            amounts: Default::default(),
            companions,
        };
        Self {
            shared: Arc::new(shared),
            store,
        }
    }

    /// Returns the limits, in the order of every decision's verdicts.
    #[inline]
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.shared.limits
    }

    /// Returns the store.
    #[inline]
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the decision of a store that returned `verdicts` on the [limits](Self::limits), in the
    /// same order.
    ///
    /// For code that asks the store itself, as calls of a limiter do.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::ErrorKind::Protocol) unless there is one verdict for each limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::Request;
    /// use tollgate_core::{Decision, RateLimiter, Store, StoreError};
    ///
    /// /// Asks the store of `limiter`, as `limiter.check(key).await` does.
    /// async fn check<'l>(
    ///     limiter: &'l RateLimiter<impl Store>,
    ///     key: &str,
    /// ) -> Result<Decision<'l>, StoreError> {
    ///     let request = Request::consume_all(limiter.limits(), key, 1);
    ///     let verdicts = limiter.store().decide(request).await?;
    ///     limiter.decision(verdicts)
    /// }
    /// ```
    #[inline]
    pub fn decision(&self, verdicts: Verdicts) -> Result<Decision<'_>, StoreError> {
        Decision::new(&self.shared.limits, verdicts)
    }

    /// Returns what another crate keeps for this limiter, all of its clones, and itself in all time
    /// zones: what `make` returned when it was first asked for this type.
    ///
    /// See [`Companion`].
    pub fn companion<T: Companion>(&self, make: impl Fn() -> T) -> &T {
        self.shared.companions.of(make)
    }

    /// Tells the companions that something was given back to `key`.
    fn given_back(&self, key: Key<'_>) {
        self.shared.companions.given_back(key);
    }

    /// Consumes a cost of 1 for `key`, or the cost set with [`Call::cost`], if every limit allows
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{Key, RateLimiter, Store, StoreError};
    /// # async fn upload(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    /// let decision = limiter.check(Key::from("alice").with_rest("/upload")).cost(3).await?;
    /// if decision.is_denied() {
    ///     println!("try again in {}", decision.retry_after());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn check<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Call<'l, 'k, S, Check> {
        Call::new(self, Operation::Consume, key.into(), 1)
    }

    /// Returns what [`check`](Self::check) would decide now, and consumes nothing.
    ///
    /// The decision is denied if the check would be. [`remaining`](crate::Decision::remaining) is
    /// what is left before that check.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, Store, StoreError};
    /// # async fn show(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    /// let left = limiter.peek("alice").await?.remaining();
    /// let would_be_denied = limiter.peek("alice").cost(left + 1).await?.is_denied();
    /// # assert!(would_be_denied);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn peek<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Call<'l, 'k, S, Peek> {
        Call::new(self, Operation::Peek, key.into(), 1)
    }

    /// Admits a call for `key` now, to start at once or after a delay, so that all starts keep to
    /// the limits: a leaky bucket as a queue.
    ///
    /// Set the longest delay with [`within`](Call::within). If the decision is allowed, wait for
    /// [`delay`](crate::Decision::delay), then go ahead: the call is counted, and nobody who calls
    /// later gets an earlier start. If it is denied, nothing was consumed, and
    /// [`retry_after`](crate::Decision::retry_after) says when the same reservation would be
    /// accepted, if nobody else calls.
    ///
    /// To cancel, [refund](Self::refund) the receipt. Before the call starts, that gives everything
    /// back if no later call was admitted; otherwise it gives back nothing, because later calls
    /// keep their starts.
    ///
    /// All limits must be [`Gcra`](crate::Gcra); with any other, the call fails with
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported). [`Call::supported`] tells when the
    /// program starts. Without a longest delay, it does not compile:
    ///
    /// ```compile_fail,E0599
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
    /// # fn send(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// limiter.reserve("alice").run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore, Timestamp};
    ///
    /// // With the limit "mail=gcra:4/1s,burst=1": one start every 250 ms.
    /// fn send(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     let now = Timestamp::UNIX_EPOCH;
    ///     let half = Duration::from_millis(500);
    ///     for due in [0, 250_000, 500_000] {
    ///         let decision = limiter.reserve("alice").within(half).at(now).run()?;
    ///         assert!(decision.is_allowed());
    ///         assert_eq!(decision.delay().as_micros(), Some(due));
    ///     }
    ///     let denied = limiter.reserve("alice").within(half).at(now).run()?;
    ///     assert!(denied.is_denied());
    ///     assert_eq!(denied.retry_after().as_micros(), Some(250_000));
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn reserve<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Call<'l, 'k, S, Reserve> {
        let max_delay = Duration::ZERO;
        Call::new(self, Operation::Reserve { max_delay }, key.into(), 1)
    }

    /// Consumes as much as every limit allows for `key`, at most `most`;
    /// [`Decision::consumed`](crate::Decision::consumed) says how much that was.
    ///
    /// It is denied only if not even a cost of 1 can be taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, Store, StoreError};
    /// # async fn send(limiter: &RateLimiter<impl Store>, queue: &[u8]) -> Result<usize, StoreError> {
    /// let most = u64::try_from(queue.len()).unwrap_or(u64::MAX);
    /// let taken = limiter.take_up_to("alice", most).await?.consumed();
    /// # Ok(usize::try_from(taken).unwrap_or(usize::MAX))
    /// # }
    /// ```
    #[inline]
    pub fn take_up_to<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        most: u64,
    ) -> Call<'l, 'k, S, Consume> {
        Call::new(self, Operation::TakeUpTo, key.into(), most)
    }

    /// Gives back what was consumed for `key` according to `receipt`, as far as it still counts.
    ///
    /// Units that have expired or leaked already are not given back again, so the calls that were
    /// not refunded stay within the limit's bound. See [`Receipt`] for receipts from before a
    /// reset.
    ///
    /// # Errors
    ///
    /// Awaiting and running return a [`SettleError`], which holds the receipt if nothing was changed.
    ///
    /// - [`Malformed`](crate::ErrorKind::Malformed): the receipt is from another key, another limit or
    ///   the other clock.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported): on a server, a
    ///   [`SlidingLog`](crate::SlidingLog) holds more than 2,000 entries before the entry of the call
    ///   and more than 2,000 after it, or several hold as many together. The call then counts until it
    ///   leaves the window.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, Store, StoreError};
    /// # async fn book(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    /// let decision = limiter.check("alice").await?;
    /// // The booking failed for another reason, so it should not count.
    /// if let Some(receipt) = decision.into_receipt() {
    ///     limiter.refund("alice", receipt).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn refund<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        receipt: Receipt,
    ) -> Change<'l, 'k, S, Refund> {
        Change::new(self, key.into(), Act::Refund(receipt), 0)
    }

    /// Corrects what a call consumed for `key` from an estimate to its real `cost`, in each limit.
    ///
    /// For costs that are known only afterwards, such as tokens, bytes or rows: check an estimate,
    /// do the work, and settle. If the work cost less, the difference is given back as by a
    /// [refund](Self::refund), so GCRA first deducts what has leaked since the call, and gives
    /// nothing back while more is owed than its burst. If the work cost more, the difference is
    /// counted now, whether it fits or not: nothing remains until that has left, too. How much of
    /// such a debt is remembered depends on the algorithm:
    ///
    /// | algorithm | remembers |
    /// |---|---|
    /// | [`Gcra`](crate::Gcra) | all of it, and pays it off at the quota's rate |
    /// | [`FixedWindow`](crate::FixedWindow) | all of it, until the window ends |
    /// | [`SlidingBuckets`](crate::SlidingBuckets) | all of it, until its bucket leaves |
    /// | [`SlidingCounter`](crate::SlidingCounter) | in a window, at most the quota's amount in all |
    /// | [`SlidingLog`](crate::SlidingLog) | the newest units, as many as the quota's amount |
    ///
    /// So the costs of all calls, as settled, exceed a limit's bound by at most what was counted
    /// beyond the estimates. For a cost of its own under a limit, use [`Change::cost_of`]. A call that
    /// is never settled counts at its estimate. Settle a [reservation](Self::reserve) after its start;
    /// before that, nothing is given back.
    ///
    /// # Errors
    ///
    /// Awaiting and running return a [`SettleError`], as for a [refund](Self::refund), and with
    /// [`Full`](crate::ErrorKind::Full) if more is to be counted for a key that the store has no room for.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limit "tokens=gcra:1000/1m": an estimate of 300 tokens, but 120 were used.
    /// fn complete(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     let decision = limiter.check("alice").cost(300).run()?;
    ///     if let Some(receipt) = decision.into_receipt() {
    ///         let left = limiter.settle("alice", receipt, 120).run()?;
    ///         assert!(left.remaining() >= 880);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn settle<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        receipt: Receipt,
        cost: u64,
    ) -> Change<'l, 'k, S, Settle> {
        Change::new(self, key.into(), Act::Settle(receipt), cost)
    }

    /// Counts for `key` what has been used already, under each limit, whether it fits or not.
    ///
    /// For use that nobody could ask about before: a message about use, bytes that were sent, minutes of a
    /// conversation, tokens that a service reports. It is never denied; the cost is 1, or as
    /// [`Change::cost`] and [`Change::cost_of`] say. It counts as if a call had consumed it now. What exceeds
    /// the limit is owed: nothing remains until that has left, too, and how much of such a debt is remembered
    /// depends on the algorithm, as for a [settlement](Self::settle). A limit in
    /// [shadow](crate::Limit::shadow) counts it, too; a [`Block`](crate::Block) counts nothing.
    ///
    /// With an [id](Change::id), it is counted once, however often it is sent.
    ///
    /// # Errors
    ///
    /// Awaiting and running return the store's errors, and before anything is counted
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the cost exceeds 2^53 - 1, or under
    /// [`Gcra`](crate::Gcra) what it ever pays off in 2^53 - 1 microseconds at one unit of its debt each. The
    /// debts of several charges add up to at most that.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limit "minutes=fixed-window:100/30d,anchored".
    /// fn hung_up(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     for _message_comes_twice in 0..2 {
    ///         let left = limiter.charge("alice").cost(130).id("call-4711").run()?;
    ///         assert_eq!((left.remaining(), left.owed()), (0, 30));
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn charge<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Change<'l, 'k, S, Units> {
        Change::new(self, key.into(), Act::Charge, 1)
    }

    /// Gives back to `key` the newest units that it has used, under each limit, without a receipt.
    ///
    /// For goodwill: a customer gets ten calls more. The cost is 1, or as [`Change::cost`] and
    /// [`Change::cost_of`] say; what each limit has given back is what its verdict has
    /// [consumed](crate::store::Verdict::consumed). That is never more than was counted and still counts, so
    /// nothing remains above the amount: for that, raise the amount. It is as if the newest units had not been
    /// counted:
    ///
    /// | algorithm | gives back |
    /// |---|---|
    /// | [`Gcra`](crate::Gcra) | of what is owed, but not what is due by the start of the latest reservation; a part of a unit is given back as one |
    /// | [`FixedWindow`](crate::FixedWindow) | of this window, its first call last |
    /// | [`SlidingBuckets`](crate::SlidingBuckets) | of the newest bucket, then of the one before |
    /// | [`SlidingCounter`](crate::SlidingCounter) | of this window, then of the one before |
    /// | [`SlidingLog`](crate::SlidingLog) | the newest entries |
    ///
    /// A limit in [shadow](crate::Limit::shadow) gives back, too; a [`Block`](crate::Block) stays as it is.
    /// The receipt of a call whose units were given back can still be used: then they are given back twice.
    ///
    /// With an [id](Change::id), it is given once, however often it is sent.
    ///
    /// # Errors
    ///
    /// Awaiting and running return the store's errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limit "calls=fixed-window:100/1d".
    /// fn support(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     let before = limiter.charge("alice").cost(95).run()?.remaining();
    ///     let left = limiter.give("alice").cost(10).id("ticket-12").run()?;
    ///     assert_eq!(left.remaining(), before + 10);
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn give<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Change<'l, 'k, S, Units> {
        Change::new(self, key.into(), Act::Give, 1)
    }

    /// Lowers what remains for `key` to at most `remaining`, under each limit.
    ///
    /// For limits that somebody else keeps, too: when their service says that only 3 calls remain,
    /// `lower(key, 3)` makes this limiter admit no more than that. It counts the difference as if
    /// calls had consumed it now, so it returns at the limit's own rate. Where no more than
    /// `remaining` is left, nothing changes.
    ///
    /// # Errors
    ///
    /// Awaiting and running return the store's errors. After [`Unknown`](crate::ErrorKind::Unknown),
    /// repeat the call: once or twice makes no difference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limit "api=fixed-window:100/1h".
    /// fn learn(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     assert_eq!(limiter.lower("their-api", 3).run()?.remaining(), 3);
    ///     assert_eq!(limiter.lower("their-api", 50).run()?.remaining(), 3);
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn lower<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        remaining: u64,
    ) -> Change<'l, 'k, S, Left<'l>> {
        Change::new(self, key.into(), Act::Lower, remaining)
    }

    /// Denies every call for `key` for some time, whatever its other limits say.
    ///
    /// One of the limits must be able to, such as `ban=block:5m`. The call returns how long the key is
    /// blocked now. The block lasts as long as that limit says, unless [`until`](Change::until) or
    /// [`lasting`](Change::lasting) says how long. A block never ends earlier than an earlier one of the
    /// same key said; [`reset`](Self::reset) ends it, and forgets the other limits, too.
    ///
    /// # Errors
    ///
    /// Awaiting and running return the store's errors, and
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if no limit can block, or only limits in
    /// [shadow](crate::Limit::shadow), which deny nobody. After [`Unknown`](crate::ErrorKind::Unknown),
    /// block again: once or twice makes no difference.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limits "api=gcra:10/1s" and "paused=block:1m".
    /// fn slow_down(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     // Their service answered 429, with `Retry-After: 30`.
    ///     limiter.block("their-api").lasting(Duration::from_secs(30)).run()?;
    ///     let denied = limiter.check("their-api").run()?;
    ///     assert_eq!(denied.binding().0.name(), "paused");
    ///     assert_eq!(denied.retry_after().as_secs_ceil(), Some(30));
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn block<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Change<'l, 'k, S, Wait> {
        Change::new(self, key.into(), Act::Block(BlockSpan::Usual), 1)
    }

    /// Forgets everything consumed for `key`, at the store's clock and at callers' instants
    /// ([`Call::at`]).
    ///
    /// # Errors
    ///
    /// Awaiting and running return the store's errors. After [`Unknown`](crate::ErrorKind::Unknown),
    /// reset again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, Store, StoreError};
    /// # async fn forgive(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    /// limiter.reset("alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reset<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Change<'l, 'k, S, ()> {
        Change::new(self, key.into(), Act::Reset, 0)
    }
}

impl<S> Clone for RateLimiter<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            store: Arc::clone(&self.store),
        }
    }
}

/// Shows the limits; a store, such as a `dyn Store`, need not implement `Debug`.
impl<S> fmt::Debug for RateLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("limits", &self.limits())
            .finish_non_exhaustive()
    }
}

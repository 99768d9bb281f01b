//! `Call`: a pending check, peek, reservation or take.

mod asked;
mod deciding;
mod kind;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use asked::{Asked, decide_now};
pub use deciding::Deciding;
pub use kind::{Check, Consume, Consumes, Kind, Peek, Reserve};

use crate::call_id::CallId;
use crate::contract::{Store, SyncStore};
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::limiter::per_limit::PerLimit;
use crate::store::{Operation, Request};
use crate::time::Timestamp;

/// A pending check, peek, reservation or take.
///
/// Made by [`RateLimiter::check`], [`RateLimiter::peek`], [`RateLimiter::reserve`] and
/// [`RateLimiter::take_up_to`]. End it with `.await` or [`run`](Self::run), which return a
/// `Result<Decision, StoreError>`.
///
/// # Errors
///
/// Awaiting and running return the store's errors. A denied call is a decision, not an error.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, the call may or may not have been counted.
///
/// # Type parameters
///
/// - `S` is the store.
/// - `V` marks what the call is, and so what can be set: `call::Check` for a check, which may also
///   wait; `call::Consume` for a call that is decided once; `call::Peek` for one that consumes nothing;
///   `call::Reserve` for a reservation that still needs its longest delay, [`within`](Self::within).
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'l, 'k, S, V> {
    limiter: &'l RateLimiter<S>,
    asked: Asked<'k>,
    kind: PhantomData<fn() -> V>,
}

impl<'l, 'k, S, V> Call<'l, 'k, S, V> {
    #[inline(always)]
    pub(crate) fn new(
        limiter: &'l RateLimiter<S>,
        operation: Operation<'k>,
        key: Key<'k>,
        cost: u64,
    ) -> Self {
        Self {
            limiter,
            asked: Asked {
                operation,
                key,
                per_limit: PerLimit::Same(cost),
                at: None,
                id: None,
            },
            kind: PhantomData,
        }
    }

    /// Sets the cost, 1 by default. For [`take_up_to`](RateLimiter::take_up_to), sets the most to
    /// take.
    ///
    /// A cost of zero is always allowed and consumes nothing. A cost above a limit's capacity is
    /// always denied.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.asked.per_limit.set_cost(cost);
        self
    }

    /// Sets the cost for the limit called `name`. All other limits keep the [`cost`](Self::cost).
    ///
    /// For limits that count different things, such as requests and tokens. All limits are still
    /// decided together, in one store call, and the receipt knows what each limit counted. Settle
    /// such a call with [`Change::cost_of`](crate::call::Change::cost_of).
    ///
    /// [`take_up_to`](crate::RateLimiter::take_up_to) takes the same from every limit, so at most
    /// the smallest of the costs.
    ///
    /// # Errors
    ///
    /// If no limit of the limiter has this name, the call fails with
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed), and the error lists the names.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// fn complete(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     let decision = limiter.check("alice").cost_of("tokens", 800).run()?;
    ///     let remaining = |name| decision.verdict(name).map(|verdict| verdict.remaining());
    ///     assert_eq!(remaining("requests"), Some(59));
    ///     assert_eq!(remaining("tokens"), Some(200));
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        let limits = self.limiter.limits();
        self.asked.per_limit.set_cost_of(limits, name, cost);
        self
    }

    /// Sets the key that the limit called `name` is counted for. All other limits are counted for the call's.
    ///
    /// For limits on different things that one call uses, such as an account and one of its routes, or a user
    /// and an organization. All limits are still decided together, in one store call: what one of them denies
    /// uses up none of the others. Refund, settle or change such a call with the same keys, by
    /// [`Change::key_of`](crate::call::Change::key_of).
    ///
    /// A cluster decides keys together that have the same [partition](Key::partition), such as `account` and
    /// `(account, route)`; with others, a call fails with
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), which [`supported`](Self::supported) tells when
    /// the program starts.
    ///
    /// # Errors
    ///
    /// If no limit of the limiter has this name, the call fails with
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed), and the error lists the names.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError, SyncStore};
    ///
    /// // With the limits "account=sliding-log:5/1s" and "route=sliding-log:2/1s".
    /// fn request(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    ///     let request = |path| limiter.check("alice").key_of("route", ("alice", path));
    ///     for path in ["/a", "/a", "/b"] {
    ///         assert!(request(path).run()?.is_allowed());
    ///     }
    ///     let denied = request("/a").run()?;
    ///     assert_eq!(denied.binding().0.name(), "route");
    ///     assert_eq!(denied.verdict("account").map(|verdict| verdict.remaining()), Some(2));
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn key_of(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        let limits = self.limiter.limits();
        self.asked.per_limit.set_key_of(limits, name, key.into());
        self
    }

    /// Returns the limiter that is called.
    ///
    /// For code that makes the call itself: [`into_request`](Self::into_request) says what to ask
    /// the limiter's [store](RateLimiter::store).
    #[must_use]
    pub fn limiter(&self) -> &'l RateLimiter<S> {
        self.limiter
    }

    #[inline(always)]
    fn of_kind<K>(self) -> Call<'l, 'k, S, K> {
        Call {
            limiter: self.limiter,
            asked: self.asked,
            kind: PhantomData,
        }
    }
}

impl<'l, 'k, S> Call<'l, 'k, S, Reserve> {
    /// Sets the longest delay to accept, in whole microseconds. Without a delay
    /// ([`Duration::ZERO`]), the call is decided as a [check](RateLimiter::check) is.
    ///
    /// There is no default, because it bounds the queue: of `N` per `T`, about `N * max_delay / T`
    /// calls can wait at a time. A delay that could not be counted exactly is denied, whatever is
    /// set here: that is one of 285 years if `N` divides `T`, and of
    /// `285 years * gcd(N, T) / N` otherwise.
    #[inline]
    pub fn within(mut self, max_delay: Duration) -> Call<'l, 'k, S, Consume> {
        self.asked.operation = Operation::Reserve { max_delay };
        self.of_kind()
    }
}

impl<'l, 'k, S, V: Kind> Call<'l, 'k, S, V> {
    /// Converts this call into a request, so that checks of other limiters can be added.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if [`cost_of`](Self::cost_of) or
    /// [`key_of`](Self::key_of) named a limit that the limiter does not have.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, StoreError};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// # fn example<S>(limiter: &RateLimiter<S>) -> Result<(), StoreError> {
    /// let request = limiter.check("alice").cost_of("tokens", 800).into_request()?;
    /// let costs: Vec<_> = request.checks().iter().map(|check| check.cost()).collect();
    /// assert_eq!(costs, [1, 800]);
    /// # Ok(())
    /// # }
    /// # let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:1000/1m"];
    /// # example(&RateLimiter::new((), limits).unwrap()).unwrap();
    /// ```
    #[inline]
    pub fn into_request(self) -> Result<Request<'k>, StoreError>
    where
        'l: 'k,
    {
        self.asked.request(self.limiter.limits())
    }

    /// Sets the instant to decide at, instead of the store's own clock. See [`Request::at`] for its
    /// restrictions.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore, Timestamp};
    /// # fn replay(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// let then = Timestamp::saturating_from_micros(1_431_857_103_000_000);
    /// let decision = limiter.check("83.149.9.216").at(then).run()?;
    /// assert_eq!(decision.binding().1.decided_at(), then);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn at(mut self, now: Timestamp) -> Call<'l, 'k, S, V::Once> {
        self.asked.at = Some(now);
        self.of_kind()
    }
}

impl<'l, 'k, S, V: Consumes> Call<'l, 'k, S, V> {
    /// Sets the id of the call: if it is repeated with the same id, for the same key, limits and
    /// cost, it gets the first answer and is not counted again.
    ///
    /// After [`Unknown`](crate::ErrorKind::Unknown), call again with the same id: the answer says
    /// what happened. [`CallId`] says which answers are kept and for how long, and can
    /// [repeat](CallId::repeated) a lost call by itself. An answer that is kept takes a key in the
    /// store, whose name does not contain the id. Both answers hold the same receipt: give back or
    /// settle one of them.
    ///
    /// With an id, the call fails with [`Malformed`](crate::ErrorKind::Malformed) if the id was used
    /// for another call, such as one with another cost, and with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a store that keeps no answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
    /// # fn admit(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// let first = limiter.check("alice").id("request-1").run()?;
    /// let again = limiter.check("alice").id("request-1").run()?;
    /// assert_eq!(first.remaining(), again.remaining());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A peek has no id, because repeating it changes nothing:
    ///
    /// ```compile_fail,E0599
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
    /// # fn look(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// limiter.peek("alice").id("request-1").run()?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn id(mut self, id: impl Into<CallId<'k>>) -> Call<'l, 'k, S, V::Once> {
        self.asked.id = Some(id.into());
        self.of_kind()
    }
}

impl<S: Store, V: Kind> Call<'_, '_, S, V> {
    /// Returns the error that this call fails with whatever was counted, if there is one. The store
    /// is not asked.
    ///
    /// For when a program starts, so that a call that can never work is found before it is needed:
    ///
    /// - a reservation under a limit other than [`Gcra`](crate::Gcra),
    /// - a cost or a key [of its own](Self::cost_of) for a limit that the limiter does not have,
    /// - [keys](Self::key_of) that a cluster holds apart,
    /// - an [id](Self::id) on a store that keeps no answers,
    /// - a limit of which a process would admit less than the cost (`Share` of the crate
    ///   `tollgate-layers`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) or [`Malformed`](crate::ErrorKind::Malformed),
    /// with what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// fn at_start(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    ///     limiter.check("any").cost_of("tokens", 1000).supported()?;
    ///     let error = limiter.check("any").cost_of("token", 1000).supported().unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::Malformed);
    ///     Ok(())
    /// }
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        let request = self.asked.request(self.limiter.limits())?;
        request.supported_by(self.limiter.store())
    }
}

impl<'l, S: SyncStore, V: Kind> Call<'l, '_, S, V> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors, and [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if
    /// [`cost_of`](Self::cost_of) or [`key_of`](Self::key_of) named a limit that the limiter does not have.
    // Always inlined: the caller knows the operation and whether `at` is set, so the match folds
    // away. Taken apart, because a call whose address is passed on would be written to memory first.
    #[inline(always)]
    pub fn run(self) -> Result<Decision<'l>, StoreError> {
        decide_now(
            &self.limiter.shared.limits,
            self.limiter.store(),
            self.asked,
        )
    }
}

impl<'l: 'k, 'k, S: Store, V: Kind> IntoFuture for Call<'l, 'k, S, V> {
    type Output = Result<Decision<'l>, StoreError>;
    type IntoFuture = Deciding<'l, 'k>;

    #[inline]
    fn into_future(self) -> Deciding<'l, 'k> {
        Deciding::new(
            &self.limiter.shared.limits,
            self.limiter.store(),
            self.asked,
        )
    }
}

impl<S, V> fmt::Debug for Call<'_, '_, S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.asked.operation)
            .field("limits", &self.limiter.limits())
            .field("key", &self.asked.key)
            .field("per_limit", &self.asked.per_limit)
            .field("at", &self.asked.at)
            .field("id", &self.asked.id)
            .finish()
    }
}

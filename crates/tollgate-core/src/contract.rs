//! `Store` and `SyncStore`: what a backend implements.

use std::sync::Arc;

use async_trait::async_trait;

use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limits;
use crate::store::{Begun, Check, Checks, Request, Verdicts};

/// Decides requests against shared state, atomically.
///
/// Implement this trait to add a backend; the crate `tollgate-conformance` tests it with one line.
/// Features beyond deciding and resetting, such as leases or schedules, belong in traits of their
/// own, which a store implements if it has them. Stores can wrap stores: every method takes `&self`
/// and is cheap to forward.
///
/// # Behavior
///
/// - A decision MUST equal what [`Request::decide_on`] returns for the same states and instant
///   (checked by `agrees_with_the_machine`).
/// - Concurrent requests MUST behave as if decided one after another (checked by
///   `admits_exactly_the_bound_under_concurrency`).
/// - A denied request and a peek MUST change nothing, except that limits which count denied calls
///   count a denied request (checked by `denied_calls_change_nothing` and `peek_changes_nothing`).
/// - A request of several checks MUST consume all of its costs or nothing (checked by
///   `is_all_or_nothing`).
/// - A request with [`Request::at`] MUST be decided at that instant (checked by
///   `decides_at_the_given_instant`), and any other at the store's own clock (checked by
///   `counts_at_its_own_clock`). Callers MUST NOT use one key with both.
/// - A request that is not [valid](Request::validate) MUST fail and change nothing (checked by
///   `malformed_requests_change_nothing`).
/// - A [`Receipt`](crate::Receipt) from before a reset MUST free nothing that was consumed after
///   it, if the state records the instants of calls (checked by
///   `receipts_from_before_a_reset_free_nothing`).
/// - An [`Operation::Reserve`](crate::store::Operation::Reserve) MUST be supported exactly if it
///   is [defined](Request::validate_operation), if the store runs the algorithm at all (checked by
///   `says_what_it_supports` and `reservations_agree_with_the_machine`).
/// - An [`Operation::Block`](crate::store::Operation::Block) MUST be supported exactly if it is defined, if
///   the store runs the algorithm at all (checked by `blocks_agree_with_the_machine`).
/// - A call that is repeated with its [id](crate::CallId) MUST get the first answer and MUST NOT be
///   counted again, unless the store refuses all requests with ids as
///   [unsupported](crate::ErrorKind::Unsupported) (checked by `repeated_calls_get_the_first_answer`).
/// - A denied call MUST be a decision, not an error (checked by `agrees_with_the_machine`).
#[async_trait]
pub trait Store: Send + Sync {
    /// Decides `request`, all-or-nothing.
    ///
    /// # Errors
    ///
    /// The error's [`ErrorKind`](crate::ErrorKind) says whether anything may have been consumed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, even before it is polled, the request may or may not have been
    /// counted.
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError>;

    /// Begins to decide `request`: what needs no waiting is decided at once, without an allocation.
    ///
    /// Awaited calls begin so, unless the store is a [`SyncStore`](Self::as_sync). By default, a store that need not
    /// wait decides at once, and any other calls [`decide`](Self::decide). A layer that knows some answers itself, or
    /// whose store may, implements this, and `decide` by it: `self.begin(&request).await`.
    ///
    /// # Behavior
    ///
    /// - It MUST decide as [`decide`](Self::decide) does, on the same states (checked by
    ///   `decides_alike_without_waiting`, and by all that check `decide`).
    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        match self.as_sync() {
            Some(store) => store.decide_now(request).into(),
            None => Begun::Waits(self.decide(request.clone())),
        }
    }

    /// Forgets everything consumed from each check's limit for its key, at the store's clock and at
    /// callers' instants. Costs are ignored.
    ///
    /// # Behavior
    ///
    /// - After a reset, decisions MUST be as if nothing had been consumed (checked by
    ///   `reset_forgets_everything`).
    /// - Several checks MAY be reset one after another, with requests decided in between.
    ///
    /// # Errors
    ///
    /// The error's [`ErrorKind`](crate::ErrorKind) says whether anything may have been forgotten.
    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError>;

    /// Returns an error if this store cannot decide requests like `request`, without deciding it
    /// or reading any state.
    ///
    /// # Errors
    ///
    /// The error that [`decide`](Self::decide) would return, which says what to do instead.
    ///
    /// # Behavior
    ///
    /// - If this is an error, [`decide`](Self::decide) MUST fail with one of the same kind, which is
    ///   [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a valid request; otherwise it
    ///   MUST NOT fail as unsupported because of the request alone (checked by
    ///   `says_what_it_supports`).
    /// - A layer with a fallback MAY decide what only the fallback does not support, until that is asked.
    /// - It MAY still fail so because of what it finds: a sliding log on a server that is too long
    ///   for a refund, or a server that does not know a command.
    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError>;

    /// Returns this store as one that need not wait, if it is one.
    ///
    /// Awaited calls on such a store are decided in place: they allocate nothing, and take little
    /// longer than calls that are [run](crate::call::Call::run). The default is that the store may have to
    /// wait, which is never wrong. A layer MUST NOT return the store inside: calls would bypass it.
    ///
    /// # Behavior
    ///
    /// - The methods of [`SyncStore`] MUST decide as those of this trait do, on the same states
    ///   (checked by `decides_alike_without_waiting`).
    fn as_sync(&self) -> Option<&dyn SyncStore> {
        None
    }
}

/// A store that can decide on the calling thread, without waiting for anything.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has to wait for its answers, so a call cannot be ended by `.run()`",
    note = "end the call by `.await`, or wrap the store in `Blocking` of `tollgate-tokio`"
)]
pub trait SyncStore: Store {
    /// Decides `request`, as [`Store::decide`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::decide`].
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError>;

    /// Consumes `cost` for `key` from each of `limits`, or nothing, at the store's own clock: the most
    /// common call.
    ///
    /// Does the same as [`decide_now`](Self::decide_now); a store may override it with something
    /// faster.
    ///
    /// # Errors
    ///
    /// Same as [`decide_now`](Self::decide_now).
    #[inline]
    fn consume_now<'l>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let verdicts = self.decide_now(&Request::consume_all(limits, key, cost))?;
        Decision::new(limits, verdicts)
    }

    /// Forgets what was consumed, as [`Store::reset`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::reset`].
    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError>;
}

impl Request<'_> {
    /// Returns the error that this request fails with on `store` whatever was counted, if there is
    /// one.
    pub(crate) fn supported_by(&self, store: &impl Store) -> Result<(), StoreError> {
        self.validate_checks()?;
        store.supports(self)
    }
}

/// Forwards a method of a store to the store that a pointer points to, in the store's own box.
macro_rules! forward_async {
    (fn $name:ident($($argument:ident: $type:ty),+) -> $answer:ty) => {
        fn $name<'a: 'f, 'f>(
            &'a self,
            $($argument: $type),+
        ) -> $crate::store::BoxFuture<'f, Result<$answer, StoreError>> {
            (**self).$name($($argument),+)
        }
    };
}
pub(crate) use forward_async;

/// Implements the traits of leases or schedules for pointers, by the names of their methods.
macro_rules! forward_family {
    ($($pointer:ty),+: $decide:ident $decide_now:ident $reset:ident $reset_now:ident) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store + ?Sized> Store for $pointer {
            forward_async! { fn $decide(request: Request<'a>) -> Answer }

            forward_async! { fn $reset(terms: &'a Terms, key: Key<'a>) -> () }
        }

        #[deny(clippy::missing_trait_methods)]
        impl<S: SyncStore + ?Sized> SyncStore for $pointer {
            fn $decide_now(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
                (**self).$decide_now(request)
            }

            fn $reset_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
                (**self).$reset_now(terms, key)
            }
        }
    )+};
}
pub(crate) use forward_family;

macro_rules! forward {
    ($pointer:ty) => {
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store + ?Sized> Store for $pointer {
            forward_async! { fn decide(request: Request<'a>) -> Verdicts }

            fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
                (**self).begin(request)
            }

            forward_async! { fn reset(checks: Checks<'a>) -> () }

            fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
                (**self).supports(request)
            }

            fn as_sync(&self) -> Option<&dyn SyncStore> {
                (**self).as_sync()
            }
        }

        #[deny(clippy::missing_trait_methods)]
        impl<S: SyncStore + ?Sized> SyncStore for $pointer {
            #[inline]
            fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
                (**self).decide_now(request)
            }

            #[inline]
            fn consume_now<'l>(
                &self,
                limits: &'l Limits,
                key: Key<'_>,
                cost: u64,
            ) -> Result<Decision<'l>, StoreError> {
                (**self).consume_now(limits, key, cost)
            }

            fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
                (**self).reset_now(checks)
            }
        }
    };
}

forward!(&S);
forward!(Arc<S>);
forward!(Box<S>);

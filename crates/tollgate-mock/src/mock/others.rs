//! Calls to schedules and concurrency limiters, which a mock made by mockall answers.

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::{Key, StoreError, lease, schedule};

type Scheduled = Result<schedule::Answer, StoreError>;
type Leased = Result<lease::Answer, StoreError>;
type Done = Result<(), StoreError>;

mockall::mock! {
    pub Store {
        pub fn schedule<'a>(&self, request: &schedule::Request<'a>) -> Scheduled;
        pub fn reset_schedule<'a>(&self, terms: &schedule::Terms, key: &Key<'a>) -> Done;
        pub fn lease<'a>(&self, request: &lease::Request<'a>) -> Leased;
        pub fn reset_leases<'a>(&self, terms: &lease::Terms, key: &Key<'a>) -> Done;
    }
}

/// Defines the methods of `MockStore` that expect these calls.
macro_rules! expectations {
    ($($(#[$doc:meta])* $expect:ident: $method:ident;)+) => {
        /// Expectations of calls to schedules and concurrency limiters are those of `mockall`, with its
        /// methods, such as `withf`, `times`, `in_sequence` and `returning`.
        impl super::MockStore {$(
            $(#[$doc])*
            pub fn $expect(&mut self) -> &mut __mock_MockStore::$method::Expectation {
                self.others.$expect()
            }
        )+}
    };
}

expectations! {
    /// Expects a call of a [`Schedule`](schedule::Schedule), other than a reset.
    ///
    /// To answer as a store does, pass the request on to a `MemoryStore`, or let it
    /// [decide](schedule::Request::decide_on) on a [`State`](schedule::State).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_mock::schedule::{Answer, Operation, Schedule};
    /// use tollgate_mock::{Key, MockStore};
    ///
    /// let mut store = MockStore::new();
    /// store
    ///     .expect_schedule()
    ///     .withf(|call| matches!(call.operation(), Operation::Cancel(_)) && call.key() == Key::from("alice"))
    ///     .times(1)
    ///     .return_const(Ok(Answer::Cancelled(true)));
    ///
    /// let schedule = Schedule::new(store, "reminders", ["1/1m"])?;
    /// assert!(schedule.cancel("alice", "msg-1").run()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    expect_schedule: __schedule;

    /// Expects a reset of a [`Schedule`](schedule::Schedule).
    expect_reset_schedule: __reset_schedule;

    /// Expects a call of a [`ConcurrencyLimiter`](lease::ConcurrencyLimiter), other than a reset.
    ///
    /// To answer as a store does, pass the request on to a `MemoryStore`, or let it
    /// [decide](lease::Request::decide_on) on a [`State`](lease::State).
    ///
    /// # Examples
    ///
    /// A lease with an id that the code under test makes:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_mock::lease::{ConcurrencyLimiter, State};
    /// use tollgate_mock::{MockStore, Timestamp};
    ///
    /// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
    /// let mut store = MockStore::new();
    /// let mut state = State::default();
    /// store.expect_lease().returning(move |call| Ok(call.decide_on(&mut state, noon)));
    ///
    /// let uploads = ConcurrencyLimiter::new(store, "uploads", 1, Duration::from_secs(30))?;
    /// assert!(uploads.acquire("alice", "any").run()?.is_granted());
    /// assert!(!uploads.acquire("alice", "other").run()?.is_granted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    expect_lease: __lease;

    /// Expects a reset of a [`ConcurrencyLimiter`](lease::ConcurrencyLimiter).
    expect_reset_leases: __reset_leases;
}

#[async_trait]
impl schedule::Store for super::MockStore {
    async fn schedule<'a>(&'a self, request: schedule::Request<'a>) -> Scheduled {
        self.schedule_now(&request)
    }

    async fn reset_schedule<'a>(&'a self, terms: &'a schedule::Terms, key: Key<'a>) -> Done {
        self.reset_schedule_now(terms, key)
    }
}

impl schedule::SyncStore for super::MockStore {
    fn schedule_now(&self, request: &schedule::Request<'_>) -> Scheduled {
        request.validate()?;
        self.others.schedule(request)
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Done {
        self.others.reset_schedule(terms, &key)
    }
}

#[async_trait]
impl lease::Store for super::MockStore {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Leased {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(&'a self, terms: &'a lease::Terms, key: Key<'a>) -> Done {
        self.reset_leases_now(terms, key)
    }
}

impl lease::SyncStore for super::MockStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Leased {
        request.validate()?;
        self.others.lease(request)
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Done {
        self.others.reset_leases(terms, &key)
    }
}

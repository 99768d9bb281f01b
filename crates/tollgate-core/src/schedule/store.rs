//! `Store`: the trait of stores that hold schedules.

use std::sync::Arc;

use async_trait::async_trait;

use crate::contract::{forward_async, forward_family};
use crate::error::StoreError;
use crate::key::Key;
use crate::schedule::answer::Answer;
use crate::schedule::request::Request;
use crate::schedule::terms::Terms;

/// Holds the events of schedules, and plans new ones atomically.
///
/// # Behavior
///
/// - An answer MUST equal what [`Request::decide_on`] returns for the same events and
///   instant (checked by `agrees_with_the_machine` and `agrees_with_the_definition`).
/// - Concurrent requests MUST behave as if decided one after another (checked by
///   `concurrent_callers_break_no_quota`).
/// - A refused request MUST change nothing, and neither must a search or a list (checked by
///   `agrees_with_the_machine`).
/// - A request with [`Request::at`] MUST be decided at that instant (checked by `agrees_with_the_machine`),
///   any other at the store's own clock (checked by `agrees_with_the_machine_at_its_own_clock`), and the
///   events of the two MUST be kept apart (checked by `keys_are_independent`).
/// - A request that is not [valid](Request::validate) MUST fail and change nothing (checked by
///   `malformed_requests_change_nothing`).
#[async_trait]
pub trait Store: Send + Sync {
    /// Decides `request`.
    ///
    /// # Errors
    ///
    /// The error's [`ErrorKind`](crate::ErrorKind) says whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, events may or may not have been planned. Ask
    /// again with the same ids: an event is planned once.
    async fn schedule<'a>(&'a self, request: Request<'a>) -> Result<Answer, StoreError>;

    /// Forgets all events of `key`, those planned at the store's clock and at callers' instants.
    ///
    /// # Errors
    ///
    /// The error's [`ErrorKind`](crate::ErrorKind) says whether anything may have been forgotten.
    async fn reset_schedule<'a>(&'a self, terms: &'a Terms, key: Key<'a>)
    -> Result<(), StoreError>;
}

/// A store of schedules that can decide on the calling thread, without waiting for anything.
pub trait SyncStore: Store {
    /// Decides `request`, as [`Store::schedule`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::schedule`].
    fn schedule_now(&self, request: &Request<'_>) -> Result<Answer, StoreError>;

    /// Forgets all events of `key`, as [`Store::reset_schedule`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::reset_schedule`].
    fn reset_schedule_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError>;
}

forward_family! { &S, Arc<S>, Box<S>: schedule schedule_now reset_schedule reset_schedule_now }

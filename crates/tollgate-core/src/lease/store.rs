//! `Store`: the trait of stores that hold leases.

use std::sync::Arc;

use async_trait::async_trait;

use crate::contract::{forward_async, forward_family};
use crate::error::StoreError;
use crate::key::Key;
use crate::lease::answer::Answer;
use crate::lease::request::Request;
use crate::lease::terms::Terms;

/// Holds leases, and grants new ones atomically.
///
/// # Behavior
///
/// - An answer MUST equal what [`Request::decide_on`] returns for the same leases and instant
///   (checked by `agrees_with_the_machine` and `agrees_with_the_definition`).
/// - Concurrent requests MUST behave as if decided one after another: at no instant of the store's
///   clock are more leases held than the amount allows (checked by
///   `concurrent_holders_never_exceed_the_amount`).
/// - A denied request MUST change nothing, and neither must a peek (checked by
///   `agrees_with_the_machine`).
/// - A request with [`Request::at`] MUST be decided at that instant (checked by `agrees_with_the_machine`),
///   any other at the store's own clock (checked by `ends_by_itself_at_its_own_clock`), and the
///   leases of the two MUST be kept apart (checked by `keys_are_independent`).
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
    /// If the future is dropped before it completes, the lease may or may not have been acquired.
    /// Acquire again with the same id: that returns the same lease. Or let it end by itself.
    async fn lease<'a>(&'a self, request: Request<'a>) -> Result<Answer, StoreError>;

    /// Ends all leases of `key`, those acquired at the store's clock and at callers' instants.
    ///
    /// # Errors
    ///
    /// The error's [`ErrorKind`](crate::ErrorKind) says whether any may have ended.
    async fn reset_leases<'a>(&'a self, terms: &'a Terms, key: Key<'a>) -> Result<(), StoreError>;
}

/// A store of leases that can decide on the calling thread, without waiting for anything.
pub trait SyncStore: Store {
    /// Decides `request`, as [`Store::lease`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::lease`].
    fn lease_now(&self, request: &Request<'_>) -> Result<Answer, StoreError>;

    /// Ends all leases of `key`, as [`Store::reset_leases`] does.
    ///
    /// # Errors
    ///
    /// Same as [`Store::reset_leases`].
    fn reset_leases_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError>;
}

forward_family! { &S, Arc<S>, Box<S>: lease lease_now reset_leases reset_leases_now }

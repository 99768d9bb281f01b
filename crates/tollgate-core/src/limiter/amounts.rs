//! `RateLimiter::with_amount`, and `Amounts`: the limiters that it has returned lately.

use std::sync::{Mutex, PoisonError};

use super::RateLimiter;
use crate::error::LimitError;
use crate::limit::{Limit, unknown_limit};
use crate::store::MAX_CHECKS;

/// How many amounts are remembered; people have few plans.
const REMEMBERED: usize = 64;

/// The last amounts and their limiters, each in a place that follows from its amount and limit: two limits have
/// no amount in one place, since there are fewer of them.
pub(super) struct Amounts<S>(Mutex<Vec<Place<S>>>);

type Place<S> = Option<(u64, RateLimiter<S>)>;

const _: () = assert!(MAX_CHECKS <= REMEMBERED);

impl<S> RateLimiter<S> {
    /// Returns this limiter with another amount for the limit called `name`, and with the same store.
    ///
    /// For amounts that stand in the rows of a database: each call brings that of its tenant. A key has one
    /// state whatever the amount: units that were counted under one amount count under the next, and a smaller
    /// amount takes none of them away. [`Limit::with_amount`] says what becomes of a burst. This remembers
    /// what it returned for up to 64 amounts, though not for two that differ by a multiple of 64; a call with a
    /// remembered amount allocates nothing. Calls that wait for one key, as by `wait_up_to` of `tollgate-tokio`,
    /// stand in one line for each amount.
    ///
    /// # Errors
    ///
    /// - [`Name`](crate::LimitErrorKind::Name) if no limit has this name; the error lists them.
    /// - [`Amount`](crate::LimitErrorKind::Amount) if the amount cannot be counted exactly. An amount of zero
    ///   admits nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// struct Row {
    ///     user: String,
    ///     per_minute: u64,
    /// }
    ///
    /// // With the limit "api=gcra:1/1m".
    /// fn call(limiter: &RateLimiter<impl SyncStore>, row: &Row) -> Result<bool, Box<dyn Error>> {
    ///     let limiter = limiter.with_amount("api", row.per_minute)?;
    ///     Ok(limiter.check(&row.user).run()?.is_allowed())
    /// }
    /// ```
    pub fn with_amount(&self, name: &str, amount: u64) -> Result<Self, LimitError> {
        let limits = self.limits();
        let Some(index) = limits.iter().position(|limit| limit.name() == name) else {
            return Err(unknown_limit(limits, name));
        };
        let place = usize::try_from(amount % REMEMBERED as u64)
            .map_or(0, |place| (place + index) % REMEMBERED);
        let remembered = self.shared.amounts.0.lock();
        let remembered = &mut *remembered.unwrap_or_else(PoisonError::into_inner);
        if let Some(Some((of, limiter))) = remembered.get(place)
            && *of == amount
        {
            return Ok(limiter.clone());
        }
        let mut limits: Vec<Limit> = limits.to_vec();
        limits[index] = limits[index].with_amount(amount)?;
        let (store, companions) = (self.store.clone(), self.shared.companions.clone());
        let limiter = Self::of(limits, store, companions);
        remembered.resize_with(REMEMBERED, || None);
        remembered[place] = Some((amount, limiter.clone()));
        Ok(limiter)
    }
}

impl<S> Default for Amounts<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

//! `Costs`: a cost of its own for each limit of a call.

use crate::contract::{Store, SyncStore};
use crate::decision::Decision;
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::{Limit, Limits};
use crate::one_or_many::OneOrMany;
use crate::store::{Check, Checks, Request};

use super::Call;
use super::asked::{Asked, Charge, decide_checks};

/// The costs of a call that has a cost of its own for some limits, set with [`Call::cost_of`].
#[derive(Clone, Debug)]
pub struct Costs {
    /// One for each limit.
    each: OneOrMany<u64>,
    /// The first name that no limit has.
    unknown: Option<Box<str>>,
}

impl Costs {
    /// Returns the same cost for each of `limits`.
    pub(in crate::limiter) fn same(limits: &[Limit], cost: u64) -> Self {
        Self {
            each: OneOrMany::from_fn(limits.len(), |_| cost),
            unknown: None,
        }
    }

    /// Sets the cost for the limit called `name`.
    pub(in crate::limiter) fn set(&mut self, limits: &[Limit], name: &str, cost: u64) {
        match limits.iter().position(|limit| limit.name() == name) {
            Some(index) => self.each[index] = cost,
            None => {
                self.unknown.get_or_insert_with(|| name.into());
            }
        }
    }
}

impl Charge for Costs {
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Result<Checks<'c>, StoreError> {
        if let Some(unknown) = &self.unknown {
            return Err(unknown_limit(limits, unknown));
        }
        let check = |index: usize| Check::new(&limits[index], key, self.each[index]);
        Ok(Checks::from_fn(limits.len(), check))
    }

    fn decide_in_place<'l>(
        limits: &'l Limits,
        store: &dyn SyncStore,
        asked: &Asked<'_, Self>,
    ) -> Result<Decision<'l>, StoreError> {
        decide_checks(limits, store, asked)
    }
}

/// Returns the error of a call that sets a cost for a limit that its limiter does not have.
#[cold]
fn unknown_limit(limits: &[Limit], unknown: &str) -> StoreError {
    let names: Vec<_> = limits.iter().map(|limit| limit.name()).collect();
    StoreError::new(
        ErrorKind::Malformed,
        format!(
            "no limit is called `{unknown}`: name one of the limiter's, `{}`",
            names.join("`, `")
        ),
    )
}

impl<'l, 'k, S, V> Call<'l, 'k, S, V> {
    /// Sets the cost for the limit called `name`. All other limits keep the [`cost`](Self::cost),
    /// which must be set before, and is 1 by default.
    ///
    /// For limits that count different things, such as requests and tokens. All limits are still
    /// decided together, in one store call, and the receipt knows what each limit counted. Settle
    /// such a call with [`Settle::cost_of`](crate::call::Settle::cost_of).
    ///
    /// [`take_up_to`](crate::RateLimiter::take_up_to) takes the same from every limit, so at most
    /// the smallest of the costs.
    ///
    /// # Errors
    ///
    /// If no limit of the limiter has this name, the call fails with [`ErrorKind::Malformed`], and
    /// the error lists the names.
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
    pub fn cost_of(self, name: &str, cost: u64) -> Call<'l, 'k, S, V, Costs> {
        let Asked {
            operation,
            key,
            cost: same,
            at,
            id,
        } = self.asked;
        let limiter = self.limiter;
        let asked = Asked {
            operation,
            key,
            cost: Costs::same(limiter.limits(), same),
            at,
            id,
        };
        let kind = self.kind;
        Call {
            limiter,
            asked,
            kind,
        }
        .cost_of(name, cost)
    }
}

impl<'l, 'k, S, V> Call<'l, 'k, S, V, Costs> {
    /// Sets the cost for another limit, or another cost for the same. See [`Call::cost_of`].
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        self.asked.cost.set(self.limiter.limits(), name, cost);
        self
    }

    /// Converts this call into a request, so that checks of other keys can be added.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if [`cost_of`](Self::cost_of) named a limit that the limiter does
    /// not have.
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
    pub fn into_request(self) -> Result<Request<'k>, StoreError>
    where
        'l: 'k,
    {
        let checks = self
            .asked
            .cost
            .checks(&self.limiter.shared.limits, self.asked.key)?;
        Ok(self.asked.request(checks))
    }
}

impl<S: Store, V> Call<'_, '_, S, V, Costs> {
    /// Returns the error that this call fails with whatever was counted, if there is one. See
    /// [`Call::supported`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] or [`ErrorKind::Malformed`], with what to do instead.
    pub fn supported(&self) -> Result<(), StoreError> {
        self.asked
            .supported(&self.limiter.shared.limits, self.limiter.store())
    }
}

impl<'l, S: SyncStore, V> Call<'l, '_, S, V, Costs> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors, and [`ErrorKind::Malformed`] if [`cost_of`](Self::cost_of) named
    /// a limit that the limiter does not have.
    pub fn run(self) -> Result<Decision<'l>, StoreError> {
        decide_checks(
            &self.limiter.shared.limits,
            self.limiter.store(),
            &self.asked,
        )
    }
}

//! `Zones`: a limiter in each time zone that its calls have brought.

use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;

use super::RateLimiter;
use crate::error::LimitError;

/// A list that only grows, by one entry for each zone that a call has brought.
///
/// The database has a few hundred names. What is in the list stays where it is, so calls borrow it.
pub(super) struct Zones<S>(OnceLock<Box<Entry<S>>>);

struct Entry<S> {
    zone: TimeZone,
    limiter: RateLimiter<S>,
    others: Zones<S>,
}

impl<S> Zones<S> {
    /// Returns `limiter` in `zone`.
    ///
    /// # Errors
    ///
    /// If the zone has no name in the database of time zones.
    pub(super) fn of(
        &self,
        zone: &TimeZone,
        limiter: &RateLimiter<S>,
    ) -> Result<&RateLimiter<S>, LimitError> {
        let mut at = self;
        loop {
            let entry = match at.0.get() {
                Some(entry) => entry,
                None => {
                    let limits = limiter.limits().iter().map(|limit| limit.in_zone(zone));
                    let limits = limits.collect::<Result<Vec<_>, _>>()?;
                    let store = Arc::clone(&limiter.store);
                    let companions = Arc::clone(&limiter.shared.companions);
                    // Another thread may be first, with another zone.
                    at.0.get_or_init(|| {
                        Box::new(Entry {
                            zone: zone.clone(),
                            limiter: RateLimiter::of(limits, store, companions),
                            others: Self::default(),
                        })
                    })
                }
            };
            if entry.zone == *zone {
                return Ok(&entry.limiter);
            }
            at = &entry.others;
        }
    }
}

impl<S> Default for Zones<S> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

//! `RateLimiter::in_zone` and `on_day`, and `Zones`: a limiter in each time zone, and on each day, that it was
//! called in.

#![cfg_attr(
    not(feature = "calendar"),
    expect(dead_code, reason = "no call is in a zone")
)]

use std::sync::OnceLock;

use super::RateLimiter;
#[cfg(feature = "calendar")]
use crate::algorithm::Brought;

/// A list that only grows, by one entry for each zone or day.
///
/// The database has a few hundred names, and a month 31 days. What is in the list stays where it is, so calls
/// borrow it.
pub(super) struct Zones<S>(OnceLock<Box<Entry<S>>>);

struct Entry<S> {
    /// Empty on a day, which is zero in a zone.
    zone: Box<str>,
    day: u8,
    limiter: RateLimiter<S>,
    others: Zones<S>,
}

#[cfg(feature = "calendar")]
impl<S> RateLimiter<S> {
    /// Returns this limiter in a time zone: with the same store, and each limit of the zone `@local`, such
    /// as `fixed-window:10000/month@local`, as the one of this zone. A limiter without such a limit is
    /// itself in every zone.
    ///
    /// A limit in a zone is the one of the zone's name, with its states: if one key is called in two
    /// zones, each of them counts apart, and the key may use up the amount in both. So take the zone from
    /// what you know of the key, not from whoever calls; a tenant that moves starts afresh in its new
    /// zone. Give back and settle in the zone of the call that consumed, and reset in each.
    ///
    /// Without a zone, every call of a limiter with such a limit fails with
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed).
    ///
    /// # Errors
    ///
    /// If a limit is `@local`, and the zone has no name in the database of time zones.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use jiff::tz::TimeZone;
    /// use tollgate_core::{ErrorKind, RateLimiter, SyncStore};
    ///
    /// fn send(store: impl SyncStore) -> Result<(), Box<dyn Error>> {
    ///     let limiter = RateLimiter::new(store, ["bill=fixed-window:2000000/month@local"])?;
    ///     let decision = limiter.in_zone(&TimeZone::get("Europe/Berlin")?)?.check("tenant-7").run()?;
    ///     assert_eq!(decision.remaining(), 1_999_999);
    ///     let limit = decision.binding().0.to_string();
    ///     assert_eq!(limit, "bill=fixed-window:2000000/month@Europe/Berlin");
    ///
    ///     let error = limiter.check("tenant-7").run().unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::Malformed);
    ///     Ok(())
    /// }
    /// ```
    pub fn in_zone(&self, zone: &jiff::tz::TimeZone) -> Result<&Self, crate::LimitError> {
        if !self.limits().iter().any(crate::Limit::needs_zone) {
            return Ok(self);
        }
        self.bring(Brought::Zone(&crate::calendar::name_of(zone)))
    }

    /// Returns this limiter on a day of the month: with the same store, and each limit with `day=local`,
    /// such as `fixed-window:10000/month@UTC,day=local`, as the one whose months begin on this day. So one
    /// limiter serves customers whose months begin on different days, and with
    /// `limiter.in_zone(&zone)?.on_day(15)?` also in different zones. A limiter without such a limit is
    /// itself on every day.
    ///
    /// A limit on a day is the one with this day in its text, with its states. A customer whose day changes
    /// therefore starts afresh, with the whole amount; what was counted before stays with the old day, and
    /// counts there until that month ends. To take over what is left, lower the new one to it:
    /// `new.lower(key, old.peek(key).await?.remaining()).await?`. As with zones, take the day from what you
    /// know of the key; give back and settle on the day of the call that consumed, and reset on each.
    ///
    /// Without a day, every call of a limiter with such a limit fails with
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed).
    ///
    /// # Errors
    ///
    /// [`Day`](crate::LimitErrorKind::Day) if a limit has `day=local`, and `day` is not 1 to 31.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// fn send(store: impl SyncStore) -> Result<(), Box<dyn Error>> {
    ///     let limits = ["bill=fixed-window:10000/month@Europe/Berlin,day=local"];
    ///     let limiter = RateLimiter::new(store, limits)?;
    ///     let decision = limiter.on_day(31)?.check("tenant-7").run()?;
    ///     let limit = decision.binding().0.to_string();
    ///     assert_eq!(limit, "bill=fixed-window:10000/month@Europe/Berlin,day=31");
    ///     Ok(())
    /// }
    /// ```
    pub fn on_day(&self, day: u8) -> Result<&Self, crate::LimitError> {
        if !self.limits().iter().any(crate::Limit::needs_day) {
            return Ok(self);
        }
        self.bring(Brought::Day(day))
    }

    fn bring(&self, brought: Brought<'_>) -> Result<&Self, crate::LimitError> {
        let (zone, day) = match brought {
            Brought::Zone(name) => (name, 0),
            Brought::Day(day) => ("", day),
        };
        let mut zones = &self.shared.zones;
        loop {
            let entry = match zones.0.get() {
                Some(entry) => entry,
                None => {
                    let limits = self.limits().iter().map(|limit| limit.bring(brought));
                    let limits = limits.collect::<Result<Vec<_>, _>>()?;
                    let (store, companions) = (&self.store, &self.shared.companions);
                    // Another thread may be first, with another zone.
                    zones.0.get_or_init(|| {
                        Box::new(Entry {
                            zone: zone.into(),
                            day,
                            limiter: Self::of(limits, store.clone(), companions.clone()),
                            others: Zones::default(),
                        })
                    })
                }
            };
            if *entry.zone == *zone && entry.day == day {
                return Ok(&entry.limiter);
            }
            zones = &entry.others;
        }
    }
}

impl<S> Default for Zones<S> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

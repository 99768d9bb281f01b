//! `Zones`: the limits of a limiter in each time zone that its calls have brought.

use std::sync::OnceLock;

use jiff::tz::TimeZone;

use crate::limit::{Limit, Limits};

/// A list that only grows, by one entry for each zone that a call has brought.
///
/// The database has a few hundred names. What is in the list stays where it is, so calls borrow it.
#[derive(Default)]
pub(super) struct Zones(OnceLock<Box<Entry>>);

struct Entry {
    zone: TimeZone,
    limits: Limits,
    others: Zones,
}

impl Zones {
    /// Returns `limits` in `zone`, or none if it has no name in the database of time zones.
    pub(super) fn of(&self, zone: &TimeZone, limits: &[Limit]) -> Option<&Limits> {
        let mut at = self;
        loop {
            let entry = match at.0.get() {
                Some(entry) => entry,
                None => {
                    let limits = limits.iter().map(|limit| limit.in_zone(zone));
                    let limits = limits.collect::<Result<_, _>>().ok()?;
                    // Another thread may be first, with another zone.
                    at.0.get_or_init(|| {
                        Box::new(Entry {
                            zone: zone.clone(),
                            limits,
                            others: Self::default(),
                        })
                    })
                }
            };
            if entry.zone == *zone {
                return Some(&entry.limits);
            }
            at = &entry.others;
        }
    }
}

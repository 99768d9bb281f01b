//! `Changes`: the keys that this process changes, such as by a charge, a give, a block or a reset.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tollgate_core::Timestamp;
use tollgate_core::store::Check;

use crate::sync::{FEW, Mutex, lock};

/// Keys that share a place are changed together: few of them are at a time.
const PLACES: u64 = if FEW { 1 } else { 1_024 };

/// The places of the keys of a call, mostly one.
pub(super) type Places = SmallVec<[usize; 1]>;

pub(super) struct Changes {
    hasher: RandomState,
    places: Box<[Mutex<Place>]>,
}

#[derive(Default)]
struct Place {
    /// How many changes go on.
    under_way: usize,
    /// For how long nobody asks for units after the last one.
    until: Timestamp,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Changes {
    pub(super) fn places(&self, checks: &[Check<'_>]) -> Places {
        let mut places = Places::new();
        for check in checks {
            let (key, mut hasher) = (check.key(), self.hasher.build_hasher());
            hasher.write(&key.partition());
            hasher.write(key.rest());
            let place = usize::try_from(hasher.finish() % PLACES).unwrap_or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    pub(super) fn begin(&self, places: &Places) {
        for &place in places {
            lock(&self.places[place]).under_way += 1;
        }
    }

    pub(super) fn end(&self, places: &Places, until: Timestamp) {
        for &place in places {
            let mut place = lock(&self.places[place]);
            place.under_way -= 1;
            place.until = place.until.max(until);
        }
    }

    /// Returns whether units may be asked for: what is counted ahead of a change would be used after it.
    pub(super) fn permit(&self, places: &Places, now: Timestamp) -> bool {
        places.iter().all(|&place| {
            let place = lock(&self.places[place]);
            place.under_way == 0 && now >= place.until
        })
    }
}

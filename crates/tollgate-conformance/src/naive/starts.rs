//! `Starts`: the second oracle of reservations, which finds each start by search.
//!
//! Under one limit, calls are admitted one after another, each with a start. Any run of them, in
//! the order in which they were admitted, holds at most the burst and what the rate adds from the
//! first start to the last. If starts are in that order, too, a run is a span of time.

use tollgate_core::{Algorithm, Limit};

/// A limit and a key, as indexes, and the cost of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) place: (usize, usize),
    pub(crate) cost: u64,
}

/// All admitted calls under several limits.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    limits: Vec<Bucket>,
    /// For each admitted cost: its limit and key, its start, and the cost.
    admitted: Vec<((usize, usize), i128, i128)>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    burst: i128,
    amount: i128,
    window: i128,
}

impl Starts {
    /// Returns the definition of `limits`, or `None` if it defines not all of them.
    pub(crate) fn of(limits: &[Limit]) -> Option<Self> {
        let bucket = |limit: &Limit| {
            let quota = limit.algorithm().quota();
            match limit.algorithm() {
                Algorithm::Gcra(machine) => Some(Bucket {
                    burst: machine.burst().into(),
                    amount: quota.amount().into(),
                    window: quota.window_us().into(),
                }),
                _ => None,
            }
        };
        Some(Self {
            limits: limits.iter().map(bucket).collect::<Option<_>>()?,
            admitted: Vec::new(),
        })
    }

    /// Returns the least delay with which a call fits at `now`, or `None` if it never fits.
    pub(crate) fn delay(&self, now: u64, asked: &[Cost]) -> Option<u64> {
        let exceeds = |asked: &Cost| i128::from(asked.cost) > self.limits[asked.place.0].burst;
        if asked.iter().any(exceeds) {
            return None;
        }
        least(|delay| asked.iter().all(|one| self.fits(now, delay, one)))
    }

    /// Returns the least wait after which a call fits within `most`, or `None` if it never does.
    pub(crate) fn retry_after(&self, now: u64, most: u64, asked: &[Cost]) -> Option<u64> {
        self.delay(now, asked)?;
        least(|wait| {
            let fits = |one: &Cost| self.fits(now + wait, most, one);
            asked.iter().all(fits)
        })
    }

    /// Admits a call that starts `delay` after `now`.
    pub(crate) fn admit(&mut self, now: u64, delay: u64, asked: &[Cost]) {
        let start = i128::from(now) + i128::from(delay);
        let costs = asked.iter().filter(|asked| asked.cost > 0);
        self.admitted
            .extend(costs.map(|asked| (asked.place, start, i128::from(asked.cost))));
    }

    /// Returns whether a call that starts `delay` after `now` keeps every run within the bound.
    fn fits(&self, now: u64, delay: u64, asked: &Cost) -> bool {
        let start = i128::from(now) + i128::from(delay);
        let Bucket {
            burst,
            amount,
            window,
        } = self.limits[asked.place.0];
        let mut run = i128::from(asked.cost);
        let here = |one: &&((usize, usize), i128, i128)| one.0 == asked.place;
        asked.cost == 0
            || self
                .admitted
                .iter()
                .rev()
                .filter(here)
                .all(|(_, from, cost)| {
                    run += cost;
                    run * window <= burst * window + (start - from) * amount
                })
    }
}

/// Returns the least number that `holds`, which holds for all greater ones, too.
fn least(holds: impl Fn(u64) -> bool) -> Option<u64> {
    if holds(0) {
        return Some(0);
    }
    let (mut too_little, mut enough) = (0, 1_u64);
    while !holds(enough) {
        too_little = enough;
        enough = enough.checked_mul(2)?;
    }
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        if holds(middle) {
            enough = middle;
        } else {
            too_little = middle;
        }
    }
    Some(enough)
}

//! `NaiveLeases`: the second definition of leases, from a list of everything that ever happened.
//! It shares no code with the machine.

use tollgate_core::lease::{self, Acquisition, Lease, NoLease, Occupancy};
use tollgate_core::{Timestamp, Wait};

/// Something that happened to a lease.
#[derive(Debug)]
enum Happened {
    /// Acquired or renewed: it lasts until this instant.
    Until {
        id: Vec<u8>,
        token: u64,
        weight: u64,
        at: u64,
        end: u64,
    },
    Released {
        id: Vec<u8>,
        token: u64,
    },
}

/// The leases of one key.
#[derive(Debug, Default)]
pub(crate) struct NaiveLeases(Vec<Happened>);

/// A lease that is held: id, token, weight and end.
type Held = (Vec<u8>, u64, u64, u64);

impl NaiveLeases {
    pub(crate) fn decide(&mut self, request: &lease::Request<'_>, now: Timestamp) -> lease::Answer {
        let real = now.as_micros();
        let instants = self.0.iter().filter_map(|happened| match happened {
            Happened::Until { at, .. } => Some(*at),
            Happened::Released { .. } => None,
        });
        let at = instants.max().unwrap_or(0).max(real);
        let held = self.held(at);
        let sum: u64 = held.iter().map(|lease| lease.2).sum();
        let (amount, ttl) = (request.terms().amount(), request.terms().ttl());
        let end = at + u64::try_from(ttl.as_micros()).unwrap();
        let show = |(id, token, weight, end): &Held| {
            Lease::new(id.clone(), *token, *weight, now, stamp(*end)).with_ttl(ttl)
        };
        match request.operation() {
            lease::Operation::Peek => lease::Answer::Occupied(Occupancy::new(sum, amount)),
            lease::Operation::Acquire { id, weight } => {
                if let Some(lease) = held.iter().find(|lease| lease.0 == id) {
                    return lease::Answer::Acquired(Acquisition::Granted {
                        lease: show(lease),
                        is_new: false,
                    });
                }
                if u128::from(sum) + u128::from(weight) > u128::from(amount) {
                    let mut ends: Vec<u64> = held.iter().map(|lease| lease.3).collect();
                    ends.sort_unstable();
                    // The first of their ends at which there is room.
                    let room = ends.into_iter().find(|end| {
                        let rest: u64 = held.iter().filter(|of| of.3 > *end).map(|of| of.2).sum();
                        u128::from(rest) + u128::from(weight) <= u128::from(amount)
                    });
                    let wait = room.map_or(Wait::NEVER, |end| Wait::from_micros(end - real));
                    let denied = NoLease::new(sum, amount, wait);
                    return lease::Answer::Acquired(Acquisition::Denied(denied));
                }
                let tokens = self.0.iter().filter_map(|happened| match happened {
                    Happened::Until { token, .. } => Some(*token),
                    Happened::Released { .. } => None,
                });
                let token = (tokens.max().unwrap_or(0) + 1).max(at);
                let lease = (id.to_vec(), token, weight, end);
                self.until(&lease, at);
                lease::Answer::Acquired(Acquisition::Granted {
                    lease: show(&lease),
                    is_new: true,
                })
            }
            lease::Operation::Renew { id, token } => {
                let found = held
                    .into_iter()
                    .find(|lease| lease.0 == id && lease.1 == token);
                let Some((id, token, weight, old)) = found else {
                    return lease::Answer::Renewed(None);
                };
                let lease = (id, token, weight, old.max(end));
                self.until(&lease, at);
                lease::Answer::Renewed(Some(show(&lease)))
            }
            lease::Operation::Release { id, token } => {
                let was_held = held.iter().any(|lease| lease.0 == id && lease.1 == token);
                if was_held {
                    let id = id.to_vec();
                    self.0.push(Happened::Released { id, token });
                }
                lease::Answer::Released(was_held)
            }
            other => panic!("no naive definition of {other:?}"),
        }
    }

    fn until(&mut self, (id, token, weight, end): &Held, at: u64) {
        self.0.push(Happened::Until {
            id: id.clone(),
            token: *token,
            weight: *weight,
            at,
            end: *end,
        });
    }

    /// Returns what is held at `at`: for each token, what happened last decides.
    fn held(&self, at: u64) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        for happened in &self.0 {
            match happened {
                Happened::Until {
                    id,
                    token,
                    weight,
                    end,
                    ..
                } => {
                    held.retain(|lease| lease.1 != *token);
                    held.push((id.clone(), *token, *weight, *end));
                }
                Happened::Released { id, token } => {
                    held.retain(|lease| lease.0 != *id || lease.1 != *token);
                }
            }
        }
        held.retain(|lease| lease.3 > at);
        held
    }
}

fn stamp(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}

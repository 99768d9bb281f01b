//! `Hot`: the units in hand of a key that is called often.

use std::future::poll_fn;
use std::mem::take;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tollgate_core::store::{Check, Fingerprint, Operation, Request, Source, Verdict, Verdicts};
use tollgate_core::{Algorithm, Key, Limit, Receipt, Store, Timestamp};

use super::changes::Places;
use crate::sync::Mutex;

/// How long callers wait at least, and at first, for one that asks.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
const FIRST_PATIENCE: Duration = Duration::from_millis(10);
/// Units are asked for if the calls of this many are expected.
const WORTHWHILE: u64 = 4;

/// Under a sliding log, units are used within one of so many parts of its window, since they count for that
/// much longer.
const PARTS_OF_LOG: u32 = 20;
/// Units are worth asking for if they last so many times as long as the answer takes.
const TIMES_OF_ANSWER: u32 = 4;

/// After so many answers in a row that took too long, the pause before the next question grows no more.
const MOST_IN_VAIN: u32 = 5;

/// An instant by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    /// The system's time, which goes on while the machine is suspended, but may be set.
    pub(super) system: Option<Duration>,
}

/// How a call is decided.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each call"
)]
pub(super) enum Take {
    /// By units in hand.
    Now(Verdicts),
    /// By the store, which is also asked for this many units.
    Ask(Asking, u64),
    /// Another caller asks for units: to be waited for, for so long.
    Later(Duration),
    /// By the store.
    Directly,
}

/// Units of a key that are on their way back, and the receipt that gives them back.
pub(super) struct Unused {
    hot: Arc<Hot>,
    number: u64,
    receipt: Receipt,
}

impl Unused {
    /// Gives them back to `store`, unless they count as lost meanwhile; returns whether it took them.
    pub(super) async fn arrive(&self, store: &impl Store) -> bool {
        let checks = self.hot.checks();
        let request = Request::new(Operation::Refund(&self.receipt), &checks);
        let mut call = store.decide(request);
        let arrived = poll_fn(|context| match self.is_on_its_way() {
            true => call.as_mut().poll(context).map(|outcome| outcome.is_ok()),
            false => Poll::Ready(false),
        });
        arrived.await
    }

    fn is_on_its_way(&self) -> bool {
        let is_it = |of: &OnItsWay| of.number == self.number;
        self.hot.with(|state| state.returning.iter().any(is_it))
    }

    /// Notes that they are not on their way any more; returns how many they were, if they were.
    pub(super) fn end(&self) -> u64 {
        self.hot.end(|of| of.number == self.number)
    }
}

/// Units that are on their way back.
struct OnItsWay {
    number: u64,
    units: u64,
    since: Timestamp,
}

/// What a store has granted.
pub(super) struct Grant {
    units: u64,
    left: u64,
    asked: Moment,
    lasts: Duration,
    fingerprint: Fingerprint,
    verdicts: SmallVec<[Verdict; 2]>,
}

impl Grant {
    /// Returns `units` that can be used for as long as `lasts` after they were asked for.
    pub(super) fn new(units: u64, asked: Moment, lasts: Duration, verdicts: &Verdicts) -> Self {
        Self {
            units,
            left: units,
            asked,
            lasts,
            fingerprint: verdicts.fingerprint(),
            verdicts: verdicts.as_slice().into(),
        }
    }

    /// Returns whether units can still be used. If the system's time steps back, they cannot.
    fn is_live(&self, now: Moment) -> bool {
        let lasts = |passed: Option<Duration>| passed.is_some_and(|passed| passed < self.lasts);
        let system = match (now.system, self.asked.system) {
            (Some(now), Some(asked)) => lasts(now.checked_sub(asked)),
            _ => true,
        };
        system && now.at >= self.asked.at && lasts(Some(self.age(now)))
    }

    fn age(&self, now: Moment) -> Duration {
        now.at.saturating_duration_since(self.asked.at)
    }

    /// Returns the answer to a call that has consumed `cost` of the units.
    fn answer(&self, cost: u64, now: Moment) -> Verdicts {
        let verdicts = self.verdicts.iter().map(|of_store| {
            Verdict::allow(of_store.capacity(), self.left)
                .with_reset_after(of_store.reset_after())
                .with_consumed(cost, of_store.decided_at())
                .in_shadow(of_store.is_in_shadow())
        });
        Verdicts::new(self.fingerprint, verdicts)
            .with_source(Source::Prefetched)
            .with_age(self.age(now))
    }

    /// Returns the receipt of what is left, if anything is.
    fn into_unused(self) -> Option<(u64, Receipt)> {
        let verdicts = self.verdicts.iter().map(|of_store| {
            Verdict::allow(of_store.capacity(), 0).with_consumed(self.left, of_store.decided_at())
        });
        let receipt = Verdicts::new(self.fingerprint, verdicts).into_receipt()?;
        Some((self.left, receipt))
    }
}

/// The partition and the rest of a key.
type OwnedKey = (Box<[u8]>, Box<[u8]>);

/// A key under some limits that is called often.
pub(super) struct Hot {
    limits: Box<[Limit]>,
    keys: Box<[OwnedKey]>,
    places: Places,
    /// Within which time units are used.
    within: Duration,
    state: Mutex<State>,
    answered: Notify,
    returned: Notify,
}

struct State {
    grant: Option<Grant>,
    /// The number of the caller that asks for units, and since when it does.
    asking: Option<(u64, Timestamp)>,
    /// How many callers have asked.
    asked: u64,
    /// Callers with numbers up to this one get no units: what they asked for was withdrawn.
    withdrawn: u64,
    patience: Duration,
    /// Until when nobody asks for units, since there were none.
    directly_until: Timestamp,
    /// How many answers in a row took so long that it was not worth asking.
    in_vain: u32,
    /// What calls have cost since then.
    demand: u64,
    since: Timestamp,
    called_at: Timestamp,
    /// What was left of grants that others have replaced.
    unused: SmallVec<[(u64, Receipt); 1]>,
    /// How many have begun to go back, and those that are on their way.
    gone: u64,
    returning: SmallVec<[OnItsWay; 1]>,
}

impl State {
    fn is_live(&self) -> bool {
        self.asking.is_some() || self.grant.is_some() || !self.unused.is_empty()
    }

    /// Takes `cost` of the units in hand, if there are as many.
    fn take(&mut self, cost: u64, now: Moment) -> Option<Verdicts> {
        let enough = |grant: &&mut Grant| grant.left >= cost && grant.is_live(now);
        let grant = self.grant.as_mut().filter(enough)?;
        grant.left -= cost;
        Some(grant.answer(cost, now))
    }

    /// Lets nobody ask for this `time`; twice as long after each further time, up to 32 times as long.
    fn rest(&mut self, time: Duration, now: Moment) {
        let pause = time * (1 << self.in_vain);
        self.in_vain = (self.in_vain + 1).min(MOST_IN_VAIN);
        self.directly_until = now.at.saturating_add(pause);
    }
}

impl Hot {
    /// Returns that calls with these `checks`, whose keys are in these `places`, have cost `demand` lately.
    pub(super) fn new(
        checks: &[Check<'_>],
        places: Places,
        demand: u64,
        now: Timestamp,
        within: Duration,
    ) -> Self {
        let logs = checks.iter().map(|check| check.limit().algorithm());
        let logs = logs.filter(|of| matches!(of, Algorithm::SlidingLog(_)));
        let shortest = logs.map(|log| log.longest_window() / PARTS_OF_LOG).min();
        let keys = checks.iter().map(|check| {
            let key = check.key();
            (Box::from(&*key.partition()), Box::from(key.rest()))
        });
        Self {
            limits: checks.iter().map(|check| check.limit().clone()).collect(),
            keys: keys.collect(),
            places,
            within: shortest.map_or(within, |most| most.min(within)),
            state: Mutex::new(State {
                grant: None,
                asking: None,
                asked: 0,
                withdrawn: 0,
                patience: FIRST_PATIENCE,
                directly_until: Timestamp::UNIX_EPOCH,
                in_vain: 0,
                demand,
                since: now,
                called_at: now,
                unused: SmallVec::new(),
                gone: 0,
                returning: SmallVec::new(),
            }),
            answered: Notify::new(),
            returned: Notify::new(),
        }
    }

    /// Returns within which time units are used.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes `cost` of the units in hand, or returns how the call is decided otherwise: it asks for units only
    /// if `may_ask` of its places.
    pub(super) fn take(
        self: &Arc<Self>,
        cost: u64,
        now: Moment,
        may_ask: impl FnOnce(&Places) -> bool,
    ) -> Take {
        let within = self.within;
        self.with(|state| {
            state.called_at = now.at;
            if let Some(verdicts) = state.take(cost, now) {
                state.demand = state.demand.saturating_add(cost);
                return Take::Now(verdicts);
            }
            if let Some((_, since)) = state.asking {
                // Otherwise its units would be over: it may never be polled again.
                if now.at.saturating_duration_since(since) < within {
                    return Take::Later(state.patience);
                }
                state.asking = None;
            }
            // A call that waits first is counted when it comes again.
            state.demand = state.demand.saturating_add(cost);
            if now.at < state.directly_until {
                return Take::Directly;
            }
            // What the last calls have cost, for as long as the units last; also those that were denied, since
            // calls like these use whatever a part of what is left grants.
            let passed = now
                .at
                .saturating_duration_since(state.since)
                .max(within / 8);
            let expected =
                u128::from(state.demand) * within.as_micros() / passed.as_micros().max(1);
            let expected = u64::try_from(expected).unwrap_or(u64::MAX);
            (state.demand, state.since) = (0, now.at);
            // Under the lock: a change that begins later withdraws what is asked for now.
            if expected < cost.saturating_mul(WORTHWHILE) || !may_ask(&self.places) {
                return Take::Directly;
            }
            state.asked += 1;
            state.asking = Some((state.asked, now.at));
            // Until there is an answer, which may be lost, or the caller goes away.
            state.directly_until = now.at.saturating_add(within);
            // The call that asks is one of those.
            Take::Ask(Asking(Arc::clone(self), state.asked), expected - cost)
        })
    }

    /// Takes `cost` of the units in hand, for a call that has been counted as demand.
    pub(super) fn take_in_hand(&self, cost: u64, now: Moment) -> Option<Verdicts> {
        self.with(|state| state.take(cost, now))
    }

    /// Waits until the caller that asks has its answer, or goes away.
    pub(super) async fn answered(&self) {
        let answered = self.answered.notified();
        if self.with(|state| state.asking.is_some()) {
            answered.await;
        }
    }

    /// Waits until nothing is on its way back.
    pub(super) async fn returned(&self) {
        loop {
            let returned = self.returned.notified();
            if self.with(|state| state.returning.is_empty()) {
                return;
            }
            returned.await;
        }
    }

    /// Refunds or settles a call that was admitted by units in hand, if they can still be used.
    ///
    /// Returns the answer, and how many more units are used. Not under an anchored window, whose first call is
    /// not one of those that are used later.
    pub(super) fn correct(
        &self,
        request: &Request<'_>,
        receipt: &Receipt,
        now: Moment,
    ) -> Option<(Verdicts, u64)> {
        let is_anchored = |check: &Check<'_>| matches!(check.limit().algorithm(), Algorithm::FixedWindow(of) if of.is_anchored());
        let was = receipt.consumed().first()?.cost();
        let cost = request.checks().first()?.cost();
        let is_settled_alike = request.checks().iter().all(|check| check.cost() == cost);
        let is_plain = !request.has_id() && request.caller_time().is_none();
        if !is_plain || request.checks().iter().any(is_anchored) {
            return None;
        }
        let kept = match request.operation() {
            Operation::Refund(_) => 0,
            Operation::Settle(_) if is_settled_alike => cost,
            _ => return None,
        };
        self.with(|state| {
            let grant = state.grant.as_mut().filter(|grant| grant.is_live(now))?;
            // Also a reservation may start when the units end: its receipt says so.
            if grant.answer(was, now).into_receipt().as_ref() != Some(receipt) {
                return None;
            }
            let left = match kept.checked_sub(was) {
                Some(more) => grant.left.checked_sub(more)?,
                None => grant.left.checked_add(was - kept)?,
            };
            // What the call that asked has consumed is none of them.
            if left > grant.units {
                return None;
            }
            grant.left = left;
            Some((grant.answer(0, now), kept.saturating_sub(was)))
        })
    }

    /// Returns what can no longer be used, or all that is in hand: from `now` on, it is on its way back.
    pub(super) fn unused(self: &Arc<Self>, now: Moment, all: bool) -> Vec<Unused> {
        self.with(|state| {
            let is_over = |grant: &mut Grant| all || !grant.is_live(now);
            let over = state.grant.take_if(is_over).and_then(Grant::into_unused);
            state.unused.extend(over);
            let each = take(&mut state.unused).into_iter();
            each.map(|(units, receipt)| {
                state.gone += 1;
                let (number, since) = (state.gone, now.at);
                state.returning.push(OnItsWay {
                    number,
                    units,
                    since,
                });
                Unused {
                    hot: Arc::clone(self),
                    number,
                    receipt,
                }
            })
            .collect()
        })
    }

    /// Notes that some of the units on their way back will not arrive any more; returns how many they were.
    fn end(&self, which: impl Fn(&OnItsWay) -> bool) -> u64 {
        let mut units = 0;
        self.with(|state| {
            state.returning.retain(|of| {
                let ends = which(of);
                units += if ends { of.units } else { 0 };
                !ends
            });
        });
        self.returned.notify_waiters();
        units
    }

    /// Waits no longer for units that have been on their way back for this `time`; returns how many they were.
    pub(super) fn give_up(&self, now: Timestamp, time: Duration) -> u64 {
        self.end(|of| now.saturating_duration_since(of.since) >= time)
    }

    /// Returns all that is in hand. What is being asked for will not be used.
    pub(super) fn withdraw(self: &Arc<Self>, now: Moment) -> Vec<Unused> {
        self.with(|state| (state.withdrawn, state.asking) = (state.asked, None));
        self.answered.notify_waiters();
        self.unused(now, true)
    }

    /// Returns whether something is in hand, or asked for.
    pub(super) fn is_live(&self) -> bool {
        self.with(|state| state.is_live())
    }

    /// Returns whether these are the limits and keys of `checks`.
    pub(super) fn is_of(&self, checks: &[Check<'_>]) -> bool {
        let mut each = self.limits.iter().zip(&self.keys).zip(checks);
        checks.len() == self.limits.len()
            && each.all(|((limit, key), check)| is_key(key, check) && check.limit() == limit)
    }

    /// Returns whether one of these is counted in the state of one of `checks`.
    pub(super) fn shares(&self, checks: &[Check<'_>], places: &Places) -> bool {
        if !self.places.iter().any(|place| places.contains(place)) {
            return false;
        }
        let mut each = self.limits.iter().zip(&self.keys);
        each.any(|(limit, key)| {
            let is_state = |check: &Check<'_>| {
                is_key(key, check) && check.limit().identity() == limit.identity()
            };
            checks.iter().any(is_state)
        })
    }

    /// Returns whether nobody has called for this time, and nothing is in hand.
    pub(super) fn is_quiet(&self, now: Timestamp, time: Duration) -> bool {
        self.with(|state| {
            !state.is_live() && now.saturating_duration_since(state.called_at) >= time
        })
    }

    /// Returns the limits and keys.
    fn checks(&self) -> Vec<Check<'_>> {
        let each = self.limits.iter().zip(&self.keys);
        each.map(|(limit, (partition, rest))| {
            Check::new(limit, Key::new(partition).with_rest(rest), 0)
        })
        .collect()
    }
}

fn is_key((partition, rest): &OwnedKey, check: &Check<'_>) -> bool {
    let key = check.key();
    *key.rest() == **rest && *key.partition() == **partition
}

/// The caller that asks for units. When it has its answer, or goes away, the others go on.
pub(super) struct Asking(Arc<Hot>, u64);

impl Asking {
    /// Puts the units into the hand of this process; returns whether they were not withdrawn.
    pub(super) fn granted(&self, grant: Grant, now: Moment) -> bool {
        self.0.with(|state| {
            if self.1 <= state.withdrawn {
                return false;
            }
            let took = grant.age(now);
            let most = self.0.within / TIMES_OF_ANSWER;
            state.patience = (took * 2).min(most).max(LEAST_PATIENCE);
            if took * TIMES_OF_ANSWER > grant.lasts {
                // Of a window that is about to end, no longer than that takes.
                state.rest(grant.lasts.min(self.0.within / 2), now);
            } else {
                (state.in_vain, state.directly_until) = (0, Timestamp::UNIX_EPOCH);
            }
            // Whoever asked after this one, since that took too long, may have live units.
            let unused = match grant.is_live(now) {
                true => state.grant.replace(grant),
                false => Some(grant),
            };
            state.unused.extend(unused.and_then(Grant::into_unused));
            true
        })
    }

    /// Lets nobody ask for units for some time: there were none.
    pub(super) fn refused(&self, now: Moment) {
        let until = now.at.saturating_add(self.0.within / 4);
        self.0.with(|state| {
            if self.1 > state.withdrawn {
                state.directly_until = until;
            }
        });
    }

    /// Lets nobody ask for a longer time: the store grants none.
    pub(super) fn unsupported(&self, now: Moment) {
        self.0.with(|state| {
            state.in_vain = MOST_IN_VAIN;
            state.rest(self.0.within / 2, now);
        });
    }

    /// Returns what can no longer be used.
    pub(super) fn unused(&self, now: Moment) -> Vec<Unused> {
        self.0.unused(now, false)
    }

    /// Returns within which time units are used.
    pub(super) fn within(&self) -> Duration {
        self.0.within()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.asking.take_if(|(number, _)| *number == self.1);
        });
        self.0.answered.notify_waiters();
    }
}

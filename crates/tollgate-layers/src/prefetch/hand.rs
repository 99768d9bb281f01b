//! `Hand`: what one process has in hand of one key: the units, who asks for more, and what goes back.
//!
//! It knows neither tasks nor the store: each method takes the time, and returns what is to be done.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::store::{Fingerprint, Source, Verdict, Verdicts};
use tollgate_core::{Receipt, Timestamp};

/// How long callers wait at least, and at first, for one that asks.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
const FIRST_PATIENCE: Duration = Duration::from_millis(10);
/// Units are asked for if the calls of this many are expected.
const WORTHWHILE: u64 = 4;
/// Units are worth asking for if they last this many times as long as the answer takes.
const TIMES_OF_ANSWER: u32 = 4;
/// After this many answers in a row that took too long, the pause before the next question grows no more.
const MOST_IN_VAIN: u32 = 5;
/// By how much this process's clock may be slow, in 1/1,000,000: the units end for it that much earlier.
const DRIFT_PPM: u32 = 500;

/// How a call is decided for which there are too few units in hand.
#[derive(Debug)]
pub(super) enum Take {
    /// By the store, which is also asked for up to `most` units; the caller that asks has this `number`.
    Ask { number: u64, most: u64 },
    /// Another caller asks for units: wait for its answer, up to this time, and take again.
    Later(Duration),
    /// By the store.
    Directly,
}

/// What the store answered a caller that asked for units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'v> {
    /// There are `units` beyond the cost of the call, for as long as `lasts` after they were asked for.
    Granted {
        units: u64,
        lasts: Duration,
        verdicts: &'v Verdicts,
    },
    /// It decided the call, and granted no units.
    Refused,
    /// It never grants units.
    Unsupported,
    Failed,
}

/// What a store has granted to the caller with this number.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    number: u64,
    units: u64,
    left: u64,
    asked: Timestamp,
    ends: Timestamp,
    fingerprint: Fingerprint,
    verdicts: SmallVec<[Verdict; 2]>,
    /// Since when what is left is on its way back.
    returns_since: Option<Timestamp>,
}

impl Grant {
    /// Returns whether units can still be used. If the clock steps back, they cannot.
    fn is_live(&self, now: Timestamp) -> bool {
        now >= self.asked && now < self.ends
    }

    /// Returns the answer to a call that has consumed `cost` of the units.
    // Inlined, so that it is written where it is wanted: verdicts take long to copy.
    #[inline(always)]
    pub(super) fn answer(&self, cost: u64, now: Timestamp) -> Verdicts {
        let verdict = |of_store: &Verdict| {
            Verdict::allow(of_store.capacity(), self.left)
                .with_reset_after(of_store.reset_after())
                .with_consumed(cost, of_store.decided_at())
                .in_shadow(of_store.is_in_shadow())
        };
        let verdicts = match &self.verdicts[..] {
            [only] => Verdicts::of_one(self.fingerprint, verdict(only)),
            several => Verdicts::new(self.fingerprint, several.iter().map(verdict)),
        };
        verdicts
            .with_source(Source::Prefetched)
            .with_age(now.saturating_duration_since(self.asked))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Hand {
    /// Within which time units are used.
    within: Duration,
    grant: Option<Grant>,
    /// What is left of earlier grants: it is to go back, or on its way.
    unused: Vec<Grant>,
    /// The number of the caller that asks for units, and since when it does.
    asking: Option<(u64, Timestamp)>,
    /// How many callers have asked.
    asked: u64,
    /// Callers with numbers up to this one get no units: what they asked for was withdrawn.
    withdrawn: u64,
    /// How long callers wait for the one that asks.
    patience: Duration,
    /// Until when nobody asks for units, since there were none.
    directly_until: Timestamp,
    /// How many answers in a row took so long that it was not worth asking.
    in_vain: u32,
    /// What calls have cost since then.
    demand: u64,
    since: Timestamp,
    called_at: Timestamp,
}

impl Hand {
    /// Returns an empty hand of a key whose calls have cost `demand` lately.
    pub(super) fn new(within: Duration, demand: u64, now: Timestamp) -> Self {
        Self {
            within,
            patience: FIRST_PATIENCE,
            demand,
            since: now,
            called_at: now,
            ..Self::default()
        }
    }

    /// Counts a call, and takes its `cost` of the units in hand, if there are as many.
    #[inline(always)]
    pub(super) fn take(&mut self, cost: u64, now: Timestamp) -> Option<&Grant> {
        self.called_at = now;
        self.demand = self.demand.saturating_add(cost);
        self.take_in_hand(cost, now)
    }

    /// Returns how the call is decided for which `take` found too little in hand: it asks for units only if it
    /// `may_ask`.
    pub(super) fn otherwise(
        &mut self,
        cost: u64,
        now: Timestamp,
        may_ask: impl FnOnce() -> bool,
    ) -> Take {
        if let Some((_, since)) = self.asking {
            // Otherwise its units would be over: it may never be polled again.
            if now.saturating_duration_since(since) < self.within {
                // It is counted when it comes again.
                self.demand = self.demand.saturating_sub(cost);
                return Take::Later(self.patience);
            }
            self.asking = None;
        }
        if now < self.directly_until {
            return Take::Directly;
        }
        // What the last calls have cost, for as long as the units last; also those that were denied, since
        // calls like these use whatever a part of what is left grants.
        let passed = now.saturating_duration_since(self.since);
        let passed = passed.max(self.within / 8).as_micros().max(1);
        let expected = u128::from(self.demand) * self.within.as_micros() / passed;
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        (self.demand, self.since) = (0, now);
        if expected < cost.saturating_mul(WORTHWHILE) || !may_ask() {
            return Take::Directly;
        }
        self.asked += 1;
        self.asking = Some((self.asked, now));
        // Until there is an answer, which may be lost, or the caller goes away.
        self.directly_until = now.saturating_add(self.within);
        Take::Ask {
            number: self.asked,
            // The call that asks is one of those.
            most: expected - cost,
        }
    }

    /// Takes `cost` of the units in hand, if there are as many, for a call that was counted as demand; returns
    /// what they were granted by, which has the answer.
    #[inline(always)]
    pub(super) fn take_in_hand(&mut self, cost: u64, now: Timestamp) -> Option<&Grant> {
        let enough = |grant: &&mut Grant| grant.left >= cost && grant.is_live(now);
        let grant = self.grant.as_mut().filter(enough)?;
        grant.left -= cost;
        Some(grant)
    }

    /// Notes what the caller with this number got `now` for what it `sent`; returns how many of the units that
    /// it was granted are lost, since they were withdrawn.
    pub(super) fn answered(
        &mut self,
        number: u64,
        sent: Timestamp,
        answer: Answer<'_>,
        now: Timestamp,
    ) -> u64 {
        self.stop_asking(number);
        let took = now.saturating_duration_since(sent);
        let most = self.within / TIMES_OF_ANSWER;
        self.patience = (took * 2).min(most).max(LEAST_PATIENCE);
        match answer {
            Answer::Granted { units, .. } if number <= self.withdrawn => return units,
            Answer::Granted {
                units,
                lasts,
                verdicts,
            } => {
                let lasts = lasts.saturating_sub(lasts * DRIFT_PPM / 1_000_000);
                if took * TIMES_OF_ANSWER > lasts {
                    // Of a window that is about to end, no longer than that takes.
                    self.rest(lasts.min(self.within / 2), now);
                } else {
                    (self.in_vain, self.directly_until) = (0, Timestamp::UNIX_EPOCH);
                }
                let grant = Grant {
                    number,
                    units,
                    left: units,
                    asked: sent,
                    ends: sent.saturating_add(lasts),
                    fingerprint: verdicts.fingerprint(),
                    verdicts: verdicts.as_slice().into(),
                    returns_since: None,
                };
                // Whoever asked after this one, since that took too long, may have live units.
                let unused = match grant.is_live(now) {
                    true => self.grant.replace(grant),
                    false => Some(grant),
                };
                self.put_aside(unused);
            }
            Answer::Refused => {
                self.directly_until = now.saturating_add(self.within / 4);
            }
            Answer::Unsupported => {
                self.in_vain = MOST_IN_VAIN;
                self.rest(self.within / 2, now);
            }
            Answer::Failed => {}
        }
        0
    }

    /// Lets nobody ask for this `time`; twice as long after each further time, up to 32 times as long.
    fn rest(&mut self, time: Duration, now: Timestamp) {
        let pause = time * (1 << self.in_vain);
        self.in_vain = (self.in_vain + 1).min(MOST_IN_VAIN);
        self.directly_until = now.saturating_add(pause);
    }

    fn put_aside(&mut self, grant: Option<Grant>) {
        self.unused.extend(grant.filter(|grant| grant.left > 0));
    }

    /// Notes that the caller with this number has its answer, or has gone away.
    pub(super) fn stop_asking(&mut self, number: u64) {
        self.asking.take_if(|(asking, _)| *asking == number);
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Changes the cost of the call with this `receipt` to `kept`, if it was admitted by units that can still
    /// be used; returns the answer, and how many more units are used.
    pub(super) fn correct(
        &mut self,
        receipt: &Receipt,
        kept: u64,
        now: Timestamp,
    ) -> Option<(Verdicts, u64)> {
        let was = receipt.consumed().first()?.cost();
        let grant = self.grant.as_mut().filter(|grant| grant.is_live(now))?;
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
    }

    /// Returns the numbers of what can no longer be used, or of all that is in hand: from `now` on, it is on
    /// its way back.
    pub(super) fn over(&mut self, now: Timestamp, all: bool) -> Vec<u64> {
        let over = self.grant.take_if(|grant| all || !grant.is_live(now));
        self.put_aside(over);
        let each = self.unused.iter_mut();
        let begin = each.filter(|grant| grant.returns_since.is_none());
        let begin = begin.map(|grant| {
            grant.returns_since = Some(now);
            grant.number
        });
        begin.collect()
    }

    /// Returns the receipt of what is on its way back with this number, if it still is.
    pub(super) fn receipt(&self, number: u64) -> Option<Receipt> {
        let mut returning = self.returning();
        let grant = returning.find(|grant| grant.number == number)?;
        let verdicts = grant.verdicts.iter().map(|of_store| {
            Verdict::allow(of_store.capacity(), 0).with_consumed(grant.left, of_store.decided_at())
        });
        Verdicts::new(grant.fingerprint, verdicts).into_receipt()
    }

    fn returning(&self) -> impl Iterator<Item = &Grant> {
        let each = self.unused.iter();
        each.filter(|grant| grant.returns_since.is_some())
    }

    pub(super) fn all_returned(&self) -> bool {
        self.returning().next().is_none()
    }

    /// Notes that what was on its way back with this number was given back, or is lost; returns how many
    /// units that were, if it still was on its way.
    pub(super) fn returned(&mut self, number: u64) -> u64 {
        self.end(|grant, _| grant.number == number)
    }

    /// Waits no longer for what has been on its way back for this `time`; returns how many units are lost.
    pub(super) fn give_up(&mut self, now: Timestamp, time: Duration) -> u64 {
        self.end(|_, since| now.saturating_duration_since(since) >= time)
    }

    fn end(&mut self, which: impl Fn(&Grant, Timestamp) -> bool) -> u64 {
        let mut units = 0;
        self.unused.retain(|grant| {
            let ends = grant.returns_since.is_some_and(|since| which(grant, since));
            units += if ends { grant.left } else { 0 };
            !ends
        });
        units
    }

    /// Lets nobody use what is being asked for.
    pub(super) fn withdraw(&mut self) {
        (self.withdrawn, self.asking) = (self.asked, None);
    }

    /// Returns whether something is in hand, or asked for.
    pub(super) fn is_live(&self) -> bool {
        let mut unused = self.unused.iter();
        self.is_asking()
            || self.grant.is_some()
            || unused.any(|grant| grant.returns_since.is_none())
    }

    /// Returns whether nobody has called for this `time`, and nothing is in hand.
    pub(super) fn is_quiet(&self, now: Timestamp, time: Duration) -> bool {
        !self.is_live() && now.saturating_duration_since(self.called_at) >= time
    }
}

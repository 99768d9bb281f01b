//! What becomes of units and of the calls of a key, whatever happens to its hand.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{Check, Fingerprint, Source, Verdict, Verdicts};
use tollgate_core::{Limit, Timestamp};

use super::hand::{self, Answer, Hand, Take};
use super::table::Table;

const L: Duration = Duration::from_millis(200);
const MS: Duration = Duration::from_millis(1);
const MICRO: Duration = Duration::from_micros(1);

/// How what a caller asked ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Granted { units: u64, lasts: Duration },
    Refused,
    Unsupported,
    Failed,
    GoesAway,
}

/// Returns the answer of a store that grants `units` to the caller with this `number`: no two are alike.
fn granted(number: u64, units: u64) -> Verdicts {
    let decided_at = Timestamp::from_micros(number).unwrap();
    let verdict = Verdict::allow(1_000, 100).with_consumed(units + 1, decided_at);
    Verdicts::new(Fingerprint::new(7), [verdict])
}

struct Grant {
    number: u64,
    units: u64,
    left: u64,
    sent: Timestamp,
    lasts: Duration,
}

impl Grant {
    fn is_live(&self, now: Timestamp) -> bool {
        // This process's clock may be slow by 500 millionths.
        let lasts = self.lasts - self.lasts / 2_000;
        now >= self.sent && now < self.sent.saturating_add(lasts)
    }
}

/// A hand, and the plainest account of it.
struct Scene {
    hand: Hand,
    now: Timestamp,
    /// Those that have asked and got no answer yet, and when they sent their question.
    asking: Vec<(u64, Timestamp)>,
    /// For whom others wait, since when, and for how long.
    waited_for: Option<(u64, Timestamp)>,
    patience: Duration,
    withdrawn: u64,
    grant: Option<Grant>,
    /// Units that are in hand, or on their way back: granted, and neither used, nor given back, nor lost.
    held: u64,
    returning: Vec<u64>,
    admitted: Vec<(u64, u64, Verdicts)>,
}

impl Scene {
    fn new() -> Self {
        Self {
            hand: Hand::new(L, 3, Timestamp::UNIX_EPOCH),
            now: Timestamp::UNIX_EPOCH,
            asking: Vec::new(),
            waited_for: None,
            patience: MS * 10,
            withdrawn: 0,
            grant: None,
            held: 0,
            returning: Vec::new(),
            admitted: Vec::new(),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// A call is admitted by units in hand if and only if there are enough that can still be used; otherwise it
    /// waits for the one that asks, if any does, and for a bounded time.
    fn call(&mut self, cost: u64, may_ask: bool) {
        let now = self.now;
        let answer = |grant: &hand::Grant| grant.answer(cost, now);
        let taken = match self.hand.take(cost, now).map(answer) {
            Some(verdicts) => Ok(verdicts),
            None => Err(self.hand.otherwise(cost, now, || may_ask)),
        };
        let enough = |grant: &&mut Grant| grant.left >= cost && grant.is_live(now);
        if let Some(grant) = self.grant.as_mut().filter(enough) {
            let Ok(verdicts) = taken else {
                panic!("{taken:?} with {} in hand", grant.left);
            };
            (grant.left, self.held) = (grant.left - cost, self.held - cost);
            let decided_at = verdicts.as_slice()[0].decided_at();
            assert_eq!(decided_at.as_micros(), grant.number);
            assert_eq!(verdicts.source(), Source::Prefetched);
            assert_eq!(verdicts.remaining(), grant.left);
            let age = now.saturating_duration_since(grant.sent);
            assert_eq!(verdicts.age(), age);
            self.admitted.push((grant.number, cost, verdicts));
            return;
        }
        let is_waited_for = |since| now.saturating_duration_since(since) < L;
        if self
            .waited_for
            .is_some_and(|(_, since)| is_waited_for(since))
        {
            assert!(
                matches!(taken, Err(Take::Later(time)) if time == self.patience),
                "{taken:?}"
            );
            return;
        }
        self.waited_for = None;
        let Err(Take::Ask { number, most }) = taken else {
            return assert!(matches!(taken, Err(Take::Directly)), "{taken:?}");
        };
        assert!(may_ask && most >= 3 * cost && number > self.withdrawn);
        self.waited_for = Some((number, now));
        self.asking.push((number, now));
    }

    fn end(&mut self, which: usize, end: End) {
        let (number, sent) = self.asking.swap_remove(which);
        self.waited_for.take_if(|(of, _)| *of == number);
        let (units, lasts) = match end {
            End::Granted { units, lasts } => (units, lasts),
            _ => (0, L),
        };
        let verdicts = &granted(number, units);
        let answer = match end {
            End::Granted { .. } => Answer::Granted {
                units,
                lasts,
                verdicts,
            },
            End::Refused => Answer::Refused,
            End::Unsupported => Answer::Unsupported,
            End::Failed => Answer::Failed,
            End::GoesAway => return self.hand.stop_asking(number),
        };
        let lost = self.hand.answered(number, sent, answer, self.now);
        // Every answer tells how long the next one may take.
        let took = self.now.saturating_duration_since(sent);
        self.patience = (took * 2).min(L / 4).max(MS);
        let is_withdrawn = number <= self.withdrawn;
        assert_eq!(lost, if is_withdrawn { units } else { 0 });
        self.held += units - lost;
        let grant = Grant {
            number,
            units,
            left: units,
            sent,
            lasts,
        };
        if lost < units && grant.is_live(self.now) {
            self.grant = Some(grant);
        }
    }

    /// What can no longer be used goes back, and nothing else unless it is to be `all`.
    fn take_back(&mut self, all: bool) {
        self.grant.take_if(|grant| all || !grant.is_live(self.now));
        self.returning.extend(self.hand.over(self.now, all));
        let in_hand = self.grant.as_ref().map_or(0, |grant| grant.left);
        let returning = self.hand.clone().give_up(self.now, Duration::ZERO);
        assert_eq!(returning + in_hand, self.held);
    }

    fn withdraw(&mut self) {
        self.hand.withdraw();
        let asking = self.asking.iter().map(|(number, _)| *number);
        (self.withdrawn, self.waited_for) = (asking.max().unwrap_or(self.withdrawn), None);
        self.take_back(true);
    }

    /// What is on its way back arrives once, as much as it was, or is lost.
    fn arrive(&mut self, which: usize) {
        let number = self.returning.swap_remove(which);
        let receipt = self.hand.receipt(number).unwrap();
        let units = self.hand.returned(number);
        assert_eq!(receipt.consumed()[0].cost(), units);
        assert_eq!(receipt.consumed()[0].at().as_micros(), number);
        assert!(self.hand.receipt(number).is_none());
        assert_eq!(self.hand.returned(number), 0);
        self.held -= units;
    }

    /// No more comes back into the hand than was granted, and nothing of a grant that is over.
    fn correct(&mut self, which: usize, kept: u64) {
        // Most of those before belong to a grant that is over.
        let (number, was, verdicts) = &self.admitted[self.admitted.len() - 1 - which];
        let receipt = verdicts.again().into_receipt().unwrap();
        let corrected = self.hand.correct(&receipt, kept, self.now);
        let is_its = |grant: &&mut Grant| grant.number == *number && grant.is_live(self.now);
        let left = self.grant.as_mut().filter(is_its).and_then(|grant| {
            let left = (grant.left + was).checked_sub(kept)?;
            let fits = left <= grant.units;
            grant.left = if fits { left } else { grant.left };
            fits.then_some(left)
        });
        assert_eq!(corrected.as_ref().map(|(of, _)| of.remaining()), left);
        if let Some((_, more)) = corrected {
            assert_eq!(more, kept.saturating_sub(*was));
            self.held = self.held + was - kept;
        }
    }

    /// Each unit that was granted is accounted for, and at most one call asks.
    fn assert_all_are_counted(&self) {
        let mut hand = self.hand.clone();
        assert_eq!(hand.is_asking(), self.waited_for.is_some());
        let is_live = hand.is_live();
        let has_units = !hand.over(self.now, true).is_empty();
        assert!(is_live || !has_units && !hand.is_asking());
        assert_eq!(hand.give_up(self.now, Duration::ZERO), self.held);
        assert!(hand.all_returned());
        assert_eq!(hand.is_quiet(self.now, Duration::ZERO), !hand.is_asking());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn units_are_used_once_and_in_time_or_go_back(
        steps in prop::collection::vec((0..75, any::<usize>(), 0..400_000_u64, 0..40_u64), 0..300),
    ) {
        let mut scene = Scene::new();
        for (step, which, micros, units) in steps {
            let time = Duration::from_micros(micros);
            let [asking, returning, admitted] =
                [scene.asking.len(), scene.returning.len(), scene.admitted.len().min(3)]
                    .map(|of| which.checked_rem(of));
            match (step, asking, returning, admitted) {
                (0..30, ..) => scene.call(1 + units / 10, which % 10 > 0),
                (30..36, ..) => scene.pass(time / 80),
                (36..38, ..) => scene.pass(time),
                // The clock is set back.
                (38..40, ..) => {
                    let before = scene.now.saturating_duration_since(Timestamp::UNIX_EPOCH);
                    scene.now = Timestamp::UNIX_EPOCH.saturating_add(before.saturating_sub(time));
                }
                (40..46, Some(which), ..) => scene.asking[which].1 = scene.now,
                (46..55, Some(which), ..) => {
                    let lasts = if units % 3 == 0 { time.min(L) } else { L };
                    scene.end(which, End::Granted { units: 1 + units, lasts });
                }
                (55, Some(which), ..) => scene.end(which, End::Refused),
                (56, Some(which), ..) => scene.end(which, End::Unsupported),
                (57, Some(which), ..) => scene.end(which, End::Failed),
                (58, Some(which), ..) => scene.end(which, End::GoesAway),
                (59..63, ..) => scene.take_back(which % 5 == 0),
                (63, ..) => scene.withdraw(),
                (64..68, _, Some(which), _) => scene.arrive(which),
                (68, ..) => {
                    scene.held -= scene.hand.give_up(scene.now, time);
                    scene.returning.retain(|number| scene.hand.receipt(*number).is_some());
                }
                (69.., _, _, Some(which)) => scene.correct(which, units / 5),
                _ => {}
            }
            scene.assert_all_are_counted();
        }
    }
}

/// Whatever keys share their places, and however many there were before.
#[test]
fn keys_are_known_that_are_called_often_up_to_a_number_of_them() {
    let limit: Limit = "a=fixed-window:1000/1h".parse().unwrap();
    let table = Table::new(L);
    let call = |key: u64, calls, now| {
        let checks = [Check::new(&limit, key, 1)];
        (0..calls).for_each(|_| drop(table.find(&checks, 1, now)));
    };
    let at = |period| Timestamp::UNIX_EPOCH.saturating_add(L * period);
    for now in [10, 20] {
        (0..100).for_each(|key| call(key, 4, at(now)));
        (100..50_000).for_each(|key| call(key, 1, at(now)));
        let known = table.which(|_| true).len();
        assert!((90..=100).contains(&known), "{known}");
        (100..20_000).for_each(|key| call(key, 4, at(now + 1)));
        assert_eq!(table.which(|_| true).len(), 4_096);
        table.forget_quiet(at(now + 5));
        assert!(table.which(|_| true).is_empty());
    }
}

#[test]
fn calls_that_wait_are_no_demand_until_they_come_again() {
    let mut scene = Scene::new();
    (0..9).for_each(|_| scene.call(1, true));
    scene.end(0, End::Failed);
    scene.pass(L);
    scene.call(1, true);
    assert!(scene.asking.is_empty());
}

#[test]
fn units_are_asked_for_again_some_time_after_an_answer_that_was_of_no_use() {
    let granted_for = |lasts| End::Granted { units: 9, lasts };
    let doubling = |took, time: Duration| [1, 2, 4, 8, 16, 32, 32].map(|times| took + time * times);
    // So that units are worth asking for.
    let be_busy = |scene: &mut Scene| (0..9).for_each(|_| scene.call(1, true));
    for (end, took, pauses) in [
        (End::GoesAway, MS, [L; 7]),
        (End::Failed, MS, [L; 7]),
        (End::Refused, MS, [MS + L / 4; 7]),
        (End::Unsupported, MS, [MS + L * 16; 7]),
        // For as long as the units last, at most half of `L`.
        (granted_for(L), L / 2, doubling(L / 2, L / 2)),
        (granted_for(MS * 2), MS, doubling(MS, MS * 2 - MICRO)),
        // In time.
        (granted_for(L), L / 5, [L / 5; 7]),
    ] {
        let mut scene = Scene::new();
        for pause in pauses {
            be_busy(&mut scene);
            assert_eq!(scene.asking.len(), 1, "{end:?}");
            scene.pass(took);
            scene.end(0, end);
            scene.take_back(true);
            if let Some(rest) = (pause - took).checked_sub(MICRO) {
                scene.pass(rest);
                be_busy(&mut scene);
                assert!(scene.asking.is_empty(), "{end:?}");
                scene.pass(MICRO);
            }
        }
    }
}

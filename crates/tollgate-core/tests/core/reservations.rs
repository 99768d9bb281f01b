//! Reservations, by brute force: small histories of calls, reservations and cancellations.

use std::time::Duration;

use tollgate_core::store::{Check, MAX_EXACT, Operation, Request, State, Verdicts};
use tollgate_core::{Algorithm, Gcra, Limit, Quota, Receipt, Timestamp};

/// A call that was admitted and not given back: when it starts, and its cost.
#[derive(Clone, Copy, Debug)]
struct Started {
    at: u64,
    cost: u64,
}

/// An admitted call: its receipt, its checks (limit and cost), and its start under each.
struct Admitted {
    receipt: Receipt,
    checks: Vec<(usize, u64)>,
    starts: Vec<Started>,
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Checks these limits at these costs.
    Check(Vec<(usize, u64)>),
    /// Reserves with these limits at these costs, within this delay.
    Reserve(Vec<(usize, u64)>, u64),
    /// Gives back the admitted call at this index.
    Cancel(usize),
    /// Advances the clock.
    Wait(u64),
}

/// Limits, their states, and every call that is kept.
struct World<'l> {
    limits: &'l [Limit],
    states: Vec<State>,
    now: u64,
    admitted: Vec<Admitted>,
}

fn limit(amount: u64, window_us: u64, burst: u64) -> Limit {
    let quota = Quota::new(amount, Duration::from_micros(window_us)).unwrap();
    let name = format!("of-{amount}-{window_us}-{burst}");
    Limit::new(&name, Gcra::with_burst(quota, burst).unwrap()).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

impl<'l> World<'l> {
    fn new(limits: &'l [Limit]) -> Self {
        Self {
            limits,
            states: vec![State::default(); limits.len()],
            now: 0,
            admitted: Vec::new(),
        }
    }

    /// Decides an operation, on the states of the limits that it names.
    fn decide(&mut self, operation: Operation<'_>, asked: &[(usize, u64)]) -> Verdicts {
        let limits = self.limits;
        let checks = asked
            .iter()
            .map(|&(index, cost)| Check::new(&limits[index], "k", cost));
        let request = Request::new(operation, checks.collect::<Vec<_>>());
        let mut states: Vec<_> = asked.iter().map(|&(i, _)| self.states[i].clone()).collect();
        let verdicts = request.decide_on(&mut states[..], at(self.now));
        for (&(index, _), state) in asked.iter().zip(states) {
            self.states[index] = state;
        }
        verdicts
    }

    /// Performs a step, and returns whether it was admitted.
    fn step(&mut self, step: &Step) -> bool {
        let (operation, asked) = match step {
            Step::Wait(micros) => {
                self.now += micros;
                return false;
            }
            Step::Cancel(index) => {
                if self.admitted.is_empty() {
                    return false;
                }
                let index = index % self.admitted.len();
                let Admitted {
                    receipt, checks, ..
                } = self.admitted.remove(index);
                let _ = self.decide(Operation::Refund(&receipt), &checks);
                return false;
            }
            Step::Check(asked) => (Operation::Consume, asked),
            Step::Reserve(asked, within) => {
                let max_delay = Duration::from_micros(*within);
                (Operation::Reserve { max_delay }, asked)
            }
        };
        let verdicts = self.decide(operation, asked);
        let delay = verdicts.delay().as_micros().unwrap();
        if let Step::Reserve(_, within) = step {
            assert!(delay <= *within);
        }
        let allowed = verdicts.is_allowed();
        let Some(receipt) = verdicts.into_receipt() else {
            return allowed;
        };
        let starts: Vec<_> = receipt
            .consumed()
            .iter()
            .map(|consumed| Started {
                at: consumed.at().as_micros(),
                cost: consumed.cost(),
            })
            .collect();
        for (started, (_, cost)) in starts.iter().zip(asked) {
            assert_eq!((started.at, started.cost), (self.now + delay, *cost));
        }
        self.admitted.push(Admitted {
            receipt,
            checks: asked.clone(),
            starts,
        });
        allowed
    }

    /// Fails if under some limit a span holds more starts than the burst and what the rate adds.
    fn is_within_bounds(&self, history: &[Step]) {
        for (index, limit) in self.limits.iter().enumerate() {
            let mut starts: Vec<Started> = self
                .admitted
                .iter()
                .flat_map(|one| one.checks.iter().zip(&one.starts))
                .filter(|((of, _), _)| *of == index)
                .map(|(_, started)| *started)
                .collect();
            starts.sort_unstable_by_key(|started| started.at);
            let Algorithm::Gcra(machine) = limit.algorithm() else {
                unreachable!("all limits are GCRA")
            };
            let quota = limit.algorithm().quota();
            for first in 0..starts.len() {
                let mut held = 0;
                for last in &starts[first..] {
                    held += last.cost;
                    let flowed = (last.at - starts[first].at) * quota.amount();
                    assert!(
                        held * quota.window_us() <= machine.burst() * quota.window_us() + flowed,
                        "{limit}: {held} from {} to {}: {starts:?}\n{history:?}",
                        starts[first].at,
                        last.at
                    );
                }
            }
        }
    }
}

/// A small generator of pseudo-random numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn index(&mut self, most: usize) -> usize {
        usize::try_from(self.below(most as u64)).unwrap()
    }
}

/// Returns every limit with a random cost.
fn costs(limits: &[Limit], random: &mut Random) -> Vec<(usize, u64)> {
    let limits = limits.iter().enumerate();
    limits
        .map(|(index, limit)| (index, 1 + random.below(limit.algorithm().capacity().min(3))))
        .collect()
}

fn families() -> Vec<Vec<Limit>> {
    vec![
        vec![limit(1, 2, 1)],
        vec![limit(1, 3, 2)],
        vec![limit(3, 2, 4)],
        vec![limit(7, 3, 9)],
        vec![limit(1, 4, 1), limit(1, 1, 4)],
        vec![limit(1, 5, 1), limit(2, 3, 3)],
        vec![limit(1, 6, 2), limit(3, 4, 3), limit(1, 2, 1)],
    ]
}

/// Of a random history that only moves forward in time, kept starts never exceed any bound, whatever
/// is cancelled.
#[test]
fn cancelling_never_breaks_the_starts_that_are_kept() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let families = families();
    for _ in 0..150_000 {
        let limits = &families[random.index(families.len())];
        let mut world = World::new(limits);
        let mut history = Vec::new();
        for _ in 0..4 + random.below(12) {
            let mut asked = costs(limits, &mut random);
            asked.retain(|_| random.below(4) > 0);
            if asked.is_empty() {
                asked.push((random.index(limits.len()), 1));
            }
            let step = match random.below(10) {
                0..=1 => Step::Check(asked),
                2..=5 => Step::Reserve(asked, [0, 1, 3, 7, 100][random.index(5)]),
                6..=7 => Step::Cancel(random.index(16)),
                _ => Step::Wait(1 + random.below(4)),
            };
            history.push(step.clone());
            world.step(&step);
            world.is_within_bounds(&history);
        }
    }
}

/// All histories of five steps, under one limit and under two.
#[test]
fn every_small_history_keeps_the_bounds() {
    let pairs = [
        vec![limit(1, 2, 1)],
        vec![limit(1, 3, 1), limit(1, 1, 2)],
        vec![limit(1, 2, 2), limit(3, 2, 3)],
    ];
    for limits in &pairs {
        let all: Vec<_> = (0..limits.len()).map(|index| (index, 1)).collect();
        let last = vec![(limits.len() - 1, 1)];
        let most = vec![(
            limits.len() - 1,
            limits[limits.len() - 1].algorithm().capacity(),
        )];
        let steps = [
            Step::Check(last.clone()),
            Step::Reserve(all, 100),
            Step::Reserve(last, 100),
            Step::Reserve(most, 3),
            Step::Cancel(0),
            Step::Cancel(1),
            Step::Cancel(2),
            Step::Wait(1),
        ];
        const LONG: u32 = 5;
        for number in 0..steps.len().pow(LONG) {
            let mut world = World::new(limits);
            let mut rest = number;
            let mut history = Vec::new();
            for _ in 0..LONG {
                let step = steps[rest % steps.len()].clone();
                rest /= steps.len();
                world.step(&step);
                history.push(step);
                world.is_within_bounds(&history);
            }
        }
    }
}

/// Reservations cancelled in the opposite order leave the states as they would be without them.
#[test]
fn cancelling_the_last_reservation_undoes_it() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let families = families();
    let mut undone = 0;
    for _ in 0..20_000 {
        let limits = &families[random.index(families.len())];
        let mut world = World::new(limits);
        for _ in 0..random.below(6) {
            let asked = costs(limits, &mut random);
            world.step(&Step::Reserve(asked, 20));
            world.step(&Step::Wait(random.below(3)));
        }
        let mut without = World::new(limits);
        without.states.clone_from(&world.states);
        without.now = world.now;
        let before = world.admitted.len();
        for _ in 0..1 + random.below(3) {
            let asked = costs(limits, &mut random);
            world.step(&Step::Reserve(asked, 100));
            let wait = random.below(2);
            // All of them are still to start when they are cancelled.
            if world.admitted[before..]
                .iter()
                .all(|one| one.starts[0].at > world.now + wait)
            {
                world.step(&Step::Wait(wait));
                without.now = world.now;
            }
        }
        if world.admitted[before..]
            .iter()
            .any(|one| one.starts[0].at <= world.now)
        {
            continue;
        }
        undone += 1;
        while world.admitted.len() > before {
            world.step(&Step::Cancel(world.admitted.len() - 1));
        }
        for _ in 0..8 {
            let asked = costs(limits, &mut random);
            let max_delay = Duration::from_micros(50);
            let [one, other] = [&mut world, &mut without]
                .map(|world| world.decide(Operation::Reserve { max_delay }, &asked));
            assert_eq!(one, other);
            let wait = random.below(3);
            world.now += wait;
            without.now += wait;
        }
    }
    assert!(undone > 2_000, "only {undone} histories cancelled anything");
}

/// A history in which giving back more than nothing would let two calls start at once.
#[test]
fn a_hole_stays_until_every_call_has_started() {
    let limits = [limit(1, 10, 1)];
    let mut world = World::new(&limits);
    let one = vec![(0, 1)];
    for start in [0, 10, 20] {
        world.step(&Step::Reserve(one.clone(), 100));
        assert_eq!(world.admitted.last().unwrap().starts[0].at, start);
    }
    // The one in the middle leaves a hole; so does the first, which has started.
    world.step(&Step::Cancel(1));
    world.step(&Step::Cancel(0));
    world.step(&Step::Reserve(one.clone(), 100));
    assert_eq!(world.admitted.last().unwrap().starts[0].at, 30);
    // The last can be given back, and then the one before it.
    world.step(&Step::Cancel(1));
    world.step(&Step::Cancel(0));
    world.step(&Step::Reserve(one, 100));
    assert_eq!(world.admitted.last().unwrap().starts[0].at, 20);
}

/// A limit that would let several calls start at once counts them from the start that another limit
/// causes.
#[test]
fn a_limit_counts_from_the_start_that_another_limit_causes() {
    // Starts 100 apart under the first limit; the second admits one per 10.
    let limits = [limit(4, 400, 4), limit(1, 10, 1)];
    let mut world = World::new(&limits);
    world.step(&Step::Check(vec![(0, 4)]));
    for start in [100, 200] {
        world.step(&Step::Reserve(vec![(0, 1), (1, 1)], 1_000));
        assert_eq!(world.admitted.last().unwrap().starts[1].at, start);
    }
    // Alone, the second limit is free only after the last of them.
    world.step(&Step::Reserve(vec![(1, 1)], 1_000));
    assert_eq!(world.admitted.last().unwrap().starts[0].at, 210);
}

/// A refused reservation would be accepted after exactly its `retry_after`, with its longest delay.
#[test]
fn a_refused_reservation_says_when_it_would_be_accepted() {
    let limits = [limit(1, 10, 1), limit(2, 7, 2)];
    let both = vec![(0, 1), (1, 1)];
    for within in 0..25 {
        let mut world = World::new(&limits);
        for _ in 0..4 {
            world.step(&Step::Reserve(both.clone(), 100));
        }
        let max_delay = Duration::from_micros(within);
        let operation = Operation::Reserve { max_delay };
        let denied = world.decide(operation, &both);
        assert!(denied.is_denied() && denied.delay().is_zero());
        let wait = denied.retry_after().as_micros().unwrap();
        assert_eq!(wait, 40 - within);
        world.now += wait - 1;
        assert!(world.decide(operation, &both).is_denied());
        world.now += 1;
        assert_eq!(
            world.decide(operation, &both).delay().as_micros(),
            Some(within)
        );
    }
}

/// Every limit allows a reservation that waits for one of them.
#[test]
fn each_limit_of_a_delayed_reservation_allows_it() {
    let limits = [limit(1, 10, 1), limit(5, 10, 5)];
    let both = [(0, 1), (1, 1)];
    let mut world = World::new(&limits);
    let max_delay = Duration::from_micros(10);
    // The delays, and what is left with the call counted from its start: units, and microseconds.
    for expected in [[(0, 0, 10), (0, 4, 2)], [(10, 0, 20), (0, 0, 12)]] {
        let verdicts = world.decide(Operation::Reserve { max_delay }, &both);
        for (verdict, (delay, remaining, reset_after)) in verdicts.as_slice().iter().zip(expected) {
            assert!(verdict.is_allowed());
            assert_eq!(verdict.delay().as_micros(), Some(delay));
            assert_eq!(verdict.remaining(), remaining);
            assert_eq!(verdict.reset_after().as_micros(), Some(reset_after));
        }
    }
}

/// However long a call may wait, it is not delayed for longer than the debt can be counted exactly.
#[test]
fn a_delay_that_cannot_be_counted_is_refused() {
    let window = MAX_EXACT / 5 * 2;
    let limits = [limit(1, window, 1)];
    let mut world = World::new(&limits);
    let operation = Operation::Reserve {
        max_delay: Duration::from_micros(MAX_EXACT),
    };
    for delay in [0, window] {
        let verdicts = world.decide(operation, &[(0, 1)]);
        assert_eq!(verdicts.delay().as_micros(), Some(delay));
    }
    let refused = world.decide(operation, &[(0, 1)]);
    assert!(refused.is_denied());
    // Until the delay is the longest that can be counted.
    let wait = 2 * window - (MAX_EXACT - window);
    assert_eq!(refused.retry_after().as_micros(), Some(wait));
}

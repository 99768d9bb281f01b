//! A state is the same wherever it is kept: alone, or in a row with others of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::store::{Check, Operation, Request, State};
use tollgate_core::{Clock, Limit, RateLimiter, SyncStore};
use tollgate_memory::{ManualClock, MemoryStore};

const LIMITS: [&str; 6] = [
    "a=gcra:3/1s",
    "b=fixed-window:5/2s",
    "c=sliding-log:4/1s",
    "d=sliding-counter:6/1s",
    "e=sliding-buckets:5/2s,buckets=4",
    "f=gcra:9/5s,burst=2",
];

/// Which of the limits a limiter has. Those of different limiters are equal, but no clones.
const LIMITERS: [&[usize]; 10] = [
    &[0],
    &[1],
    &[0, 1],
    &[1, 0],
    &[2, 1],
    &[0, 1, 2],
    &[3, 4],
    &[5, 4, 3, 2],
    &[1, 2, 3, 4, 5],
    &[0, 1, 2, 3, 4, 5],
];

#[derive(Clone, Debug)]
enum Step {
    /// A call of a limiter, for a key.
    Check(usize, usize, u64),
    /// A request of several keys, with the limits of two limiters.
    Both([usize; 2], [usize; 2]),
    Peek(usize, usize),
    Reset(usize, usize),
    Pass(u64),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let (limiter, key) = (0..LIMITERS.len(), 0..3_usize);
    prop_oneof![
        12 => (limiter.clone(), key.clone(), 0..4_u64)
            .prop_map(|(limiter, key, cost)| Step::Check(limiter, key, cost)),
        3 => ([limiter.clone(), limiter.clone()], [key.clone(), key.clone()])
            .prop_map(|(limiters, keys)| Step::Both(limiters, keys)),
        1 => (limiter.clone(), key.clone()).prop_map(|(limiter, key)| Step::Peek(limiter, key)),
        1 => (limiter, key).prop_map(|(limiter, key)| Step::Reset(limiter, key)),
        4 => (0..1_500_u64).prop_map(Step::Pass),
        1 => Just(Step::Sweep),
    ]
}

fn place(check: &Check<'_>) -> (String, String) {
    (
        check.limit().name().to_owned(),
        format!("{:?}", check.key()),
    )
}

/// What the store should hold: a state for each limit and key.
#[derive(Default)]
struct Model(BTreeMap<(String, String), State>);

impl Model {
    fn states(&self, checks: &[Check<'_>]) -> Vec<State> {
        let of = |check| self.0.get(&place(check)).cloned();
        checks
            .iter()
            .map(|check| of(check).unwrap_or_default())
            .collect()
    }

    fn keep(&mut self, checks: &[Check<'_>], states: Vec<State>) {
        for (check, state) in checks.iter().zip(states) {
            if !state.to_bytes().is_empty() {
                self.0.insert(place(check), state);
            }
        }
    }
}

proptest! {
    #[test]
    fn states_are_the_same_alone_or_in_a_row(steps in vec(step(), 1..120)) {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limits: Vec<Vec<Limit>> = LIMITERS
            .iter()
            .map(|limits| limits.iter().map(|limit| LIMITS[*limit].parse().unwrap()).collect())
            .collect();
        let limiters: Vec<_> = limits
            .iter()
            .map(|limits| RateLimiter::new(&store, limits.clone()).unwrap())
            .collect();
        let keys = ["alice", "bob", "a key of more than sixteen bytes"];
        let mut model = Model::default();
        for step in steps {
            let now = clock.now();
            match step {
                Step::Check(limiter, key, cost) => {
                    let request = Request::consume_all(&limits[limiter], keys[key], cost);
                    let mut states = model.states(request.checks());
                    let expected = request.decide_on(&mut states[..], now);
                    let decision = limiters[limiter].check(keys[key]).cost(cost).run().unwrap();
                    let verdicts = decision.into_verdicts();
                    prop_assert_eq!(verdicts.as_slice(), expected.as_slice());
                    model.keep(request.checks(), states);
                }
                Step::Both(which, of) => {
                    let mut checks: Vec<Check<'_>> = Vec::new();
                    for (limiter, key) in which.into_iter().zip(of) {
                        for limit in &limits[limiter] {
                            let check = Check::new(limit, keys[key], 1);
                            if !checks.iter().any(|other| other.shares_state_with(&check)) {
                                checks.push(check);
                            }
                        }
                    }
                    let request = Request::new(Operation::Consume, &checks);
                    let mut states = model.states(&checks);
                    let expected = request.decide_on(&mut states[..], now);
                    let verdicts = store.decide_now(&request).unwrap();
                    prop_assert_eq!(verdicts.as_slice(), expected.as_slice());
                    model.keep(&checks, states);
                }
                Step::Peek(limiter, key) => {
                    let expected = Request::consume_all(&limits[limiter], keys[key], 0);
                    let request = Request::new(Operation::Peek, expected.checks());
                    let mut states = model.states(request.checks());
                    let expected = request.decide_on(&mut states[..], now);
                    let verdicts = store.decide_now(&request).unwrap();
                    prop_assert_eq!(verdicts.as_slice(), expected.as_slice());
                }
                Step::Reset(limiter, key) => {
                    let request = Request::consume_all(&limits[limiter], keys[key], 0);
                    store.reset_now(request.checks()).unwrap();
                    for check in request.checks() {
                        model.0.remove(&place(check));
                    }
                }
                Step::Pass(millis) => clock.advance(Duration::from_millis(millis)),
                Step::Sweep => {
                    store.sweep();
                    let counts = |((name, _), state): (&(String, String), &State)| {
                        let limit = LIMITS.iter().find(|text| text.starts_with(&**name)).unwrap();
                        !state.is_fresh(&limit.parse().unwrap(), now)
                    };
                    prop_assert_eq!(store.len(), model.0.iter().filter(|of| counts(*of)).count());
                }
            }
            prop_assert!(store.len() <= LIMITS.len() * keys.len());
        }
        clock.advance(Duration::from_secs(60));
        let held = store.len();
        prop_assert_eq!(store.sweep(), held);
        prop_assert!(store.is_empty());
    }
}

#[test]
fn keys_that_are_reset_leave_nothing() {
    let limits: Vec<Limit> = LIMITS.iter().map(|limit| limit.parse().unwrap()).collect();
    for count in 1..=limits.len() {
        let store = MemoryStore::new();
        let limiter = RateLimiter::new(&store, limits[..count].to_vec()).unwrap();
        for key in 0..20_000 {
            let key = key.to_string();
            assert!(limiter.check(&key).run().unwrap().is_allowed());
            limiter.reset(&key).run().unwrap();
        }
        assert!(store.is_empty());
        assert!(
            store.bytes() < 100_000,
            "{} bytes, {count} limits",
            store.bytes()
        );
    }
}

/// Every state of a row expires for itself, and what is left of the row takes no more than states alone.
#[test]
fn what_is_left_of_a_row_takes_the_room_of_what_it_holds() {
    const KEYS: usize = 500;
    let names = ["a", "b", "c", "d"];
    for (count, left) in [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)] {
        for is_reset in [false, true] {
            let clock = ManualClock::new();
            let store = MemoryStore::builder()
                .max_keys(KEYS * count)
                .clock(clock.clone())
                .build();
            let window = |index| if index < left { "1d" } else { "1s" };
            let limits = names[..count].iter().enumerate();
            let limits =
                limits.map(|(index, name)| format!("{name}=fixed-window:9/{}", window(index)));
            let limiter = RateLimiter::new(&store, limits.collect::<Vec<_>>()).unwrap();
            let gone = names[left..count]
                .iter()
                .map(|name| format!("{name}=fixed-window:9/1s"));
            let gone = RateLimiter::new(&store, gone.collect::<Vec<_>>()).unwrap();
            for key in 0..KEYS {
                let key = key.to_string();
                assert!(limiter.check(&key).run().unwrap().is_allowed());
                if is_reset {
                    gone.reset(&key).run().unwrap();
                }
            }
            clock.advance(Duration::from_secs(2));
            store.sweep();
            assert_eq!(store.len(), KEYS * left);
            let assert_bytes = || {
                let (bytes, most) = (store.bytes(), store.len() * 300);
                assert!(bytes <= most, "{bytes} of {most}, {left} of {count}");
            };
            assert_bytes();
            // New keys take their places.
            let more = RateLimiter::new(&store, ["e=fixed-window:1/1d"]).unwrap();
            for key in 0..KEYS * (count - left) {
                assert!(more.check(&key.to_string()).run().unwrap().is_allowed());
            }
            assert!(more.check("one more").run().is_err());
            assert_bytes();
            // Every key still has what is left, and may get the others again.
            for key in 0..KEYS {
                let peek = limiter.peek(&key.to_string()).run().unwrap();
                let remaining =
                    |(_, verdict): (_, tollgate_core::store::Verdict)| verdict.remaining();
                let remaining: Vec<u64> = peek.verdicts().map(remaining).collect();
                assert!(remaining[..left].iter().all(|remaining| *remaining == 8));
            }
        }
    }
}

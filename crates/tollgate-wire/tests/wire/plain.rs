//! The store without scripts on a server in this process, whose clocks are set by the test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tollgate_core::store::{Check, Request, Verdicts};
use tollgate_core::{Limit, Receipt};
use tollgate_wire::inside::{Command, PlainStore, Transact};
use tollgate_wire::{Engine, Failure, Options, ScriptCall};

use crate::engine::{config, limit, never_waits, now};

/// The server's time when a test begins, in microseconds: the middle of a window of one second.
const BEGIN: u64 = 1_800_000_000_500_000;
/// Half of the time that a transaction takes.
const HALF_TRIP: u64 = 150;

/// A server and the true time, in microseconds since the test began.
#[derive(Debug, Default)]
struct World {
    time: u64,
    /// How fast the server's clock is, in parts per million of the true time.
    server_ppm: i64,
    /// What the server's clock was set forward or back by.
    step: i64,
    counters: HashMap<Vec<u8>, Counter>,
    transactions: u64,
    /// What `Debug` shows of the commands.
    shown: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    value: i64,
    /// The Unix time in milliseconds after which the server deletes it.
    expires: Option<i64>,
}

/// Returns what a clock shows that started with the test and is fast by `ppm`.
fn elapsed(time: u64, ppm: i64) -> u64 {
    let time = i128::from(time);
    u64::try_from(time + time * i128::from(ppm) / 1_000_000).unwrap()
}

fn number(word: &[u8]) -> i64 {
    std::str::from_utf8(word).unwrap().parse().unwrap()
}

impl World {
    fn server_time(&self) -> u64 {
        (BEGIN + elapsed(self.time, self.server_ppm)).saturating_add_signed(self.step)
    }

    fn run(&mut self, command: &Command) -> Vec<Option<i64>> {
        let server_time = i64::try_from(self.server_time()).unwrap();
        let words = command.words();
        let name = std::str::from_utf8(&words[0]).unwrap();
        if name == "TIME" {
            return [server_time / 1_000_000, server_time % 1_000_000]
                .map(Some)
                .to_vec();
        }
        let key = words[1].clone();
        let is_over =
            |counter: &Counter| counter.expires.is_some_and(|at| server_time / 1_000 > at);
        if self.counters.get(&key).is_some_and(is_over) {
            self.counters.remove(&key);
        }
        let held = self.counters.get(&key).copied();
        match name {
            "BITFIELD_RO" => vec![Some(held.unwrap_or_default().value)],
            "BITFIELD" => {
                let mut counter = held.unwrap_or_default();
                let (overflow, by) = (&words[6], number(&words[10]));
                let before = counter.value;
                let after = match before.checked_add(by) {
                    Some(sum) => Some(sum.max(0)),
                    None if overflow == b"SAT" => Some(i64::MAX),
                    None => None,
                };
                counter.value = after.unwrap_or(before);
                self.counters.insert(key, counter);
                vec![Some(before), after]
            }
            "PEXPIREAT" => {
                let at = number(&words[2]);
                let is_new = held.is_some_and(|counter| counter.expires.is_none());
                if is_new && at <= server_time / 1_000 {
                    self.counters.remove(&key);
                } else if is_new {
                    self.counters.get_mut(&key).unwrap().expires = Some(at);
                }
                vec![Some(i64::from(is_new))]
            }
            "PEXPIRETIME" => vec![Some(held.map_or(-2, |held| held.expires.unwrap_or(-1)))],
            other => panic!("{other} is no command of this server"),
        }
    }
}

/// A client of the server, with a monotonic clock of its own.
struct Client {
    world: Arc<Mutex<World>>,
    ppm: i64,
}

impl Engine for Client {
    async fn run(&self, _call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        panic!("this server runs no scripts")
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        panic!("this server runs no scripts")
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        for key in keys {
            self.world.lock().unwrap().counters.remove(key);
        }
        Ok(())
    }

    never_waits!();

    fn now(&self) -> SystemTime {
        panic!("the server's clock decides")
    }

    fn is_clustered(&self) -> bool {
        false
    }
}

impl Transact for Client {
    async fn transact(&self, commands: &[Command]) -> Result<Vec<Vec<Option<i64>>>, Failure> {
        let mut world = self.world.lock().unwrap();
        world.shown += &format!("{commands:?}");
        world.transactions += 1;
        world.time += HALF_TRIP;
        let replies = commands.iter().map(|command| world.run(command)).collect();
        world.time += HALF_TRIP;
        Ok(replies)
    }

    fn monotonic_us(&self) -> u64 {
        elapsed(self.world.lock().unwrap().time, self.ppm)
    }
}

/// A server and one store on it for each rate in `ppm`.
struct Scene {
    world: Arc<Mutex<World>>,
    stores: Vec<PlainStore<Client>>,
    limit: Limit,
}

impl Scene {
    fn new(written: &str, server_ppm: i64, ppm: &[i64]) -> Self {
        let world = Arc::new(Mutex::new(World {
            server_ppm,
            ..World::default()
        }));
        let client = |&ppm: &i64| Client {
            world: Arc::clone(&world),
            ppm,
        };
        let store = |client| PlainStore::new(client, Options::new(), &[]).unwrap();
        Self {
            stores: ppm.iter().map(client).map(store).collect(),
            limit: limit(written),
            world,
        }
    }

    fn wait(&self, time: u64) {
        self.world.lock().unwrap().time += time;
    }

    fn wait_until(&self, server_time: u64) {
        let mut world = self.world.lock().unwrap();
        while world.server_time() < server_time {
            // No clock here is so fast that this is too long.
            world.time += (server_time - world.server_time()).div_ceil(2);
        }
    }

    fn server_time(&self) -> u64 {
        self.world.lock().unwrap().server_time()
    }

    fn step(&self, by: i64) {
        self.world.lock().unwrap().step += by;
    }

    fn transactions(&self) -> u64 {
        self.world.lock().unwrap().transactions
    }

    fn counters(&self) -> Vec<(Vec<u8>, i64)> {
        let world = self.world.lock().unwrap();
        let counters = world.counters.iter();
        counters
            .map(|(key, counter)| (key.clone(), counter.value))
            .collect()
    }

    fn check(&self, cost: u64) -> Check<'_> {
        Check::new(&self.limit, "k", cost)
    }

    fn consume(&self, store: usize) -> Verdicts {
        now(self.stores[store].execute(&Request::consume(self.check(1)))).unwrap()
    }

    fn peek(&self) -> Verdicts {
        now(self.stores[0].execute(&Request::peek(self.check(1)))).unwrap()
    }

    fn refund(&self, receipt: &Receipt) -> Verdicts {
        now(self.stores[0].execute(&Request::refund(receipt, self.check(0)))).unwrap()
    }
}

/// Returns the most that is in any half-open span of `window`.
fn most_in_a_span(admitted: &[u64], window: u64) -> usize {
    let count = |&begin: &u64| {
        let in_span = |&&at: &&u64| (begin..begin + window).contains(&at);
        admitted.iter().filter(in_span).count()
    };
    admitted.iter().map(count).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(config(300))]

    /// Clients whose clocks are slow or fast by up to 500 ppm, and so is the server's, call around
    /// the ends of windows, and some are quiet for long.
    #[test]
    fn no_span_admits_more_than_twice_the_amount(
        server_ppm in -500..=500_i64,
        ppm in prop::collection::vec(-500..=500_i64, 1..4),
        acts in prop::collection::vec((
            0..4_usize,
            prop_oneof![6 => 0..400_000_u64, 1 => 0..400_000_000_u64],
            1..6_u64,
            -20_000..20_000_i64,
        ), 1..60),
    ) {
        const WINDOW: u64 = 1_000_000;
        let scene = Scene::new("fixed-window:3/1s", server_ppm, &ppm);
        let mut admitted = Vec::new();
        for (store, quiet, calls, around) in acts {
            scene.wait(quiet);
            if around < 0 {
                // Close to the end of a window.
                let end = scene.server_time().next_multiple_of(WINDOW);
                scene.wait_until(end.saturating_add_signed(around));
            }
            for _ in 0..calls {
                let before = scene.transactions();
                if scene.consume(store % ppm.len()).is_allowed() {
                    admitted.push(scene.server_time() - HALF_TRIP);
                }
                // One after a quiet time, and one more at the end of a window.
                let asked = scene.transactions() - before;
                prop_assert!(asked <= 3, "one call took {} transactions", asked);
            }
        }
        let most = most_in_a_span(&admitted, WINDOW);
        prop_assert!(most <= 6, "{} were admitted in one window's length", most);
    }

    /// Whatever the clocks do, each window is given all of its amount.
    #[test]
    fn every_window_admits_its_amount(
        server_ppm in -500..=500_i64,
        ppm in prop::collection::vec(-500..=500_i64, 1..4),
        windows in 1..20_u64,
    ) {
        let scene = Scene::new("fixed-window:3/1s", server_ppm, &ppm);
        let mut admitted = 0;
        for window in 0..windows {
            scene.wait_until(BEGIN + window * 1_000_000);
            for call in 0..9 {
                admitted += u64::from(scene.consume(call % ppm.len()).is_allowed());
            }
        }
        prop_assert_eq!(admitted, windows * 3);
    }
}

#[test]
fn a_busy_client_needs_one_transaction_for_each_call() {
    let scene = Scene::new("fixed-window:1000000/1h", -500, &[500]);
    let _ = scene.consume(0);
    let before = scene.transactions();
    for _ in 0..1_000 {
        let _ = scene.consume(0);
        scene.wait(10_000);
    }
    assert_eq!(scene.transactions() - before, 1_000);
}

/// The server's clock steps back out of a window that the client knows to have begun.
#[test]
fn a_call_after_the_servers_clock_stepped_back_is_decided_at_the_windows_start() {
    let scene = Scene::new("fixed-window:2/1s", 0, &[0]);
    let start = BEGIN + 500_000;
    scene.wait_until(start + 1_000);
    assert!(scene.peek().is_allowed());
    scene.step(-3_400);
    let first = scene.consume(0);
    let told = scene.server_time() - HALF_TRIP;
    assert!(told < start, "the server has left the window");
    assert_eq!(first.as_slice()[0].decided_at().as_micros(), start);
    let reset = first.reset_after().as_micros().unwrap();
    assert_eq!(told + reset, start + 1_000_000);
    let key = |counters: Vec<(Vec<u8>, i64)>| counters.first().unwrap().0.clone();
    let counter = key(scene.counters());

    // What is given back is given back to the counter that the call was counted in.
    let receipt = first.into_receipt().unwrap();
    let refunded = scene.refund(&receipt);
    assert_eq!(scene.counters(), [(counter, 0)]);
    assert_eq!(refunded.remaining(), 2);
}

#[test]
fn a_refund_after_its_window_gives_nothing_back() {
    let scene = Scene::new("fixed-window:2/1s", 0, &[0]);
    let receipt = scene.consume(0).into_receipt().unwrap();
    let second = scene.consume(0).into_receipt().unwrap();
    assert_eq!(scene.refund(&second).remaining(), 1);
    assert_eq!(scene.peek().remaining(), 1);
    scene.wait_until(BEGIN + 600_000);
    let _ = scene.consume(0);
    let (before, counters) = (scene.transactions(), scene.counters());
    assert_eq!(scene.refund(&receipt).remaining(), 1);
    assert_eq!(scene.transactions() - before, 1);
    assert_eq!(scene.counters(), counters);
}

/// The server's window may end between the look at its clock and the deletion, and others may have
/// counted in the next one by then: so may they where the clock has stepped back out of it.
#[test]
fn a_reset_forgets_the_next_window_too() {
    let scene = Scene::new("fixed-window:2/1s", 0, &[0]);
    let _ = scene.consume(0);
    scene.wait_until(BEGIN + 500_001);
    let _ = scene.consume(0);
    scene.step(-1_000);
    assert!(!scene.counters().is_empty());
    now(scene.stores[0].reset(&[scene.check(0)])).unwrap();
    assert_eq!(scene.counters(), []);
}

#[test]
fn debug_of_a_command_shows_no_key() {
    let scene = Scene::new("fixed-window:2/1s", 0, &[0]);
    let check = Check::new(&scene.limit, "carol4711", 1);
    let _ = now(scene.stores[0].execute(&Request::consume(check))).unwrap();
    let key = scene.counters().remove(0).0;
    let text = String::from_utf8(key.clone()).unwrap();
    assert!(text.contains("carol4711"), "{text}");
    let shown = &scene.world.lock().unwrap().shown;
    let holds = shown.contains("BITFIELD") && shown.contains("arguments: 10");
    assert!(holds, "{shown}");
    let digits = format!("{key:?}");
    for secret in ["carol4711", digits.trim_matches(['[', ']'])] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

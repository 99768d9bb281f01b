//! After every operation a server holds what the state of the machine says, for as long as it says
//! something; and what changes nothing has written nothing.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use tollgate_core::Algorithm;
use tollgate_core::inside::twins::{TWINS, code};
use tollgate_core::store::{BlockSpan, Check, MAX_EXACT, Operation, Prefetch, Request, State};
use tollgate_core::{Limit, Receipt, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server, rounds};
use tollgate_wire::WireStore;

use crate::engine::{Canned, Raw, START, config, doubles, limit, now, store_on};
use crate::lifetime::{lives, server_time};

/// What a store keeps a state longer for that was written at a caller's instant, in milliseconds.
const SLACK: u64 = 600_000;

/// Limits that count in the same states, and so may take each other's place: a family a line.
const FAMILIES: &str = "\
gcra:10/1s gcra:7/1s,burst=3 gcra:10/1s,burst=2 gcra:3/1s gcra:0/1s
# Debts that are no whole number of another quota's units.
gcra:7/10us,burst=5 gcra:3/7us,burst=5 gcra:7/11us,burst=9
# As many units to a token as there may be, or one; and debts that are capped.
gcra:2/9007199254740991us,burst=1 gcra:9007199254740991/1us gcra:1/1s,burst=9007199254 gcra:3/7us,burst=1000000000000000 gcra:9007/1h
fixed-window:10/1s fixed-window:3/1s fixed-window:4/1s,count-denied fixed-window:0/1s,count-denied fixed-window:9007199254740991/1s,count-denied
fixed-window:10/1300us fixed-window:0/1300us
fixed-window:3/9007199254740991us
fixed-window:10/1s,anchored fixed-window:3/1s,anchored fixed-window:4/1s,anchored,count-denied fixed-window:0/1s,anchored,count-denied fixed-window:9007199254740991/1s,anchored,count-denied
fixed-window:3/1d,anchored fixed-window:2/1d,anchored
sliding-counter:10/1s sliding-counter:3/1s sliding-counter:0/1s
# In steps that do not divide the window.
sliding-counter:9007199254740/1s sliding-counter:70000000000/1s
sliding-counter:7/3us
sliding-counter:5/1us
sliding-buckets:10/1s,buckets=4 sliding-buckets:3/1s,buckets=4 sliding-buckets:0/1s,buckets=4
sliding-buckets:10/1s,buckets=3
sliding-buckets:9007199254740991/1s,buckets=1
sliding-log:10/1s sliding-log:3/1s sliding-log:0/1s
sliding-log:40/1s sliding-log:100000/100ms sliding-log:10/1d
sliding-log:5/1s,count-denied sliding-log:15/1s,count-denied sliding-log:0/1s,count-denied sliding-log:15/1s
block:1s block:300ms,doublings=2 block:1500ms,doublings=1
block:3us,doublings=5 block:1us
fixed-window:10/day@Europe/Berlin fixed-window:3/day@Europe/Berlin fixed-window:0/day@Europe/Berlin fixed-window:9007199254740991/day@Europe/Berlin
fixed-window:5/month@UTC fixed-window:4/month@UTC
";

/// What a server holds at a key, and the last millisecond in which it does.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Held {
    value: Vec<Vec<u8>>,
    ends: u64,
}

/// A server, and the machine's states of the same keys.
struct Pair {
    server: Server,
    store: WireStore<Raw>,
    keys: WireStore<Canned>,
    states: HashMap<Vec<u8>, State>,
    histories: u64,
    offered: u64,
}

impl Pair {
    fn on(flavor: Flavor) -> Self {
        let server = Server::start(flavor);
        Self {
            store: store_on(&server),
            keys: Canned::store(&[]),
            server,
            states: HashMap::new(),
            histories: 0,
            offered: 0,
        }
    }

    /// Begins a history, whose keys nobody else uses.
    fn begin(&mut self) -> String {
        self.states.clear();
        self.histories += 1;
        self.histories.to_string()
    }

    /// Returns whether to pass over one of many histories: four of five, unless everything is tested.
    fn passes_over(&mut self) -> bool {
        self.offered += 1;
        !self.offered.is_multiple_of(5) && !Flavor::is_every()
    }

    fn keys(&self, checks: &[Check<'_>], at: Timestamp) -> Vec<Vec<u8>> {
        // Nobody answers; but the keys were asked about.
        now(self
            .keys
            .execute(&Request::new(Operation::Peek, checks).at(at)))
        .unwrap_err();
        self.keys.engine().asked().keys
    }

    fn server_ms(&self) -> u64 {
        server_time(self.store.engine()) / 1_000
    }

    /// Returns what the server holds, how often it was written to, and when it was asked.
    fn look(&self, keys: &[Vec<u8>]) -> (Vec<Held>, u64, u64) {
        let looks = keys.iter().map(|key| self.store.engine().look(key));
        let looks: Vec<_> = looks.collect();
        let held = looks.iter().map(|look| {
            let items = match &look.value {
                Reply::Array(items) => &items[..],
                item => std::slice::from_ref(item),
            };
            let value = items.iter().filter_map(|item| match item {
                Reply::Bulk(bytes) => Some(bytes.clone()),
                _ => None,
            });
            Held {
                value: value.filter(|bytes| !bytes.is_empty()).collect(),
                ends: look.ends,
            }
        });
        (held.collect(), looks[0].changes, looks[0].millis)
    }

    /// Decides on the server as the machine does, and compares everything that is left there.
    fn decide(
        &mut self,
        operation: Operation<'_>,
        checks: &[Check<'_>],
        micros: u64,
    ) -> (u64, Option<Receipt>) {
        let at = Timestamp::from_micros(micros).unwrap();
        let request = Request::new(operation, checks).at(at);
        let what = format!("{request:?}");
        let keys = self.keys(checks, at);
        let of = |key| self.states.get(key).cloned().unwrap_or_default();
        let mut states: Vec<State> = keys.iter().map(of).collect();
        let before = states.clone();
        let evaluation = request.evaluate(&states[..], at);
        let expected = request.decide_on(&mut states[..], at);

        let (held, changes, _) = self.look(&keys);
        let sent = self.server_ms();
        let decision = now(self.store.execute(&request)).expect(&what);
        let (left, changes_after, received) = self.look(&keys);

        assert_eq!(decision, expected, "{what}");
        let mut wrote = false;
        for (index, check) in checks.iter().enumerate() {
            let algorithm = check.limit().algorithm();
            let said = said_by_machine(algorithm, &states[index]);
            let found = said_by_server(algorithm, &left[index].value);
            assert_eq!(found, said, "{what}: {index}");
            let writes = match operation {
                // Where there is nothing to give back, nothing is written.
                Operation::Refund(_) => said != said_by_machine(algorithm, &before[index]),
                Operation::Settle(receipt) if receipt.consumed()[index].cost() > check.cost() => {
                    said != said_by_machine(algorithm, &before[index])
                }
                _ => evaluation.writes_to(index),
            };
            wrote |= writes;
            if !writes {
                assert_eq!(left[index], held[index], "{what}: {index} was written");
                continue;
            }
            let reset = decision.as_slice()[index].reset_after();
            let reset = reset.as_micros().unwrap();
            let lives = lives(algorithm, reset) + SLACK;
            let ends = left[index].ends;
            // Servers read the clock that keys expire by less often than `TIME` does.
            assert!(
                (sent - 1..=received).contains(&(ends - lives)),
                "{what}: {index} ends {ends} ms, which is not {lives} after {sent} to {received}"
            );
        }
        assert_eq!(changes_after > changes, wrote, "{what}: changes");
        self.states.extend(keys.into_iter().zip(states));
        (decision.remaining(), decision.into_receipt())
    }

    fn reset(&mut self, checks: &[Check<'_>]) {
        let keys = self.keys(checks, Timestamp::UNIX_EPOCH);
        now(self.store.reset(checks)).unwrap();
        for (held, key) in self.look(&keys).0.iter().zip(&keys) {
            assert_eq!(*held, Held::default());
            self.states.remove(key);
        }
    }

    /// Puts entries into a log, as calls of these costs that were allowed would on such a running
    /// total, and returns the receipts of those calls.
    fn fill_log(&mut self, check: Check<'_>, total: u32, calls: &[(u64, u64)]) -> Vec<Receipt> {
        let keys = self.keys(&[check], Timestamp::UNIX_EPOCH);
        let (mut state, mut sum) = (State::default(), total);
        let (mut elements, mut receipts) = (vec![element(0, total)], Vec::new());
        for &(at, cost) in calls {
            let instant = Timestamp::from_micros(at).unwrap();
            let check = Check::new(check.limit(), check.key(), cost);
            let decision = Request::consume(check).at(instant);
            let decision = decision.decide_on(&mut state, instant);
            receipts.extend(decision.into_receipt());
            sum = sum.wrapping_add(u32::try_from(cost).unwrap());
            elements.push(element(at, sum));
        }
        assert_eq!(receipts.len(), calls.len());
        let raw = self.store.engine();
        let mut words: Vec<&[u8]> = vec![b"RPUSH", &keys[0]];
        words.extend(elements.iter().map(Vec::as_slice));
        raw.command(&[b"DEL", &keys[0]]);
        raw.command(&words);
        raw.command(&[b"PEXPIRE", &keys[0], b"600000"]);
        self.states.insert(keys[0].clone(), state);
        receipts
    }

    /// Returns the running total before the entries of a log.
    fn log_total(&self, check: Check<'_>) -> u32 {
        let keys = self.keys(&[check], Timestamp::UNIX_EPOCH);
        let (held, _, _) = self.look(&keys);
        let (_, total) = held[0].value[0].split_at(8);
        u32::from_le_bytes(total.try_into().unwrap())
    }
}

fn element(at: u64, total: u32) -> Vec<u8> {
    let mut bytes = doubles(&[at]);
    bytes.extend(total.to_le_bytes());
    bytes
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(8).map(|word| {
        let number = f64::from_le_bytes(word.try_into().unwrap());
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "compared with what it came from"
        )]
        let integer = number as u64;
        let found = integer.to_string();
        assert_eq!(found, format!("{number:.0}"), "no such integer");
        integer
    });
    words.collect()
}

/// Returns the numbers of a state on a server: of a log, its entries and the latest instant.
fn said_by_server(algorithm: &Algorithm, value: &[Vec<u8>]) -> Vec<u64> {
    if !matches!(algorithm, Algorithm::SlidingLog(_)) {
        return or_nothing(value.iter().flat_map(|bytes| words(bytes)).collect());
    }
    let entries: Vec<_> = value
        .iter()
        .map(|element| {
            let (at, rest) = element.split_at(8);
            let (total, recorded) = rest.split_at(4);
            let at = words(at)[0];
            // Units that are used ahead are recorded before they count.
            let recorded = words(recorded).first().copied().unwrap_or(at);
            (at, u32::from_le_bytes(total.try_into().unwrap()), recorded)
        })
        .collect();
    let Some((&(_, before, _), rest)) = entries.split_first() else {
        return Vec::new();
    };
    // None is recorded later than the latest: any of them may become the newest.
    let latest = entries.iter().map(|&(_, _, at)| at).max().unwrap();
    let sum = |total: u32| total.wrapping_sub(before).into();
    log(rest.iter().map(|&(at, total, _)| (at, sum(total))), latest)
}

/// Returns the same numbers of the machine's state, which shows all that it holds.
fn said_by_machine(algorithm: &Algorithm, state: &State) -> Vec<u64> {
    let shown = format!("{state:?}");
    let digits = shown.split(|c: char| !c.is_ascii_digit());
    let digits = digits.filter(|digits| !digits.is_empty());
    let mut numbers: Vec<u64> = digits.map(|digits| digits.parse().unwrap()).collect();
    if let (Algorithm::Gcra(_), &[debt, at, unit, ahead]) = (algorithm, &numbers[..]) {
        numbers = vec![debt & MAX_EXACT, at, unit & MAX_EXACT];
        if unit >> 63 == 1 {
            let upper = debt >> 53 << 10 | unit >> 53 & 0x3ff;
            numbers.push(at + (upper << 32 | ahead));
        }
    }
    match (algorithm, &numbers[..]) {
        (Algorithm::SlidingLog(_), &[ref entries @ .., latest]) => {
            let entries = entries.chunks(2).map(|entry| (entry[0], entry[1]));
            numbers = log(entries, latest);
        }
        // A server names a bucket's length in its key.
        (Algorithm::SlidingBuckets(_), [_, _, _, ..]) => {
            numbers.remove(2);
        }
        _ => {}
    }
    or_nothing(numbers)
}

/// What was never counted has no key, and the machine may have made a state of nothing for it.
fn or_nothing(numbers: Vec<u64>) -> Vec<u64> {
    if numbers.iter().all(|&number| number == 0) {
        return Vec::new();
    }
    numbers
}

fn log(entries: impl Iterator<Item = (u64, u64)>, latest: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = entries.flat_map(|(at, sum)| [at, sum]).collect();
    numbers.push(latest);
    or_nothing(numbers)
}

/// How the clock moves before an operation: by parts of the window of one of the limits.
#[derive(Clone, Debug)]
struct Moves {
    limit: Index,
    tenths: i64,
    micros: i64,
}

fn moves() -> impl Strategy<Value = Moves> {
    let tenths = prop_oneof![
        6 => Just(0_i64),
        6 => 1..8_i64,
        3 => select(&[10_i64, 20, 30][..]),
        2 => 8..25_i64,
        2 => -12..0_i64,
    ];
    let micros = prop_oneof![3 => Just(0_i64), 2 => -1..=1_i64, 1 => 1..5_i64];
    (any::<Index>(), tenths, micros).prop_map(|(limit, tenths, micros)| Moves {
        limit,
        tenths,
        micros,
    })
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    /// Tenths of what the first limit admits at once.
    Tenths(u64),
    /// What was left, and more.
    Left(u64),
    /// More than the first limit ever admits.
    Beyond(u64),
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        6 => (1..4_u64).prop_map(Cost::Units),
        1 => select(&[0, 100_000, MAX_EXACT, u64::MAX][..]).prop_map(Cost::Units),
        3 => (1..=10_u64).prop_map(Cost::Tenths),
        2 => (0..3_u64).prop_map(Cost::Left),
        1 => (1..3_u64).prop_map(Cost::Beyond),
    ]
}

#[derive(Clone, Debug)]
enum Act {
    /// Blocks the keys under the limits that can, for their own time, or until or for a number
    /// of microseconds.
    Block(u8, u64),
    Consume(Cost),
    Peek(Cost),
    /// Consumes, and asks for units ahead: how many, within how many tenths of the first limit's window, and what part of
    /// what is left, one in the last number.
    Prefetch(Cost, u64, u64, u32),
    TakeUpTo(Cost),
    /// Lowers what remains to a cost.
    Charge(Cost),
    Give(Cost),
    Lower(Cost),
    /// Gives back one of the calls so far, perhaps once more.
    Refund(usize),
    /// Settles one of the calls so far, perhaps once more.
    Settle(Index, Cost),
    /// Reserves a start, at most this many tenths of the first limit's window away. Where a limit
    /// has no reservations, this consumes.
    Reserve(Cost, u64),
    Reset,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => cost().prop_map(Act::Consume),
        2 => cost().prop_map(Act::Peek),
        3 => cost().prop_map(Act::TakeUpTo),
        5 => (cost(), 0..12_u64, reach(), 0..4_u32)
            .prop_map(|(cost, most, tenths, parts)| Act::Prefetch(cost, most, tenths, parts)),
        6 => any::<usize>().prop_map(Act::Refund),
        4 => (any::<Index>(), cost()).prop_map(|(index, cost)| Act::Settle(index, cost)),
        2 => cost().prop_map(Act::Charge),
        3 => cost().prop_map(Act::Give),
        2 => cost().prop_map(Act::Lower),
        6 => (cost(), reach()).prop_map(|(cost, tenths)| Act::Reserve(cost, tenths)),
        1 => Just(Act::Reset),
        4 => (0..3_u8, span()).prop_map(|(kind, span)| Act::Block(kind, span)),
    ]
}

/// How the clock moves, which limit of each family takes its place, which limit is asked for how much more or
/// less, and for what.
type Step = (Moves, usize, Option<(usize, i64)>, Act);

/// Steps that ask several times for units ahead, and give some of them back: one from the middle, and then the
/// newest.
fn given_back() -> impl Strategy<Value = Vec<Step>> {
    let grants = prop::collection::vec(2..5_u64, 4..9);
    (any::<Index>(), grants, 1..4_usize, 0..8_usize).prop_map(|(limit, grants, middle, times)| {
        let newest = (0..grants.len()).rev().filter(|of| *of != middle);
        let refunds = [middle].into_iter().chain(newest).take(times);
        let ahead = |most| Act::Prefetch(Cost::Units(1), most, 4, 1);
        let all = grants.iter().copied().map(ahead);
        let moves = Moves {
            limit,
            tenths: 0,
            micros: 1,
        };
        all.chain(refunds.map(Act::Refund))
            .map(|act| (moves.clone(), 0, None, act))
            .collect()
    })
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..9_u64, 4 => 0..2_000_000_u64, 1 => Just(MAX_EXACT), 1 => Just(u64::MAX)]
}

fn reach() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 2 => 1..10_u64, 4 => Just(40), 1 => Just(u64::MAX)]
}

/// One limit, a few, or more than a script is written for in one line.
fn families(most: usize) -> impl Strategy<Value = Vec<usize>> {
    let family = move || 0..most;
    prop_oneof![
        8 => prop::collection::vec(family(), 1),
        2 => prop::collection::vec(family(), 2..4),
        1 => prop::collection::vec(family(), 5..7),
    ]
}

fn all_families() -> Vec<Vec<Limit>> {
    let lines = FAMILIES.lines().filter(|line| !line.starts_with('#'));
    let of = |line: &str| line.split(' ').map(limit).collect();
    lines.map(of).collect()
}

#[test]
fn every_script_has_a_family() {
    let limits = all_families().into_iter().flatten();
    let codes: BTreeSet<_> = limits.map(|limit| code(limit.algorithm())).collect();
    assert!(codes.into_iter().eq(0..TWINS.len()));
}

#[test]
fn scripts_leave_the_states_of_the_machine() {
    play(|_| true);
}

#[test]
fn scripts_of_reservations_leave_the_states_of_the_machine() {
    play(Algorithm::can_reserve);
}

#[test]
fn scripts_of_logs_leave_the_states_of_the_machine() {
    play(|algorithm| matches!(algorithm, Algorithm::SlidingLog(_)));
}

/// Plays histories of the limits of which this holds.
fn play(is_played: fn(&Algorithm) -> bool) {
    let mut all = all_families();
    all.retain(|family| is_played(family[0].algorithm()));
    let config = config(300);
    // Of logs, the running total to begin at.
    let total = prop_oneof![Just(0), any::<u32>(), u32::MAX - 40..=u32::MAX];
    const INSTANTS: [u64; 6] = [0, 0, 1, 7_300_000, START, MAX_EXACT - 3_000_000];
    // Most operations of a history are of the same limits.
    let switched = prop_oneof![6 => Just(0_usize), 1 => 1..4_usize];
    // Some ask one of the limits for another cost than the others: nothing, or one more or less.
    let other = (0..4_usize, select(&[0, 1, -1_i64][..]));
    let other = prop_oneof![3 => Just(None), 2 => other.prop_map(Some)];
    let steps = prop::collection::vec((moves(), switched, other, act()), 1..24);
    let first = prop_oneof![Just(Vec::new()), given_back()];
    let steps = (first, steps).prop_map(|(first, steps)| [first, steps].concat());
    let histories = (
        families(all.len()),
        total,
        select(&INSTANTS[..]),
        0..5_usize,
        steps,
    );
    let pair = std::cell::RefCell::new(Pair::on(Flavor::System));
    TestRunner::new(config)
        .run(&histories, |(families, total, start, first, steps)| {
            let mut pair = pair.borrow_mut();
            let key = pair.begin();
            let names: Vec<_> = (0..families.len()).map(|i| format!("{key}-{i}")).collect();
            let limits: Vec<_> = families.iter().map(|&family| &all[family]).collect();
            let (mut clock, mut left) = (start, 0);
            let mut receipts: Vec<Receipt> = Vec::new();
            if total > 0 {
                for (limits, name) in limits.iter().zip(&names) {
                    if let Algorithm::SlidingLog(_) = limits[0].algorithm() {
                        pair.fill_log(Check::new(&limits[0], name, 0), total, &[]);
                    }
                }
            }
            for (moves, switched, other, act) in steps {
                let limits = limits.iter().map(|of| &of[(first + switched) % of.len()]);
                let limits: Vec<_> = limits.collect();
                let window = moves.limit.get(&limits).algorithm().quota().window_us();
                let by = i128::from(window) * i128::from(moves.tenths) / 10;
                let moved = i128::from(clock) + by + i128::from(moves.micros);
                clock = u64::try_from(moved.clamp(0, MAX_EXACT.into())).unwrap();
                let capacity = limits[0].algorithm().capacity();
                let cost = match act {
                    Act::Consume(cost)
                    | Act::Charge(cost)
                    | Act::Give(cost)
                    | Act::Lower(cost)
                    | Act::Peek(cost)
                    | Act::Prefetch(cost, ..)
                    | Act::Reserve(cost, _)
                    | Act::Settle(_, cost)
                    | Act::TakeUpTo(cost) => match cost {
                        Cost::Units(units) => units,
                        Cost::Tenths(tenths) => (capacity / 10 * tenths).max(1),
                        Cost::Left(more) => left + more,
                        Cost::Beyond(more) => capacity + more,
                    },
                    Act::Block(..) | Act::Refund(_) | Act::Reset => 0,
                };
                let checks = limits.iter().zip(&names).enumerate();
                let cost_of = |index| match other {
                    Some((odd, 0)) if odd == index => 0,
                    Some((odd, more)) if odd == index => cost.saturating_add_signed(more),
                    _ => cost,
                };
                let checks: Vec<_> = checks
                    .map(|(index, (limit, name))| Check::new(limit, name, cost_of(index)))
                    .collect();
                let operation = match &act {
                    Act::Block(kind, span) => {
                        let blocks = checks.into_iter();
                        let blocks = blocks.filter(|check| check.limit().algorithm().can_block());
                        let blocks: Vec<_> = blocks.collect();
                        if !blocks.is_empty() {
                            let span = match kind {
                                0 => BlockSpan::Usual,
                                1 => BlockSpan::Until(Timestamp::saturating_from_micros(
                                    clock.saturating_add(*span),
                                )),
                                _ => BlockSpan::Lasting(Duration::from_micros(*span)),
                            };
                            pair.decide(Operation::Block(span), &blocks, clock);
                        }
                        continue;
                    }
                    Act::Consume(_) => Operation::Consume,
                    Act::Peek(_) => Operation::Peek,
                    Act::Reserve(_, tenths)
                        if limits.iter().all(|limit| limit.algorithm().can_reserve()) =>
                    {
                        let window = limits[0].algorithm().quota().window_us() / 10 + 1;
                        Operation::Reserve {
                            max_delay: Duration::from_micros(tenths.saturating_mul(window)),
                        }
                    }
                    Act::Reserve(..) => Operation::Consume,
                    Act::Prefetch(_, most, tenths, parts) => {
                        let window = limits[0].algorithm().quota().window_us() / 10;
                        let within = Duration::from_micros(tenths.saturating_mul(window));
                        Operation::Prefetch(Prefetch::new(*most, within).one_of(*parts))
                    }
                    Act::TakeUpTo(_) => Operation::TakeUpTo,
                    Act::Charge(_) => {
                        let charge = Request::new(Operation::Charge, &checks);
                        if charge.validate_operation().is_err() {
                            continue;
                        }
                        Operation::Charge
                    }
                    Act::Give(_) => Operation::Give,
                    Act::Lower(_) => Operation::Lower,
                    Act::Refund(_) | Act::Settle(..) if receipts.is_empty() => continue,
                    Act::Refund(of) => Operation::Refund(&receipts[of % receipts.len()]),
                    Act::Settle(index, _) => Operation::Settle(index.get(&receipts)),
                    Act::Reset => {
                        pair.reset(&checks);
                        continue;
                    }
                };
                let (remaining, receipt) = pair.decide(operation, &checks, clock);
                left = remaining;
                // What was given back has none that a store accepts.
                receipts.extend(receipt.filter(|_| !matches!(act, Act::Give(_))));
            }
            Ok(())
        })
        .unwrap();
}

/// The shortest time that a server keeps a key is a millisecond.
#[test]
fn what_ends_within_a_millisecond_is_written_by_the_servers_clock() {
    let store = crate::engine::store(Flavor::System);
    let ban = limit("block:1us");
    let check = Check::new(&ban, "k", 1);
    for micros in [1, 499, 999, 1_001] {
        let span = BlockSpan::Lasting(Duration::from_micros(micros));
        let blocked = now(store.execute(&Request::block(span, check))).unwrap();
        assert!(blocked.retry_after().as_micros().unwrap() >= micros);
    }
    // A quota of zero counts nothing, so it is forgotten at once.
    let [some, none] = ["sliding-counter:5/1d", "sliding-counter:0/1d"].map(limit);
    let check = Check::new(&some, "k", 1);
    let receipt = now(store.execute(&Request::consume(check))).unwrap();
    let receipt = receipt.into_receipt().unwrap();
    for request in [
        Request::refund(&receipt, check),
        Request::settle(&receipt, Check::new(&none, "k", 5)),
    ] {
        let _ = now(store.execute(&request)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    let keys = store.engine().keys(store.options());
    assert_eq!(keys, [b""; 0]);
}

/// Limits that leak within microseconds, so that debts vanish and starts are reached at the very instants of
/// calls, also by a clock that has stepped back; and the same quotas with other bursts.
#[test]
fn reservations_at_every_microsecond_leave_the_states_of_the_machine() {
    const LIMITS: [&str; 4] = [
        "1/3us,burst=1 5/4us,burst=3 1/3us,burst=6 5/4us,burst=1",
        "1/2us,burst=2 3/2us,burst=4 1/2us,burst=9 3/2us,burst=2",
        "1/5us,burst=1 1/1us,burst=6 1/5us,burst=5 1/1us,burst=9",
        "2/3us,burst=2 2/1us,burst=2 2/3us,burst=7 2/1us,burst=4",
    ];
    let mut pair = Pair::on(Flavor::System);
    let limits = LIMITS.map(|each| {
        let each = each.split(' ').map(|text| limit(&format!("gcra:{text}")));
        each.collect::<Vec<_>>()
    });
    // The same pseudorandom histories each time.
    let mut seed = 7_u64;
    let mut below = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % bound
    };
    for history in 0..usize::try_from(rounds(900)).unwrap() {
        let limits = &limits[history % limits.len()];
        let key = pair.begin();
        let names = ["slow", "fast"].map(|name| format!("{key}-{name}"));
        let (mut at, mut receipts) = (START, Vec::new());
        for _ in 0..5 {
            at = at + below(5) - 1;
            let slow = if below(3) == 0 { 2 } else { 0 };
            let checks = [
                Check::new(&limits[slow], &names[0], below(2)),
                Check::new(&limits[slow + 1], &names[1], below(4)),
            ];
            let within = Operation::Reserve {
                max_delay: Duration::from_micros(below(12)),
            };
            let receipt = match below(6) {
                0 => {
                    pair.decide(Operation::Consume, &checks[1..], at);
                    None
                }
                1 => pair.decide(Operation::Consume, &checks, at).1,
                2 if !receipts.is_empty() => {
                    let index = usize::try_from(below(receipts.len() as u64)).unwrap();
                    let receipt = receipts.swap_remove(index);
                    pair.decide(Operation::Refund(&receipt), &checks, at);
                    None
                }
                _ => pair.decide(within, &checks, at).1,
            };
            receipts.extend(receipt);
        }
    }
}

/// Logs of many lengths, searched for every entry: for the first that counts, for those that a call
/// waits for, for the newest that is forgotten, and for the one that is given back.
#[test]
fn logs_are_searched_at_every_position() {
    let mut pair = Pair::on(Flavor::System);
    let [log, attempts] = ["sliding-log:300/1s", "sliding-log:300/1s,count-denied"].map(limit);
    let key = pair.begin();
    for length in [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 33, 100] {
        let calls: Vec<_> = (0..length).map(|n| (10 * n, 1 + n % 3)).collect();
        let units: u64 = calls.iter().map(|(_, cost)| cost).sum();
        // The total goes round in the midst of them.
        let total = u32::MAX - u32::try_from(units / 2).unwrap();
        let fill = |pair: &mut Pair| pair.fill_log(Check::new(&log, &key, 0), total, &calls);
        let (newest, check) = (10 * (length - 1), |cost| Check::new(&log, &key, cost));
        // So much must leave, from nothing to everything.
        for total in [total, u32::MAX] {
            pair.fill_log(check(0), total, &calls);
            for cost in 300 - units..=300 {
                pair.decide(Operation::Peek, &[check(cost)], newest);
            }
        }
        // So long a log need not be tried at each of its entries.
        for position in (0..length).step_by(if length > 40 { 7 } else { 1 }) {
            let leaves = 1_000_000 + 10 * position;
            fill(&mut pair);
            for micros in [leaves - 1, leaves] {
                pair.decide(Operation::Peek, &[check(300)], micros);
            }
            pair.decide(Operation::Consume, &[check(1)], leaves);
            // While nothing has left, and when one less than half has.
            for micros in [newest, 1_000_000 + 5 * (length - 1)] {
                let receipts = fill(&mut pair);
                let receipt = &receipts[usize::try_from(position).unwrap()];
                pair.decide(Operation::Refund(receipt), &[check(0)], micros);
                // The entries before it were written again, if they are fewer than those after it.
                let is_shorter = position < length - 1 - position;
                let has_left = 1_000_000 + 10 * position <= micros;
                assert_eq!(pair.log_total(check(0)) != total, is_shorter && !has_left);
                // Nothing is left to give back.
                pair.decide(Operation::Refund(receipt), &[check(0)], micros);
                pair.decide(Operation::Consume, &[check(2)], micros);
            }
            let forgotten: u64 = calls[..usize::try_from(position).unwrap()]
                .iter()
                .map(|(_, cost)| cost)
                .sum();
            for cost in [forgotten, forgotten + 1].map(|forgotten| 300 - units + forgotten) {
                for micros in [newest, newest + 5] {
                    fill(&mut pair);
                    let words = [Check::new(&attempts, &key, cost)];
                    pair.decide(Operation::Consume, &words, micros);
                }
            }
        }
    }
}

/// However many entries have left a log, the first that counts is found by reading few.
#[test]
fn a_search_of_a_long_log_reads_few_entries() {
    let mut pair = Pair::on(Flavor::System);
    let log = limit("sliding-log:5000/1s");
    let key = pair.begin();
    let calls: Vec<_> = (0..4_000).map(|n| (10 * n, 1)).collect();
    let check = Check::new(&log, &key, 1);
    let _ = pair.fill_log(check, 0, &calls);
    for gone in [1_u64, 2, 3, 4, 10, 100, 1_000, 2_000, 3_000, 3_998, 4_000] {
        let before = pair.server.calls("lindex");
        let leaves = 1_000_000 + 10 * (gone - 1);
        let (left, _) = pair.decide(Operation::Peek, &[check], leaves);
        assert_eq!(left, 5_000 - 4_000 + gone);
        let read = pair.server.calls("lindex") - before;
        let most = 2 * u64::from(gone.ilog2()) + 3;
        assert!(
            read <= most,
            "{read} entries are read to find that {gone} have left"
        );
    }
}

/// A step of a written history: what is done about one key.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Consumes, and asks for units ahead: the cost, the most units together, and within how many tenths of the
    /// limit's window.
    Ahead(u64, u64, u64),
    Block(BlockSpan),
    Consume(u64),
    Peek(u64),
    /// Gives back what an earlier step has consumed.
    Refund(usize),
    /// Reserves a start within a second.
    Reserve(u64),
    Reset,
    /// Settles what an earlier step has consumed at another cost.
    Settle(usize, u64),
    Take(u64),
}

use Do::{Ahead, Block, Consume, Peek, Refund, Reserve, Reset, Settle, Take};

impl Pair {
    /// Does each step at an instant, under one of `limits`, and returns what was left at last.
    fn tell(&mut self, limits: &[&str], steps: &[(u64, usize, Do)]) -> u64 {
        let limits: Vec<_> = limits.iter().map(|text| limit(text)).collect();
        let key = self.begin();
        let (mut receipts, mut left) = (Vec::new(), 0);
        for &(at, limit, step) in steps {
            let check = |cost| [Check::new(&limits[limit], &key, cost)];
            let (operation, cost) = match step {
                Ahead(cost, most, tenths) => {
                    let window_us = limits[limit].algorithm().quota().window_us();
                    let within = Duration::from_micros(window_us / 10 * tenths);
                    (Operation::Prefetch(Prefetch::new(most, within)), cost)
                }
                Block(span) => (Operation::Block(span), 1),
                Consume(cost) => (Operation::Consume, cost),
                Peek(cost) => (Operation::Peek, cost),
                Reserve(cost) => {
                    let max_delay = Duration::from_secs(1);
                    (Operation::Reserve { max_delay }, cost)
                }
                Reset => {
                    self.reset(&check(0));
                    receipts.push(None);
                    continue;
                }
                Refund(of) | Settle(of, _) if receipts[of].is_none() => {
                    panic!("step {of} of {steps:?} consumed nothing")
                }
                Refund(of) => (Operation::Refund(Option::as_ref(&receipts[of]).unwrap()), 0),
                Settle(of, cost) => {
                    let receipt = Option::as_ref(&receipts[of]).unwrap();
                    (Operation::Settle(receipt), cost)
                }
                Take(cost) => (Operation::TakeUpTo, cost),
            };
            let receipt;
            (left, receipt) = self.decide(operation, &check(cost), at);
            receipts.push(receipt);
        }
        left
    }
}

/// Limits that a history is told of, one after another.
const EACH: [&str; 7] = [
    "gcra:10/1s",
    "gcra:3/1ms,burst=10",
    "fixed-window:10/1s",
    "fixed-window:10/1s,anchored",
    "sliding-counter:10/1s",
    "sliding-buckets:10/1s,buckets=3",
    "sliding-log:10/1s",
];

/// Up to three calls, and some of them given back, at once or later, also by a clock that has
/// stepped back: what is left says how much fits, and for how long.
#[test]
fn refunds_in_any_order_leave_the_states_of_the_machine() {
    const COSTS: [u64; 3] = [1, 2, 2];
    const GIVEN_BACK: [(usize, &[usize]); 8] = [
        (1, &[0]),
        (2, &[0, 1]),
        (2, &[1, 0]),
        (3, &[0]),
        (3, &[1]),
        (3, &[2, 1]),
        (3, &[0, 1, 2]),
        (3, &[2, 0, 1]),
    ];
    /// Microseconds between the calls, and from the last call to each refund.
    const TIMES: [(u64, [i64; 3]); 7] = [
        (0, [0; 3]),
        (300_000, [0; 3]),
        (300_000, [500_000; 3]),
        (600_000, [900_000; 3]),
        // The debts of GCRA that come to one unit, or to a part of a microsecond.
        (0, [99_999; 3]),
        (0, [1, -4_999, -4_999]),
        (0, [-667; 3]),
    ];
    let mut pair = Pair::on(Flavor::System);
    // From the Unix epoch, where the first window starts, and from within one.
    let starts = |text| [(text, 0), (text, START + 700_000)];
    for (written, start) in EACH.map(starts).concat() {
        for (between, after) in TIMES {
            for (calls, given_back) in GIVEN_BACK {
                if pair.passes_over() {
                    continue;
                }
                let calls = (0..).zip(&COSTS[..calls]);
                let calls = calls.map(|(call, cost)| (start + call * between, 0, Consume(*cost)));
                let mut steps: Vec<_> = calls.collect();
                let last = steps.last().unwrap().0;
                let mut at = last;
                for (of, after) in given_back.iter().zip(after) {
                    at = last.saturating_add_signed(after);
                    steps.push((at, 0, Refund(*of)));
                }
                steps.extend([5, 8, 10].map(|cost| (at, 0, Peek(cost))));
                steps.push((at + 1_000_000, 0, Peek(10)));
                pair.tell(&[written], &steps);
            }
        }
    }
}

/// A clock that steps back to before what was counted, or to the instant of the first call, which
/// was given back; limits that have nothing left; and receipts from before a reset.
#[test]
fn short_histories_leave_the_states_of_the_machine() {
    const APART: [u64; 7] = [
        1, 333_334, 999_999, 1_000_000, 1_000_001, 1_333_336, 2_000_000,
    ];
    const MIDNIGHT: u64 = 1_780_012_800_000_000;
    let mut pair = Pair::on(Flavor::System);
    let start = START + 700_000;
    for written in EACH.into_iter().chain(["fixed-window:10/day@UTC"]) {
        for back in [0, 1, 300_000, 2_000_000].map(|back| start - back) {
            let later = start + 400_000;
            let steps = [(start, Consume(2)), (later, Consume(3)), (later, Refund(0))];
            let then = [(back, Consume(1)), (back, Refund(1)), (later, Peek(10))];
            let steps = steps.into_iter().chain(then);
            let steps = steps.map(|(at, step)| (at, 0, step));
            pair.tell(&[written], &steps.collect::<Vec<_>>());
        }
        for start in [START, start, MIDNIGHT - 1_000_000] {
            for apart in APART {
                for then in [start - apart, start + apart] {
                    let steps = [(then, 0, Consume(2)), (then, 0, Reset)];
                    let after = [(start, 0, Consume(2)), (start + 10, 0, Refund(0))];
                    pair.tell(&[written], &[steps, after].concat());
                }
            }
        }
    }
    let denying = [EACH[2], EACH[3], EACH[6]].map(|text| format!("{text},count-denied"));
    for written in EACH.into_iter().chain(denying.iter().map(String::as_str)) {
        let steps = [Consume(4), Consume(6), Take(0), Take(2)].map(|step| (START, 0, step));
        let later = (START + 100_000, 0, Take(2));
        pair.tell(&[written], &[&steps[..], &[later]].concat());
    }
    // A key that lives for a day lives for no millisecond less.
    for written in EACH.map(|text| text.replace("10/1s", "10/1d")) {
        let steps = [Consume(2), Consume(3), Refund(1)];
        let steps = (0..).zip(steps);
        let steps = steps.map(|(second, step)| (START + 1_000_000 * second, 0, step));
        pair.tell(&[&written], &steps.collect::<Vec<_>>());
    }
}

/// Two calls that ask for units ahead, the second for more or less time, and one that does not; one of them
/// is given back; and calls by a clock that has stepped back, and when some or all units have ended.
#[test]
fn units_ahead_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for written in EACH {
        let window_us = limit(written).algorithm().quota().window_us();
        let tenth = window_us / 10;
        for (first, second) in [(4, 1), (1, 4), (4, 4)] {
            for apart in [0, 1, tenth, 2 * tenth + 1] {
                for (of, after) in [0, 1, 2]
                    .into_iter()
                    .flat_map(|of| [(of, 0), (of, 3 * tenth)])
                {
                    let then = apart + after;
                    let steps = [
                        (0, Ahead(1, 3, first)),
                        (apart, Ahead(1, 2, second)),
                        (apart, Consume(1)),
                        (then, Refund(of)),
                        (then, Peek(10)),
                        (apart.saturating_sub(1), Consume(1)),
                        (9 * tenth + first * tenth, Ahead(1, 2, 2)),
                        (12 * tenth + 1, Consume(1)),
                        (13 * tenth, Settle(6, 3)),
                        (13 * tenth - 1, Ahead(1, 99, 1)),
                        (30 * tenth, Consume(1)),
                        (13 * tenth, Peek(10)),
                    ];
                    let steps = steps.map(|(after, step)| (START + after, 0, step));
                    pair.tell(&[written], &steps);
                }
            }
        }
        // Units that are given back twice, to calls that came later.
        for again in [Refund(0), Reset] {
            let steps = [Ahead(1, 3, 4), again, Consume(6), Refund(0)];
            let steps = steps.into_iter().chain([Ahead(1, 99, 1)]);
            let steps: Vec<_> = steps.map(|step| (START, 0, step)).collect();
            pair.tell(&[written], &steps);
        }
        // No unit is used after the last instant there is.
        let steps = [Ahead(1, 3, 4), Consume(1), Refund(0), Peek(10)];
        let last = MAX_EXACT - window_us;
        let steps = steps.map(|step| (last + 9 * tenth, 0, step));
        pair.tell(&[written], &steps);
    }
    // All has leaked under a raised quota, before the end of what was granted under the old one.
    let [first, then] = [(0, 0, Ahead(1, 3, 4)), (1, 1, Consume(1))];
    let steps = [first, then, then];
    let steps = steps.map(|(tenths, limit, step)| (START + 100_000 * tenths, limit, step));
    pair.tell(&["gcra:10/1s", "gcra:1000/1s"], &steps);
    // A log that holds nothing but when it was settled, before the end of what was granted.
    let steps = [first, (1, 1, Settle(0, 9)), (1, 0, Consume(1))];
    let steps = steps.map(|(tenths, limit, step)| (START + 100_000 * tenths, limit, step));
    pair.tell(&["sliding-log:10/1s", "sliding-log:0/1s"], &steps);
}

/// A ring of buckets drops what has left, wherever in it that is. Once no number holds more, later
/// calls count nothing, and the state ends with the earlier ones.
#[test]
fn rings_drop_expired_buckets_at_every_position() {
    let mut pair = Pair::on(Flavor::System);
    for first in 0..5 {
        for passed in 1..=6 {
            let full = (0..5).map(|bucket| (250_000 * (first + bucket), 0, Consume(bucket + 1)));
            let last = (250_000 * (first + 4 + passed), 0, Consume(1));
            let steps: Vec<_> = full.chain([last]).collect();
            pair.tell(&["sliding-buckets:100/1s,buckets=4"], &steps);
        }
    }
    for then in [0, 1, 2, 3, 4].map(|bucket| START + 250_000 * bucket) {
        let full = [(START, 0, Consume(1)), (START, 0, Settle(0, u64::MAX))];
        let later = [(then, 0, Settle(0, 2)), (then, 0, Peek(1))];
        let steps = [full, later].concat();
        pair.tell(&["sliding-buckets:3/1s,buckets=4"], &steps);
    }
}

/// Calls that are settled at more than any number can hold, again and again; and under a quota that
/// was lowered in between, to less than is counted, to zero, or to one of fewer tokens.
#[test]
fn debts_without_bound_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    let limits = "gcra:5/1m gcra:3/7us,burst=4 gcra:9007199254740991/1us fixed-window:3/1s \
                  sliding-counter:3/1s sliding-buckets:3/1s,buckets=3 \
                  sliding-buckets:9007199254740991/1s,buckets=2 sliding-log:3/1s";
    let twice = [u64::MAX, MAX_EXACT, MAX_EXACT - 1, 1 << 40].map(|cost| [cost; 2]);
    for written in limits.split(' ') {
        for costs in twice.into_iter().chain([[5, MAX_EXACT - 2]]) {
            let mut steps = vec![(START, 0, Consume(2))];
            for (now, cost) in [START, START + 400_000].into_iter().zip(costs) {
                let again = [Settle(0, cost), Consume(1), Refund(0)];
                steps.extend((now..).zip(again).map(|(at, step)| (at, 0, step)));
            }
            pair.tell(&[written], &steps);
        }
    }
    for family in ["sliding-counter", "fixed-window", "sliding-log", "gcra"] {
        let limits = [40, 4].map(|amount| format!("{family}:{amount}/1s"));
        let many = [(START, 0, Consume(40)), (START, 1, Settle(0, 39))];
        let later = [400_000, 999_999, 1_500_000].map(|later| {
            let at = START + later;
            [(at, 1, Consume(1)), (at, 1, Settle(0, 2)), (at, 0, Peek(1))]
        });
        let steps = [&many, later.as_flattened()].concat();
        pair.tell(&limits.each_ref().map(|text| &**text), &steps);
        let limits = [format!("{family}:3/1s"), format!("{family}:0/1s")];
        let steps = [3, 5].map(|cost| {
            let at = START + cost;
            [(at, 1, Settle(0, cost)), (at, 1, Peek(cost))]
        });
        let steps = [&[(START, 0, Consume(1))], steps.as_flattened()].concat();
        pair.tell(&limits.each_ref().map(|text| &**text), &steps);
    }
    let limits = ["gcra:3/7us,burst=1000000000000000", "gcra:9007/1h"];
    let drained = MAX_EXACT / 9_007;
    for later in [0, 1, drained, drained + 1, MAX_EXACT] {
        let many = (0, 0, Consume(100_000_000_000_000));
        let few = [(later, 1, Consume(1)), (later, 1, Refund(0))];
        pair.tell(&limits, &[many, few[0], few[1]]);
    }
}

/// A reservation that raises the debt to the most that a state holds can be cancelled; and none is
/// under a quota that would have left as much.
#[test]
fn cancelled_reservations_of_one_limit_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    let most = format!("gcra:1/1us,burst={}", MAX_EXACT - 1);
    let [one, most_of_all] = [Reserve(1), Consume(MAX_EXACT - 1)];
    let steps = [most_of_all, one, Refund(1), one, Refund(3)];
    pair.tell(&[&most], &steps.map(|step| (START, 0, step)));
    // One that is not the last, the last, and the one that is the last then.
    let steps = [
        Consume(1),
        Reserve(1),
        Reserve(1),
        Refund(1),
        Refund(2),
        Refund(1),
    ];
    pair.tell(&["gcra:2/1s,burst=1"], &steps.map(|step| (START, 0, step)));
    let steps = [(0, 0, Consume(1)), (2, 0, Reserve(1)), (2, 1, Refund(1))];
    pair.tell(&["gcra:1/3us", "gcra:1/2us"], &steps);
    // None is the last, if another call was counted since under a larger burst; also if what another gave back
    // was reserved again, for a later start.
    let bursts = [
        "gcra:1/1us,burst=1",
        "gcra:1/1us,burst=4",
        "gcra:1/1us,burst=10",
    ];
    for after in [0, 1] {
        let steps = [
            (0, 0, Consume(1)),
            (0, 0, Reserve(1)),
            (0, 2, Consume(1)),
            (after, 0, Refund(1)),
        ];
        pair.tell(
            &bursts,
            &steps.map(|(after, limit, step)| (START + after, limit, step)),
        );
    }
    let steps = [
        (2, Consume(5)),
        (1, Reserve(1)),
        (2, Refund(0)),
        (0, Reserve(1)),
        (2, Consume(2)),
        (2, Refund(1)),
    ];
    pair.tell(&bursts, &steps.map(|(limit, step)| (START, limit, step)));
    // No call starts after the last instant there is.
    let steps = [Consume(1), Reserve(1), Refund(1)];
    pair.tell(
        &["gcra:2/1s,burst=1"],
        &steps.map(|step| (MAX_EXACT - 5, 0, step)),
    );
    // A debt of one unit, or none, by a clock that has stepped back.
    for given_back in [Settle(0, 1), Refund(0)] {
        let steps = [(START, 0, Consume(2)), (START - 300_000, 0, given_back)];
        pair.tell(&bursts[2..], &steps);
    }
}

/// Blocks of a few microseconds, at and around the ends of earlier ones, and when those are just
/// about to be forgotten, also by a clock that has stepped back.
#[test]
fn blocks_at_every_microsecond_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    let micros = |micros| BlockSpan::Lasting(Duration::from_micros(micros));
    let until = |micros| BlockSpan::Until(Timestamp::from_micros(micros).unwrap());
    let spans = |now| {
        let untils = [now, now + 1, now + 6].map(until);
        [&[BlockSpan::Usual], &untils[..], &[0, 4].map(micros)].concat()
    };
    let limits = "block:3us block:1us,doublings=2 block:2us,doublings=1";
    for written in limits.split(' ') {
        for second in 0..6 {
            for then in [0, 1, 2, 3, 4, 5, 8, 9, 10].map(|later| START + later) {
                for third in spans(then) {
                    if pair.passes_over() {
                        continue;
                    }
                    let first = (START, 0, Block(BlockSpan::Usual));
                    let second = (START + 1, 0, Block(spans(START + 1)[second]));
                    let calls = [Consume(1), Take(1), Block(third)];
                    let calls = calls.map(|step| (then, 0, step));
                    pair.tell(&[written], &[&[first, second], &calls[..]].concat());
                }
            }
        }
    }
    // One that was blocked takes nothing from the largest grant of another.
    let [ban, window] = ["block:1s", "fixed-window:9007199254740991/1s"].map(limit);
    let key = pair.begin();
    let checks = [&ban, &window].map(|limit| Check::new(limit, &key, u64::MAX));
    assert_eq!(pair.decide(Operation::TakeUpTo, &checks, START).0, 0);
}

//! After every operation a server holds what the state of the machine says, for as long as it says
//! something; and what changes nothing has written nothing.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use tollgate_core::Algorithm;
use tollgate_core::store::{BlockSpan, Check, MAX_EXACT, Operation, Request, State};
use tollgate_core::{Limit, Receipt, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::WireStore;

use crate::engine::{Canned, Raw, limit, now, store_on};
use crate::lifetime::lives;

/// What a store keeps a state longer for that was written at a caller's instant, in milliseconds.
const SLACK: u64 = 600_000;
const START: u64 = 1_780_000_000_000_000;

/// Limits that count in the same states, and so may take each other's place.
const FAMILIES: [&[&str]; 22] = [
    &["gcra:10/1s", "gcra:7/1s,burst=3", "gcra:3/1s", "gcra:0/1s"],
    // Debts that are no whole number of another quota's units.
    &[
        "gcra:7/10us,burst=5",
        "gcra:3/7us,burst=5",
        "gcra:7/11us,burst=9",
    ],
    // As many units to a token as there may be, or one; and debts that are capped.
    &[
        "gcra:2/9007199254740991us,burst=1",
        "gcra:9007199254740991/1us",
        "gcra:1/1s,burst=9007199254",
        "gcra:3/7us,burst=1000000000000000",
        "gcra:9007/1h",
    ],
    &[
        "fixed-window:10/1s",
        "fixed-window:3/1s",
        "fixed-window:4/1s,count-denied",
        "fixed-window:0/1s,count-denied",
        "fixed-window:9007199254740991/1s,count-denied",
    ],
    &["fixed-window:10/1300us", "fixed-window:0/1300us"],
    &["fixed-window:3/9007199254740991us"],
    &[
        "fixed-window:10/1s,anchored",
        "fixed-window:3/1s,anchored",
        "fixed-window:4/1s,anchored,count-denied",
        "fixed-window:0/1s,anchored,count-denied",
        "fixed-window:9007199254740991/1s,anchored,count-denied",
    ],
    &["fixed-window:3/1d,anchored", "fixed-window:2/1d,anchored"],
    &[
        "sliding-counter:10/1s",
        "sliding-counter:3/1s",
        "sliding-counter:0/1s",
    ],
    // In steps that do not divide the window.
    &[
        "sliding-counter:9007199254740/1s",
        "sliding-counter:70000000000/1s",
    ],
    &["sliding-counter:7/3us"],
    &["sliding-counter:5/1us"],
    &[
        "sliding-buckets:10/1s,buckets=4",
        "sliding-buckets:3/1s,buckets=4",
        "sliding-buckets:0/1s,buckets=4",
    ],
    &["sliding-buckets:10/1s,buckets=3"],
    &["sliding-buckets:9007199254740991/1s,buckets=1"],
    &["sliding-log:10/1s", "sliding-log:3/1s", "sliding-log:0/1s"],
    &[
        "sliding-log:40/1s",
        "sliding-log:100000/100ms",
        "sliding-log:10/1d",
    ],
    &[
        "sliding-log:5/1s,count-denied",
        "sliding-log:15/1s,count-denied",
        "sliding-log:0/1s,count-denied",
        "sliding-log:15/1s",
    ],
    &[
        "block:1s",
        "block:300ms,doublings=2",
        "block:1500ms,doublings=1",
    ],
    &["block:3us,doublings=5", "block:1us"],
    &[
        "fixed-window:10/day@Europe/Berlin",
        "fixed-window:3/day@Europe/Berlin",
        "fixed-window:0/day@Europe/Berlin",
        "fixed-window:9007199254740991/day@Europe/Berlin",
    ],
    &["fixed-window:5/month@UTC", "fixed-window:4/month@UTC"],
];

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
        }
    }

    /// Begins a history, whose keys nobody else uses.
    fn begin(&mut self) -> String {
        self.states.clear();
        self.histories += 1;
        self.histories.to_string()
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
        millis(&self.store.engine().command(&[b"TIME"]))
    }

    /// Returns what the server holds, how often it was written to, and when it was asked.
    fn look(&self, keys: &[Vec<u8>]) -> (Vec<Held>, u64, u64) {
        const LOOK: &[u8] = b"
            local held = {}
            for i, key in ipairs(KEYS) do
              local is_list = redis.call('TYPE', key).ok == 'list'
              local value = is_list and redis.call('LRANGE', key, 0, -1) or { redis.call('GET', key) }
              held[i] = { value, redis.call('PEXPIRETIME', key) }
            end
            local written = 'rdb_changes_since_last_save:(%d+)'
            local changes = string.match(redis.call('INFO', 'persistence'), written)
            return { redis.call('TIME'), changes, held }";
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", LOOK, count.as_bytes()];
        words.extend(keys.iter().map(Vec::as_slice));
        let reply = self.store.engine().command(&words);
        let [time, changes, held] = reply.items() else {
            panic!("{reply:?}");
        };
        let held = held.items().iter().map(|held| {
            let [value, ends] = held.items() else {
                panic!("{held:?}");
            };
            let bytes = value.items().iter().filter_map(|item| match item {
                Reply::Bulk(bytes) => Some(bytes.clone()),
                _ => None,
            });
            let ends = ends.integer().unwrap();
            assert_ne!(ends, -1, "a key without an end");
            Held {
                value: bytes.collect(),
                ends: u64::try_from(ends).unwrap_or(0),
            }
        });
        (held.collect(), numbers(changes)[0], millis(time))
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
            assert_eq!(
                said_by_server(algorithm, &left[index].value),
                said,
                "{what}: {index}"
            );
            let writes = match operation {
                // Where there is nothing to give back, nothing is written.
                Operation::Refund(_) => said != said_by_machine(algorithm, &before[index]),
                Operation::Settle(receipt) if receipt.consumed()[index].cost() > check.cost() => {
                    said != said_by_machine(algorithm, &before[index])
                }
                _ => evaluation.writes_to(&request, index),
            };
            wrote |= writes;
            if !writes {
                assert_eq!(left[index], held[index], "{what}: {index} was written");
                continue;
            }
            let reset = decision.as_slice()[index]
                .reset_after()
                .as_micros()
                .unwrap();
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
            let decision = Request::consume(check)
                .at(instant)
                .decide_on(&mut state, instant);
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

/// Returns the integers in a reply of digits.
fn numbers(reply: &Reply) -> Vec<u64> {
    match reply {
        Reply::Array(items) => items.iter().flat_map(numbers).collect(),
        reply => vec![reply.text().unwrap().parse().unwrap()],
    }
}

/// Returns the milliseconds of a reply to `TIME`.
fn millis(time: &Reply) -> u64 {
    let [seconds, micros] = numbers(time)[..] else {
        panic!("{time:?} is no time");
    };
    1_000 * seconds + micros / 1_000
}

fn element(at: u64, total: u32) -> Vec<u8> {
    #[allow(clippy::cast_precision_loss, reason = "it is at most 2^53")]
    let mut bytes = (at as f64).to_le_bytes().to_vec();
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
        assert_eq!(
            integer.to_string(),
            format!("{number:.0}"),
            "no such integer"
        );
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
            let (at, total) = element.split_at(8);
            (words(at)[0], u32::from_le_bytes(total.try_into().unwrap()))
        })
        .collect();
    let Some((&(header, before), rest)) = entries.split_first() else {
        return Vec::new();
    };
    let latest = rest.last().map_or(header, |&(at, _)| at.max(header));
    let sum = |total: u32| total.wrapping_sub(before).into();
    log(rest.iter().map(|&(at, total)| (at, sum(total))), latest)
}

/// Returns the same numbers of the machine's state, which shows all that it holds.
fn said_by_machine(algorithm: &Algorithm, state: &State) -> Vec<u64> {
    let shown = format!("{state:?}");
    let digits = shown.split(|c: char| !c.is_ascii_digit());
    let digits = digits.filter(|digits| !digits.is_empty());
    let mut numbers: Vec<u64> = digits.map(|digits| digits.parse().unwrap()).collect();
    const MARK: u64 = 1 << 63;
    if let (Algorithm::Gcra(_), &[debt, at, unit]) = (algorithm, &numbers[..])
        && unit >= MARK
    {
        numbers = vec![debt, at, unit - MARK, 1];
    }
    match (algorithm, &numbers[..]) {
        (Algorithm::SlidingLog(_), &[ref entries @ .., before, latest]) => {
            let entries = entries.chunks(2).map(|entry| (entry[0], entry[1] - before));
            // A quota of zero makes entries of nothing, which a server does not hold.
            numbers = log(entries.filter(|&(_, sum)| sum > 0), latest);
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
    /// Blocks the keys under the limits that can, for their own time, or until or for so many
    /// microseconds.
    Block(u8, u64),
    Consume(Cost),
    Peek(Cost),
    TakeUpTo(Cost),
    /// Lowers what remains to a cost.
    Lower(Cost),
    /// Gives back one of the calls so far, perhaps once more.
    Refund(Index),
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
        6 => any::<Index>().prop_map(Act::Refund),
        4 => (any::<Index>(), cost()).prop_map(|(index, cost)| Act::Settle(index, cost)),
        2 => cost().prop_map(Act::Lower),
        6 => (cost(), reach()).prop_map(|(cost, tenths)| Act::Reserve(cost, tenths)),
        1 => Just(Act::Reset),
        4 => (0..3_u8, span()).prop_map(|(kind, span)| Act::Block(kind, span)),
    ]
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

#[test]
fn scripts_leave_the_states_of_the_machine() {
    play(FAMILIES.len());
}

/// Histories of only those limits that have reservations.
#[test]
fn scripts_of_reservations_leave_the_states_of_the_machine() {
    play(3);
}

/// Plays histories of limits of the first `most` families.
fn play(most: usize) {
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Of logs, the running total to begin at.
    let total = prop_oneof![Just(0), any::<u32>(), u32::MAX - 40..=u32::MAX];
    const INSTANTS: [u64; 6] = [0, 0, 1, 7_300_000, START, MAX_EXACT - 3_000_000];
    // Most operations of a history are of the same limits.
    let switched = prop_oneof![6 => Just(0_usize), 1 => 1..4_usize];
    // Some ask one of the limits for another cost than the others: nothing, or one more or less.
    let other = (0..4_usize, select(&[0, 1, -1_i64][..]));
    let other = prop_oneof![3 => Just(None), 2 => other.prop_map(Some)];
    let steps = prop::collection::vec((moves(), switched, other, act()), 1..24);
    let histories = (
        families(most),
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
            let limits: Vec<Vec<Limit>> = families
                .iter()
                .map(|&family| FAMILIES[family].iter().map(|text| limit(text)).collect())
                .collect();
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
                    | Act::Lower(cost)
                    | Act::Peek(cost)
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
                        let blocks: Vec<_> = blocks
                            .filter(|check| check.limit().algorithm().can_block())
                            .collect();
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
                    Act::TakeUpTo(_) => Operation::TakeUpTo,
                    Act::Lower(_) => Operation::Lower,
                    Act::Refund(_) | Act::Settle(..) if receipts.is_empty() => continue,
                    Act::Refund(index) => Operation::Refund(index.get(&receipts)),
                    Act::Settle(index, _) => Operation::Settle(index.get(&receipts)),
                    Act::Reset => {
                        pair.reset(&checks);
                        continue;
                    }
                };
                let (remaining, receipt) = pair.decide(operation, &checks, clock);
                left = remaining;
                receipts.extend(receipt);
            }
            Ok(())
        })
        .unwrap();
}

/// All histories of a few blocks of a few microseconds: at, before and after the instants at which a
/// block ends or is forgotten.
#[test]
fn scripts_of_short_blocks_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for text in [
        "block:1us,doublings=1",
        "block:2us,doublings=1",
        "block:2us",
        "block:1us,doublings=30",
    ] {
        let limit = limit(text);
        let spans = |clock| {
            [
                BlockSpan::Usual,
                BlockSpan::Until(Timestamp::from_micros(clock).unwrap()),
                BlockSpan::Until(Timestamp::from_micros(clock + 1).unwrap()),
                BlockSpan::Lasting(Duration::from_micros(2)),
            ]
        };
        let moves = [0, 1, 2, 3, 4, 5, 6];
        for second in 0..moves.len() * 4 {
            for third in 0..moves.len() * 4 {
                let key = pair.begin();
                let check = [Check::new(&limit, &key, 1)];
                let mut clock = START;
                pair.decide(Operation::Block(BlockSpan::Usual), &check, clock);
                for step in [second, third] {
                    clock += moves[step / 4];
                    let span = spans(clock)[step % 4];
                    pair.decide(Operation::Block(span), &check, clock);
                }
            }
        }
        // A clock that was set back.
        let key = pair.begin();
        let check = [Check::new(&limit, &key, 1)];
        pair.decide(Operation::Block(BlockSpan::Usual), &check, START);
        let longer = BlockSpan::Until(Timestamp::from_micros(START + 9).unwrap());
        pair.decide(Operation::Block(longer), &check, START - 1);
    }
}

#[test]
fn a_limit_that_does_not_block_takes_nothing_from_the_largest_grant() {
    let mut pair = Pair::on(Flavor::System);
    let [ban, window] = ["block:1s", "fixed-window:9007199254740991/1s"].map(limit);
    let key = pair.begin();
    let checks = [&ban, &window].map(|limit| Check::new(limit, &key, u64::MAX));
    let (remaining, _) = pair.decide(Operation::TakeUpTo, &checks, START);
    assert_eq!(remaining, 0);
}

#[test]
fn scripts_of_the_largest_settlements_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for text in [
        "gcra:5/1s",
        "gcra:5/1m",
        "sliding-counter:5/1s",
        "sliding-buckets:5/1s,buckets=4",
        "fixed-window:5/1s",
        "sliding-log:5/1s",
    ] {
        let limit = limit(text);
        for cost in [6, 1 << 40, MAX_EXACT - 1, MAX_EXACT, u64::MAX] {
            let key = pair.begin();
            let check = |cost| [Check::new(&limit, &key, cost)];
            let (_, receipt) = pair.decide(Operation::Consume, &check(2), START);
            let settle = Operation::Settle(receipt.as_ref().unwrap());
            pair.decide(settle, &check(cost), START + 1);
            pair.decide(settle, &check(cost), START + 2);
        }
    }
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
    let receipt = now(store.execute(&Request::consume(Check::new(&some, "k", 1)))).unwrap();
    let receipt = receipt.into_receipt().unwrap();
    let settle = Request::settle(&receipt, Check::new(&none, "k", 5));
    let _ = now(store.execute(&settle)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let peek = Request::peek(Check::new(&some, "k", 1));
    assert_eq!(now(store.execute(&peek)).unwrap().remaining(), 5);
    let keys = store.engine().keys(store.options());
    assert_eq!(keys, [b""; 0]);
}

/// A slow limit delays calls of a fast one, which is marked; then some are given back, in any order
/// and at any time: before they start, between the starts, and after all of them.
#[test]
fn cancelled_reservations_leave_the_states_of_the_machine() {
    const ORDERS: [&[usize]; 7] = [
        &[3, 2, 1, 0],
        &[2, 1, 3],
        &[1, 2],
        &[0, 3],
        &[3, 1, 2],
        &[2, 3, 0],
        &[4, 2, 1],
    ];
    const TIMES: [u64; 8] = [
        0, 1, 300_000, 999_999, 1_000_000, 1_500_000, 2_000_000, 2_700_000,
    ];
    let mut pair = Pair::on(Flavor::System);
    let limits = ["gcra:1/1s,burst=1", "gcra:10/1s"].map(limit);
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(10),
    };
    for order in ORDERS {
        for time in TIMES {
            for between in [0, 1, 600_000] {
                let key = pair.begin();
                let names = ["slow", "fast"].map(|name| format!("{key}-{name}"));
                let slow = Check::new(&limits[0], &names[0], 1);
                let fast = |cost| Check::new(&limits[1], &names[1], cost);
                let mut receipts = Vec::new();
                for (operation, checks, at) in [
                    (Operation::Consume, vec![slow, fast(3)], START),
                    (within, vec![slow, fast(1)], START),
                    (within, vec![fast(2), slow], START + 1),
                    (within, vec![slow, fast(1)], START + 100_000),
                    (Operation::Consume, vec![fast(1)], START + 1_600_000),
                ] {
                    if at <= START + 100_000 || order.contains(&4) {
                        let (_, receipt) = pair.decide(operation, &checks, at);
                        receipts.push((receipt, checks));
                    }
                }
                let mut at = START + 100_000 + time;
                for &index in order {
                    let (receipt, checks) = &receipts[index];
                    if let Some(receipt) = receipt {
                        pair.decide(Operation::Refund(receipt), checks, at);
                    }
                    at += between;
                }
                pair.decide(within, &[slow, fast(1)], at);
            }
        }
    }
}

/// Limits that leak within microseconds, so that debts vanish, marks end and starts are reached at
/// the very instants of calls, also by a clock that has stepped back.
#[test]
fn reservations_at_every_microsecond_leave_the_states_of_the_machine() {
    const LIMITS: [[&str; 2]; 4] = [
        ["gcra:1/3us,burst=1", "gcra:5/4us,burst=3"],
        ["gcra:1/2us,burst=2", "gcra:3/2us,burst=4"],
        ["gcra:1/5us,burst=1", "gcra:1/1us,burst=6"],
        ["gcra:2/3us,burst=2", "gcra:2/1us,burst=2"],
    ];
    let mut pair = Pair::on(Flavor::System);
    let limits = LIMITS.map(|pair| pair.map(limit));
    // The same pseudorandom histories each time.
    let mut seed = 7_u64;
    let mut below = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % bound
    };
    for history in 0..900 {
        let [slow, fast] = &limits[history % limits.len()];
        let key = pair.begin();
        let names = ["slow", "fast"].map(|name| format!("{key}-{name}"));
        let (mut at, mut receipts) = (START, Vec::new());
        for _ in 0..5 {
            at = at + below(5) - 1;
            let checks = [
                Check::new(slow, &names[0], below(2)),
                Check::new(fast, &names[1], below(4)),
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

/// A mark ends with the debt, to the microsecond.
#[test]
fn a_debt_that_has_leaked_carries_no_mark() {
    let mut pair = Pair::on(Flavor::System);
    let [slow, fast] = ["gcra:1/5us,burst=1", "gcra:1/1us,burst=6"].map(limit);
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(1),
    };
    for waited in 0..12 {
        let key = pair.begin();
        let names = ["slow", "fast"].map(|name| format!("{key}-{name}"));
        let fast = Check::new(&fast, &names[1], 1);
        let both = [Check::new(&slow, &names[0], 1), fast];
        pair.decide(Operation::Consume, &both, START);
        pair.decide(within, &both, START);
        let (_, receipt) = pair.decide(Operation::Consume, &[fast], START + waited);
        if let Some(receipt) = receipt {
            pair.decide(Operation::Refund(&receipt), &[fast], START + waited);
        }
    }
}

/// Under a quota of fewer tokens, a call of many costs more than a state holds.
#[test]
fn a_refund_under_another_quota_gives_back_no_more_than_the_largest_debt() {
    let mut pair = Pair::on(Flavor::System);
    let many = limit("gcra:3/7us,burst=1000000000000000");
    let few = limit("gcra:9007/1h");
    for later in [0, 1, MAX_EXACT / 9_007, MAX_EXACT / 9_007 + 1, MAX_EXACT] {
        let key = pair.begin();
        let cost = 100_000_000_000_000;
        let (_, receipt) = pair.decide(Operation::Consume, &[Check::new(&many, &key, cost)], 0);
        pair.decide(Operation::Consume, &[Check::new(&few, &key, 1)], later);
        let refund = receipt.unwrap();
        pair.decide(
            Operation::Refund(&refund),
            &[Check::new(&few, &key, 0)],
            later,
        );
    }
}

/// A reservation that raises the debt to the most that a state holds can be cancelled.
#[test]
fn a_reservation_up_to_the_largest_debt_can_be_cancelled() {
    let mut pair = Pair::on(Flavor::System);
    let limit = limit(&format!("gcra:1/1us,burst={}", MAX_EXACT - 1));
    let key = pair.begin();
    let check = |cost| Check::new(&limit, &key, cost);
    pair.decide(Operation::Consume, &[check(MAX_EXACT - 1)], START);
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(1),
    };
    let (_, receipt) = pair.decide(within, &[check(1)], START);
    pair.decide(Operation::Refund(&receipt.unwrap()), &[check(0)], START);
    let (_, again) = pair.decide(within, &[check(1)], START);
    assert!(again.is_some());
}

/// Under a quota so close to its own that it would have left as much, a reservation is kept too.
#[test]
fn a_reservation_is_not_cancelled_under_another_quota() {
    let mut pair = Pair::on(Flavor::System);
    let [three, two] = ["gcra:1/3us", "gcra:1/2us"].map(limit);
    let key = pair.begin();
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(1),
    };
    pair.decide(Operation::Consume, &[Check::new(&three, &key, 1)], START);
    let (_, receipt) = pair.decide(within, &[Check::new(&three, &key, 1)], START + 2);
    let refund = receipt.unwrap();
    let check = Check::new(&two, &key, 0);
    pair.decide(Operation::Refund(&refund), &[check], START + 2);
}

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
    for written in EACH {
        let limit = limit(written);
        // From the Unix epoch, where the first window starts, and from within one.
        for start in [0, START + 700_000] {
            for (between, after) in TIMES {
                for (calls, given_back) in GIVEN_BACK {
                    let key = pair.begin();
                    let check = |cost| Check::new(&limit, &key, cost);
                    let mut receipts = Vec::new();
                    let (mut at, mut left) = (start, 0);
                    for (call, cost) in (0..).zip(&COSTS[..calls]) {
                        at = start + call * between;
                        receipts.extend(pair.decide(Operation::Consume, &[check(*cost)], at).1);
                    }
                    let last = at;
                    for (&index, after) in given_back.iter().zip(after) {
                        at = last.saturating_add_signed(after);
                        let refund = Operation::Refund(&receipts[index]);
                        (left, _) = pair.decide(refund, &[check(0)], at);
                    }
                    for (cost, later) in [(left, 0), (left + 1, 0), (10, 1_000_000)] {
                        pair.decide(Operation::Peek, &[check(cost)], at + later);
                    }
                }
            }
        }
    }
}

/// A clock that steps back to before what was counted, or to the instant of the first call, which
/// was given back.
#[test]
fn calls_after_the_clock_stepped_back_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for written in EACH {
        let limit = limit(written);
        let start = START + 700_000;
        for back in [0, 1, 300_000, 2_000_000] {
            let key = pair.begin();
            let check = |cost| [Check::new(&limit, &key, cost)];
            let (_, first) = pair.decide(Operation::Consume, &check(2), start);
            let (_, second) = pair.decide(Operation::Consume, &check(3), start + 400_000);
            let refund = |receipt| Operation::Refund(Option::as_ref(receipt).unwrap());
            pair.decide(refund(&first), &check(0), start + 400_000);
            pair.decide(Operation::Consume, &check(1), start - back);
            pair.decide(refund(&second), &check(0), start - back);
            pair.decide(Operation::Peek, &check(10), start + 400_000);
        }
    }
}

/// A key that lives for a day lives for no millisecond less.
#[test]
fn states_of_a_day_live_until_they_end() {
    let mut pair = Pair::on(Flavor::System);
    for written in [
        "gcra:10/1d",
        "fixed-window:10/1d",
        "fixed-window:10/1d,anchored",
        "sliding-counter:10/1d",
        "sliding-buckets:10/1d,buckets=3",
        "sliding-log:10/1d",
    ] {
        let limit = limit(written);
        let key = pair.begin();
        let check = |cost| [Check::new(&limit, &key, cost)];
        pair.decide(Operation::Consume, &check(2), START);
        let (_, receipt) = pair.decide(Operation::Consume, &check(3), START + 1_000_000);
        let refund = Operation::Refund(receipt.as_ref().unwrap());
        pair.decide(refund, &check(0), START + 2_000_000);
    }
}

/// Of a limit that has nothing left, a call takes nothing, or is denied and may count.
#[test]
fn calls_that_take_from_what_is_used_up_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    let denying = [
        "fixed-window:10/1s,count-denied",
        "fixed-window:10/1s,anchored,count-denied",
        "sliding-log:10/1s,count-denied",
    ];
    for written in EACH.into_iter().chain(denying) {
        let limit = limit(written);
        let key = pair.begin();
        let check = |cost| [Check::new(&limit, &key, cost)];
        pair.decide(Operation::Consume, &check(4), START);
        pair.decide(Operation::Consume, &check(6), START);
        pair.decide(Operation::TakeUpTo, &check(0), START);
        pair.decide(Operation::TakeUpTo, &check(2), START);
        pair.decide(Operation::TakeUpTo, &check(2), START + 100_000);
    }
}

/// A ring of buckets drops what has left, wherever in it that is.
#[test]
fn rings_drop_expired_buckets_at_every_position() {
    let mut pair = Pair::on(Flavor::System);
    let limit = limit("sliding-buckets:100/1s,buckets=4");
    for first in 0..5 {
        for passed in 1..=6 {
            let key = pair.begin();
            let mut consume = |bucket: u64, cost| {
                let check = Check::new(&limit, &key, cost);
                pair.decide(Operation::Consume, &[check], 250_000 * bucket);
            };
            for bucket in 0..5 {
                consume(first + bucket, bucket + 1);
            }
            consume(first + 4 + passed, 1);
        }
    }
}

/// After a reset, a receipt gives back what the machine says, from however long before or after.
#[test]
fn receipts_from_before_a_reset_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for written in EACH {
        let limit = limit(written);
        for start in [START, START + 700_000] {
            for apart in [
                1, 333_334, 999_999, 1_000_000, 1_000_001, 1_333_336, 2_000_000,
            ] {
                for then in [start - apart, start + apart] {
                    let key = pair.begin();
                    let check = Check::new(&limit, &key, 2);
                    let (_, receipt) = pair.decide(Operation::Consume, &[check], then);
                    pair.reset(&[check]);
                    pair.decide(Operation::Consume, &[check], start);
                    let refund = Operation::Refund(receipt.as_ref().unwrap());
                    pair.decide(refund, &[check], start + 10);
                }
            }
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
                    pair.decide(
                        Operation::Consume,
                        &[Check::new(&attempts, &key, cost)],
                        micros,
                    );
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
        let before = crate::engine::calls(&pair.server, "lindex");
        let leaves = 1_000_000 + 10 * (gone - 1);
        let (left, _) = pair.decide(Operation::Peek, &[check], leaves);
        assert_eq!(left, 5_000 - 4_000 + gone);
        let read = crate::engine::calls(&pair.server, "lindex") - before;
        let most = 2 * u64::from(gone.ilog2()) + 3;
        assert!(
            read <= most,
            "{read} entries are read to find that {gone} have left"
        );
    }
}

/// What was given back already is not given back again, however deep in the log it was.
#[test]
fn a_refund_of_a_call_that_a_long_log_does_not_hold_changes_nothing() {
    let mut pair = Pair::on(Flavor::System);
    let log = limit("sliding-log:5000/1s");
    let key = pair.begin();
    let check = Check::new(&log, &key, 0);
    let mut calls: Vec<_> = (0..4_011).map(|n| (10 * n, 1)).collect();
    let receipt = pair.fill_log(check, 0, &calls).swap_remove(2_005);
    calls.remove(2_005);
    // More entries than a refund may rewrite are before that call, and after it.
    let _ = pair.fill_log(check, 0, &calls);
    let (left, _) = pair.decide(Operation::Refund(&receipt), &[check], 50_000);
    assert_eq!(left, 5_000 - 4_010);
}

/// Blocks of a few microseconds, at and around the ends of earlier ones, and when those are just
/// about to be forgotten, also by a clock that has stepped back.
#[test]
fn blocks_at_every_microsecond_leave_the_states_of_the_machine() {
    const SPANS: [(u8, u64); 6] = [(0, 0), (1, 0), (1, 1), (1, 6), (2, 0), (2, 4)];
    const MOVES: [i64; 9] = [-1, 0, 1, 2, 3, 4, 7, 8, 9];
    let mut pair = Pair::on(Flavor::System);
    for limit in [
        "block:3us",
        "block:1us,doublings=2",
        "block:2us,doublings=1",
    ]
    .map(limit)
    {
        let span = |(kind, micros): (u8, u64), now: u64| match kind {
            0 => BlockSpan::Usual,
            1 => BlockSpan::Until(Timestamp::from_micros(now + micros).unwrap()),
            _ => BlockSpan::Lasting(Duration::from_micros(micros)),
        };
        for second in SPANS {
            for later in MOVES {
                for third in SPANS {
                    let key = pair.begin();
                    let check = [Check::new(&limit, &key, 1)];
                    let mut now = START;
                    pair.decide(Operation::Block(span((0, 0), now)), &check, now);
                    now += 1;
                    pair.decide(Operation::Block(span(second, now)), &check, now);
                    now = now.saturating_add_signed(later);
                    pair.decide(Operation::Consume, &check, now);
                    pair.decide(Operation::TakeUpTo, &check, now);
                    pair.decide(Operation::Block(span(third, now)), &check, now);
                }
            }
        }
    }
}

/// Calls that are settled at more than any number can hold, again and again.
#[test]
fn debts_without_bound_leave_the_states_of_the_machine() {
    let mut pair = Pair::on(Flavor::System);
    for limit in [
        "gcra:3/7us,burst=4",
        "gcra:9007199254740991/1us",
        "fixed-window:3/1s",
        "sliding-counter:3/1s",
        "sliding-buckets:3/1s,buckets=3",
        "sliding-buckets:9007199254740991/1s,buckets=2",
        "sliding-log:3/1s",
    ]
    .map(limit)
    {
        for costs in [
            [u64::MAX, u64::MAX],
            [MAX_EXACT, MAX_EXACT],
            [5, MAX_EXACT - 2],
        ] {
            let key = pair.begin();
            let check = |cost| [Check::new(&limit, &key, cost)];
            let (_, receipt) = pair.decide(Operation::Consume, &check(2), START);
            let receipt = receipt.unwrap();
            for (later, cost) in costs.into_iter().enumerate() {
                let now = START + 400_000 * later as u64;
                pair.decide(Operation::Settle(&receipt), &check(cost), now);
                pair.decide(Operation::Consume, &check(1), now + 1);
                pair.decide(Operation::Refund(&receipt), &check(0), now + 2);
            }
        }
    }
}

/// Once no number holds more, later calls count nothing, and the state ends with the earlier ones.
#[test]
fn a_full_ring_ends_with_its_newest_bucket_that_counts() {
    let mut pair = Pair::on(Flavor::System);
    let limit = limit("sliding-buckets:3/1s,buckets=4");
    for later in [0, 1, 2, 3, 4] {
        let key = pair.begin();
        let check = |cost| [Check::new(&limit, &key, cost)];
        let (_, receipt) = pair.decide(Operation::Consume, &check(1), START);
        let receipt = receipt.unwrap();
        pair.decide(Operation::Settle(&receipt), &check(u64::MAX), START);
        let then = START + 250_000 * later;
        pair.decide(Operation::Settle(&receipt), &check(2), then);
        pair.decide(Operation::Peek, &check(1), then);
    }
}

/// The amount is lowered to zero between a call and its settlement.
#[test]
fn a_quota_of_zero_keeps_no_debt() {
    let mut pair = Pair::on(Flavor::System);
    for [before, after] in [
        ["sliding-counter:3/1s", "sliding-counter:0/1s"],
        ["fixed-window:3/1s", "fixed-window:0/1s"],
        ["sliding-log:3/1s", "sliding-log:0/1s"],
        ["gcra:3/1s", "gcra:0/1s"],
    ]
    .map(|pair| pair.map(limit))
    {
        let key = pair.begin();
        let (_, receipt) = pair.decide(Operation::Consume, &[Check::new(&before, &key, 1)], START);
        let receipt = receipt.unwrap();
        for cost in [3, 5] {
            let settled = [Check::new(&after, &key, cost)];
            pair.decide(Operation::Settle(&receipt), &settled, START + cost);
            pair.decide(Operation::Peek, &settled, START + cost);
        }
    }
}

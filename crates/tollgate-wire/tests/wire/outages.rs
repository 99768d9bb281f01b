//! Servers that answer late, never, or nonsense: what callers are told, and what was sent.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tollgate_core::store::{Check, Checks, Fingerprint, Operation, Request, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Key, Store, StoreError, Timestamp};
use tollgate_wire::{
    Command, Engine, Failure, Options, PlainStore, ScriptCall, Transact, WireStore,
};

use crate::engine::{limit, now};

/// The numbers in the replies of one transaction.
type Numbers = Vec<Vec<Option<i64>>>;
/// What transactions are answered: the first, the second and so on.
type Replies = fn(i64) -> Numbers;

/// What comes of what is sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Outcome {
    #[default]
    Done,
    /// The connection is lost before the reply comes.
    Lost,
    /// No reply comes before the deadline.
    Silence,
    /// The deadline has passed before anything is sent.
    TooLate,
}

use Outcome::{Done, Lost, Silence, TooLate};

#[derive(Default)]
struct Weak {
    outcome: Outcome,
    clustered: bool,
    replies: Option<Replies>,
    transactions: AtomicI64,
    /// The keys of each command to forget some.
    forgotten: Mutex<Vec<Vec<Vec<u8>>>>,
}

impl Weak {
    async fn come<T>(&self, reply: T) -> Result<T, Failure> {
        match self.outcome {
            Done => Ok(reply),
            Lost => Err(Failure::lost("the connection was lost")),
            Silence => std::future::pending().await,
            TooLate => panic!("nothing is sent after the deadline"),
        }
    }
}

impl Engine for Weak {
    async fn run(&self, _call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        self.come(Vec::new()).await
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        self.come(()).await
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        self.forgotten.lock().unwrap().push(keys.to_vec());
        self.come(()).await
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        if self.outcome == TooLate {
            return None;
        }
        let mut work = pin!(work);
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn is_clustered(&self) -> bool {
        self.clustered
    }
}

impl Transact for Weak {
    async fn transact(&self, _commands: &[Command]) -> Result<Numbers, Failure> {
        let count = self.transactions.fetch_add(1, Relaxed);
        self.come(self.replies.map_or_else(Vec::new, |replies| replies(count)))
            .await
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

fn scripted(outcome: Outcome, clustered: bool) -> WireStore<Weak> {
    let engine = Weak {
        outcome,
        clustered,
        ..Weak::default()
    };
    WireStore::new(engine, Options::new())
}

fn plain(outcome: Outcome, replies: Replies) -> PlainStore<Weak> {
    let engine = Weak {
        outcome,
        replies: Some(replies),
        ..Weak::default()
    };
    PlainStore::new(engine, Options::new(), &[]).unwrap()
}

/// What a server answers to a call that is the first of the window that begins with the Unix epoch.
fn first_call(_: i64) -> Numbers {
    vec![
        vec![Some(0), Some(5)],
        vec![Some(0), Some(1)],
        vec![Some(1)],
        vec![Some(1_001)],
    ]
}

/// Does `operation` at a cost of 1 for one key.
fn ask(store: &impl Store, operation: Operation<'_>, written: &str) -> Result<(), StoreError> {
    let limit = limit(written);
    let check = Check::new(&limit, "k", 1);
    now(store.decide(Request::new(operation, [check]))).map(drop)
}

#[test]
fn keys_of_one_slot_are_reset_in_one_command() {
    let limit = limit("gcra:5/1s");
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    let [together, apart] = [alice.with_rest("r"), bob].map(|second| {
        let keys = [alice, second];
        keys.map(|key| Check::new(&limit, key, 1))
    });
    // Each limit has a key for the server's clock and one for callers' clocks.
    for (clustered, checks, expected) in [
        (true, &together[..], &[4][..]),
        (true, &apart, &[2, 2]),
        (true, &apart[..1], &[2]),
        (true, &[], &[]),
        (false, &together, &[4]),
        (false, &apart, &[4]),
        (false, &[], &[]),
    ] {
        let store = scripted(Done, clustered);
        now(Store::reset(&store, Checks::from(checks))).unwrap();
        let forgotten = store.engine().forgotten.lock().unwrap();
        let counts: Vec<_> = forgotten.iter().map(Vec::len).collect();
        assert_eq!(counts, expected, "{clustered} {checks:?}");
    }
}

#[test]
fn a_reset_without_a_reply_is_unknown() {
    let limit = limit("fixed-window:5/1s");
    let checks = ["alice", "bob"].map(|key| Check::new(&limit, key, 1));
    for outcome in [Lost, Silence] {
        let outcomes = [
            now(Store::reset(&scripted(outcome, false), checks.into())),
            now(Store::reset(&scripted(outcome, true), checks.into())),
            now(Store::reset(&plain(outcome, first_call), checks.into())),
        ];
        for result in outcomes {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unknown, "{outcome:?}: {error}");
            assert!(error.to_string().contains("reset it again"), "{error}");
        }
    }
}

#[test]
fn a_call_without_a_reply_is_unknown_and_a_peek_is_unavailable() {
    const LIMIT: &str = "fixed-window:5/1s";
    for outcome in [Lost, Silence] {
        for (operation, kind) in [
            (Operation::Consume, ErrorKind::Unknown),
            (Operation::Peek, ErrorKind::Unavailable),
        ] {
            let errors = [
                ask(&scripted(outcome, false), operation, LIMIT).unwrap_err(),
                ask(&plain(outcome, first_call), operation, LIMIT).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), kind, "{outcome:?} {operation:?}: {error}");
            }
        }
    }
}

#[test]
fn a_deadline_of_zero_is_a_mistake() {
    let options = Options::new().with_deadline(Duration::ZERO);
    let store = WireStore::new(Weak::default(), options);
    let limit = limit("gcra:5/1s");
    let outcomes = [
        ask(&store, Operation::Consume, "gcra:5/1s"),
        now(Store::reset(
            &store,
            Checks::from(&[Check::new(&limit, "k", 1)][..]),
        )),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
}

#[test]
fn a_call_that_was_not_sent_was_not_counted() {
    let error = ask(&scripted(TooLate, false), Operation::Consume, "gcra:5/1s").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[test]
fn a_store_decides_exactly_the_requests_it_supports() {
    let written = [
        "fixed-window:5/1s",
        "gcra:5/1s",
        "fixed-window:5/1ms,anchored",
    ];
    let limits = written.map(limit);
    let check = |index: usize, key| Check::new(&limits[index], Key::from(key), 1);
    let receipt = |index| {
        let request = Request::consume(check(index, "a"));
        let verdict = Verdict::allow(5, 4).with_consumed(1, Timestamp::UNIX_EPOCH);
        Verdicts::new(Fingerprint::of(&request), [verdict]).into_receipt()
    };
    let [aligned, anchored] = [0, 2].map(|index| receipt(index).unwrap());
    let plain = plain(Done, first_call);
    for (request, expected) in [
        (Request::consume(check(0, "a")), [true, true, true]),
        (Request::consume(check(1, "a")), [false, true, true]),
        (Request::consume(check(2, "a")), [true, true, true]),
        (
            Request::consume(check(0, "a")).at(Timestamp::UNIX_EPOCH),
            [false, true, true],
        ),
        (Request::refund(&aligned, check(0, "a")), [true, true, true]),
        (
            Request::refund(&anchored, check(2, "a")),
            [false, true, true],
        ),
        (
            Request::consume(check(0, "a")).and(check(1, "a")),
            [false, true, true],
        ),
        (
            Request::consume(check(0, "a")).and(check(0, "b")),
            [false, true, false],
        ),
        (
            Request::new(Operation::TakeUpTo, [check(0, "a")]),
            [false, true, true],
        ),
        (
            Request::reserve(check(1, "a"), Duration::ZERO),
            [false, true, true],
        ),
        (
            Request::reserve(check(0, "a"), Duration::ZERO),
            [false, false, false],
        ),
    ] {
        let supported = [
            Store::supports(&plain, &request),
            Store::supports(&scripted(Done, false), &request),
            Store::supports(&scripted(Done, true), &request),
        ];
        assert_eq!(supported, expected, "{request:?}");
        let refused = now(Store::decide(&plain, request))
            .is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        assert_eq!(refused, !expected[0]);
    }
}

/// Returns `first_call` but for the reply to one of its commands.
macro_rules! but {
    ($command:literal, [$($number:expr),*]) => {
        |_| {
            let mut replies = first_call(0);
            replies[$command] = vec![$($number),*];
            replies
        }
    };
}

#[test]
fn an_unexpected_reply_to_a_transaction_is_a_protocol_error() {
    const LIMIT: &str = "fixed-window:5/1s";
    ask(&plain(Done, first_call), Operation::Consume, LIMIT).unwrap();
    let answers: [(&str, Replies); 17] = [
        ("no replies", |_| vec![]),
        ("two replies", |_| first_call(0)[..2].to_vec()),
        ("no time", but!(0, [])),
        ("seconds alone", but!(0, [Some(0)])),
        ("no microseconds", but!(0, [Some(0), None])),
        ("more than a time", but!(0, [Some(0), Some(5), Some(5)])),
        ("a time before the epoch", but!(0, [Some(-1), Some(5)])),
        (
            "seconds that come to zero in 64 bits",
            but!(0, [Some(1 << 58), Some(5)]),
        ),
        (
            "microseconds that come to a few in 64 bits",
            but!(0, [Some(i64::MIN / 1_000_000), Some(i64::MIN)]),
        ),
        (
            "a time after the last",
            but!(0, [Some(i64::MAX / 1_000_000), Some(5)]),
        ),
        ("no counter", but!(1, [])),
        ("a counter of nothing", but!(1, [None, Some(1)])),
        ("a counter below zero", but!(1, [Some(-1), Some(1)])),
        (
            "a call that was refused although it fits",
            but!(1, [Some(0), None]),
        ),
        ("no expiry", but!(3, [])),
        ("an expiry of nothing", but!(3, [None])),
        ("two expiries", but!(3, [Some(1_001), Some(1_001)])),
    ];
    for (what, replies) in answers {
        let error = ask(&plain(Done, replies), Operation::Consume, LIMIT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{what}: {error}");
    }
}

#[test]
fn a_call_that_always_arrives_after_its_window_is_tried_twenty_times() {
    let store = plain(Done, |count| {
        let mut replies = first_call(0);
        replies[0] = vec![Some(count + 1), Some(0)];
        replies
    });
    let error = ask(&store, Operation::Consume, "fixed-window:5/1s").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(store.engine().transactions.load(Relaxed), 20);
}

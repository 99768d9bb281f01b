//! Servers that answer late, never, or nonsense, or that forget scripts: what callers are told, and
//! what was sent.

use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::store::{
    BlockSpan, Check, Checks, Fingerprint, Operation, Request, Verdict, Verdicts,
};
use tollgate_core::{ErrorKind, Key, Store, StoreError, Timestamp};
use tollgate_wire::inside::{Command, PlainStore, Transact};
use tollgate_wire::{Failure, Options, WireStore};

use crate::engine::Outcome::{self, Done, Lost, NoScript, Silence};
use crate::engine::{Canned, Numbers, Replies, limit, now};

const WINDOW: &str = "fixed-window:5/1s";

impl Transact for Canned {
    async fn transact(&self, _commands: &[Command]) -> Result<Numbers, Failure> {
        let count = self.transactions.fetch_add(1, Relaxed);
        self.come(&Mutex::default(), &[]).await?;
        Ok(self.replies.map_or_else(Vec::new, |replies| replies(count)))
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// Returns a store whose calls all come to this.
fn scripted(others: Outcome, clustered: bool) -> WireStore<Canned> {
    let engine = Canned {
        others,
        clustered,
        ..Canned::default()
    };
    WireStore::new(engine, Options::new())
}

/// Returns a store without scripts, whose transactions all come to this, or are answered.
fn plain(others: Outcome, replies: Replies) -> PlainStore<Canned> {
    let engine = Canned {
        others,
        replies: Some(replies),
        ..Canned::default()
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
        let counts = store.engine().forgets.lock().unwrap();
        assert_eq!(*counts, expected, "{clustered} {checks:?}");
    }
}

#[test]
fn a_reset_without_a_reply_is_unknown() {
    let limit = limit(WINDOW);
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

/// Blocks are safe to repeat, and so is to lower what remains: nobody must stay unblocked for fear of it.
#[test]
fn a_lost_reply_says_what_may_have_happened_and_what_is_safe_to_repeat() {
    use ErrorKind::{Unavailable, Unknown};
    let block = Operation::Block(BlockSpan::Usual);
    let once = "do not send it again";
    let lowered = "lower it again, which is safe";
    let blocked = "block it again, which is safe";
    for outcome in [Lost, Silence] {
        let scripted = || scripted(outcome, false);
        let plain = || plain(outcome, first_call);
        let (peek, consume, lower) = (Operation::Peek, Operation::Consume, Operation::Lower);
        for (result, kind, advice) in [
            (ask(&scripted(), peek, WINDOW), Unavailable, "try again"),
            (ask(&plain(), peek, WINDOW), Unavailable, "try again"),
            (ask(&scripted(), consume, WINDOW), Unknown, once),
            (ask(&plain(), consume, WINDOW), Unknown, once),
            (ask(&scripted(), lower, "gcra:5/1s"), Unknown, lowered),
            (ask(&scripted(), block, "block:15m"), Unknown, blocked),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), kind, "{outcome:?}: {error}");
            assert!(error.to_string().ends_with(advice), "{error}");
        }
    }
}

#[test]
fn a_call_that_was_not_sent_was_not_counted() {
    let limit = limit("gcra:5/1s");
    let call = Request::consume(Check::new(&limit, "k", 1));
    let engine = Canned {
        is_late: true,
        ..Canned::default()
    };
    let store = WireStore::new(engine, Options::new());
    for call in [call.clone(), call.id("one")] {
        let error = now(Store::decide(&store, call)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
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
    let consume = |index| Request::consume(check(index, "a"));
    let reserve = |index| Request::reserve(check(index, "a"), Duration::ZERO);
    let early = consume(0).at(Timestamp::UNIX_EPOCH);
    let all = Request::new(Operation::TakeUpTo, [check(0, "a")]);
    for (request, expected) in [
        (consume(0), [true, true, true]),
        (consume(1), [false, true, true]),
        (consume(2), [true, true, true]),
        (early, [false, true, true]),
        (Request::refund(&aligned, check(0, "a")), [true, true, true]),
        (
            Request::refund(&anchored, check(2, "a")),
            [false, true, true],
        ),
        (consume(0).and(check(1, "a")), [false, true, true]),
        (consume(0).and(check(0, "b")), [false, true, false]),
        (all, [false, true, true]),
        (reserve(1), [false, true, true]),
        (reserve(0), [false, false, false]),
    ] {
        let supported = [
            Store::supports(&plain, &request),
            Store::supports(&scripted(Done, false), &request),
            Store::supports(&scripted(Done, true), &request),
        ];
        assert_eq!(supported.map(|it| it.is_ok()), expected, "{request:?}");
        // A call with an id is refused for what the same call without one is.
        let with_id = request.clone().id("one");
        if matches!(request.operation(), Operation::Consume) {
            let store = scripted(Done, true);
            let supported = Store::supports(&store, &with_id);
            assert_eq!(supported.is_ok(), expected[2], "{request:?}");
            let refused = now(Store::decide(&store, with_id)).map_err(|error| error.kind());
            let is_refused = refused == Err(ErrorKind::Unsupported);
            assert_eq!(is_refused, !expected[2], "{request:?}");
        }
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
    ask(&plain(Done, first_call), Operation::Consume, WINDOW).unwrap();
    let answers: [(&str, Replies); 17] = [
        ("no replies", |_| vec![]),
        ("two replies", |_| first_call(0)[..2].to_vec()),
        ("no time", but!(0, [])),
        ("seconds alone", but!(0, [Some(0)])),
        ("no microseconds", but!(0, [Some(0), None])),
        ("more than a time", but!(0, [Some(0), Some(5), Some(5)])),
        ("a time before the epoch", but!(0, [Some(-1), Some(5)])),
        (
            "seconds of zero in 64 bits",
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
        ("a call refused although it fits", but!(1, [Some(0), None])),
        ("no expiry", but!(3, [])),
        ("an expiry of nothing", but!(3, [None])),
        ("two expiries", but!(3, [Some(1_001), Some(1_001)])),
    ];
    for (what, replies) in answers {
        let error = ask(&plain(Done, replies), Operation::Consume, WINDOW).unwrap_err();
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
    let error = ask(&store, Operation::Consume, WINDOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(store.engine().transactions.load(Relaxed), 20);
}

/// Returns a store whose next calls, and the scripts that it loads, come to these.
fn loading(runs: &[Outcome], loads: &[Outcome]) -> WireStore<Canned> {
    // It allows the first call.
    let reply = [&[1][..], &5_f64.to_le_bytes(), &[0; 2]].concat();
    let engine = Canned {
        reply,
        runs: Mutex::new(runs.to_vec()),
        loads: Mutex::new(loads.to_vec()),
        ..Canned::default()
    };
    WireStore::new(engine, Options::new())
}

/// Consumes one unit, and checks that everything was sent that is scripted.
fn consume(runs: &[Outcome], loads: &[Outcome]) -> Result<(), StoreError> {
    let store = loading(runs, loads);
    let limit = limit("gcra:5/1s");
    let outcome = now(store.execute(&Request::consume(Check::new(&limit, "k", 1))));
    let Canned { runs, loads, .. } = store.engine();
    assert!(runs.lock().unwrap().is_empty() && loads.lock().unwrap().is_empty());
    outcome.map(drop)
}

/// Nothing is counted while a script is loaded, or if it cannot be kept loaded; but a call that was
/// sent may have been counted, also if it is sent again once its script is loaded.
#[test]
fn a_call_is_sent_again_after_loading_its_script() {
    let (unavailable, unknown) = (Err(ErrorKind::Unavailable), Err(ErrorKind::Unknown));
    for (runs, loads, expected) in [
        (&[NoScript, Done][..], &[Done][..], Ok(())),
        (&[NoScript, NoScript, Done], &[Done, Done], Ok(())),
        (&[NoScript], &[Silence], unavailable),
        (&[NoScript], &[Lost], unavailable),
        (&[NoScript, NoScript], &[Done, Silence], unavailable),
        (&[NoScript; 5], &[Done; 4], unavailable),
        (&[Silence], &[], unknown),
        (&[Lost], &[], unknown),
        (&[NoScript, Silence], &[Done], unknown),
        (&[NoScript, Lost], &[Done], unknown),
    ] {
        let outcome = consume(runs, loads).map_err(|error| error.kind());
        assert_eq!(outcome, expected, "{runs:?} {loads:?}");
    }
}

#[test]
fn debug_of_a_call_shows_no_key() {
    let store = loading(&[Done], &[]);
    let limit = limit("gcra:5/1s");
    let key = Key::from("carol4711").with_rest("dave0815");
    let _ = now(store.execute(&Request::consume(Check::new(&limit, key, 1)))).unwrap();
    let shown = store.engine().shown.lock().unwrap();
    assert!(shown.contains("keys: 1") && shown.contains("argument_bytes: "));
    for secret in [&b"carol4711"[..], b"dave0815"] {
        let text = std::str::from_utf8(secret).unwrap();
        let digits = format!("{secret:?}");
        let digits = digits.trim_matches(['[', ']']);
        assert!(!shown.contains(text) && !shown.contains(digits), "{shown}");
    }
}

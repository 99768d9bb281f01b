//! The full message of each way in which a mock fails a test, as `messages.txt` has it.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook, take_hook};
use std::time::Duration;
use std::{env, fs};

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Key, Limit, RateLimiter, SyncStore};
use tollgate_mock::predicate::{always, eq, function, gt, str::starts_with};
use tollgate_mock::{Answer, Expectation, MockStore, Sequence};

use crate::{NOON, SECOND, WITHIN_A_SECOND, mail};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mock/messages.txt");

#[test]
fn messages_are_those_of_the_golden_file() {
    // Most of these panics are right: none is shown but that of this test.
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let messages = [unexpected(), unmet(), impossible(), of_others()].concat();
    set_hook(hook);
    let shown = messages.iter().fold(String::new(), |all, (title, texts)| {
        all + &format!("== {title} ==\n{}\n\n", texts.join("\n"))
    });
    if env::var_os("TOLLGATE_WRITE_MESSAGES").is_some() {
        fs::write(FILE, &shown).unwrap();
    }
    let golden = fs::read_to_string(FILE).unwrap();
    let lines = shown.lines().zip(golden.lines());
    let first = lines.enumerate().find(|(_, (new, old))| new != old);
    assert!(
        shown == golden,
        "the messages are not those of {FILE}; the first that differs: {first:#?}\n\
         if they are right, write the file anew, and look at what changed: \
         TOLLGATE_WRITE_MESSAGES=1 cargo nextest run -p tollgate-mock messages"
    );
}

#[test]
fn readme_shows_the_actual_message() {
    let text = message(|| {
        let mut store = MockStore::new();
        let wait = Duration::from_secs(6);
        let expected = store.expect_check("mail", starts_with("invite:"));
        expected.cost(3).deny_for(wait);
        let limiter = RateLimiter::new(store, ["mail=gcra:10/1m,burst=3"]).unwrap();
        drop(limiter.check("bob").cost(3).run());
    });
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!("```text\n{text}\n```")), "{text}");
}

#[test]
fn store_dropped_by_a_panic_does_not_panic_again() {
    // A second panic would abort the process.
    let text = message(|| {
        let mut store = MockStore::new();
        store.expect_check("attempts", "alice").allow();
        panic_any("the first panic");
    });
    assert_eq!(text, "the first panic");
}

/// As a task does, whose panic nobody looks at.
#[test]
fn test_fails_though_the_panic_of_an_unexpected_call_was_caught() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").never();
    let limiter = RateLimiter::new(store, ["attempts=gcra:1/1m"]).unwrap();
    let first = message(|| limiter.check("alice").run());
    assert!(first.starts_with("unexpected check"), "{first}");
    assert_eq!(message(|| drop(limiter)), first);
}

/// Returns the message that `fails` panics with.
pub(super) fn message<T>(fails: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(fails)) else {
        return "no panic".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic that is no text".to_owned())
}

/// Titles, each with one message or several.
type Messages = Vec<(&'static str, Vec<String>)>;

/// Callers of each kind, on one store.
struct Callers<'m> {
    log: RateLimiter<&'m MockStore>,
    ban: RateLimiter<&'m MockStore>,
}

/// Returns the message of a test that sets up a store with `expect`, and then calls it.
fn failing(expect: impl FnOnce(&mut MockStore), call: fn(&Callers<'_>)) -> String {
    message(|| {
        let mut store = MockStore::new();
        expect(&mut store);
        call(&Callers {
            log: RateLimiter::new(&store, ["log=sliding-log:5/1m"]).unwrap(),
            ban: RateLimiter::new(&store, ["ban=block:15m"]).unwrap(),
        });
    })
}

/// Expects calls of all kinds.
fn everything(store: &mut MockStore) {
    store.expect_check("log", "k").times(..2).allow();
    store.expect_check("log", "k").cost(2).times(..).allow();
    store.expect_peek("log", "k").times(0..=3).allow();
    store.expect_settle("log", "k").cost(2).times(2..5).allow();
    store.expect_reset("log", "k").never();
    store.expect_take_up_to("log", b"\xff\"").grant(1);
    store.expect_block("ban", "k").times(1).succeed();
    store
        .expect_check(always(), |key: &Key<'_>| key.rest() == b"x")
        .allow();
    let expected = store.expect_check(eq("log"), starts_with("user:"));
    expected.cost(gt(2)).allow();
    let expected = store.expect_check(|name: &str| name == "x", always());
    expected.cost(|cost| cost > 2).allow();
    store.expect_peek("x", function(str::is_empty)).allow();
}

fn unexpected() -> Messages {
    let counted = failing(everything, |on| {
        on.log.check("k").run().unwrap().permit().unwrap();
        on.log.peek("k").run().unwrap().permit().unwrap();
        on.log.peek("k").run().unwrap().permit().unwrap();
        drop(on.log.check("bob").run());
    });
    let none: [fn(&Callers<'_>); 2] = [
        |on| drop(on.log.take_up_to("k", 3).run()),
        |on| drop(on.ban.block("k").run()),
    ];
    let other = vec![
        failing(
            |store| store.expect_check("log", "k").cost(2).allow(),
            |on| drop(on.log.check("k").run()),
        ),
        failing(
            |store| store.expect_check("log", "k").allow(),
            |on| drop(on.log.peek("k").run()),
        ),
    ];
    let early = failing(
        |store| {
            let mut sequence = Sequence::new();
            let expected = store.expect_reset("log", "k").times(1);
            expected.in_sequence(&mut sequence).succeed();
            let expected = store.expect_check("log", "k");
            expected.in_sequence(&mut sequence).allow();
        },
        |on| drop(on.log.check("k").run()),
    );
    let too_many = failing(
        |store| store.expect_reset("log", "k").times(1).succeed(),
        |on| {
            on.log.reset("k").run().unwrap();
            drop(on.log.reset("k").run());
        },
    );
    let none = none.map(|call| failing(|_| (), call));
    vec![
        ("another key, beside calls of all kinds", vec![counted]),
        ("no expectations", none.to_vec()),
        ("another cost or operation", other),
        ("a call too many", vec![too_many]),
        ("a call too early in a sequence", vec![early]),
        ("several limits", vec![peeked(), checked()]),
    ]
}

/// Both limits are named, and neither expectation fits.
fn peeked() -> String {
    message(|| {
        let mut store = MockStore::new();
        store.expect_peek("a", "k").cost(1).never();
        store.expect_peek("a", "k").cost(2).allow();
        store.expect_peek("b", "k").cost(2).allow();
        let limiter = RateLimiter::new(store, ["a=gcra:5/1m", "b=gcra:6/1m"]).unwrap();
        drop(limiter.peek("k").run());
    })
}

/// One limit is expected, one is not named, and one has had all its calls.
fn checked() -> String {
    message(|| {
        let mut store = MockStore::new();
        store.expect_check("burst", "10.0.0.1").allow();
        store.expect_check("login", "10.0.0.1/login").never();
        let limits = ["burst=gcra:10/1m", "steady=gcra:20/1h", "login=gcra:5/1m"];
        let [burst, steady, login] = limits.map(|text| text.parse::<Limit>().unwrap());
        let ip = Key::from("10.0.0.1");
        let request = Request::consume(Check::new(&burst, ip, 2))
            .and(Check::new(&steady, b"\0\xfe".as_slice(), 1))
            .and(Check::new(&login, ip.with_rest("/login"), 1));
        let request = request.at(NOON);
        let text = message(|| store.decide_now(&request));
        // A call that fails the test does not count as an expected call.
        let unmet = message(|| store.checkpoint());
        panic_any(format!("{text}\n{unmet}"));
    })
}

fn unmet() -> Messages {
    let expecting = || {
        let mut store = MockStore::new();
        store.expect_check("log", "alice").times(1).allow();
        store.expect_check("log", "bob").allow();
        store.expect_refund("log", b"\xffb").times(2..).allow();
        let limiter = RateLimiter::new(&store, ["log=sliding-log:5/1m"]).unwrap();
        assert!(limiter.check("bob").run().unwrap().is_allowed());
        store
    };
    let dropped = message(|| drop(expecting()));
    let mut store = expecting();
    let checked = message(|| store.checkpoint());
    // It is forgotten then.
    assert_eq!(message(|| drop(store)), "no panic");
    vec![("calls that were not made", vec![dropped, checked])]
}

fn impossible() -> Messages {
    let of_limits = vec![
        limited(Operation::Consume, 5, |call| call.allow()),
        limited(Operation::Consume, 6, |call| call.allow()),
        limited(Operation::Consume, 6, |call| call.deny_forever()),
        limited(Operation::Consume, 0, |call| call.deny_for(SECOND)),
        limited(Operation::Consume, 2, |call| call.allow_with_remaining(3)),
        limited(Operation::Consume, 2, |call| call.allow_with_remaining(4)),
        limited(Operation::Peek, 0, |call| call.allow_with_remaining(0)),
        limited(Operation::Peek, 1, |call| call.allow_with_remaining(0)),
        limited(Operation::TakeUpTo, 3, |call| call.grant(3)),
        limited(Operation::TakeUpTo, 2, |call| call.grant(3)),
        limited(WITHIN_A_SECOND, 1, |call| call.delay_by(SECOND)),
        limited(WITHIN_A_SECOND, 1, |call| call.delay_by(2 * SECOND)),
        limited(WITHIN_A_SECOND, 0, |call| call.delay_by(SECOND)),
        limited(Operation::Lower, 4, |call| call.allow_with_remaining(5)),
        limited(Operation::Consume, 6, |call| {
            call.returning(|_| Answer::allow())
        }),
    ];
    vec![("answers that no limit gives", of_limits)]
}

fn limited(operation: Operation<'_>, cost: u64, answer: fn(Expectation<'_>)) -> String {
    message(|| mail(operation, cost, &answer))
}

/// What an operation does not accept, although its kind of expectation has the method.
fn of_others() -> Messages {
    let answers: [fn(&mut MockStore); 8] = [
        |store| store.expect_check("log", "k").grant(2),
        |store| store.expect_check("log", "k").delay_by(SECOND),
        |store| store.expect_peek("log", "k").succeed(),
        |store| store.expect_take_up_to("log", "k").succeed(),
        |store| store.expect_reserve("log", "k").grant(2),
        |store| store.expect_refund("log", "k").deny_forever(),
        |store| store.expect_block("log", "k").allow(),
        |store| store.expect_reset("log", "k").allow(),
    ];
    let details: [fn(&mut MockStore); 2] = [
        |store| store.expect_reset("log", "k").cost(1).succeed(),
        |store| store.expect_block("log", "k").cost(2).succeed(),
    ];
    #[expect(clippy::reversed_empty_ranges, reason = "the range is to be empty")]
    let ranges: [fn(&mut MockStore); 3] = [
        |store| store.expect_check("log", "k").times(..0).allow(),
        |store| store.expect_check("log", "k").times(2..2).allow(),
        |store| store.expect_check("log", "k").times(3..=2).allow(),
    ];
    let set = |expect: &fn(&mut MockStore)| message(|| expect(&mut MockStore::new()));
    let all = |expects: &[fn(&mut MockStore)]| -> Vec<_> { expects.iter().map(set).collect() };
    let returned = limited(Operation::Consume, 1, |call| {
        call.returning(|_| Answer::grant(1))
    });
    vec![
        (
            "answers to other operations",
            [all(&answers), vec![returned]].concat(),
        ),
        ("details of other operations", all(&details)),
        ("numbers of calls", all(&ranges)),
    ]
}

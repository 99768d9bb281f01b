//! The full message of each way in which a mock fails a test, as `messages.txt` has it.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Duration;
use std::{env, fs};

use tollgate_core::lease::{ConcurrencyLimiter, Lease};
use tollgate_core::schedule::{Event, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Key, Limit, RateLimiter, SyncStore, Timestamp, Wait};
use tollgate_mock::{Expectation, MockStore};

use crate::leases::{lease, uploads};
use crate::schedules::reminders;
use crate::{LATER, NOON, SECOND};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mock/messages.txt");

#[test]
fn messages_are_those_of_the_golden_file() {
    let shown = [unexpected(), unmet(), impossible(), of_others()].concat();
    let shown = shown.iter().fold(String::new(), |all, (title, texts)| {
        all + &format!("== {title} ==\n{}\n\n", texts.join("\n"))
    });
    if env::var_os("TOLLGATE_WRITE_MESSAGES").is_some() {
        fs::write(FILE, &shown).unwrap();
    }
    let golden = fs::read_to_string(FILE).unwrap();
    let sections = |text: &str| text.split("\n\n== ").map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (sections(&golden), sections(&shown));
    for text in new.iter().filter(|text| !old.contains(text)) {
        panic!(
            "{FILE} does not have this:\n\n{text}\n\nIf all such changes are right, write the file \
             anew: TOLLGATE_WRITE_MESSAGES=1 cargo nextest run -p tollgate-mock messages"
        );
    }
    assert_eq!(
        old.len(),
        new.len(),
        "{FILE} has a message that no test makes"
    );
}

#[test]
fn readme_shows_the_actual_message() {
    let text = message(|| {
        let mut store = MockStore::new();
        let wait = Duration::from_secs(6);
        store.expect_check("mail", "alice").cost(3).deny_for(wait);
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

/// Returns the message that `fails` panics with.
fn message<T>(fails: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(fails)) else {
        return "no panic".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic that is no text".to_owned())
}

/// Titles, each with one message or several.
type Messages = Vec<(&'static str, Vec<String>)>;

/// Returns the message of a test that sets up a store with `expect`, and then does `act`.
fn failing<T>(expect: fn(&mut MockStore), act: impl FnOnce(MockStore) -> T) -> String {
    message(|| {
        let mut store = MockStore::new();
        expect(&mut store);
        act(store)
    })
}

fn limited<T>(expect: fn(&mut MockStore), call: fn(&RateLimiter<MockStore>) -> T) -> String {
    failing(expect, |store| {
        let limits = ["log=sliding-log:5/1m"];
        call(&RateLimiter::new(store, limits).unwrap())
    })
}

fn planned<T>(expect: fn(&mut MockStore), call: fn(&Schedule<MockStore>) -> T) -> String {
    failing(expect, |store| call(&reminders(store)))
}

fn leased<T>(expect: fn(&mut MockStore), call: fn(&ConcurrencyLimiter<MockStore>) -> T) -> String {
    failing(expect, |store| call(&uploads(store)))
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
    store.expect_add("reminders", "k").id("a").planned();
    let expected = store.expect_reserve_next("reminders", "k");
    expected.time(NOON).planned_at(LATER);
    store.expect_cancel("reminders", "k").id([0xff]).never();
    let expected = store.expect_next_free("reminders", "k");
    expected.times(..=2).found(None);
    store.expect_reset_schedule("reminders", "k").succeed();
    let expected = store.expect_acquire("uploads", "k").id("a");
    expected.granted(lease("a", 7, 1));
    store.expect_renew("uploads", "k").times(..=2).lost();
    store.expect_peek_leases("uploads", "k").occupied(1);
    store.expect_reset_leases("uploads", "k").succeed();
}

fn nothing(_: &mut MockStore) {}

fn unexpected() -> Messages {
    let counted = limited(everything, |limiter| {
        limiter.check("k").run().unwrap().permit().unwrap();
        limiter.peek("k").run().unwrap().permit().unwrap();
        limiter.peek("k").run().unwrap().permit().unwrap();
        drop(limiter.check("bob").run());
    });
    let none = vec![
        limited(nothing, |limiter| drop(limiter.take_up_to("k", 3).run())),
        failing(nothing, |store| {
            let limiter = RateLimiter::new(store, ["ban=block:15m"]).unwrap();
            drop(limiter.block("k").run());
        }),
        planned(nothing, |plans| {
            drop(plans.add("k", "a", NOON).at(LATER).run())
        }),
        planned(nothing, |plans| {
            let events = [Event::new("b", NOON).with_weight(2), Event::new("c", LATER)];
            drop(plans.add_all("k", events).run());
        }),
        planned(nothing, |plans| drop(plans.latest_free("k", NOON).run())),
        leased(nothing, |uploads| {
            drop(uploads.acquire("k", "a").weight(2).at(LATER).run());
        }),
        leased(nothing, |uploads| {
            drop(uploads.renew("k", &lease("a", 7, 1)).run())
        }),
        leased(nothing, |uploads| drop(uploads.peek("k").run())),
    ];
    let other = vec![
        limited(
            |store| store.expect_check("log", "k").cost(2).allow(),
            |limiter| drop(limiter.check("k").run()),
        ),
        limited(
            |store| store.expect_check("log", "k").allow(),
            |limiter| drop(limiter.peek("k").run()),
        ),
        planned(
            |store| store.expect_cancel("reminders", "k").id("a").never(),
            |plans| drop(plans.cancel("k", "x").run()),
        ),
        planned(
            |store| store.expect_list("reminders", "k").time(NOON).never(),
            |plans| drop(plans.list("k", LATER, LATER).run()),
        ),
        leased(
            |store| store.expect_release("uploads", "k").id("a").never(),
            |uploads| drop(uploads.release("k", &lease("x", 9, 1)).run()),
        ),
    ];
    let too_many = limited(
        |store| store.expect_reset("log", "k").times(1).succeed(),
        |limiter| {
            limiter.reset("k").run().unwrap();
            drop(limiter.reset("k").run());
        },
    );
    vec![
        ("another key, beside calls of all kinds", vec![counted]),
        ("no expectations", none),
        ("another cost, operation, event, time or lease", other),
        ("a call too many", vec![too_many]),
        ("several limits", several_limits()),
    ]
}

fn several_limits() -> Vec<String> {
    let limit = |text: &str| text.parse::<Limit>().unwrap();
    let peeked = failing(
        |store| {
            store.expect_peek("a", "k").cost(1).never();
            store.expect_peek("a", "k").cost(2).allow();
            store.expect_peek("b", "k").cost(2).allow();
        },
        |store| {
            let limits = [limit("a=gcra:5/1m"), limit("b=gcra:6/1m")];
            let checks = limits.each_ref().map(|limit| Check::new(limit, "k", 1));
            drop(store.decide_now(&Request::new(Operation::Peek, &checks)));
        },
    );
    let checked = failing(
        |store| {
            store.expect_check("burst", "10.0.0.1").allow();
            store.expect_check("login", "10.0.0.1/login").never();
        },
        |store| {
            let (burst, steady) = (
                limit("burst=gcra:10/1m,burst=3"),
                limit("steady=gcra:20/1h"),
            );
            let (login, ip) = (limit("login=gcra:5/1m"), Key::from("10.0.0.1"));
            let request = Request::consume(Check::new(&burst, ip, 2))
                .and(Check::new(&steady, b"\0\xfe".as_slice(), 1))
                .and(Check::new(&login, ip.with_rest("/login"), 1))
                .at(Timestamp::from_micros(1_700_000_000_000_001).unwrap());
            drop(store.decide_now(&request));
        },
    );
    vec![peeked, checked]
}

fn unmet() -> Messages {
    let asked = |store: &MockStore| {
        let log: Limit = "log=sliding-log:5/1m".parse().unwrap();
        let request = Request::consume(Check::new(&log, "bob", 1));
        assert!(store.decide_now(&request).unwrap().is_allowed());
    };
    let expect = |store: &mut MockStore| {
        store.expect_check("log", "alice").times(1).allow();
        store.expect_check("log", "bob").allow();
        store.expect_refund("log", b"\xffb").times(2..).allow();
        store.expect_renew("uploads", "k").times(..).lost();
    };
    let checked = |mut store: MockStore| {
        asked(&store);
        // Once it was reported, it is forgotten.
        let text = message(|| store.checkpoint());
        drop(store);
        panic_any(text);
    };
    // A call that fails the test does not count as an expected call.
    let uncounted = |store: MockStore| {
        let limits = ["log", "other"].map(|name| format!("{name}=gcra:5/1s"));
        let limiter = RateLimiter::new(store, limits.each_ref().map(|limit| &**limit)).unwrap();
        message(|| limiter.check("alice").cost(2).run())
    };
    vec![
        (
            "dropped before all calls were made",
            vec![failing(expect, |store| asked(&store))],
        ),
        (
            "a checkpoint before all calls were made",
            vec![failing(expect, checked)],
        ),
        (
            "dropped after an unexpected call",
            vec![failing(
                |store| {
                    store.expect_check("log", "alice").allow();
                    store.expect_check("other", "alice").never();
                },
                uncounted,
            )],
        ),
    ]
}

fn impossible() -> Messages {
    fn mail(expect: fn(&mut MockStore), operation: Operation<'_>, cost: u64) -> String {
        failing(expect, |store| {
            let limit: Limit = "mail=gcra:10/1m,burst=5".parse().unwrap();
            let check = [Check::new(&limit, "k", cost)];
            drop(store.decide_now(&Request::new(operation, &check)));
        })
    }
    let check = |cost, expect| mail(expect, Operation::Consume, cost);
    let peek = |cost, expect| mail(expect, Operation::Peek, cost);
    let take = |cost, expect| mail(expect, Operation::TakeUpTo, cost);
    let reserve = |cost, expect| mail(expect, Operation::Reserve { max_delay: SECOND }, cost);
    let of_limits = vec![
        check(5, |store| store.expect_check("mail", "k").allow()),
        check(6, |store| store.expect_check("mail", "k").allow()),
        check(6, |store| store.expect_check("mail", "k").deny_for(SECOND)),
        check(6, |store| store.expect_check("mail", "k").deny_forever()),
        check(0, |store| store.expect_check("mail", "k").deny_for(SECOND)),
        check(2, |store| {
            store.expect_check("mail", "k").allow_with_remaining(3)
        }),
        check(2, |store| {
            store.expect_check("mail", "k").allow_with_remaining(4)
        }),
        peek(1, |store| {
            store.expect_peek("mail", "k").allow_with_remaining(6)
        }),
        peek(0, |store| {
            store.expect_peek("mail", "k").allow_with_remaining(0)
        }),
        peek(1, |store| {
            store.expect_peek("mail", "k").allow_with_remaining(0)
        }),
        take(3, |store| store.expect_take_up_to("mail", "k").grant(3)),
        take(2, |store| store.expect_take_up_to("mail", "k").grant(3)),
        take(9, |store| store.expect_take_up_to("mail", "k").grant(6)),
        reserve(1, |store| {
            store.expect_reserve("mail", "k").delay_by(SECOND)
        }),
        reserve(1, |store| {
            store.expect_reserve("mail", "k").delay_by(2 * SECOND)
        }),
        reserve(0, |store| {
            store.expect_reserve("mail", "k").delay_by(SECOND)
        }),
        mail(
            |store| store.expect_lower("mail", "k").allow_with_remaining(5),
            Operation::Lower,
            4,
        ),
    ];
    vec![
        ("answers that no limit gives", of_limits),
        ("answers that no schedule gives", impossible_plans()),
        ("answers that no leases give", impossible_leases()),
    ]
}

fn impossible_plans() -> Vec<String> {
    let add = |answer: fn(Expectation<'_, Schedule<MockStore>>)| {
        message(|| {
            let mut store = MockStore::new();
            answer(store.expect_add("reminders", "k"));
            drop(reminders(store).add("k", "a", NOON).run());
        })
    };
    let reserve = |answer: fn(Expectation<'_, Schedule<MockStore>>)| {
        message(|| {
            let mut store = MockStore::new();
            answer(store.expect_reserve_next("reminders", "k"));
            drop(reminders(store).reserve_next("k", "a", NOON).run());
        })
    };
    vec![
        add(|call| call.refused_by("daily", None)),
        add(|call| call.refused_by("1/1m", Some(NOON))),
        add(|call| call.past(NOON)),
        add(|call| call.beyond_horizon(NOON)),
        add(|call| call.refused(Refusal::new(Reason::UnknownId))),
        reserve(|call| call.refused_by("1/1m", Some(LATER))),
        reserve(|call| call.planned_at(Timestamp::UNIX_EPOCH)),
        planned(
            |store| {
                let taken = Refusal::new(Reason::IdTaken(NOON));
                store.expect_reschedule("reminders", "k").refused(taken);
            },
            |plans| drop(plans.reschedule("k", "a", NOON).run()),
        ),
        planned(
            |store| store.expect_next_free("reminders", "k").found(Some(NOON)),
            |plans| drop(plans.next_free("k", LATER).run()),
        ),
        planned(
            |store| {
                store
                    .expect_latest_free("reminders", "k")
                    .found(Some(LATER))
            },
            |plans| drop(plans.latest_free("k", NOON).run()),
        ),
        planned(
            |store| {
                let events = [NOON, LATER].map(|time| PlannedEvent::new(*b"a", time, 1));
                store.expect_list("reminders", "k").events(events);
            },
            |plans| drop(plans.list("k", NOON, LATER).run()),
        ),
    ]
}

fn impossible_leases() -> Vec<String> {
    type Answer = fn(Expectation<'_, ConcurrencyLimiter<MockStore>>);
    let acquire = |weight, at: Option<Timestamp>, answer: Answer| {
        message(|| {
            let mut store = MockStore::new();
            answer(store.expect_acquire("uploads", "k"));
            let uploads = uploads(store);
            let call = uploads.acquire("k", "a").weight(weight);
            match at {
                Some(at) => drop(call.at(at).run()),
                None => drop(call.run()),
            }
        })
    };
    let renew = |answer: Answer| {
        message(|| {
            let mut store = MockStore::new();
            answer(store.expect_renew("uploads", "k"));
            drop(uploads(store).renew("k", &lease("a", 7, 1)).run());
        })
    };
    vec![
        acquire(1, None, |call| call.granted(lease("b", 7, 1))),
        acquire(1, None, |call| call.granted(lease("a", 7, 2))),
        acquire(1, None, |call| {
            call.already_held(Lease::new(*b"a", 7, 1, NOON, NOON));
        }),
        acquire(1, Some(LATER), |call| call.granted_at(NOON, 7)),
        acquire(1, Some(NOON), |call| call.granted_at(LATER, 7)),
        acquire(4, None, |call| call.granted_at(NOON, 7)),
        acquire(1, None, |call| call.denied(2, Wait::from_micros(1_000_000))),
        acquire(1, None, |call| call.denied(3, Wait::NEVER)),
        acquire(4, None, |call| call.denied(0, Wait::from_micros(1))),
        renew(|call| call.renewed(lease("a", 8, 1))),
        renew(|call| call.renewed(lease("b", 7, 1))),
    ]
}

/// What an operation does not accept, although its kind of expectation has the method.
fn of_others() -> Messages {
    let set = |expect: fn(&mut MockStore)| message(|| expect(&mut MockStore::new()));
    let answers = vec![
        set(|store| store.expect_check("log", "k").grant(2)),
        set(|store| store.expect_check("log", "k").delay_by(SECOND)),
        set(|store| store.expect_peek("log", "k").succeed()),
        set(|store| store.expect_take_up_to("log", "k").succeed()),
        set(|store| store.expect_reserve("log", "k").grant(2)),
        set(|store| store.expect_refund("log", "k").deny_forever()),
        set(|store| store.expect_block("log", "k").allow()),
        set(|store| store.expect_reset("log", "k").allow()),
        set(|store| store.expect_add("reminders", "k").planned_at(NOON)),
        set(|store| store.expect_reserve_next("reminders", "k").past(LATER)),
        set(|store| store.expect_cancel("reminders", "k").events([])),
        set(|store| store.expect_list("reminders", "k").found(None)),
        set(|store| store.expect_next_free("reminders", "k").cancelled(true)),
        set(|store| store.expect_acquire("uploads", "k").lost()),
        set(|store| store.expect_renew("uploads", "k").released(true)),
        set(|store| store.expect_release("uploads", "k").occupied(1)),
        set(|store| store.expect_peek_leases("uploads", "k").succeed()),
        set(|store| {
            store
                .expect_reset_leases("uploads", "k")
                .denied(1, Wait::NEVER)
        }),
    ];
    let details = vec![
        set(|store| store.expect_reset("log", "k").cost(1).succeed()),
        set(|store| store.expect_block("log", "k").cost(2).succeed()),
        set(|store| store.expect_list("reminders", "k").id("a").events([])),
        set(|store| store.expect_cancel("reminders", "k").time(NOON).never()),
        set(|store| store.expect_peek_leases("uploads", "k").id("a").never()),
    ];
    #[expect(clippy::reversed_empty_ranges, reason = "the range is to be empty")]
    let ranges = vec![
        set(|store| store.expect_check("log", "k").times(..0).allow()),
        set(|store| store.expect_check("log", "k").times(2..2).allow()),
        set(|store| store.expect_check("log", "k").times(3..=2).allow()),
        // Any operation can fail; this one does not, and is not called.
        set(|store| store.expect_reset("log", "k").fail(ErrorKind::Full)),
    ];
    vec![
        ("answers to other operations", answers),
        ("details of other operations", details),
        ("numbers of calls", ranges),
    ]
}

//! Schedules on real servers: their keys, what users may do, memory, lost replies and lost scripts.

use std::time::{Duration, SystemTime};

use tollgate_core::schedule::{self, Event, Reason, Schedule};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server, shared};
use tollgate_wire::{
    Clear, Command, Engine, Failure, Node, Nodes, Options, Reply as AdminReply, ScriptCall,
    Severity, TimeSource, WireStore,
};

use crate::engine::{Canned, Losing, Raw, fresh, info, now, store, store_on, store_with};
use crate::lifetime::server_time;

const NOW: u64 = 1_780_000_000_000_000;
const SECOND: u64 = 1_000_000;

/// The commands that the documentation lists for schedules of few events, and for a reset.
const LISTED: [&str; 7] = [
    "+evalsha",
    "+script|load",
    "+time",
    "+get",
    "+getex",
    "+set",
    TO_RESET,
];
/// The commands that it lists for more events.
const LISTED_FOR_MANY: [&str; 5] = ["+hdel", "+hget", "+hmget", "+hset", "+pexpire"];
/// How many events of a key are few: always few, and never.
const FEW: [u32; 2] = [256, 0];

/// Returns the commands that the documentation lists, if `few` events are few.
fn listed(few: u32) -> Vec<&'static str> {
    let many = LISTED_FOR_MANY.iter().filter(|_| few == 0);
    LISTED.iter().chain(many).copied().collect()
}

const TO_RESET: &str = "+unlink";

fn stamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn terms() -> schedule::Terms {
    schedule::Terms::new("plans", ["2/10s", "9/1h"]).unwrap()
}

fn add(id: &'static str, second: u64, weight: u64) -> schedule::Operation<'static> {
    let event = Event::new(id, stamp(NOW + second * SECOND));
    schedule::Operation::Add(vec![event.with_weight(weight)])
}

fn list() -> schedule::Operation<'static> {
    schedule::Operation::List {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
    }
}

/// Decides `operation` on the events of `k`, so many seconds later.
fn ask(
    store: &WireStore<impl Engine>,
    operation: schedule::Operation<'_>,
    later: u64,
) -> Result<schedule::Answer, StoreError> {
    let terms = terms();
    let request = schedule::Request::new(&terms, "k", operation);
    now(store.schedule(&request.at(stamp(NOW + later * SECOND))))
}

/// Returns everything that a key holds.
pub(crate) fn held(raw: &Raw, key: &[u8]) -> Reply {
    match raw.command(&[b"GET", key]) {
        Reply::Error(_) => raw.command(&[b"HGETALL", key]),
        value => value,
    }
}

#[test]
fn keys_of_schedules_are_what_they_were() {
    let terms = terms();
    let keys_of = |options: Options, key: Key<'_>, at: Option<Timestamp>| {
        let store = WireStore::new(Canned::default(), options);
        let request = schedule::Request::new(&terms, key, list());
        let request = match at {
            Some(at) => request.at(at),
            None => request,
        };
        now(store.schedule(&request)).unwrap_err();
        let keys = store.engine().asked().keys;
        let text = keys.into_iter().map(|key| String::from_utf8(key).unwrap());
        text.collect::<Vec<_>>().join(" ")
    };
    let alice = Key::from("alice");
    for (options, key, at, expected) in [
        (
            Options::new(),
            alice,
            None,
            "tollgate:plans:schedule:v1:{alice}",
        ),
        (
            Options::new(),
            alice.with_rest("/mail"),
            None,
            "tollgate:plans:schedule:v1:{alice}:/mail",
        ),
        (
            Options::new().with_prefix("shop:eu").unwrap(),
            Key::from("").with_rest("a:{b}"),
            Some(stamp(NOW)),
            "shop:eu:plans:schedule:v1-caller:{%}:a%3a%7bb%7d",
        ),
        (
            Options::new().with_time_source(TimeSource::Caller),
            alice,
            None,
            "tollgate:plans:schedule:v1-caller:{alice}",
        ),
        (
            Options::new().with_hashed_keys([7; 16]),
            alice,
            None,
            "tollgate:plans:schedule:v1:{#3e979ab9e62a09276973b5ca1532759a}",
        ),
    ] {
        assert_eq!(keys_of(options, key, at), expected);
    }
    let store = WireStore::new(Canned::default(), Options::new());
    now(store.reset_schedule(&terms, alice)).unwrap();
    let both = ["", "-caller"].map(|clock| {
        let key = format!("tollgate:plans:schedule:v1{clock}:{{alice}}");
        key.into_bytes()
    });
    assert_eq!(store.engine().asked().forgotten, both);
}

/// A user's stores and one that may do everything, with the same keys.
pub(crate) struct Users {
    pub(crate) all: WireStore<Raw>,
    pub(crate) user: WireStore<Raw>,
}

/// Makes a user who may run `commands` on keys of a fresh prefix.
pub(crate) fn users(connect: impl FnMut() -> Raw, commands: &[&str]) -> Users {
    users_with(Options::new(), connect, commands)
}

/// As [`users`], with other options.
fn users_with(options: Options, mut connect: impl FnMut() -> Raw, commands: &[&str]) -> Users {
    let prefix = fresh("acl");
    let raw = connect();
    raw.log_in_as_user(&format!("{prefix}:*"), commands);
    let options = options.with_prefix(&prefix).unwrap();
    Users {
        all: WireStore::new(connect(), options.clone()),
        user: WireStore::new(raw, options),
    }
}

/// Operations that together run every command, on what [`prepare`] leaves, 20 seconds later.
fn operations() -> Vec<schedule::Operation<'static>> {
    let event = |id: &'static str, second| Event::new(id, stamp(NOW + second * SECOND));
    vec![
        add("new", 3_700, 1),
        add("heavy", 3_700, 2),
        add("later", 4_000, 2),
        schedule::Operation::Reschedule(event("later", 3_702)),
        schedule::Operation::Reschedule(event("later", 7_000)),
        schedule::Operation::ReserveNext(event("reserved", 3_700)),
        schedule::Operation::ReserveNext(event("reserved", 4_000)),
        schedule::Operation::Cancel(b"later"),
        schedule::Operation::Cancel(b"heavy"),
        schedule::Operation::NextFree {
            from: stamp(NOW + 4_000 * SECOND),
            weight: 2,
        },
        schedule::Operation::LatestFree {
            until: stamp(NOW + 4_000 * SECOND),
            weight: 2,
        },
        list(),
    ]
}

/// How far before the operations the events of [`prepare`] were planned.
const LATER: u64 = 3_650;

/// What a key holds before an operation: nothing, events, and events of other weights; the first of
/// them are over.
const PREPARED: [&[(&str, u64, u64)]; 4] = [
    &[],
    // One that leaves nothing when it is cancelled.
    &[("later", 4_000, 1)],
    &[("old", 1, 1), ("older", 0, 1), ("later", 4_000, 1)],
    &[("old", 1, 2), ("later", 4_000, 2)],
];

fn prepare(store: &WireStore<Raw>, events: &[(&'static str, u64, u64)]) {
    now(store.reset_schedule(&terms(), "k".into())).unwrap();
    for (id, second, weight) in events {
        let answer = ask(store, add(id, *second, *weight), 0).unwrap();
        assert_eq!(answer, schedule::Answer::Added(1));
    }
}

/// Checks that every event will be kept for as long as it counts, and the key not forever.
fn assert_lives(users: &Users, what: &str) {
    let raw = users.all.engine();
    let schedule::Answer::Events(events) = ask(&users.all, list(), LATER).unwrap() else {
        panic!("no list");
    };
    let keys = raw.keys(users.all.options());
    if keys.is_empty() {
        assert!(events.is_empty(), "{what}");
        return;
    }
    let left = raw.pttl(&keys[0]);
    assert!(left > 0, "{what}: no TTL");
    // The longest window, the tolerance, and what a caller's clock may lag behind.
    let kept = 3_600_000 + 1_000 + 600_000;
    if let Some(last) = events.last() {
        let from = last.time().as_micros() / 1_000 - (NOW / 1_000 + LATER * 1_000);
        // A test may take a minute.
        let least = i64::try_from(from + kept).unwrap() - 60_000;
        assert!(left >= least, "{what}: {left} of {least} ms for {events:?}");
    }
    for event in events {
        let weights = ["heavy"].contains(&str::from_utf8(event.id()).unwrap());
        assert!(!weights || event.weight() == 2, "{what}: {event:?}");
    }
}

/// A key can be read through the millisecond in which it ends. It gets one more, because `PEXPIRE`
/// deletes a key at once if the millisecond ends while it runs.
#[test]
fn a_schedule_lives_a_millisecond_longer_than_its_events_count() {
    for few in FEW {
        let options = Options::new().with_small_schedule(few);
        let store = store_with(Flavor::System, options);
        let raw = store.engine();
        for second in 1..=20 {
            let before = server_time(raw) / 1_000;
            now(store.reset_schedule(&terms(), "k".into())).unwrap();
            let terms = terms();
            let request = schedule::Request::new(&terms, "k", add("a", second, 1));
            // A part of a millisecond counts as a whole one.
            now(store.schedule(&request.at(stamp(NOW + 1)))).unwrap();
            // The longest window, the tolerance, and what a caller's clock may lag behind.
            let lives = second * 1_000 + 3_600_000 + 1_000 + 600_000 + 1;
            let key = raw.keys(store.options()).remove(0);
            let ends = raw.command(&[b"PEXPIRETIME", &key]).integer().unwrap();
            let added = u64::try_from(ends).unwrap() - lives;
            assert!((before..=server_time(raw) / 1_000).contains(&added));
        }
    }
}

#[test]
fn listed_commands_are_enough_for_schedules() {
    let text = include_str!("../../../../docs/operations.md");
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    for (row, commands) in [
        (
            row("| schedules, leases |"),
            &["+get", "+getex", "+set"][..],
        ),
        (
            row("| schedules of more than 256 events"),
            &LISTED_FOR_MANY[..],
        ),
    ] {
        for command in commands {
            assert!(row.contains(command), "{command} is not in: {row}");
        }
        assert_eq!(row.matches('+').count(), commands.len(), "{row}");
    }
    for (flavor, few) in Flavor::chosen()
        .into_iter()
        .flat_map(|f| FEW.map(|n| (f, n)))
    {
        let options = Options::new().with_small_schedule(few);
        let users = users_with(options, || Raw::to(flavor), &listed(few));
        for prepared in PREPARED {
            for operation in operations() {
                prepare(&users.all, prepared);
                let answer = ask(&users.user, operation.clone(), LATER);
                answer.unwrap_or_else(|error| panic!("{operation:?} on {flavor}: {error}"));
                assert_lives(&users, "all that is listed");
            }
        }
        // By the server's clock.
        let schedule = Schedule::with_terms(&users.user, terms());
        let tomorrow = Timestamp::try_from(SystemTime::now() + Duration::from_secs(86_400));
        let placed = now(schedule.add("k", "a", tomorrow.unwrap()).into_future()).unwrap();
        assert!(placed.is_planned());
        now(schedule.reset("k")).unwrap();
    }
}

/// Without any one of the listed commands some operation fails, and none leaves an event that is
/// forgotten too early, an event of another weight, or a key that does not expire.
#[test]
fn without_a_listed_command_schedules_fail_and_nothing_is_half_written() {
    // Scripts are flushed, which may not be done to a server that is shared.
    let server = Server::start(Flavor::System);
    let missing = FEW
        .iter()
        .flat_map(|few| listed(*few).into_iter().map(|one| (*few, one)));
    for (few, missing) in missing {
        let mut others = listed(few);
        others.retain(|one| *one != missing);
        let options = Options::new().with_small_schedule(few);
        let users = users_with(options, || Raw::over(server.connection(), None), &others);
        let mut failed = 0;
        for prepared in PREPARED {
            for operation in operations() {
                prepare(&users.all, prepared);
                if missing == "+script|load" {
                    server.command(&["SCRIPT", "FLUSH"]);
                }
                let what = format!("without {missing}: {operation:?} on {prepared:?}");
                if let Err(error) = ask(&users.user, operation, LATER) {
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
                    assert!(error.to_string().contains("grant"), "{what}: {error}");
                    failed += 1;
                }
                assert_lives(&users, &what);
            }
        }
        // Requests at callers' instants do not read the server's clock.
        let schedule = Schedule::with_terms(&users.user, terms());
        let by_clock = now(schedule.next_free("k", stamp(NOW)).into_future());
        let reset = now(schedule.reset("k"));
        let failed = match missing {
            "+time" => by_clock.is_err(),
            TO_RESET => reset.is_err(),
            _ => failed > 0,
        };
        assert!(failed, "{missing} is not needed");
    }
}

/// On chunks, a user who may not run PEXPIRE plans and moves nothing: it stays as it is.
#[test]
fn user_without_pexpire_plans_nothing_among_many() {
    let mut others = listed(0);
    others.retain(|one| *one != "+pexpire");
    for flavor in Flavor::chosen() {
        let options = Options::new().with_small_schedule(0);
        let users = users_with(options, || Raw::to(flavor), &others);
        let raw = users.all.engine();
        for prepared in &PREPARED[1..] {
            for operation in operations().into_iter().take(7) {
                prepare(&users.all, prepared);
                let keys = raw.keys(users.all.options());
                let before = held(raw, &keys[0]);
                assert!(matches!(before, Reply::Array(_)), "{before:?}");
                let what = format!("{operation:?} on {prepared:?}, {flavor}");
                if let Ok(answer) = ask(&users.user, operation, LATER) {
                    let is_old = answer == schedule::Answer::Added(0);
                    let is_refused = matches!(answer, schedule::Answer::Refused { .. });
                    assert!(is_old || is_refused, "{what}: {answer:?}");
                }
                assert_eq!(held(raw, &keys[0]), before, "{what}");
                assert!(raw.pttl(&keys[0]) > 0, "{what}");
            }
        }
    }
}

/// Where a user may not run what chunks need, any number of events is a string.
#[test]
fn more_events_stay_a_string_for_a_user_who_may_not_write_chunks() {
    for missing in ["+hset", "+pexpire"] {
        let mut others = listed(0);
        others.retain(|one| *one != missing);
        let options = Options::new().with_small_schedule(1);
        let users = users_with(options, || Raw::to(Flavor::System), &others);
        for id in ["a", "b"] {
            let answer = ask(&users.user, add(id, 100, 1), 0).unwrap();
            assert_eq!(answer, schedule::Answer::Added(1), "{missing}");
        }
        let raw = users.all.engine();
        let keys = raw.keys(users.all.options());
        assert!(matches!(held(raw, &keys[0]), Reply::Bulk(_)), "{missing}");
        assert!(raw.pttl(&keys[0]) > 3_600_000);
        let answer = ask(&users.all, add("c", 200, 1), 0).unwrap();
        assert_eq!(answer, schedule::Answer::Added(1));
        assert!(matches!(held(raw, &keys[0]), Reply::Array(_)));
        let schedule::Answer::Events(events) = ask(&users.all, list(), 0).unwrap() else {
            panic!("no list");
        };
        assert!(events.iter().map(|event| event.id()).eq([b"a", b"b", b"c"]));
    }
}

#[test]
fn at_maxmemory_nothing_is_planned_and_searches_work() {
    for (flavor, few) in Flavor::chosen()
        .into_iter()
        .flat_map(|f| FEW.map(|n| (f, n)))
    {
        let server = Server::start(flavor);
        let options = Options::new().with_small_schedule(few);
        let store = WireStore::new(Raw::over(server.connection(), None), options);
        let mut refused = 0;
        for prepared in PREPARED {
            for operation in operations() {
                let what = format!("{operation:?} on {prepared:?}, {flavor}");
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
                prepare(&store, prepared);
                let changes = info(&server, "persistence", "rdb_changes_since_last_save");
                let decided = ask(&store, operation.clone(), LATER).unwrap();
                let writes = info(&server, "persistence", "rdb_changes_since_last_save") > changes;
                prepare(&store, prepared);
                let raw = store.engine();
                let keys = raw.keys(store.options());
                let before: Vec<_> = keys.iter().map(|key| held(raw, key)).collect();
                server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                let answer = ask(&store, operation.clone(), LATER);
                // What is cancelled needs no memory.
                if writes && !matches!(operation, schedule::Operation::Cancel(_)) {
                    let error = answer.expect_err(&what);
                    assert_eq!(error.kind(), ErrorKind::Full, "{what}: {error}");
                    let after: Vec<_> = keys.iter().map(|key| held(raw, key)).collect();
                    assert_eq!(after, before, "{what}");
                    assert_eq!(raw.keys(store.options()), keys, "{what}");
                    refused += 1;
                } else {
                    assert_eq!(answer.unwrap(), decided, "{what}");
                }
            }
        }
        assert!(refused > 15, "{refused}");
    }
}

#[test]
fn refused_events_searches_and_lists_write_nothing() {
    for (flavor, few) in Flavor::chosen()
        .into_iter()
        .flat_map(|f| FEW.map(|n| (f, n)))
    {
        let server = Server::start(flavor);
        let options = Options::new().with_small_schedule(few);
        let store = WireStore::new(Raw::over(server.connection(), None), options);
        let raw = store.engine();
        let event = |id: &'static str, second: u64| Event::new(id, stamp(NOW + second * SECOND));
        let batch = |last| schedule::Operation::Add(vec![event("x", 500), event("y", 600), last]);
        let free = |weight| {
            let at = stamp(NOW + 100 * SECOND);
            [
                schedule::Operation::NextFree { from: at, weight },
                schedule::Operation::LatestFree { until: at, weight },
            ]
        };
        for weight in [1, 2] {
            prepare(&store, &[("old", 1, 1), ("a", 100, 1)]);
            ask(&store, add("b", 200, weight), 0).unwrap();
            ask(&store, add("c", 101, 1), 0).unwrap();
            let beyond = 400 * 86_400;
            let mut table = vec![
                // There already, or refused: by a quota, in the past, too far ahead, its id taken.
                (add("a", 100, 1), schedule::Answer::Added(0)),
                (add("b", 200, weight), schedule::Answer::Added(0)),
            ];
            for operation in [
                add("d", 100, 1),
                add("d", 300, 10),
                add("d", 0, 1),
                add("d", beyond, 1),
                add("a", 300, 1),
                add("b", 200, 3 - weight),
                batch(event("d", 100)),
                batch(event("a", 300)),
                schedule::Operation::Reschedule(event("b", 100)),
                schedule::Operation::Reschedule(event("a", 0)),
                schedule::Operation::Reschedule(event("d", 300)),
                schedule::Operation::ReserveNext(event("d", beyond)),
                schedule::Operation::ReserveNext(event("b", 300).with_weight(3 - weight)),
                schedule::Operation::ReserveNext(event("d", 100).with_weight(10)),
            ] {
                let answer = ask(&store, operation.clone(), 40).unwrap();
                let is_refused = matches!(answer, schedule::Answer::Refused { .. });
                assert!(is_refused, "{operation:?}: {answer:?}");
                table.push((operation, answer));
            }
            let others = [
                schedule::Operation::Reschedule(event("a", 100)),
                schedule::Operation::ReserveNext(event("a", 300)),
                schedule::Operation::Cancel(b"d"),
                list(),
            ];
            for operation in others.into_iter().chain(free(1)).chain(free(2)) {
                let answer = ask(&store, operation.clone(), 40).unwrap();
                table.push((operation, answer));
            }
            let keys = raw.keys(store.options());
            let before = held(raw, &keys[0]);
            let changes = info(&server, "persistence", "rdb_changes_since_last_save");
            for (operation, expected) in table {
                let what = format!("{operation:?} on {flavor}");
                assert_eq!(ask(&store, operation, 40).unwrap(), expected, "{what}");
                let after = info(&server, "persistence", "rdb_changes_since_last_save");
                assert_eq!(after, changes, "{what}");
            }
            assert_eq!(held(raw, &keys[0]), before);
        }
    }
}

/// A caller who repeats a call whose reply was lost, with the same ids, gets the same answer as
/// without the loss, and plans nothing twice.
#[test]
fn after_a_lost_reply_the_same_call_gives_the_same_answer() {
    let event = |id: &'static str, second: u64| Event::new(id, stamp(NOW + second * SECOND));
    let writes = [
        (add("a", 100, 2), schedule::Answer::Added(0)),
        (
            schedule::Operation::ReserveNext(event("b", 100)),
            schedule::Answer::Planned {
                time: stamp(NOW + 110 * SECOND),
                is_new: false,
            },
        ),
        (
            schedule::Operation::Reschedule(event("b", 200)),
            schedule::Answer::Planned {
                time: stamp(NOW + 200 * SECOND),
                is_new: false,
            },
        ),
        (
            schedule::Operation::Cancel(b"a"),
            schedule::Answer::Cancelled(false),
        ),
    ];
    for flavor in Flavor::chosen() {
        let engine = Losing::to(flavor);
        let options = Options::new().with_prefix(&fresh("lost")).unwrap();
        let store = WireStore::new(engine, options);
        for (operation, expected) in &writes {
            store.engine().lose(1);
            let error = ask(&store, operation.clone(), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
            let message = error.to_string();
            assert!(message.contains("with the same ids"), "{message}");
            assert!(!message.contains("do not send it again"), "{message}");
            let again = ask(&store, operation.clone(), 0).unwrap();
            assert_eq!(again, *expected, "{operation:?}");
        }
        let answer = ask(&store, list(), 0).unwrap();
        let schedule::Answer::Events(events) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].id(), b"b");
        // A search changes nothing, so that its loss is no question.
        for operation in operations().into_iter().skip(9) {
            store.engine().lose(1);
            let error = ask(&store, operation, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.is_retryable());
        }
        store.engine().lose(1);
        let error = now(store.reset_schedule(&terms(), "k".into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        now(store.reset_schedule(&terms(), "k".into())).unwrap();
    }
}

#[test]
fn a_server_that_lost_its_scripts_plans_once() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let event = Event::new("b", stamp(NOW + 100 * SECOND));
    for (operation, expected) in [
        (add("a", 100, 2), schedule::Answer::Added(1)),
        (
            schedule::Operation::ReserveNext(event),
            schedule::Answer::Planned {
                time: stamp(NOW + 110 * SECOND),
                is_new: true,
            },
        ),
        (
            schedule::Operation::Cancel(b"a"),
            schedule::Answer::Cancelled(true),
        ),
    ] {
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(ask(&store, operation, 0).unwrap(), expected);
    }
    assert_eq!(crate::engine::calls(&server, "script|load"), 3);
}

#[test]
fn keys_of_other_programs_are_an_error_and_stay() {
    // A state of one event, and some that are cut off, or that none is like.
    let event = [&[0; 8][..], &[1, 0, 0, 0, 1, 0], &[0; 8], b"\x01a"].concat();
    let mut weighted = event.clone();
    weighted[13] = 2;
    // As long as if each event had two weights.
    let doubled = [&weighted[..], &[0; 16]].concat();
    let others: [&[u8]; 6] = [
        b"of another",
        b"of another program, and longer",
        &event[..13],
        &event[..23],
        &weighted,
        &doubled,
    ];
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let raw = store.engine();
        let key = format!(
            "{}:plans:schedule:v1-caller:{{k}}",
            store.options().prefix()
        );
        let refuses = |value: Reply, hint: &str| {
            for operation in operations() {
                let error = ask(&store, operation.clone(), 0).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{operation:?}");
                let message = error.to_string();
                assert!(message.contains(hint), "{message}");
                assert!(!message.contains("{k}"), "{message}");
                assert_eq!(raw.command(&[b"DUMP", key.as_bytes()]), value);
            }
        };
        for other in others {
            raw.command(&[b"SET", key.as_bytes(), other, b"PX", b"60000"]);
            let value = raw.command(&[b"DUMP", key.as_bytes()]);
            refuses(value, "holds a value that");
        }
        raw.command(&[b"UNLINK", key.as_bytes()]);
        raw.command(&[b"RPUSH", key.as_bytes(), b"of another"]);
        let value = raw.command(&[b"DUMP", key.as_bytes()]);
        refuses(value, "another program");
        raw.command(&[b"UNLINK", key.as_bytes()]);
        // Until now, many events were a sorted set.
        raw.command(&[b"ZADD", key.as_bytes(), b"7", b"c"]);
        let value = raw.command(&[b"DUMP", key.as_bytes()]);
        refuses(value, "another program");
        raw.command(&[b"UNLINK", key.as_bytes()]);
        raw.command(&[b"HSET", key.as_bytes(), b"of", b"another"]);
        let value = raw.command(&[b"DUMP", key.as_bytes()]);
        refuses(value, "holds a value that");
        raw.command(&[b"UNLINK", key.as_bytes()]);
        raw.command(&[b"SET", key.as_bytes(), &event]);
        ask(&store, list(), 0).unwrap();
    }
}

/// An engine whose server repeats what it was sent.
pub(crate) struct Echoing;

impl Engine for Echoing {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let argument = String::from_utf8_lossy(call.argument()).into_owned();
        let line = format!("ERR wrong argument '{argument}'");
        Err(Failure::refused(line.clone(), line))
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget(&self, _keys: &[Vec<u8>]) -> Result<(), Failure> {
        Ok(())
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        false
    }
}

#[test]
fn errors_and_debug_output_show_no_id() {
    let store = WireStore::new(Echoing, Options::new());
    let terms = terms();
    let event = Event::new("secret-id", stamp(NOW));
    for operation in [
        schedule::Operation::Add(vec![Event::new("other-id", stamp(NOW)), event]),
        schedule::Operation::Reschedule(event),
        schedule::Operation::Cancel(b"secret-id"),
        schedule::Operation::ReserveNext(event),
    ] {
        let request = schedule::Request::new(&terms, "k", operation);
        let error = now(store.schedule(&request)).unwrap_err();
        let bytes = format!("{:?}", b"secret-id");
        for shown in [
            error.to_string(),
            format!("{error:?}"),
            format!("{request:?}"),
            format!("{:?}", std::error::Error::source(&error)),
        ] {
            assert!(!shown.contains("secret-id"), "{shown}");
            assert!(!shown.contains("other-id"), "{shown}");
            assert!(!shown.contains(&bytes), "{shown}");
        }
    }
    let schedule = Schedule::with_terms(&store, terms.clone());
    let call = format!("{:?}", schedule.cancel("k", "secret-id"));
    assert!(call.contains("id_bytes"), "{call}");
}

/// As many events at once as one call may add, with the longest ids and other weights.
#[test]
fn as_many_events_as_possible_are_planned_and_pruned_in_one_call() {
    let terms = schedule::Terms::new("plans", ["200/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let server = shared::standalone(flavor);
        let options = Options::new().with_prefix(&fresh("many")).unwrap();
        let store = WireStore::new(Raw::over(server.connection(), None), options);
        let ids: Vec<String> = (0..300).map(|id| format!("{id:0>200}")).collect();
        for hour in 0..3 {
            let start = usize::try_from(hour).unwrap() * 100;
            let time = stamp(NOW + hour * 3_600 * SECOND);
            let events = ids[start..start + 100].iter();
            let events = events.map(|id| Event::new(id, time).with_weight(2));
            let request =
                schedule::Request::new(&terms, "k", schedule::Operation::Add(events.collect()));
            let answer = now(store.schedule(&request.at(stamp(NOW)))).unwrap();
            assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        }
        let late = stamp(NOW + 4 * 3_600 * SECOND);
        let event = Event::new("last", late);
        let request = schedule::Request::new(&terms, "k", schedule::Operation::Add(vec![event]));
        let answer = now(store.schedule(&request.at(late))).unwrap();
        assert_eq!(answer, schedule::Answer::Added(1), "{flavor}");
        let keys = store.engine().keys(store.options());
        let Reply::Bulk(head) = store.engine().command(&[b"HGET", &keys[0], b"c"]) else {
            panic!("no number");
        };
        // The last event. Events an hour before the tolerance have not left.
        let held = u32::from_le_bytes(*head[8..].first_chunk().unwrap());
        assert!(held <= 1 + 100, "{held} on {flavor}");
        let refused = schedule::Operation::Reschedule(Event::new("none", late));
        let request = schedule::Request::new(&terms, "k", refused);
        let schedule::Answer::Refused { refusal, .. } =
            now(store.schedule(&request.at(late))).unwrap()
        else {
            panic!("not refused");
        };
        assert_eq!(*refusal.reason(), Reason::UnknownId);
    }
}

/// Sends operator commands over a connection to one server.
impl Nodes for Raw {
    async fn send(&self, _node: &Node, commands: &[Command]) -> Result<Vec<AdminReply>, Failure> {
        fn converted(reply: Reply) -> AdminReply {
            match reply {
                Reply::Array(items) => AdminReply::List(items.into_iter().map(converted).collect()),
                Reply::Bulk(bytes) => AdminReply::Bytes(bytes),
                Reply::Error(line) => AdminReply::Error(line),
                Reply::Integer(number) => AdminReply::Integer(number),
                Reply::Simple(status) => AdminReply::Bytes(status.into()),
                _ => AdminReply::Nil,
            }
        }
        let replies = commands.iter().map(|command| {
            let words: Vec<_> = command.words().iter().map(Vec::as_slice).collect();
            converted(self.command(&words))
        });
        Ok(replies.collect())
    }
}

/// Events are found and cleared: by prefix, by name, and those that were planned while a clock was
/// ahead.
#[test]
fn operators_find_and_clear_events() {
    for flavor in Flavor::chosen() {
        // A server of this test's own: the doctor looks at a sample of all keys on it.
        let server = Server::start(flavor);
        let store = store_on(&server);
        let real = Timestamp::try_from(SystemTime::now()).unwrap();
        let plan = |name: &str, key: &str, ahead: u64| {
            let terms = schedule::Terms::new(name, ["2/10s"]).unwrap();
            let at = real.saturating_add(Duration::from_secs(ahead));
            let event = schedule::Operation::Add(vec![Event::new("a", at)]);
            let answer = now(store.schedule(&schedule::Request::new(&terms, key, event).at(at)));
            assert_eq!(answer.unwrap(), schedule::Answer::Added(1));
        };
        let limit = crate::engine::limit("gcra:3/1h");
        let consume = || drop(crate::engine::consume(&store, &limit, "k", 1).unwrap());
        let clear = |what: Clear| {
            let cleared = now(store.clear(&what, &mut |_| ())).unwrap();
            assert_eq!(cleared.skipped, 0);
            (cleared.found, cleared.cleared)
        };
        let finding = |check: &str| {
            let diagnosis = now(store.diagnose());
            let mut findings = diagnosis.findings().iter();
            let finding = findings.find(|finding| finding.check == check).unwrap();
            (finding.severity, finding.found.clone())
        };
        let fill = || {
            plan("plans", "a", 0);
            plan("plans", "b", 3_600);
            plan("other", "a", 0);
            consume();
        };
        fill();
        let (severity, ahead) = finding("states ahead");
        assert_eq!(severity, Severity::Serious, "{ahead}");
        assert!(ahead.starts_with("1 of 4 states"), "{ahead}");
        let second = Duration::from_secs(1);
        assert_eq!(clear(Clear::new().dry_run()), (4, 0));
        assert_eq!(clear(Clear::new().ahead_by(second)), (1, 1), "{flavor}");
        assert_eq!(finding("states ahead").1, "none of 3 states");
        assert_eq!(clear(Clear::new().with_limit("plans")), (1, 1));
        assert_eq!(clear(Clear::new()), (2, 2));
        fill();
        assert_eq!(clear(Clear::new()), (4, 4));
        let schedules = finding("schedules");
        assert_eq!(schedules, (Severity::Ok, "an event was planned".to_owned()));
        assert_eq!(store.engine().keys(store.options()).len(), 0);
    }
}

/// The doctor says which commands of schedules a user may not run, and leaves nothing.
#[test]
fn doctor_names_commands_that_schedules_lack() {
    for (denied, expected) in [
        (
            &["-hset"][..],
            "cannot run `hset`: schedules of more than 256 events",
        ),
        (
            &["-hget", "-hdel", "-pexpire"],
            "cannot run `hdel`, `hget`, `pexpire`: schedules of more than 256 events",
        ),
        (&["-set"], "an event cannot be planned"),
    ] {
        let commands = [&["+@all"][..], denied].concat();
        let users = users(|| Raw::to(Flavor::System), &commands);
        let diagnosis = now(users.user.diagnose());
        let findings = diagnosis.findings().iter();
        let finding = findings.filter(|finding| finding.check == "schedules");
        let finding: Vec<_> = finding.collect();
        let [finding] = finding[..] else {
            panic!("{finding:?}");
        };
        assert_eq!(finding.severity, Severity::Note);
        assert!(finding.found.starts_with(expected), "{finding:?}");
        assert!(finding.advice.contains("grant"), "{finding:?}");
        let raw = users.all.engine();
        for key in raw.keys(users.all.options()) {
            assert!(raw.pttl(&key) > 0);
        }
    }
}

/// The horizon begins at the server's time, to the microsecond.
#[test]
fn schedules_count_from_the_servers_time() {
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let terms = terms();
        let horizon = u64::try_from(terms.horizon().as_micros()).unwrap();
        let far = schedule::Operation::Add(vec![Event::new("a", Timestamp::MAX)]);
        let before = server_time(store.engine());
        let answer = now(store.schedule(&schedule::Request::new(&terms, "k", far))).unwrap();
        let after = server_time(store.engine());
        let schedule::Answer::Refused { refusal, .. } = answer else {
            panic!("{answer:?}");
        };
        let Reason::BeyondHorizon(latest) = refusal.reason() else {
            panic!("{refusal:?}");
        };
        let at = latest.as_micros() - horizon;
        assert!((before..=after).contains(&at), "{flavor}: {at}");
    }
}

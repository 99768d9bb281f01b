//! Leases on real servers: their keys, what users may do, memory, lost replies and lost scripts.

use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use tollgate_core::lease::{self, Acquisition, ConcurrencyLimiter, Lease, Occupancy};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Clear, Engine, Options, Severity, TimeSource, WireStore};

use crate::engine::{Canned, Losing, Raw, fresh, info, now, store, store_on};
use crate::schedule_servers::{Echoing, Users, users};

const NOW: u64 = 1_780_000_000_000_000;
const SECOND: u64 = 1_000_000;
const AMOUNT: u64 = 3;
/// The time to live, in seconds.
const TTL: u64 = 30;
/// What a key is kept longer for at a caller's instant, in milliseconds.
const SLACK: u64 = 600_000;

/// The commands that the documentation lists for leases, and for a reset.
const LISTED: [&str; 7] = [
    "+evalsha",
    "+script|load",
    "+time",
    OWN[0],
    OWN[1],
    OWN[2],
    TO_RESET,
];
const OWN: [&str; 3] = ["+get", "+getex", "+set"];
const TO_RESET: &str = "+unlink";

fn stamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn terms() -> lease::Terms {
    lease::Terms::new("places", AMOUNT, Duration::from_secs(TTL)).unwrap()
}

fn acquire(id: &'static str, weight: u64) -> lease::Operation<'static> {
    let id = id.as_bytes();
    lease::Operation::Acquire { id, weight }
}

/// Decides `operation` on the leases of `k`, so many seconds later.
fn ask(
    store: &WireStore<impl Engine>,
    operation: lease::Operation<'_>,
    later: u64,
) -> Result<lease::Answer, StoreError> {
    let terms = terms();
    let request = lease::Request::new(&terms, "k", operation);
    now(store.lease(&request.at(stamp(NOW + later * SECOND))))
}

fn granted(answer: lease::Answer) -> (Lease, bool) {
    match answer {
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new }) => (lease, is_new),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_leases_are_what_they_were() {
    let terms = terms();
    let keys_of = |options: Options, key: Key<'_>, at: Option<Timestamp>| {
        let store = WireStore::new(Canned::default(), options);
        let request = lease::Request::new(&terms, key, lease::Operation::Peek);
        let request = match at {
            Some(at) => request.at(at),
            None => request,
        };
        now(store.lease(&request)).unwrap_err();
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
            "tollgate:places:leases:v1:{alice}",
        ),
        (
            Options::new(),
            alice.with_rest("/mail"),
            None,
            "tollgate:places:leases:v1:{alice}:/mail",
        ),
        (
            Options::new().with_prefix("shop:eu").unwrap(),
            Key::from("").with_rest("a:{b}"),
            Some(stamp(NOW)),
            "shop:eu:places:leases:v1-caller:{%}:a%3a%7bb%7d",
        ),
        (
            Options::new().with_time_source(TimeSource::Caller),
            alice,
            None,
            "tollgate:places:leases:v1-caller:{alice}",
        ),
        (
            Options::new().with_hashed_keys([7; 16]),
            alice,
            None,
            "tollgate:places:leases:v1:{#3e979ab9e62a09276973b5ca1532759a}",
        ),
    ] {
        assert_eq!(keys_of(options, key, at), expected);
    }
    let store = WireStore::new(Canned::default(), Options::new());
    now(store.reset_leases(&terms, alice)).unwrap();
    let both = ["", "-caller"].map(|clock| {
        let key = format!("tollgate:places:leases:v1{clock}:{{alice}}");
        key.into_bytes()
    });
    assert_eq!(store.engine().asked().forgotten, both);
}

/// What a lease was acquired at: an instant that is also its token.
const HELD_SINCE: u64 = 20;
const TOKEN: u64 = NOW + HELD_SINCE * SECOND;
/// When the operations take place: the first leases have ended, and one is held.
const LATER: u64 = 40;

/// Operations that together run every command, on what [`prepare`] leaves.
fn operations() -> Vec<lease::Operation<'static>> {
    let (id, token) = (b"held", TOKEN);
    vec![
        acquire("new", 1),
        acquire("heavy", 2),
        acquire("all", AMOUNT),
        acquire("more", AMOUNT + 1),
        acquire("held", 1),
        acquire("old", 1),
        lease::Operation::Renew { id, token },
        lease::Operation::Release { id, token },
        lease::Operation::Renew {
            id,
            token: token - 1,
        },
        lease::Operation::Release {
            id: b"none",
            token: 1,
        },
        lease::Operation::Peek,
    ]
}

/// Leases that a key has before an operation: the id, when it was acquired, and the weight.
type Prepared = &'static [(&'static str, u64, u64)];

/// Nothing, leases that have ended and one that is held, and with other weights.
const PREPARED: [Prepared; 3] = [
    &[],
    &[("old", 1, 1), ("older", 0, 1), ("held", HELD_SINCE, 1)],
    &[("old", 1, 1), ("held", HELD_SINCE, 2)],
];

fn prepare(store: &WireStore<Raw>, leases: Prepared) {
    now(store.reset_leases(&terms(), "k".into())).unwrap();
    for (id, second, weight) in leases {
        let answer = ask(store, acquire(id, *weight), *second).unwrap();
        assert!(granted(answer).1);
    }
}

/// Returns everything that the keys of a store hold.
fn everything(store: &WireStore<Raw>) -> Vec<(Vec<u8>, Reply)> {
    let raw = store.engine();
    let keys = raw.keys(store.options()).into_iter();
    keys.map(|key| {
        let held = raw.command(&[b"GET", &key]);
        (key, held)
    })
    .collect()
}

/// Returns the bytes of a state: the latest instant and token, and of each lease the bytes of its
/// id, its end, its token and its weight.
pub(crate) fn state(latest: u64, last_token: u64, leases: &[([u8; 16], u64, u64, u16)]) -> Vec<u8> {
    #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
    let double = |number: u64| (number as f64).to_le_bytes();
    let total = leases.iter().map(|lease| u64::from(lease.3)).sum();
    let mut bytes = [latest, last_token, total].map(double).concat();
    for (id, end, token, weight) in leases {
        bytes.extend(id);
        bytes.extend([double(*end), double(*token)].concat());
        bytes.extend(weight.to_le_bytes());
    }
    bytes
}

/// Returns the bytes that stand for an id.
pub(crate) fn id_bytes(id: &[u8]) -> [u8; 16] {
    Sha256::digest(id)[..16].try_into().unwrap()
}

/// Checks that a key expires, and not before its last lease has ended.
fn assert_lives(users: &Users, what: &str) {
    let raw = users.all.engine();
    let keys = raw.keys(users.all.options());
    let Some(key) = keys.first() else {
        let answer = ask(&users.all, lease::Operation::Peek, LATER).unwrap();
        let nothing = lease::Answer::Occupied(Occupancy::new(0, AMOUNT));
        assert_eq!(answer, nothing, "{what}");
        return;
    };
    let left = raw.pttl(key);
    assert!(left > 0, "{what}: no TTL");
    let Reply::Bulk(held) = raw.command(&[b"GET", key]) else {
        panic!("{what}");
    };
    // Without leases, the latest token.
    let end = match held.len() {
        24 => held[8..16].try_into().unwrap(),
        length => held[length - 18..length - 10].try_into().unwrap(),
    };
    let end = f64::from_le_bytes(end);
    #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
    let rest = (end - (NOW + LATER * SECOND) as f64) / 1_000.;
    // A test may take a minute.
    #[allow(clippy::cast_precision_loss, reason = "it is short")]
    let (left, least) = (left as f64, rest + SLACK as f64 - 60_000.);
    assert!(left >= least, "{what}: {left} of {least} ms");
}

#[test]
fn listed_commands_are_enough_for_leases() {
    let listed = include_str!("../../../../docs/operations.md");
    let row = listed
        .lines()
        .find(|line| line.starts_with("| schedules, leases |"))
        .expect("no row");
    assert_eq!(row, format!("| schedules, leases | `{}` |", OWN.join(" ")));
    for flavor in Flavor::chosen() {
        let users = users(|| Raw::to(flavor), &LISTED);
        for prepared in PREPARED {
            for operation in operations() {
                prepare(&users.all, prepared);
                let answer = ask(&users.user, operation, LATER);
                answer.unwrap_or_else(|error| panic!("{operation:?} on {flavor}: {error}"));
                assert_lives(&users, "all that is listed");
            }
        }
        // By the server's clock.
        let ttl = Duration::from_secs(TTL);
        let places = ConcurrencyLimiter::new(&users.user, "places", AMOUNT, ttl).unwrap();
        let lease = now(places.acquire("k", "a").into_future()).unwrap();
        let lease = lease.permit().unwrap();
        let renewed = now(places.renew("k", &lease).into_future()).unwrap();
        assert!(renewed.is_some());
        assert!(now(places.release("k", &lease).into_future()).unwrap());
        now(places.reset("k")).unwrap();
    }
}

/// Without any one of the listed commands some operation fails, and changes nothing.
#[test]
fn without_a_listed_command_leases_fail_and_nothing_is_half_written() {
    // Scripts are flushed, which may not be done to a server that is shared.
    let server = Server::start(Flavor::System);
    for missing in LISTED {
        let others: Vec<_> = LISTED.into_iter().filter(|one| *one != missing).collect();
        let users = users(|| Raw::over(server.connection(), None), &others);
        let mut failed = 0;
        for prepared in PREPARED {
            for operation in operations() {
                prepare(&users.all, prepared);
                let before = everything(&users.all);
                if missing == "+script|load" {
                    server.command(&["SCRIPT", "FLUSH"]);
                }
                let what = format!("without {missing}: {operation:?} on {prepared:?}");
                if let Err(error) = ask(&users.user, operation, LATER) {
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
                    assert!(error.to_string().contains("grant"), "{what}: {error}");
                    failed += 1;
                    assert_eq!(everything(&users.all), before, "{what}");
                }
                assert_lives(&users, &what);
            }
        }
        // Requests at callers' instants do not read the server's clock.
        let ttl = Duration::from_secs(TTL);
        let places = ConcurrencyLimiter::new(&users.user, "places", AMOUNT, ttl).unwrap();
        let by_clock = now(places.peek("k").into_future());
        let reset = now(places.reset("k"));
        let failed = match missing {
            "+time" => by_clock.is_err(),
            TO_RESET => reset.is_err(),
            _ => failed > 0,
        };
        assert!(failed, "{missing} is not needed");
    }
}

#[test]
fn at_maxmemory_nothing_is_acquired_and_releases_work() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        let changes = || info(&server, "persistence", "rdb_changes_since_last_save");
        let (mut refused, mut released) = (0, 0);
        for prepared in PREPARED {
            for operation in operations() {
                let what = format!("{operation:?} on {prepared:?}, {flavor}");
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
                prepare(&store, prepared);
                let old = changes();
                let decided = ask(&store, operation, LATER).unwrap();
                let writes = changes() > old;
                let after = everything(&store);
                prepare(&store, prepared);
                let before = everything(&store);
                server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                let answer = ask(&store, operation, LATER);
                // What is released needs no memory.
                if writes && decided != lease::Answer::Released(true) {
                    let error = answer.expect_err(&what);
                    assert_eq!(error.kind(), ErrorKind::Full, "{what}: {error}");
                    assert_eq!(everything(&store), before, "{what}");
                    refused += 1;
                } else {
                    assert_eq!(answer.unwrap(), decided, "{what}");
                    assert_eq!(everything(&store), after, "{what}");
                    released += u32::from(writes);
                }
            }
        }
        assert!(refused > 8 && released == 2, "{refused} {released}");
    }
}

#[test]
fn denials_peeks_and_what_is_not_held_write_nothing() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        let changes = || info(&server, "persistence", "rdb_changes_since_last_save");
        for prepared in PREPARED {
            prepare(&store, prepared);
            if !prepared.is_empty() {
                ask(&store, acquire("second", 1), LATER).unwrap();
            }
            let (before, old) = (everything(&store), changes());
            let (id, token) = (b"held", TOKEN);
            for operation in [
                lease::Operation::Peek,
                acquire("more", AMOUNT + 1),
                acquire("most", u64::MAX),
                lease::Operation::Renew {
                    id,
                    token: token + 1,
                },
                lease::Operation::Release {
                    id,
                    token: token - 1,
                },
                // They have ended.
                lease::Operation::Renew {
                    id: b"old",
                    token: NOW + SECOND,
                },
                lease::Operation::Release {
                    id: b"old",
                    token: NOW + SECOND,
                },
                lease::Operation::Release { id: b"c", token: 1 },
            ] {
                ask(&store, operation, LATER).unwrap();
                assert_eq!(changes(), old, "{operation:?} on {prepared:?}, {flavor}");
            }
            if !prepared.is_empty() {
                for operation in [acquire("all", AMOUNT), acquire("held", 1)] {
                    ask(&store, operation, LATER).unwrap();
                    assert_eq!(changes(), old, "{operation:?} on {prepared:?}, {flavor}");
                }
            }
            assert_eq!(everything(&store), before, "{prepared:?}, {flavor}");
            // And what has ended is not counted by an instant that is earlier.
            ask(&store, lease::Operation::Peek, 0).unwrap();
            assert_eq!(changes(), old);
        }
    }
}

/// A key expires when its last lease ends: at most a millisecond later, and what a caller's clock
/// may lag behind.
#[test]
fn keys_expire_when_the_last_lease_has_ended() {
    let micros = |at: u64| stamp(NOW + at);
    let second = Duration::from_secs(1);
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let raw = store.engine();
        let short = lease::Terms::new("places", 9, Duration::from_micros(10_001_500)).unwrap();
        let long = lease::Terms::new("places", 9, 60 * second).unwrap();
        let (a, b) = (b"a", b"b");
        // The operation, when, and the milliseconds that the key then lives.
        for (terms, operation, at, lives) in [
            (&short, acquire("a", 1), 0, 10_002),
            (&long, acquire("b", 2), 500, 60_000),
            // A lease that ends sooner does not shorten the life of the key.
            (&short, acquire("c", 1), 1_500, 59_999),
            (
                &short,
                lease::Operation::Renew { id: a, token: NOW },
                2_501,
                59_998,
            ),
            (
                &long,
                lease::Operation::Renew { id: a, token: NOW },
                500_000,
                60_000,
            ),
            // A clock that stepped back: the end is that of the later instant.
            (&long, acquire("d", 1), 499_999, 60_001),
            (
                &long,
                lease::Operation::Release {
                    id: b,
                    token: NOW + 500,
                },
                500_000,
                60_000,
            ),
        ] {
            let request = lease::Request::new(terms, "k", operation).at(micros(at));
            let begun = Instant::now();
            now(store.lease(&request)).unwrap();
            let keys = raw.keys(store.options());
            let left = u64::try_from(raw.pttl(&keys[0])).unwrap();
            let passed = u64::try_from(begun.elapsed().as_millis()).unwrap() + 2;
            let most = lives + SLACK;
            let what = format!("{operation:?} on {flavor}");
            assert!(
                (most - passed..=most).contains(&left),
                "{left} of {most}: {what}"
            );
        }
        // Once nothing is held, only the tokens matter.
        now(store.reset_leases(&long, "k".into())).unwrap();
        for (operation, at, lives) in [
            (acquire("a", 1), 0, 60_000),
            (acquire("b", 1), 0, 60_000),
            (lease::Operation::Release { id: a, token: NOW }, 0, 60_000),
            (
                lease::Operation::Renew {
                    id: b,
                    token: NOW + 1,
                },
                20_000,
                60_000,
            ),
            // Behind the renewal, by a clock that stepped back.
            (
                lease::Operation::Release {
                    id: b,
                    token: NOW + 1,
                },
                10_000,
                10,
            ),
        ] {
            let request = lease::Request::new(&long, "k", operation).at(micros(at));
            let begun = Instant::now();
            now(store.lease(&request)).unwrap();
            let keys = raw.keys(store.options());
            let left = u64::try_from(raw.pttl(&keys[0])).unwrap();
            let passed = u64::try_from(begun.elapsed().as_millis()).unwrap() + 2;
            let most = lives + SLACK;
            let what = format!("{operation:?} on {flavor}");
            assert!(
                (most - passed..=most).contains(&left),
                "{left} of {most}: {what}"
            );
        }
        // By the server's clock, a key without leases is gone at once.
        let brief = lease::Terms::new("brief", 9, second).unwrap();
        let request = lease::Request::new(&brief, "k", acquire("a", 1));
        let (lease, _) = granted(now(store.lease(&request)).unwrap());
        let release = lease::Operation::Release {
            id: b"a",
            token: lease.token(),
        };
        let released = now(store.lease(&lease::Request::new(&brief, "k", release))).unwrap();
        assert_eq!(released, lease::Answer::Released(true));
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(raw.keys(store.options()).len(), 1, "{flavor}");
    }
}

/// Returns the milliseconds that the script of an operation sets as the life of a key that holds
/// `state`, exactly: a server tells them only in relation to its clock.
fn life(raw: &Raw, operation: lease::Operation<'_>, state: &[u8]) -> Option<i64> {
    let canned = WireStore::new(Canned::default(), Options::new());
    ask(&canned, operation, 0).unwrap_err();
    let asked = canned.engine().asked();
    let noting = "function(...) if ... == 'SET' then life = select(5, ...) end \
                  return redis.call(...) end";
    let script = asked.text.replace("redis.call", noting);
    let script = format!("local life local function run() {script} end run() return life");
    let key = fresh("life");
    raw.command(&[b"SET", key.as_bytes(), state]);
    let (script, key) = (script.as_bytes(), key.as_bytes());
    let reply = raw.command(&[b"EVAL", script, b"1", key, &asked.argument]);
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    reply.integer()
}

/// That is until all leases have ended, and until an instant that is greater than the latest token
/// and not before the latest instant.
#[test]
fn keys_live_as_long_as_they_matter_to_the_millisecond() {
    let (id, token) = (b"a", 77);
    let release = lease::Operation::Release { id, token };
    let renew = lease::Operation::Renew { id, token };
    let (acquire, ttl) = (acquire("b", 1), TTL * SECOND);
    // The operation, and by how many microseconds the latest instant, the latest token and the end of
    // another lease are ahead.
    for (operation, latest, last_token, end, lives) in [
        (release, 0, 0, 1, 1),
        (release, 0, 999, 1, 1),
        (release, 0, 1_000, 1, 2),
        (release, 0, 59_999, 1, 60),
        (release, 5_000, 999, 1, 5),
        (release, 5_001, 999, 1, 6),
        (release, 0, 999, 7_000, 7),
        (release, 0, 999, 7_001, 8),
        (renew, 0, 0, 1, TTL * 1_000),
        (renew, 1, 0, 1, TTL * 1_000 + 1),
        (renew, 0, ttl - 1, 1, TTL * 1_000),
        (renew, 0, ttl, 1, TTL * 1_000 + 1),
        (acquire, 0, 0, 1, TTL * 1_000),
        (acquire, 1, 0, 1, TTL * 1_000 + 1),
        (acquire, 0, ttl - 2, 1, TTL * 1_000),
        (acquire, 0, ttl - 1, 1, TTL * 1_000 + 1),
        (acquire, 0, 0, ttl, TTL * 1_000),
        (acquire, 0, 0, ttl + 1, TTL * 1_000 + 1),
    ] {
        let mut leases = [
            (id_bytes(b"other"), NOW + end, 78, 1),
            (id_bytes(id), NOW + 8_000, token, 1),
        ];
        leases.sort_by_key(|lease| lease.1);
        let held = state(NOW + latest, NOW + last_token, &leases);
        for flavor in Flavor::chosen() {
            let found = life(&Raw::to(flavor), operation, &held);
            let expected = i64::try_from(lives + SLACK).unwrap();
            let what = format!("{operation:?} {latest} {last_token} {end}, {flavor}");
            assert_eq!(found, Some(expected), "{what}");
        }
    }
}

#[test]
fn a_lease_is_over_at_its_end() {
    let (id, token) = (b"a", NOW);
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let ask = |operation, later| ask(&store, operation, later).unwrap();
        assert!(granted(ask(acquire("a", 1), 0)).1);
        assert!(!granted(ask(acquire("a", 1), TTL - 1)).1, "{flavor}");
        let renewed = ask(lease::Operation::Renew { id, token }, TTL);
        assert_eq!(renewed, lease::Answer::Renewed(None), "{flavor}");
        let released = ask(lease::Operation::Release { id, token }, TTL);
        assert_eq!(released, lease::Answer::Released(false), "{flavor}");
        assert!(granted(ask(acquire("a", 1), TTL)).1, "{flavor}");
    }
}

/// A caller who repeats a call whose reply was lost, with the same id, gets the same lease.
#[test]
fn after_a_lost_reply_the_same_id_has_the_same_lease() {
    for flavor in Flavor::chosen() {
        let engine = Losing::to(flavor);
        let options = Options::new().with_prefix(&fresh("lost")).unwrap();
        let store = WireStore::new(engine, options);
        let lose = |operation, later| {
            store.engine().lose(1);
            ask(&store, operation, later).unwrap_err()
        };
        let unknown = |error: StoreError| {
            assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
            let message = error.to_string();
            assert!(message.contains("with the same id"), "{message}");
            assert!(!message.contains("do not send it again"), "{message}");
        };
        let (id, token) = (b"a", NOW);
        unknown(lose(acquire("a", 2), 0));
        let (lease, is_new) = granted(ask(&store, acquire("a", 2), 5).unwrap());
        assert!(!is_new);
        let end = stamp(NOW + TTL * SECOND);
        let expected = Lease::new(*id, token, 2, stamp(NOW + 5 * SECOND), end);
        assert_eq!(lease, expected);
        let peeked = ask(&store, lease::Operation::Peek, 5).unwrap();
        assert_eq!(peeked, lease::Answer::Occupied(Occupancy::new(2, AMOUNT)));
        unknown(lose(lease::Operation::Renew { id, token }, 10));
        let renewed = ask(&store, lease::Operation::Renew { id, token }, 10).unwrap();
        let end = stamp(NOW + (10 + TTL) * SECOND);
        let expected = Lease::new(*id, token, 2, stamp(NOW + 10 * SECOND), end);
        assert_eq!(renewed, lease::Answer::Renewed(Some(expected)));
        unknown(lose(lease::Operation::Release { id, token }, 10));
        let again = ask(&store, lease::Operation::Release { id, token }, 10).unwrap();
        assert_eq!(again, lease::Answer::Released(false));
        // A peek changes nothing, so that its loss is no question.
        let error = lose(lease::Operation::Peek, 10);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_retryable());
        store.engine().lose(1);
        let error = now(store.reset_leases(&terms(), "k".into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        now(store.reset_leases(&terms(), "k".into())).unwrap();
    }
}

#[test]
fn a_server_that_lost_its_scripts_acquires_once() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let (id, token) = (b"a", NOW);
    server.command(&["SCRIPT", "FLUSH"]);
    assert!(granted(ask(&store, acquire("a", 2), 0).unwrap()).1);
    server.command(&["SCRIPT", "FLUSH"]);
    let peeked = ask(&store, lease::Operation::Peek, 0).unwrap();
    assert_eq!(peeked, lease::Answer::Occupied(Occupancy::new(2, AMOUNT)));
    server.command(&["SCRIPT", "FLUSH"]);
    let released = ask(&store, lease::Operation::Release { id, token }, 0).unwrap();
    assert_eq!(released, lease::Answer::Released(true));
    assert_eq!(crate::engine::calls(&server, "script|load"), 3);
}

#[test]
fn keys_of_other_programs_are_an_error_and_stay() {
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let raw = store.engine();
        let key = format!("{}:places:leases:v1-caller:{{k}}", store.options().prefix());
        let key = key.as_bytes();
        let all_fail = |said: &str, held: &[u8]| {
            for operation in operations() {
                let what = format!("{operation:?} on {held:?}, {flavor}");
                let error = ask(&store, operation, 0).expect_err(&what);
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
                let message = error.to_string();
                assert!(message.contains(said), "{message}");
                assert!(!message.contains("{k}"), "{message}");
            }
            assert_eq!(raw.pttl(key), -1);
        };
        raw.command(&[b"RPUSH", key, b"of another"]);
        all_fail("another program", b"a list");
        assert_eq!(raw.command(&[b"LLEN", key]), Reply::Integer(1));
        let own = state(NOW, NOW, &[(id_bytes(b"held"), NOW + SECOND, NOW, 1)]);
        let mut foreign = vec![b"of another".to_vec(), own[..24].to_vec()];
        // A weight that one lease cannot have, or that is no number.
        foreign.extend([0.5, 65_536., f64::NAN].map(|total: f64| {
            let mut own = own.clone();
            own[16..24].copy_from_slice(&total.to_le_bytes());
            own
        }));
        foreign.extend([0, 8, 16, 23, 25, 57].map(|length| own[..length].to_vec()));
        foreign.push([&own[..], b"!"].concat());
        foreign.extend([24, 58, 92].map(|length| b"of another ".repeat(9)[..length].to_vec()));
        foreign.extend([0x00, 0xff].map(|byte| vec![byte; 58]));
        for value in foreign {
            raw.command(&[b"SET", key, &value]);
            all_fail("that tollgate has not written", &value);
            assert_eq!(raw.command(&[b"GET", key]), Reply::Bulk(value));
        }
    }
}

/// What a release of this library writes, the next one reads.
#[test]
fn arguments_and_states_are_what_they_were() {
    // The first half of its SHA-256.
    let digest = "ca978112ca1bbdcafac231b39a23dc4d";
    let id = id_bytes(b"a");
    assert_eq!(id.map(|byte| format!("{byte:02x}")).concat(), digest);
    let canned = WireStore::new(Canned::default(), Options::new());
    for (operation, numbers, sent) in [
        (acquire("a", 2), [1., 2., 0.], &id[..]),
        (
            lease::Operation::Renew { id: b"a", token: 7 },
            [2., 1., 7.],
            &id,
        ),
        (
            lease::Operation::Release { id: b"a", token: 7 },
            [3., 1., 7.],
            &id,
        ),
        (lease::Operation::Peek, [4., 1., 0.], &[]),
    ] {
        ask(&canned, operation, 0).unwrap_err();
        let [code, weight, token] = numbers;
        #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
        let numbers = [
            code,
            NOW as f64,
            SLACK as f64,
            (TTL * SECOND) as f64,
            AMOUNT as f64,
            weight,
            token,
        ];
        let expected = [&numbers.map(f64::to_le_bytes).concat()[..], sent].concat();
        assert_eq!(canned.engine().asked().argument, expected, "{operation:?}");
    }
    // A key that lives by the server's clock is kept no longer than needed.
    let terms = terms();
    let by_server = lease::Request::new(&terms, "k", lease::Operation::Peek);
    now(canned.lease(&by_server)).unwrap_err();
    #[allow(clippy::cast_precision_loss, reason = "they are small")]
    let numbers = [4., -1., 0., (TTL * SECOND) as f64, AMOUNT as f64, 1., 0.];
    let expected = numbers.map(f64::to_le_bytes).concat();
    assert_eq!(canned.engine().asked().argument, expected);
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        for (id, weight, later) in [("a", 2, 0), ("b", 1, 3)] {
            assert!(granted(ask(&store, acquire(id, weight), later).unwrap()).1);
        }
        let [a, b] = [(b"a", 0, 2), (b"b", 3, 1)].map(|(id, later, weight)| {
            let token = NOW + later * SECOND;
            (id_bytes(id), token + TTL * SECOND, token, weight)
        });
        let token = NOW + 3 * SECOND;
        let held = state(token, token, &[a, b]);
        assert_eq!(everything(&store)[0].1, Reply::Bulk(held), "{flavor}");
    }
}

/// The bytes of an id are not taken for it where they are found across two numbers of a record.
#[test]
fn an_id_is_found_only_where_a_record_begins() {
    // Its last byte can be the first of a whole number.
    let mut ids = (0..).map(|number: u32| number.to_string());
    let id = ids.find(|id| id_bytes(id.as_bytes())[15].is_multiple_of(4));
    let id = id.unwrap().into_bytes();
    let id = id.as_slice();
    let bytes = id_bytes(id);
    let low = |number: u64, byte: u8| {
        #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
        let mut word = (number as f64).to_le_bytes();
        word[0] = byte;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole"
        )]
        let number = f64::from_le_bytes(word) as u64;
        number
    };
    let mut shifted = [7; 16];
    shifted[1..].copy_from_slice(&bytes[..15]);
    // What would be read as the end, one byte further on, is after all time.
    let token = low(NOW, 0x44);
    let other = (shifted, low(NOW + 9 * SECOND, bytes[15]), token, 1);
    let own = (bytes, NOW + 10 * SECOND, token + 1, 1);
    let written = state(NOW, token + 1, &[other, own]);
    let hits: Vec<_> = (0..written.len())
        .filter(|&at| written[at..].starts_with(&bytes))
        .collect();
    assert_eq!(hits, [25, 58]);
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let key = format!("{}:places:leases:v1-caller:{{k}}", store.options().prefix());
        let set = |state: Vec<u8>| {
            let words: [&[u8]; 3] = [b"SET", key.as_bytes(), &state];
            store.engine().command(&words);
        };
        let token = token + 1;
        let renew = lease::Operation::Renew { id, token };
        let release = lease::Operation::Release { id, token };
        let acquire = lease::Operation::Acquire { id, weight: 1 };
        set(written.clone());
        assert!(!granted(ask(&store, acquire, 1).unwrap()).1, "{flavor}");
        let lease::Answer::Renewed(Some(renewed)) = ask(&store, renew, 1).unwrap() else {
            panic!("not found on {flavor}");
        };
        assert_eq!(renewed.expires_at(), stamp(NOW + (1 + TTL) * SECOND));
        let released = ask(&store, release, 1).unwrap();
        assert_eq!(released, lease::Answer::Released(true));
        set(state(NOW, token, &[other]));
        assert_eq!(ask(&store, renew, 1).unwrap(), lease::Answer::Renewed(None));
        let released = ask(&store, release, 1).unwrap();
        assert_eq!(released, lease::Answer::Released(false));
        let (lease, is_new) = granted(ask(&store, acquire, 1).unwrap());
        assert!(is_new && lease.token() == NOW + SECOND, "{flavor}");
    }
}

/// What `docs/leases.md` says that a key takes, on the servers in the order of
/// [`Flavor::chosen()`].
#[test]
fn leases_take_no_more_memory_than_is_documented() {
    let terms = lease::Terms::new("uploads", 1_000, Duration::from_secs(TTL)).unwrap();
    for (flavor, documented) in Flavor::chosen().into_iter().zip(BYTES) {
        // Of its own, for names of just that length.
        let server = Server::start(flavor);
        let store = store_on(&server);
        let mut held = 0;
        for (most, documented) in documented {
            for id in held..most {
                let id = format!("request-{id}");
                let operation = lease::Operation::Acquire {
                    id: id.as_bytes(),
                    weight: 1,
                };
                let request = lease::Request::new(&terms, "alice", operation);
                assert!(granted(now(store.lease(&request)).unwrap()).1);
            }
            held = most;
            let key = store.engine().keys(store.options()).remove(0);
            let words: [&[u8]; 5] = [b"MEMORY", b"USAGE", &key, b"SAMPLES", b"0"];
            let taken = store.engine().command(&words).integer().unwrap();
            // Allocators round differently.
            let bound = documented + documented / 10;
            assert!(taken <= bound, "{most} leases take {taken} on {flavor}");
        }
    }
}

/// How many leases take how many bytes.
const BYTES: [[(u64, i64); 4]; 3] = [
    [(1, 152), (10, 472), (100, 3_672), (1_000, 41_048)],
    [(1, 152), (10, 456), (100, 3_512), (1_000, 34_120)],
    [(1, 120), (10, 448), (100, 3_520), (1_000, 34_112)],
];

#[test]
fn errors_and_debug_output_show_no_id() {
    let store = WireStore::new(Echoing, Options::new());
    let terms = terms();
    let (id, token) = (b"secret-id", 7);
    for operation in [
        acquire("secret-id", 1),
        lease::Operation::Renew { id, token },
        lease::Operation::Release { id, token },
    ] {
        let request = lease::Request::new(&terms, "k", operation);
        let error = now(store.lease(&request)).unwrap_err();
        let bytes = format!("{id:?}");
        for shown in [
            error.to_string(),
            format!("{error:?}"),
            format!("{request:?}"),
            format!("{:?}", std::error::Error::source(&error)),
        ] {
            assert!(!shown.contains("secret-id"), "{shown}");
            assert!(!shown.contains(&bytes), "{shown}");
        }
    }
    let ttl = Duration::from_secs(TTL);
    let places = ConcurrencyLimiter::new(&store, "places", AMOUNT, ttl).unwrap();
    let call = format!("{:?}", places.acquire("k", "secret-id"));
    assert!(call.contains("9 bytes"), "{call}");
}

/// As many leases as there can be, with the longest ids and other weights, end at once.
#[test]
fn the_most_leases_are_held_and_dropped_in_one_call() {
    let terms = lease::Terms::new("places", 1_000, Duration::from_secs(TTL)).unwrap();
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let ask = |id: &str, weight: u64, later: u64| {
            let operation = lease::Operation::Acquire {
                id: id.as_bytes(),
                weight,
            };
            let request = lease::Request::new(&terms, "k", operation);
            now(store.lease(&request.at(stamp(NOW + later * SECOND)))).unwrap()
        };
        for id in 0..500 {
            assert!(granted(ask(&format!("{id:0>200}"), 1, 0)).1, "{flavor}");
        }
        assert!(granted(ask("heavy", 500, 0)).1);
        let lease::Answer::Acquired(Acquisition::Denied(denied)) = ask("late", 2, 1) else {
            panic!("granted");
        };
        assert_eq!(denied.held(), 1_000);
        assert_eq!(denied.ends_within().as_micros(), Some((TTL - 1) * SECOND));
        assert!(granted(ask("last", 1, TTL)).1);
        let keys = store.engine().keys(store.options());
        // One lease.
        let bytes = store.engine().command(&[b"STRLEN", &keys[0]]);
        assert_eq!(bytes, Reply::Integer(58), "{flavor}");
    }
}

/// Leases are found and cleared: by prefix, by name, and those that were acquired while a clock was
/// ahead.
#[test]
fn operators_find_and_clear_leases() {
    for flavor in Flavor::chosen() {
        // A server of this test's own: the doctor looks at a sample of all keys on it.
        let server = Server::start(flavor);
        let store = store_on(&server);
        let real = Timestamp::try_from(SystemTime::now()).unwrap();
        let hold = |name: &str, key: &str, ahead: u64| {
            let terms = lease::Terms::new(name, 2, Duration::from_secs(3_600)).unwrap();
            let at = real.saturating_add(Duration::from_secs(ahead));
            let request = lease::Request::new(&terms, key, acquire("a", 1)).at(at);
            assert!(granted(now(store.lease(&request)).unwrap()).1);
        };
        let limit = crate::engine::limit("gcra:3/1h");
        let clear = |what: Clear| {
            let cleared = now(store.clear(&what, &mut |_| ())).unwrap();
            assert_eq!(cleared.skipped, 0);
            (cleared.found, cleared.cleared)
        };
        let ahead = || {
            let diagnosis = now(store.diagnose());
            let mut findings = diagnosis.findings().iter();
            let finding = findings.find(|finding| finding.check == "states ahead");
            let finding = finding.unwrap();
            (finding.severity, finding.found.clone())
        };
        let fill = || {
            hold("places", "a", 0);
            hold("places", "b", 3_600);
            hold("other", "a", 0);
            drop(crate::engine::consume(&store, &limit, "k", 1).unwrap());
        };
        fill();
        let (severity, found) = ahead();
        assert_eq!(severity, Severity::Serious, "{found}");
        assert!(found.starts_with("1 of 4 states"), "{found}");
        let second = Duration::from_secs(1);
        assert_eq!(clear(Clear::new().dry_run()), (4, 0));
        assert_eq!(clear(Clear::new().ahead_by(second)), (1, 1), "{flavor}");
        assert_eq!(ahead().1, "none of 3 states");
        assert_eq!(clear(Clear::new().with_limit("places")), (1, 1));
        assert_eq!(clear(Clear::new()), (2, 2));
        fill();
        assert_eq!(clear(Clear::new()), (4, 4));
        assert_eq!(store.engine().keys(store.options()).len(), 0);
    }
}

/// The doctor says that a user may not acquire leases, and leaves nothing.
#[test]
fn doctor_tries_a_lease() {
    for (denied, severity) in [(None, Severity::Ok), (Some("-getex"), Severity::Note)] {
        let commands: Vec<_> = std::iter::once("+@all").chain(denied).collect();
        let users = users(|| Raw::to(Flavor::System), &commands);
        let diagnosis = now(users.user.diagnose());
        let mut findings = diagnosis.findings().iter();
        let finding = findings.find(|finding| finding.check == "leases").unwrap();
        assert_eq!(finding.severity, severity, "{finding:?}");
        if denied.is_some() {
            assert!(finding.advice.contains("grant"), "{finding:?}");
        }
        let raw = users.all.engine();
        for key in raw.keys(users.all.options()) {
            assert!(raw.pttl(&key) > 0);
        }
    }
}

/// A lease begins and ends by the server's clock, to the microsecond.
#[test]
fn leases_count_from_the_servers_time() {
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let terms = terms();
        let before = crate::lifetime::server_time(store.engine());
        let request = lease::Request::new(&terms, "k", acquire("a", 1));
        let (lease, _) = granted(now(store.lease(&request)).unwrap());
        let after = crate::lifetime::server_time(store.engine());
        assert!((before..=after).contains(&lease.token()), "{flavor}");
    }
}

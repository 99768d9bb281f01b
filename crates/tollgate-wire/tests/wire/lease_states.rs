//! States of leases as servers hold them, pinned: how long they live, and how much memory they take.

use std::time::Duration;

use tollgate_core::lease::{self, Acquisition, Lease};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Canned, Raw, START as NOW, doubles, fresh, now, stamp, store, store_on};
use crate::families::leases::{AMOUNT, TTL, acquire, decide, id_bytes, state, terms};
use crate::families::{SECOND, SLACK};

fn granted(answer: lease::Answer) -> (Lease, bool) {
    match answer {
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new }) => (lease, is_new),
        other => panic!("{other:?}"),
    }
}

/// Returns the milliseconds that the script of an operation sets as the life of a key that holds
/// `state`, exactly: a server tells them only in relation to its clock.
fn life(raw: &Raw, operation: lease::Operation<'_>, state: &[u8]) -> Option<i64> {
    let canned = WireStore::new(Canned::default(), Options::new());
    decide(&canned, operation, 0).unwrap_err();
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

/// What a release of this library writes, the next one reads.
#[test]
fn states_and_ids_are_what_they_were() {
    // The first half of its SHA-256.
    let digest = "ca978112ca1bbdcafac231b39a23dc4d";
    let id = id_bytes(b"a");
    assert_eq!(id.map(|byte| format!("{byte:02x}")).concat(), digest);
    let canned = WireStore::new(Canned::default(), Options::new());
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
            assert!(granted(decide(&store, acquire(id, weight), later).unwrap()).1);
        }
        let [a, b] = [(b"a", 0, 2), (b"b", 3, 1)].map(|(id, later, weight)| {
            let token = NOW + later * SECOND;
            (id_bytes(id), token + TTL * SECOND, token, weight)
        });
        let token = NOW + 3 * SECOND;
        let held = state(token, token, &[a, b]);
        let key = store.engine().keys(store.options()).remove(0);
        let found = store.engine().command(&[b"GET", &key]);
        assert_eq!(found, Reply::Bulk(held), "{flavor}");
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
    let low = |number: u64, byte: u8| -> u64 {
        let mut word = doubles(&[number]);
        word[0] = byte;
        let number = f64::from_le_bytes(word.try_into().unwrap());
        number.to_string().parse().expect("a whole number")
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
        assert!(!granted(decide(&store, acquire, 1).unwrap()).1, "{flavor}");
        let lease::Answer::Renewed(Some(renewed)) = decide(&store, renew, 1).unwrap() else {
            panic!("not found on {flavor}");
        };
        assert_eq!(renewed.expires_at(), stamp(NOW + (1 + TTL) * SECOND));
        let released = decide(&store, release, 1).unwrap();
        assert_eq!(released, lease::Answer::Released(true));
        set(state(NOW, token, &[other]));
        assert_eq!(
            decide(&store, renew, 1).unwrap(),
            lease::Answer::Renewed(None)
        );
        let released = decide(&store, release, 1).unwrap();
        assert_eq!(released, lease::Answer::Released(false));
        let (lease, is_new) = granted(decide(&store, acquire, 1).unwrap());
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
            let taken = store.engine().usage(&key);
            // Allocators round differently.
            let bound = documented + documented / 10;
            assert!(taken <= bound, "{most} leases take {taken} on {flavor}");
        }
    }
}

/// How many leases take how many bytes.
const BYTES: [[(u64, u64); 4]; 3] = [
    [(1, 152), (10, 472), (100, 3_672), (1_000, 41_048)],
    [(1, 152), (10, 456), (100, 3_512), (1_000, 34_120)],
    [(1, 120), (10, 448), (100, 3_520), (1_000, 34_112)],
];

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

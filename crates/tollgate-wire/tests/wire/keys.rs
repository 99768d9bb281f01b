//! The text of keys: what is written, that no two meet, and that nobody but the library says which
//! slot they are in.

use proptest::prelude::*;
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Key, Limit, Timestamp};
use tollgate_wire::{Options, TimeSource, WireStore};

use crate::engine::{Canned, config, limit, now};

/// Returns the key that a store with `options` asks about.
fn key_of(options: Options, limit: &Limit, key: Key<'_>) -> Vec<u8> {
    let store = WireStore::new(Canned::default(), options);
    now(store.execute(&Request::peek(Check::new(limit, key, 1)))).unwrap_err();
    store.engine().asked().keys.remove(0)
}

fn text(options: Options, written: &str, key: Key<'_>) -> String {
    String::from_utf8(key_of(options, &limit(written), key)).unwrap()
}

/// Returns what the server hashes to find the slot, as its specification says.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|&b| b == b'}') {
        None | Some(0) => key,
        Some(length) => &key[open + 1..][..length],
    }
}

#[test]
fn keys_have_not_changed() {
    let alice = Key::from("alice");
    for (written, key, expected) in [
        ("gcra:5/1s", alice, "tollgate:l:gcra:v1:{alice}"),
        (
            "fixed-window:5/1s",
            alice.with_rest("/login"),
            "tollgate:l:fixed-window-aligned-1000000:v1:{alice}:/login",
        ),
        (
            "fixed-window:5/1m,anchored",
            Key::from("a:b"),
            "tollgate:l:fixed-window-anchored-60000000:v1:{a%3ab}",
        ),
        (
            "sliding-log:5/1s",
            Key::from("{x}\0 %#\x7f"),
            "tollgate:l:sliding-log:v1:{%7bx%7d%00%20%25%23%7f}",
        ),
        (
            "gcra:5/1s",
            Key::from((std::net::Ipv6Addr::LOCALHOST, "/login")),
            "tollgate:l:gcra:v1:{%3a%3a1}:/login",
        ),
        ("gcra:5/1s", Key::from(-7), "tollgate:l:gcra:v1:{-7}"),
        (
            "sliding-counter:5/1s",
            Key::from("größe"),
            "tollgate:l:sliding-counter-1000000:v1:{größe}",
        ),
        (
            "sliding-buckets:5/1s,buckets=4",
            Key::from("").with_rest("r"),
            "tollgate:l:sliding-buckets-1000000-4:v1:{%}:r",
        ),
        (
            "fixed-window:5/month@Asia/Tokyo,day=31,at=04:00",
            alice,
            "tollgate:l:calendar-window-month-Asia/Tokyo,day=31,at=04.00:v1:{alice}",
        ),
    ] {
        assert_eq!(text(Options::new(), written, key), expected);
    }
}

#[test]
fn a_callers_clock_has_keys_of_its_own() {
    let store = WireStore::new(Canned::default(), Options::new());
    let limit = limit("gcra:5/1s");
    let check = Check::new(&limit, "alice", 1);
    let request = Request::peek(check).at(Timestamp::UNIX_EPOCH);
    now(store.execute(&request)).unwrap_err();
    let caller = b"tollgate:l:gcra:v1-caller:{alice}".to_vec();
    assert_eq!(store.engine().asked().keys, std::slice::from_ref(&caller));

    let own = Options::new().with_time_source(TimeSource::Caller);
    assert_eq!(key_of(own, &limit, Key::from("alice")), caller);

    now(store.reset(&[check])).unwrap();
    let server = b"tollgate:l:gcra:v1:{alice}".to_vec();
    assert_eq!(store.engine().asked().forgotten, [server, caller]);
}

#[test]
fn parts_are_hashed_on_request() {
    let (secret, long) = ([7; 16], "x".repeat(65));
    let key = Key::from("alice").with_rest(&long);
    let all = text(Options::new().with_hashed_keys(secret), "gcra:5/1s", key);
    assert_eq!(
        all,
        "tollgate:l:gcra:v1:{#3e979ab9e62a09276973b5ca1532759a}:#01bab640557054bd33abd4f74d034b50"
    );
    let said = "gcra:5/1s";
    let some = text(Options::new().with_hashed_long_keys(secret), said, key);
    let expected = all.replace("#3e979ab9e62a09276973b5ca1532759a", "alice");
    assert_eq!(some, expected);
    for both in [
        Options::new()
            .with_hashed_keys(secret)
            .with_hashed_long_keys([8; 16]),
        Options::new()
            .with_hashed_long_keys([8; 16])
            .with_hashed_keys(secret),
    ] {
        assert_eq!(text(both, "gcra:5/1s", key), all);
    }
    let other = text(Options::new().with_hashed_keys([8; 16]), "gcra:5/1s", key);
    assert_ne!(all, other);
    let short = "x".repeat(64);
    let some = Options::new().with_hashed_long_keys(secret);
    let found = text(some.clone(), "gcra:5/1s", Key::from(&short));
    assert_eq!(found, format!("tollgate:l:gcra:v1:{{{short}}}"));
    for (options, only_long) in [
        (some, true),
        (Options::new().with_hashed_keys(secret), false),
    ] {
        let shown = format!("{options:?}");
        let said = format!("only_long: {only_long}");
        assert!(shown.contains(&said), "{shown}");
        assert!(!shown.contains('7'), "{shown}");
    }
}

#[test]
fn parts_of_more_than_200_bytes_are_hashed() {
    let (most, long) = ("x".repeat(200), "x".repeat(201));
    let key = Key::from(&most).with_rest(&long);
    let hashed = "##84a0678c90937f5dcf9994d5866668da6b995109c8ad845410559b48a4ecafed";
    let expected = format!("tollgate:l:gcra:v1:{{{most}}}:{hashed}");
    assert_eq!(text(Options::new(), "gcra:5/1s", key), expected);
    // A key that is written as the hash of another, and the keyed hash of the other, differ from it.
    let imitation = text(Options::new(), "gcra:5/1s", Key::from("").with_rest(hashed));
    let holds = imitation.ends_with(&hashed.replace('#', "%23"));
    assert!(holds, "{imitation}");
    let keyed = Options::new().with_hashed_long_keys([7; 16]);
    let keyed = text(keyed, "gcra:5/1s", Key::from("").with_rest(&long));
    assert_eq!(keyed.len(), "tollgate:l:gcra:v1:{%}:#".len() + 32);
}

#[test]
fn no_key_is_longer_than_1500_bytes() {
    // The longest of everything that is in a key: prefix, name, shape and parts.
    let prefix = "p".repeat(64);
    let name = "n".repeat(64);
    let algorithms = [
        "sliding-buckets:1000000/100000d,buckets=60",
        "fixed-window:1000000/100000d,anchored",
    ];
    for written in algorithms {
        let algorithm: tollgate_core::Algorithm = written.parse().unwrap();
        let limit = Limit::new(&name, algorithm).unwrap();
        for part in [vec![0; 200], vec![b'{'; 201], vec![b'x'; 1 << 14]] {
            for options in [
                Options::new(),
                Options::new().with_hashed_keys([1; 16]),
                Options::new().with_hashed_long_keys([1; 16]),
            ] {
                let options = options.with_prefix(&prefix).unwrap();
                let options = options.with_time_source(TimeSource::Caller);
                let key = key_of(options, &limit, Key::new(&part).with_rest(&part));
                assert!(key.len() <= 1_500, "{}", key.len());
            }
        }
    }
}

#[test]
fn a_prefix_cannot_choose_the_slot() {
    for bad in ["", "a{b}", "a b", "*", &"x".repeat(65)] {
        let error = Options::new().with_prefix(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{bad:?}");
    }
    assert_eq!(
        Options::new().with_prefix("shop:eu").unwrap().prefix(),
        "shop:eu"
    );
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop_oneof![
        Just(b'{'),
        Just(b'}'),
        Just(b':'),
        Just(b'%'),
        Just(b'#'),
        Just(0),
        Just(b'a'),
        any::<u8>()
    ];
    prop_oneof![
        20 => prop::collection::vec(telling.clone(), 0..6),
        5 => prop::collection::vec(telling, 199..202),
        1 => prop::collection::vec(any::<u8>(), 10_000),
    ]
}

/// A part that is easily taken for `part`: it, its end or its middle changed, or what is written of
/// it.
fn like(part: &[u8], written: &[u8], how: usize) -> Vec<u8> {
    let mut other = part.to_vec();
    let middle = other.len() / 2;
    match how {
        1 => drop(other.pop()),
        2 => other.push(b'a'),
        3 => other
            .iter_mut()
            .skip(middle)
            .take(1)
            .for_each(|byte| *byte ^= 1),
        4 => return hash_tag(written).to_vec(),
        _ => {}
    }
    other
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn similar_keys_never_collide(
        parts in (part(), part()),
        how in (0..5_usize, 0..5_usize),
        are_swapped in any::<bool>(),
        hashed in any::<bool>(),
    ) {
        let limit = limit("gcra:5/1s");
        let options = || match hashed {
            true => Options::new().with_hashed_long_keys([1; 16]),
            false => Options::new(),
        };
        let text = |(partition, rest): &(Vec<u8>, Vec<u8>)| {
            key_of(options(), &limit, Key::new(partition).with_rest(rest))
        };
        let written = text(&parts);
        let mut other = (like(&parts.0, &written, how.0), like(&parts.1, &written, how.1));
        if are_swapped {
            other = (other.1, other.0);
        }
        prop_assert_eq!(written == text(&other), parts == other);
    }

    #[test]
    fn the_partition_determines_the_slot(a in (part(), part(), part()), other in part()) {
        let (partition, one, two) = a;
        let limits = [limit("gcra:5/1s"), limit("fixed-window:5/1s")];
        let key = |limit, partition, rest| {
            key_of(Options::new(), limit, Key::new(partition).with_rest(rest))
        };
        let (one, two) = (key(&limits[0], &partition, &one), key(&limits[1], &partition, &two));
        prop_assert_eq!(hash_tag(&one), hash_tag(&two));
        let other_tag = key(&limits[0], &other, &Vec::new());
        prop_assert_eq!(hash_tag(&other_tag) == hash_tag(&one), other == partition);
    }
}

//! `other_states` on servers that answer anything.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::{ErrorKind, Key, Limit, StoreError};
use tollgate_wire::{Node, Options, Reply, TimeSource, WireStore};

use crate::admin::Fake;
use crate::engine::now;

/// Returns the states that `store` names for alice, and the limit `login=gcra:5/1m`.
fn named(store: &WireStore<Fake>) -> Result<Vec<(String, TimeSource)>, StoreError> {
    let limits = ["login=gcra:5/1m".parse::<Limit>().unwrap()];
    let others = now(store.other_states(&limits, Key::new("alice")))?;
    let named = others.iter().map(|other| (other.to_string(), other.clock));
    Ok(named.collect())
}

/// Returns the keys that `store` has asked for.
fn asked(store: &WireStore<Fake>) -> Vec<String> {
    let sent = store.engine().sent("EXISTS");
    sent.into_iter()
        .map(|(_, mut words)| words.remove(1))
        .collect()
}

#[test]
fn every_other_key_is_asked_for_once_and_nothing_else_is_sent() {
    let store = Fake::store(|words| Reply::Integer((words[0] == "EXISTS").into()));
    let found = named(&store).unwrap();
    let asked = asked(&store);
    assert_eq!(found.len(), asked.len());
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len());
    assert!(
        asked.iter().all(|key| key.ends_with(":{alice}")),
        "{asked:?}"
    );
    // The state of the limit itself is no other one.
    assert!(!asked.contains(&"tollgate:login:gcra:v1:{alice}".to_owned()));
    for (key, state) in [
        (
            "tollgate:login:gcra:v1-caller:{alice}",
            ("login=gcra:N/WINDOW", TimeSource::Caller),
        ),
        (
            "tollgate:login:sliding-counter-60000000:v1:{alice}",
            ("login=sliding-counter:N/1m", TimeSource::Server),
        ),
        (
            "tollgate:login:leases:v1:{alice}",
            ("the leases called login", TimeSource::Server),
        ),
    ] {
        let index = asked.iter().position(|asked| asked == key);
        let (shown, clock) = &found[index.unwrap()];
        assert_eq!((shown.as_str(), *clock), state);
    }
    for name in ["SCAN", "GET", "TYPE", "EVALSHA", "SET"] {
        assert!(store.engine().sent(name).is_empty(), "{name}");
    }
}

#[test]
fn a_state_of_the_clock_in_use_is_not_another_one() {
    let options = Options::new().with_time_source(TimeSource::Caller);
    let store = Fake::with(options, false, |_| Reply::Integer(0));
    assert_eq!(named(&store).unwrap(), []);
    let asked = asked(&store);
    assert!(asked.contains(&"tollgate:login:gcra:v1:{alice}".to_owned()));
    assert!(!asked.contains(&"tollgate:login:gcra:v1-caller:{alice}".to_owned()));
}

#[test]
fn a_cluster_is_asked_at_the_node_of_the_key() {
    let store = Fake::with(Options::new(), true, |_| Reply::Integer(0));
    assert_eq!(named(&store).unwrap(), []);
    let slot = tollgate_testkit::Cluster::slot_of("alice");
    for (node, words) in store.engine().sent("EXISTS") {
        assert_eq!(node, Node::Serving(slot), "{words:?}");
    }
}

#[test]
fn replies_that_are_not_numbers_are_errors() {
    let denied = "NOPERM this user has no permissions to run the 'exists' command";
    for (reply, kind) in [
        (Reply::Error(denied.to_owned()), ErrorKind::Misconfigured),
        (Reply::Nil, ErrorKind::Protocol),
        (Reply::Integer(-1), ErrorKind::Protocol),
        (Reply::List(vec![]), ErrorKind::Protocol),
    ] {
        let store = Fake::store(move |_| reply.clone());
        assert_eq!(named(&store).unwrap_err().kind(), kind);
    }
    let store = Fake::store(|_| Reply::Integer(0));
    store.engine().missing.store(1, Relaxed);
    assert_eq!(named(&store).unwrap_err().kind(), ErrorKind::Protocol);
    let store = Fake::store(|_| Reply::Integer(0));
    store.engine().failures.store(1, Relaxed);
    assert_eq!(named(&store).unwrap_err().kind(), ErrorKind::Unavailable);
}

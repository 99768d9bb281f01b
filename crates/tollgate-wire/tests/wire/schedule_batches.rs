//! Batches of events on servers: they are read once, and decided like one event after another.

use tollgate_core::schedule::{self, Event};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::WireStore;

use crate::engine::{Raw, START, calls, now, stamp, store_on};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// Decides `events` in one call and one after another, and compares the answers.
fn plan(
    store: &WireStore<Raw>,
    state: &mut schedule::State,
    terms: &schedule::Terms,
    clock: u64,
    events: &[(String, u64, u64)],
) -> schedule::Answer {
    let events = events.iter();
    let events = events.map(|(id, time, weight)| Event::new(id, stamp(*time)).with_weight(*weight));
    let at = stamp(clock);
    let mut request =
        schedule::Request::new(terms, "k", schedule::Operation::Add(events.collect()));
    request = request.with_latest().at(at);
    loop {
        let expected = request.decide_on(state, at);
        let answer = now(store.schedule(&request)).unwrap();
        assert_eq!(answer, expected, "{request:?}");
        match answer {
            schedule::Answer::Uncovered(at) => request.widen(at),
            answer => return answer,
        }
    }
}

/// Returns how many commands a server has run that read chunks.
fn reads(server: &Server) -> u64 {
    let commands = ["hget", "hmget"];
    commands.iter().map(|command| calls(server, command)).sum()
}

/// A thousand events within two hours, and a hundred among them in one call: their windows are read
/// from the set once, and not for each event.
#[test]
fn batch_reads_its_neighbours_once() {
    let terms = schedule::Terms::new("plans", ["1000/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let (store, mut state) = (store_on(&server), schedule::State::default());
        let events = |first: u64| -> Vec<_> {
            let numbers = (0..100).map(|event| first + event);
            let time = |number| START + number * 2 * HOUR / 1_100;
            numbers
                .map(|number| (format!("event-{number}"), time(number), 1))
                .collect()
        };
        for batch in 0..10 {
            let answer = plan(&store, &mut state, &terms, START, &events(100 * batch));
            assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        }
        let before = reads(&server);
        let answer = plan(&store, &mut state, &terms, START, &events(1_000));
        assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        let reads = reads(&server) - before;
        // One for the id of each event, one for each 64 events, and a few.
        assert!(reads < 100 + 1_100 / 64 + 20, "{reads} reads on {flavor}");
    }
}

/// A long list is read in parts, each up to the last event of one time.
#[test]
fn long_lists_are_read_in_parts_and_whole() {
    let terms = schedule::Terms::new("plans", ["1000/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let (store, mut state) = (store_on(&server), schedule::State::default());
        // 450 that are seconds apart, 550 at once, and 700 seconds apart more than an hour later.
        let time = |event: u64| match event {
            0..450 => event,
            450..1_000 => 450,
            _ => 4_100 + event,
        };
        let events: Vec<_> = (0..1_700)
            .map(|event| (format!("{event}"), START + time(event) * SECOND, 1))
            .collect();
        for batch in events.chunks(100) {
            let answer = plan(&store, &mut state, &terms, START, batch);
            assert_eq!(answer, schedule::Answer::Added(batch.len()), "{flavor}");
        }
        // The first part of all ends with the 550 events of one time.
        for (from, until, parts) in [(0, 7_200, 3), (0, 450, 1), (450, 451, 1), (451, 7_200, 2)] {
            let list = schedule::Operation::List {
                from: stamp(START + from * SECOND),
                until: stamp(START + until * SECOND),
            };
            let request = schedule::Request::new(&terms, "k", list).at(stamp(START));
            let before = calls(&server, "evalsha");
            let answer = now(store.schedule(&request)).unwrap();
            let expected = request.decide_on(&mut state, stamp(START));
            assert_eq!(answer, expected, "{flavor}");
            assert_eq!(calls(&server, "evalsha") - before, parts, "from {from}");
        }
    }
}

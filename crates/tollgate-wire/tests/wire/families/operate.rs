//! What operators do with schedules and leases on real servers, and what is the same for both
//! families without one.

use std::slice;
use std::time::{Duration, SystemTime};

use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::schedule::{self, Event, Reason, Schedule};
use tollgate_core::{ErrorKind, Key, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::inside::Reply as AdminReply;
use tollgate_wire::inside::{Command, Node, Nodes};
use tollgate_wire::operate::{Clear, Severity};
use tollgate_wire::{Failure, Options, WireStore};

use super::{Store, leases, schedules, store_on, users};
use crate::engine::{Canned, Outcome, Raw, now, shown, store};
use crate::lifetime::server_time;

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

/// Returns what the doctor finds.
fn finding(store: &Store, check: &str) -> (Severity, String, String) {
    let diagnosis = now(store.diagnose());
    let findings = diagnosis.findings().iter();
    let mut findings = findings.filter(|finding| finding.check == check);
    let finding = findings.next().unwrap();
    assert!(findings.next().is_none());
    let (found, advice) = (finding.found.clone(), finding.advice.clone());
    (finding.severity, found, advice)
}

/// Events and leases are found and cleared: by prefix, by name, and those that were planned or
/// acquired while a clock was ahead.
#[test]
fn operators_find_and_clear_events_and_leases() {
    for flavor in Flavor::chosen() {
        // A server of this test's own: the doctor looks at a sample of all keys on it.
        let server = Server::start(flavor);
        let store = store_on(&server, Options::new());
        let real = Timestamp::try_from(SystemTime::now()).unwrap();
        let fill = || {
            for (name, key, ahead) in [("one", "a", 0), ("one", "b", 3_600), ("other", "a", 0)] {
                let at = real.saturating_add(Duration::from_secs(ahead));
                let terms = schedule::Terms::new(name, ["2/10s"]).unwrap();
                let event = schedule::Operation::Add(vec![Event::new("a", at)]);
                let request = schedule::Request::new(&terms, key, event).at(at);
                let planned = now(store.schedule(&request)).unwrap();
                assert_eq!(planned, schedule::Answer::Added(1));
                let terms = lease::Terms::new(name, 2, Duration::from_secs(3_600)).unwrap();
                let request = lease::Request::new(&terms, key, leases::acquire("a", 1)).at(at);
                let lease::Answer::Acquired(acquired) = now(store.lease(&request)).unwrap() else {
                    panic!("not acquired");
                };
                assert!(acquired.is_granted());
            }
            let limit = crate::engine::limit("gcra:3/1h");
            drop(crate::engine::consume(&store, &limit, "k", 1).unwrap());
        };
        let clear = |what: Clear| {
            let cleared = now(store.clear(&what, &mut |_| ())).unwrap();
            assert_eq!(cleared.skipped, 0);
            (cleared.found, cleared.cleared)
        };
        fill();
        let (severity, ahead, _) = finding(&store, "states ahead");
        assert_eq!(severity, Severity::Serious, "{ahead}");
        assert!(ahead.starts_with("2 of 7 states"), "{ahead}");
        let second = Duration::from_secs(1);
        assert_eq!(clear(Clear::new().dry_run()), (7, 0));
        assert_eq!(clear(Clear::new().ahead_by(second)), (2, 2), "{flavor}");
        assert_eq!(finding(&store, "states ahead").1, "none of 5 states");
        assert_eq!(clear(Clear::new().with_limit("one")), (2, 2));
        assert_eq!(clear(Clear::new()), (3, 3));
        fill();
        assert_eq!(clear(Clear::new()), (7, 7));
        assert!(store.engine().keys(store.options()).is_empty());
    }
}

/// The doctor says which commands of schedules and leases a user may not run, and leaves nothing.
#[test]
fn doctor_names_commands_that_schedules_and_leases_lack() {
    let cannot = |names| format!("cannot run {names}: schedules of more than 256 events");
    let several = cannot("`hdel`, `hget`, `pexpire`");
    for (check, denied, expected) in [
        ("schedules", &[][..], "an event was planned"),
        ("schedules", &["-hset"], &cannot("`hset`")),
        ("schedules", &["-hget", "-hdel", "-pexpire"], &several),
        ("schedules", &["-set"], "an event cannot be planned"),
        ("leases", &[], "a lease was acquired"),
        ("leases", &["-getex"], "leases cannot be acquired"),
    ] {
        let commands = [&["+@all"][..], denied].concat();
        let connect = || Raw::to(Flavor::System);
        let users = users(Options::new(), connect, &commands);
        let (severity, found, advice) = finding(&users.user, check);
        assert!(found.starts_with(expected), "{found}");
        if denied.is_empty() {
            assert_eq!(severity, Severity::Ok, "{found}");
        } else {
            assert_eq!(severity, Severity::Note, "{found}");
            assert!(advice.contains("grant"), "{advice}");
        }
        let raw = users.all.engine();
        for key in raw.keys(users.all.options()) {
            assert!(raw.pttl(&key) > 0);
        }
    }
}

/// Leases and the horizon of schedules begin at the server's time, to the microsecond.
#[test]
fn schedules_and_leases_count_from_the_servers_time() {
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let before = server_time(store.engine());
        let terms = leases::terms();
        let request = lease::Request::new(&terms, "k", leases::acquire("a", 1));
        let answer = now(store.lease(&request)).unwrap();
        let lease::Answer::Acquired(acquired) = answer else {
            panic!("{answer:?}");
        };
        let token = acquired.permit().unwrap().token();
        let terms = schedules::terms();
        let far = schedule::Operation::Add(vec![Event::new("a", Timestamp::MAX)]);
        let answer = now(store.schedule(&schedule::Request::new(&terms, "k", far))).unwrap();
        let after = server_time(store.engine());
        let schedule::Answer::Refused { refusal, .. } = answer else {
            panic!("{answer:?}");
        };
        let Reason::BeyondHorizon(latest) = refusal.reason() else {
            panic!("{refusal:?}");
        };
        let horizon = u64::try_from(terms.horizon().as_micros()).unwrap();
        for at in [token, latest.as_micros() - horizon] {
            assert!((before..=after).contains(&at), "{flavor}: {at}");
        }
    }
}

/// What is the same for all keys is tested with those of limits.
#[test]
fn keys_of_schedules_and_leases_have_not_changed() {
    let store = WireStore::new(Canned::default(), Options::new());
    let (schedules, leases) = (schedules::terms(), leases::terms());
    let key = Key::from("alice").with_rest("/mail");
    let at = Timestamp::from_micros(super::NOW).unwrap();
    let cancel = schedule::Request::new(&schedules, key, schedule::Operation::Cancel(b"a"));
    let peek = lease::Request::new(&leases, key, lease::Operation::Peek);
    let kinds = ["plans:schedule", "places:leases"];
    let [planned, acquired] = kinds.map(|kind| {
        ["", "-caller"]
            .map(|clock| format!("tollgate:{kind}:v1{clock}:{{alice}}:/mail").into_bytes())
    });
    for (request, expected) in [(cancel.clone(), &planned[0]), (cancel.at(at), &planned[1])] {
        now(store.schedule(&request)).unwrap_err();
        assert_eq!(store.engine().asked().keys, slice::from_ref(expected));
    }
    for (request, expected) in [(peek, &acquired[0]), (peek.at(at), &acquired[1])] {
        now(store.lease(&request)).unwrap_err();
        assert_eq!(store.engine().asked().keys, slice::from_ref(expected));
    }
    now(store.reset_leases(&leases, key)).unwrap();
    assert_eq!(store.engine().asked().forgotten, acquired);
    let other = WireStore::new(Canned::default(), Options::new());
    now(other.reset_schedule(&schedules, key)).unwrap();
    assert_eq!(other.engine().asked().forgotten, planned);
}

/// A server that repeats what it was sent in its error does not make that show an id.
#[test]
fn errors_and_debug_output_show_no_id() {
    let echoing = Canned {
        others: Outcome::Echo,
        ..Canned::default()
    };
    let store = WireStore::new(echoing, Options::new());
    let event = Event::new("secret-id", Timestamp::MAX);
    let (id, token) = (b"secret-id", 7);
    let others = vec![Event::new("secret-one", Timestamp::MAX), event];
    let events = [
        schedule::Operation::Add(others),
        schedule::Operation::Reschedule(event),
        schedule::Operation::Cancel(id),
        schedule::Operation::ReserveNext(event),
    ];
    let places = [
        leases::acquire("secret-id", 1),
        lease::Operation::Renew { id, token },
        lease::Operation::Release { id, token },
        lease::Operation::Peek,
    ];
    let (schedules, leases) = (schedules::terms(), leases::terms());
    for (event, place) in events.into_iter().zip(places) {
        let event = schedule::Request::new(&schedules, "k", event);
        let lease = lease::Request::new(&leases, "k", place);
        let requests = format!("{event:?} {lease:?}");
        assert!(!requests.contains("secret"), "{requests}");
        for error in [
            now(store.schedule(&event)).unwrap_err(),
            now(store.lease(&lease)).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
            let shown = shown(&error);
            assert!(!shown.contains("secret"), "{shown}");
            assert!(!shown.contains(&format!("{id:?}")), "{shown}");
        }
    }
    let schedule = Schedule::with_terms(&store, schedules::terms());
    let call = format!("{:?}", schedule.cancel("k", "secret-id"));
    assert!(call.contains("id_bytes"), "{call}");
    let places = ConcurrencyLimiter::new(&store, "places", 3, Duration::from_secs(30)).unwrap();
    let call = format!("{:?}", places.acquire("k", "secret-id"));
    assert!(call.contains("9 bytes"), "{call}");
}

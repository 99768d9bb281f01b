//! What `diagnose` and `clear` say and send, number by number, on a server that no machine can be.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_wire::inside::{Node, Reply};
use tollgate_wire::operate::{Clear, Cleared, Severity};
use tollgate_wire::{Options, TimeSource, WireStore};

use crate::admin::{Fake, HERE, Refusals, bytes, error, found, keys, list, range, time};
use crate::engine::now;

const MS: Duration = Duration::from_millis(1);
const KEY: &str = "tollgate:a:gcra:v1:{k}";

/// Checks what the doctor finds.
#[track_caller]
fn finds(store: &WireStore<Fake>, check: &str, severity: Severity, shown: &str) {
    let diagnosis = now(store.diagnose());
    let finding = found(&diagnosis, check);
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(finding.found.contains(shown), "{shown}: {finding:?}");
}

fn clear(store: &WireStore<Fake>, what: &Clear) -> Result<Cleared, ErrorKind> {
    now(store.clear(what, &mut |_| ())).map_err(|error| error.kind())
}

/// Returns how many keys were found, cleared and passed over.
fn cleared(store: &WireStore<Fake>, what: &Clear) -> [u64; 3] {
    let cleared = clear(store, what).unwrap();
    [cleared.found, cleared.cleared, cleared.skipped]
}

#[test]
fn the_median_of_five_round_trips_is_judged() {
    let nano = Duration::from_nanos(1);
    for (median, severity, shown) in [
        (10 * MS - nano, Severity::Ok, "10.0ms"),
        (10 * MS, Severity::Note, "10.0ms, the median of 5"),
        (100 * MS - nano, Severity::Note, "100.0ms"),
        (100 * MS, Severity::Warning, "100.0ms"),
    ] {
        let store = Fake::saying([]);
        let times = [900 * MS, MS, 800 * MS, median, 2 * MS];
        *store.engine().delays.lock().unwrap() = times.into();
        finds(&store, "round trip", severity, shown);
    }
}

/// Clocks that are apart by more than a round trip are reported.
#[test]
fn a_clock_offset_within_the_round_trip_is_not_reported() {
    // How far the server's clock is ahead of this machine's before the round trip, how long that
    // takes, and what is said.
    for (off, took, severity, shown) in [
        (0, 0, Severity::Ok, "agree"),
        (1, 0, Severity::Ok, "agree"),
        (3, 3, Severity::Ok, "agree"),
        (4, 3, Severity::Ok, "agree"),
        (5, 3, Severity::Note, "2.0s ahead of"),
        (5, 10, Severity::Ok, "agree"),
        (-1, 3, Severity::Ok, "agree"),
        (-2, 3, Severity::Note, "2.0s behind"),
        (60, 0, Severity::Note, "60.0s ahead of"),
        (61, 0, Severity::Warning, "61.0s ahead of"),
        (-61, 3, Severity::Warning, "61.0s behind"),
        (7_200, 0, Severity::Warning, "2 hours ahead of"),
        (-7_200, 0, Severity::Warning, "2 hours behind"),
    ] {
        let store = Fake::saying([("TIME", time(off))]);
        let pings = [Duration::ZERO; 5];
        let times = pings.into_iter().chain([Duration::from_secs(took)]);
        *store.engine().delays.lock().unwrap() = times.collect();
        finds(&store, "clock", severity, shown);
    }
    // Every second that two callers are apart is missing from a window.
    let options = Options::new().with_time_source(TimeSource::Caller);
    let store = Fake::with(options, false, |words| match words[0].as_str() {
        "TIME" => time(5),
        _ => Reply::Nil,
    });
    finds(&store, "clock", Severity::Warning, "ahead of");
    for [seconds, micros] in [
        ["288230376151711744", "0"],
        ["18446744073709", "18446744073709551615"],
        ["-1", "0"],
        ["1", "x"],
    ] {
        let store = Fake::saying([("TIME", list(&[seconds, micros]))]);
        finds(&store, "clock", Severity::Unknown, "");
    }
}

/// Returns the state of a bucket that was last changed when its clock was `ahead` of the server's.
fn bucket(ahead: Duration) -> Reply {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds of this century are exact"
    )]
    let at = (HERE + ahead).as_micros() as f64;
    bytes([1., at, 1.].map(f64::to_le_bytes).concat())
}

/// Returns a store on a server that holds a bucket for each of `ahead`.
fn holding(ahead: Vec<Duration>) -> WireStore<Fake> {
    Fake::store(move |words| match words[0].as_str() {
        "SCAN" => {
            let key = |index: usize| bytes(format!("tollgate:a:gcra:v1:{{{index}}}"));
            let keys = (0..ahead.len()).map(key).collect();
            Reply::List(vec![bytes("0"), Reply::List(keys)])
        }
        "GET" => {
            let index = words[1].split(['{', '}']).nth(1).unwrap();
            index
                .parse::<usize>()
                .map_or(Reply::Nil, |index| bucket(ahead[index]))
        }
        "TIME" => time(0),
        "DBSIZE" => Reply::Integer(9),
        "UNLINK" => Reply::Integer(1),
        _ => Reply::Nil,
    })
}

#[test]
fn states_ahead_are_counted_and_the_furthest_is_named() {
    let secs = Duration::from_secs;
    let second = Duration::from_secs(1);
    let healthy = holding(vec![Duration::ZERO, second]);
    finds(&healthy, "states ahead", Severity::Ok, "none of 2 states");
    for (furthest, shown) in [
        (secs(119), "119.0s"),
        (secs(120), "2 minutes"),
        (secs(7_199), "119 minutes"),
        (secs(7_200), "2 hours"),
        (secs(172_799), "47 hours"),
        (secs(172_800), "2 days"),
        (secs(259_199), "2 days"),
    ] {
        let ahead = vec![secs(2), furthest, secs(3), second];
        let expected =
            format!("3 of 4 states lie ahead of the server's clock, the furthest by {shown}");
        let store = holding(ahead);
        finds(&store, "states ahead", Severity::Serious, &expected);
    }
}

#[test]
fn a_sample_ends_at_a_thousand_states_or_two_hundred_scans() {
    // So many keys a scan, without an end: the third scan passes a thousand, or the second reaches it;
    // or none of this prefix.
    for (count, scans) in [(400, 3), (500, 2), (0, 200)] {
        let key = |index: usize| bytes(format!("tollgate:a:gcra:v1:{{{index}}}"));
        let scanned = Reply::List((0..count).map(key).collect());
        let store = Fake::saying([
            ("SCAN", Reply::List(vec![bytes("1"), scanned])),
            ("GET", bucket(Duration::ZERO)),
            ("TIME", time(0)),
        ]);
        let shown = format!("none of {} states", count * scans);
        finds(&store, "states ahead", Severity::Ok, &shown);
        assert_eq!(store.engine().sent("SCAN").len(), scans);
    }
}

#[test]
fn only_states_of_services_are_sampled() {
    let ahead = "1 of 1 state lies ahead of the server's clock, the furthest by 9.0s: they deny \
                 until then";
    let unread = "none of 0 states, but 1 key could not be read";
    let gone = "no states, though the server has run for 24 hours";
    let current = bucket(Duration::ZERO);
    for (value, uptime, severity, shown) in [
        (current, 86_400, Severity::Ok, "none of 1 state"),
        (Reply::Nil, 86_399, Severity::Ok, "none of 0 states"),
        (Reply::Nil, 86_400, Severity::Note, gone),
        (bytes("x"), 86_400, Severity::Unknown, unread),
        (bucket(Duration::from_secs(9)), 0, Severity::Serious, ahead),
    ] {
        let names = [
            KEY,
            "tollgate:tollgate-doctor:gcra:v1:{k}",
            "tollgate:session:{k}",
            "session:k",
        ];
        let info = bytes(format!("uptime_in_seconds:{uptime}\r\n"));
        let said = [
            ("SCAN", keys(&names)),
            ("GET", value),
            ("TIME", time(0)),
            ("INFO", info),
        ];
        finds(&Fake::saying(said), "states ahead", severity, shown);
    }
}

/// A server that cannot be asked now is lost; one that may not be asked has said nothing.
#[test]
fn unreadable_states_are_distinguished_from_a_lost_server() {
    for command in ["SCAN", "GET"] {
        for (line, check) in [("LOADING no", "connection"), ("NOPERM no", "states ahead")] {
            let others = [("SCAN", keys(&[KEY])), ("TIME", time(0))];
            let [scan, time] = others;
            let store = Fake::saying([(command, error(line)), scan, time]);
            let diagnosis = now(store.diagnose());
            let last = diagnosis.findings().last().unwrap();
            assert_eq!(last.check, check, "{command} {line}");
        }
    }
}

/// Returns a cluster of one master, which says `info` of itself.
fn cluster(last: i64, info: Reply) -> WireStore<Fake> {
    Fake::with(Options::new(), true, move |words| match words[0].as_str() {
        "CLUSTER" if words[1] == "SLOTS" => Reply::List(vec![range(0, last, "10.0.0.1", 7_000)]),
        "CLUSTER" => info.clone(),
        "INFO" => bytes("cluster_enabled:1"),
        _ => Reply::Nil,
    })
}

#[test]
fn unserved_slots_and_failing_masters_are_serious() {
    let (ok, serious, unknown) = (Severity::Ok, Severity::Serious, Severity::Unknown);
    let down = "the cluster is down, or about to be; the masters of 5";
    // The last slot that is served, the cluster's state, and how many slots of it may fail and do fail.
    for (last, info, severity, shown) in [
        (16_383, "ok 0 0", ok, "all 16384 are served by 1 master"),
        (16_383, "ok 2 0", serious, "the masters of 2 slots do not"),
        (16_383, "ok 0 3", serious, "the masters of 3 slots do not"),
        (16_383, "fail 2 3", serious, down),
        (16_383, "", unknown, "every slot has a master, but"),
        (16_382, "ok 0 0", serious, "1 of 16384 slots are served"),
    ] {
        let names = ["state", "slots_pfail", "slots_fail"];
        let lines = names.iter().zip(info.split_whitespace());
        let info = lines.map(|(name, value)| format!("cluster_{name}:{value}\r\n"));
        let info: String = info.collect();
        let is_told = !info.is_empty();
        let store = cluster(last, if is_told { bytes(info) } else { Reply::Nil });
        finds(&store, "slots", severity, shown);
        let diagnosis = now(store.diagnose());
        assert_eq!(found(&diagnosis, "slots").server, "cluster");
        // A client that follows redirections may well be told that it is at a node of a cluster.
        let mut findings = diagnosis.findings().iter();
        assert!(findings.all(|finding| finding.check != "cluster"));
    }
}

#[test]
fn finding_the_masters_is_tried_ten_times() {
    for (failures, is_found) in [(0, true), (1, true), (9, true), (10, false)] {
        let store = cluster(16_383, Reply::Nil);
        store.engine().failures.store(failures, Relaxed);
        let kind = clear(&store, &Clear::new()).unwrap_err();
        let asked = store.engine().sent("CLUSTER").len();
        assert_eq!(asked, usize::from(is_found), "{failures}");
        // With a pause after each but the last.
        let pauses = u32::try_from(failures).unwrap().min(9);
        let elapsed = *store.engine().elapsed.lock().unwrap();
        assert_eq!(elapsed, pauses * 50 * MS, "{failures}");
        // The first master then answers nothing that a scan would.
        let expected = [ErrorKind::Unavailable, ErrorKind::Protocol];
        assert_eq!(kind, expected[usize::from(is_found)], "{failures}");
    }
    let lost = cluster(16_383, Reply::Nil);
    lost.engine().failures.store(99, Relaxed);
    let diagnosis = now(lost.diagnose());
    assert_eq!(diagnosis.findings().len(), 1);
    assert_eq!(diagnosis.findings()[0].server, Node::Any.to_string());
    assert_eq!(diagnosis.worst(), Severity::Serious);
}

/// Progress never exceeds the number of keys, however large a server says that it is.
#[test]
fn progress_counts_scanned_keys_up_to_the_number_of_keys() {
    const MAX: u64 = u64::MAX;
    let scan = |words: &[String]| {
        let next = if words[1] == "0" { "7" } else { "0" };
        Reply::List(vec![bytes(next), list(&[])])
    };
    let masters = || vec![range(0, 99, "a", 1), range(100, 16_383, "b", 1)];
    let (denied, huge) = (error("NOPERM no"), bytes(MAX.to_string()));
    for (is_cluster, held, total, expected) in [
        (false, Reply::Integer(150), Some(150), vec![0, 100, 150]),
        (false, Reply::Integer(500), Some(500), vec![0, 100, 500]),
        (false, Reply::Integer(50), Some(50), vec![0, 50, 50]),
        (false, denied, None, vec![0, 100, 200]),
        (true, huge, Some(MAX), vec![0, 100, MAX, MAX, MAX]),
    ] {
        let store = Fake::with(Options::new(), is_cluster, move |words| {
            match words[0].as_str() {
                "CLUSTER" => Reply::List(masters()),
                "DBSIZE" => held.clone(),
                "SCAN" => scan(words),
                _ => Reply::Nil,
            }
        });
        let mut scanned = Vec::new();
        let cleared = now(store.clear(&Clear::new(), &mut |so_far| scanned.push(so_far.scanned)));
        assert_eq!(cleared.unwrap().keys, total);
        assert_eq!(scanned, expected, "{total:?}");
    }
}

#[test]
fn only_the_keys_of_one_limit_are_scanned_for_it() {
    let named = |names: &[&str]| {
        let names = names.iter();
        names.fold(Clear::new(), |what, name| what.with_limit(*name))
    };
    for (what, pattern) in [
        (named(&[]), "tollgate:*"),
        (named(&["a"]), "tollgate:a:*"),
        (named(&["a", "b"]), "tollgate:*"),
    ] {
        assert!(!what.is_dry_run() && what.clone().dry_run().is_dry_run());
        let store = holding(vec![Duration::ZERO]);
        assert_eq!(cleared(&store, &what), [1, 1, 0]);
        assert_eq!(store.engine().sent("SCAN")[0].1[3], pattern);
        assert_eq!(cleared(&store, &what.dry_run()), [1, 0, 0]);
    }
    let other = holding(vec![Duration::ZERO]);
    assert_eq!(cleared(&other, &named(&["b"])), [0, 0, 0]);
}

#[test]
fn states_ahead_by_no_more_than_the_margin_stay() {
    let secs = Duration::from_secs;
    let margin = Clear::new().ahead_by(secs(5));
    let store = holding(vec![secs(4), secs(5), secs(6)]);
    assert_eq!(cleared(&store, &margin), [1, 1, 0]);
    // A state that is gone by the time that it is read is neither found nor passed over.
    let gone = Fake::saying([("SCAN", keys(&[KEY])), ("TIME", time(0))]);
    assert_eq!(cleared(&gone, &margin), [0, 0, 0]);
}

#[test]
fn a_refused_deletion_is_an_error_unless_the_key_is_elsewhere_in_a_cluster() {
    let cleared = |clustered: bool, reply: Reply| {
        let replies = [("SCAN", keys(&[KEY])), ("UNLINK", reply)];
        let store = match clustered {
            true => Fake::master_saying(replies),
            false => Fake::saying(replies),
        };
        let cleared = clear(&store, &Clear::new());
        let cleared = cleared.map(|cleared| (cleared.found, cleared.cleared));
        (cleared, store.engine().sent("FORGET").len())
    };
    for line in ["ASK 1 h:1", "CLUSTERDOWN no", "MOVED 1 h:1", "TRYAGAIN no"] {
        assert_eq!(cleared(true, error(line)), (Ok((1, 1)), 1), "{line}");
        let alone = cleared(false, error(line));
        assert_eq!(alone, (Err(ErrorKind::Unavailable), 0), "{line}");
    }
    for clustered in [false, true] {
        let denied = cleared(clustered, error("NOPERM no"));
        assert_eq!(denied, (Err(ErrorKind::Misconfigured), 0));
        assert_eq!(cleared(clustered, Reply::Integer(0)), (Ok((1, 0)), 0));
        assert_eq!(cleared(clustered, Reply::Nil), (Ok((1, 0)), 0));
    }
}

#[test]
fn a_wrong_number_of_replies_is_an_error() {
    for store in [holding(vec![Duration::ZERO]), cluster(16_383, Reply::Nil)] {
        store.engine().missing.store(1, Relaxed);
        assert_eq!(clear(&store, &Clear::new()), Err(ErrorKind::Protocol));
        assert!(store.engine().sent("CLUSTER").len() <= 1);
    }
}

#[test]
fn a_deletion_without_a_reply_is_unknown_and_a_read_is_not() {
    // Where the deletion is followed to another node.
    let moved = || {
        let unlink = ("UNLINK", error("ASK 1 h:1"));
        Fake::master_saying([("SCAN", keys(&[KEY])), unlink])
    };
    let here = || holding(vec![Duration::ZERO]);
    for (store, silent, kind) in [
        (here(), "UNLINK", ErrorKind::Unknown),
        (here(), "SCAN", ErrorKind::Unavailable),
        (here(), "DBSIZE", ErrorKind::Unavailable),
        (moved(), "FORGET", ErrorKind::Unknown),
    ] {
        *store.engine().silent.lock().unwrap() = Some(silent);
        assert_eq!(clear(&store, &Clear::new()), Err(kind), "{silent}");
    }
}

#[test]
fn a_refusal_says_what_an_operator_can_do() {
    use ErrorKind::{Misconfigured, Unavailable, Unsupported};

    let (undo, node) = ("undo its renaming", "this server is one node of a cluster");
    let unknown = "ERR unknown command 'SCAN'";
    for (line, kind, advice, other) in [
        (unknown, Unsupported, undo, "cluster client"),
        ("EXECABORT no", Unsupported, "transaction", undo),
        ("CROSSSLOT no", Misconfigured, node, "partition"),
        ("NOPERM no", Misconfigured, "grant", "one node"),
        ("LOADING dataset", Unavailable, "", "grant"),
    ] {
        let store = Fake::store(move |_| error(line));
        let refused = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        let text = refused.to_string();
        assert!(text.contains(advice) && !text.contains(other), "{text}");
        // What a service can do about a decision is no advice to those who run its server.
        let is_service = text.contains("scriptless");
        assert!(!is_service || line.starts_with("EXEC"), "{text}");
        let diagnosis = now(store.diagnose());
        assert!(diagnosis.worst() >= Severity::Unknown);
        assert_eq!(found(&diagnosis, "eviction").severity, Severity::Unknown);
    }
    let silent = clear(&Fake::saying([]), &Clear::new());
    assert_eq!(silent, Err(ErrorKind::Protocol));
}

/// Returns what the doctor finds of permissions and of writes where these commands are refused.
fn refusing(refusals: &'static [(&'static str, &'static str)]) -> [(Severity, String); 2] {
    let store = Fake::store(move |words| {
        let mut refused = refusals.iter();
        match refused.find(|(command, _)| words[0] == *command) {
            Some((_, line)) => error(line),
            None => Reply::Nil,
        }
    });
    let diagnosis = now(store.diagnose());
    let findings = diagnosis.findings().iter();
    let permissions = findings.filter(|finding| finding.check == "permissions");
    let severities: Vec<_> = permissions.map(|finding| finding.severity).collect();
    // That all is well is said alone.
    assert!(severities.len() == 1 || !severities.contains(&Severity::Ok));
    ["permissions", "writes"].map(|check| {
        let finding = found(&diagnosis, check);
        (finding.severity, finding.found.clone())
    })
}

#[test]
fn a_missing_command_is_explained() {
    const NO: &str = "NOPERM this user has no permissions to run the 'x' command";
    const KEYS: &str = "NOPERM No permissions to access a key";
    const GET: (&str, &str) = ("GET", NO);
    const NOT_RUN: &str = "MISCONF not able to run the command";
    const LOAD: &str = "ERR unknown subcommand 'LOAD'";
    let all = "the user may run every command that limits need, on the keys of this prefix";
    let at_times = "calls fail once the server forgets its scripts, or keys cannot be reset";
    let unlink = format!("cannot run `unlink`: {at_times}");
    let load = format!("cannot run `script|load`: {at_times}");
    let none = "the user may not touch keys that begin with `tollgate:`";
    let (ok, unknown) = (Severity::Ok, Severity::Unknown);
    let (warning, serious) = (Severity::Warning, Severity::Serious);
    let logs = "cannot run `lindex`: sliding logs fail";
    let two = "cannot run `get`, `lindex`: calls fail";
    let set = "cannot run `set`: calls fail";
    let lists = "could not try `lpush`, `rpush`";
    for (refusals, permissions, writes) in [
        (&[][..], (ok, all), ok),
        (&[("LINDEX", NO)], (warning, logs), ok),
        (&[("UNLINK", NO)], (warning, &unlink), ok),
        (&[("SCRIPT", LOAD)], (warning, &load), ok),
        (&[GET, ("LINDEX", NO)], (serious, two), ok),
        (&[("SET", NO)], (serious, set), unknown),
        (&[("SET", "OOM no memory")], (unknown, lists), serious),
        (&[("SET", KEYS)], (serious, none), unknown),
        // Limits do not need them.
        (&[("EXISTS", NO), ("PTTL", NO)], (ok, all), ok),
        // Whatever else is said of a command is said because it would be run.
        (&[("LPUSH", "WRONGTYPE no")], (ok, all), ok),
        (&[("GET", NOT_RUN)], (ok, all), ok),
    ] {
        let [found_permissions, found_writes] = refusing(refusals);
        assert_eq!(found_permissions.0, permissions.0, "{refusals:?}");
        assert_eq!(found_permissions.1, permissions.1, "{refusals:?}");
        assert_eq!(found_writes.0, writes, "{refusals:?}: {found_writes:?}");
    }
    for (command, name) in [("EXISTS", "`exists`"), ("PTTL", "`pttl`")] {
        let diagnosis = now(Fake::saying([(command, error(NO))]).diagnose());
        let operators = found(&diagnosis, "operators");
        assert_eq!(operators.severity, Severity::Note);
        assert!(operators.found.contains(name), "{operators:?}");
    }
    let store = Fake::saying([("SET", error("OOM no memory"))]);
    let diagnosis = now(store.diagnose());
    // They would make a key that never expires.
    assert!(store.engine().sent("LPUSH").is_empty() && store.engine().sent("RPUSH").is_empty());
    assert_eq!(found(&diagnosis, "decisions").severity, Severity::Serious);
}

/// On a key without a value, `HSET` would create one that never expires.
#[test]
fn commands_of_schedules_are_tried_on_a_key_that_holds_a_string() {
    let denied = "NOPERM this user has no permissions to run the 'set' command";
    for (refusal, is_set) in [
        (None, true),
        (Some("OOM no memory"), false),
        (Some(denied), false),
        (Some("NOPERM No permissions to access a key"), false),
    ] {
        let store = Fake::saying([("SET", refusal.map_or(Reply::Nil, error))]);
        now(store.diagnose());
        let tried = |name: &str| !store.engine().sent(name).is_empty();
        assert_eq!(tried("hset"), is_set, "{refusal:?}");
        for name in ["hdel", "hget", "hmget"] {
            assert!(tried(name), "{name}: {refusal:?}");
        }
    }
}

/// Every algorithm is tried with a call of one unit, on a key that is deleted afterwards.
#[test]
fn algorithms_whose_calls_fail_are_named() {
    let none: Refusals = |_| None;
    let log: Refusals = |key| key.contains("sliding-log").then_some("NOPERM no");
    let gcra: Refusals = |key| key.contains("gcra").then_some("OOM no");
    let decided = "a call was decided by every algorithm";
    let [no_log, no_gcra] =
        ["sliding-log", "gcra"].map(|name| format!("calls cannot be decided by {name}"));
    for (refusals, severity, shown, advice) in [
        (none, Severity::Ok, decided, ""),
        (log, Severity::Warning, &no_log, "grant"),
        (gcra, Severity::Serious, &no_gcra, "maxmemory"),
    ] {
        let store = Fake::saying([]);
        *store.engine().scripts.lock().unwrap() = Some(refusals);
        let diagnosis = now(store.diagnose());
        let finding = found(&diagnosis, "decisions");
        assert_eq!((finding.severity, &*finding.found), (severity, shown));
        assert!(finding.advice.contains(advice), "{finding:?}");
        let deleted = store.engine().sent("UNLINK");
        let calls = store.engine().sent("EVALSHA");
        let calls: Vec<_> = calls.iter().filter(|(_, words)| words.len() == 3).collect();
        // Five calls, one event and one lease, which have no cost.
        assert_eq!(calls.len(), 7);
        for (_, words) in calls {
            let is_limit = !words[1].contains(":schedule:") && !words[1].contains(":leases:");
            assert!(words[2] == "1" || !is_limit);
            let is_deleted = deleted.iter().any(|(_, keys)| keys[1] == words[1]);
            assert!(is_deleted, "{words:?}");
        }
        // What is written to try commands is a string, and is named as one.
        let set = &store.engine().sent("SET")[0].1;
        let prefix = "tollgate:tollgate-doctor:fixed-window-";
        assert!(set[1].starts_with(prefix), "{set:?}");
        assert!(deleted.iter().any(|(_, keys)| keys[1] == set[1]));
    }
}

#[test]
fn severities_are_padded_in_columns() {
    let shown = [Severity::Ok, Severity::Unknown].map(|severity| format!("{severity:8}|"));
    assert_eq!(shown, ["ok      |", "unknown |"]);
}

#[test]
fn replies_about_held_states_that_are_not_numbers_are_errors() {
    let denied = "NOPERM this user has no permissions to run the 'exists' command";
    let limits = ["login=gcra:5/1m".parse().unwrap()];
    for (reply, kind) in [
        (error(denied), ErrorKind::Misconfigured),
        (Reply::Nil, ErrorKind::Protocol),
        (Reply::Integer(-1), ErrorKind::Protocol),
        (Reply::List(vec![]), ErrorKind::Protocol),
    ] {
        let store = Fake::saying([("EXISTS", reply)]);
        let error = now(store.held(&limits, "alice".into())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    // Nothing but whether each key is there is asked, and each once.
    let store = Fake::saying([("EXISTS", Reply::Integer(1))]);
    let found = now(store.held(&limits, "alice".into())).unwrap();
    let mut asked: Vec<_> = store.engine().sent("EXISTS");
    asked.dedup();
    assert_eq!(found.len(), asked.len());
    let mut keys = asked.iter().map(|(_, words)| &words[1]);
    assert!(keys.all(|key| key.ends_with(":{alice}")));
}

//! What `diagnose` and `clear` say and send, number by number, on a server that no machine can be.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_core::wire::{Clear, Diagnosis, Finding, Node, Options, Reply, Severity, WireStore};

use crate::admin::{Fake, HERE, bytes, list, range, severity, time};
use crate::engine::now;

const MS: Duration = Duration::from_millis(1);

fn found<'d>(diagnosis: &'d Diagnosis, check: &str) -> &'d Finding {
    let mut findings = diagnosis.findings().iter();
    findings.find(|finding| finding.check == check).unwrap()
}

#[test]
fn the_median_of_five_round_trips_is_judged() {
    for (median, expected, shown) in [
        (10 * MS - Duration::from_nanos(1), Severity::Ok, "10.0ms"),
        (10 * MS, Severity::Note, "10.0ms, the median of 5"),
        (
            100 * MS - Duration::from_nanos(1),
            Severity::Note,
            "100.0ms",
        ),
        (100 * MS, Severity::Warning, "100.0ms"),
    ] {
        let store = Fake::store(|_| Reply::Nil);
        let times = [900 * MS, MS, median, 800 * MS, 2 * MS];
        *store.engine().delays.lock().unwrap() = times.into();
        let diagnosis = now(store.diagnose());
        let finding = found(&diagnosis, "round trip");
        assert_eq!(finding.severity, expected, "{finding:?}");
        assert!(finding.found.starts_with(shown), "{finding:?}");
    }
}

#[test]
fn a_clock_that_was_read_during_the_round_trip_agrees() {
    // How far the server's clock is ahead of this machine's before the round trip, how long that
    // takes, and what is said.
    for (off, took, expected) in [
        (3, 3, (Severity::Ok, "agree")),
        (4, 3, (Severity::Ok, "agree")),
        (5, 3, (Severity::Note, "2.0s ahead of")),
        (-1, 3, (Severity::Ok, "agree")),
        (-2, 3, (Severity::Note, "2.0s behind")),
        (60, 0, (Severity::Note, "60.0s ahead of")),
        (61, 0, (Severity::Warning, "61.0s ahead of")),
        (-61, 3, (Severity::Warning, "61.0s behind")),
    ] {
        let store = Fake::store(move |words| match words[0].as_str() {
            "TIME" => time(off),
            _ => Reply::Nil,
        });
        let pings = [Duration::ZERO; 5];
        let times = pings.into_iter().chain([Duration::from_secs(took)]);
        *store.engine().delays.lock().unwrap() = times.collect();
        let diagnosis = now(store.diagnose());
        let finding = found(&diagnosis, "clock");
        assert_eq!(finding.severity, expected.0, "{off} {took} {finding:?}");
        assert!(
            finding.found.contains(expected.1),
            "{off} {took} {finding:?}"
        );
    }
}

/// Returns the state of a bucket that was last changed so long after the server's time.
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
fn states_ahead_are_counted_and_the_furthest_is_said() {
    let secs = Duration::from_secs;
    let second = Duration::from_secs(1);
    let healthy = now(holding(vec![Duration::ZERO, second]).diagnose());
    let finding = found(&healthy, "states ahead");
    assert_eq!(finding.severity, Severity::Ok);
    assert_eq!(finding.found, "none of 2 states");
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
        let diagnosis = now(holding(ahead).diagnose());
        let finding = found(&diagnosis, "states ahead");
        assert_eq!(finding.severity, Severity::Serious);
        let expected =
            format!("3 of 4 states lie ahead of the server's clock, the furthest by {shown}");
        assert!(finding.found.starts_with(&expected), "{finding:?}");
    }
}

#[test]
fn a_sample_ends_at_a_thousand_states_or_two_hundred_scans() {
    // 400 keys a scan, without an end: the third scan passes a thousand.
    let full = Fake::store(|words| match words[0].as_str() {
        "SCAN" => {
            let key = |index: u32| bytes(format!("tollgate:a:gcra:v1:{{{index}}}"));
            Reply::List(vec![bytes("1"), Reply::List((0..400).map(key).collect())])
        }
        "GET" => bucket(Duration::ZERO),
        "TIME" => time(0),
        _ => Reply::Nil,
    });
    let diagnosis = now(full.diagnose());
    assert_eq!(
        found(&diagnosis, "states ahead").found,
        "none of 1200 states"
    );
    assert_eq!(full.engine().sent("SCAN").len(), 3);
    // None of this prefix, without an end.
    let empty = Fake::store(|words| match words[0].as_str() {
        "SCAN" => Reply::List(vec![bytes("1"), list(&[])]),
        _ => Reply::Nil,
    });
    let diagnosis = now(empty.diagnose());
    assert_eq!(found(&diagnosis, "states ahead").found, "none of 0 states");
    assert_eq!(empty.engine().sent("SCAN").len(), 200);
}

/// Returns a cluster of one master, which says `info` of itself.
fn cluster(last: i64, info: Reply) -> WireStore<Fake> {
    Fake::with(Options::new(), true, move |words| match words[0].as_str() {
        "CLUSTER" if words[1] == "SLOTS" => Reply::List(vec![range(0, last, "10.0.0.1", 7_000)]),
        "CLUSTER" => info.clone(),
        _ => Reply::Nil,
    })
}

#[test]
fn slots_that_nobody_serves_or_whose_masters_fail_are_serious() {
    let info = |state: &str, pfail: u32, fail: u32| {
        bytes(format!(
            "cluster_state:{state}\r\ncluster_slots_pfail:{pfail}\r\ncluster_slots_fail:{fail}\r\n"
        ))
    };
    for (last, info, expected, shown) in [
        (
            16_383,
            info("ok", 0, 0),
            Severity::Ok,
            "all 16384 are served by 1 masters",
        ),
        (
            16_383,
            info("ok", 2, 0),
            Severity::Serious,
            "the masters of 2 slots do not",
        ),
        (
            16_383,
            info("ok", 0, 3),
            Severity::Serious,
            "the masters of 3 slots do not",
        ),
        (
            16_383,
            info("fail", 2, 3),
            Severity::Serious,
            "the cluster is down, or about to be; the masters of 5",
        ),
        (
            16_383,
            Reply::Nil,
            Severity::Unknown,
            "every slot has a master, but",
        ),
        (
            16_382,
            info("ok", 0, 0),
            Severity::Serious,
            "1 of 16384 slots are served by no",
        ),
    ] {
        let diagnosis = now(cluster(last, info).diagnose());
        let finding = found(&diagnosis, "slots");
        assert_eq!(
            (finding.severity, finding.server.as_str()),
            (expected, "cluster")
        );
        assert!(finding.found.starts_with(shown), "{finding:?}");
        // A client that follows redirections may well be told that it is at a node of a cluster.
        let mut findings = diagnosis.findings().iter();
        assert!(findings.all(|finding| finding.check != "cluster"));
    }
}

#[test]
fn masters_are_asked_for_ten_times() {
    for (failures, is_found) in [(0, true), (1, true), (9, true), (10, false)] {
        let store = cluster(16_383, Reply::Nil);
        store.engine().failures.store(failures, Relaxed);
        let cleared = now(store.clear(&Clear::new(), &mut |_| ()));
        let asked = store.engine().sent("CLUSTER").len();
        assert_eq!(asked, usize::from(is_found), "{failures}");
        // The first master then answers nothing that a scan would.
        let kind = cleared.unwrap_err().kind();
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

#[test]
fn progress_never_passes_what_the_servers_hold() {
    for (held, expected) in [
        (Some(150), vec![0, 100, 150]),
        (Some(50), vec![0, 50, 50]),
        (None, vec![0, 100, 200]),
    ] {
        let store = Fake::store(move |words| match words[0].as_str() {
            "DBSIZE" => held.map_or_else(|| Reply::Error("NOPERM no".into()), Reply::Integer),
            "SCAN" if words[1] == "0" => Reply::List(vec![bytes("7"), list(&[])]),
            "SCAN" => Reply::List(vec![bytes("0"), list(&[])]),
            _ => Reply::Nil,
        });
        let mut scanned = Vec::new();
        let cleared = now(store.clear(&Clear::new(), &mut |so_far| scanned.push(so_far.scanned)));
        assert_eq!(scanned, expected, "{held:?}");
        assert_eq!(cleared.unwrap().scanned, *expected.last().unwrap());
    }
}

#[test]
fn only_the_keys_of_one_limit_are_scanned_for_it() {
    let named = |names: &[&str]| {
        names
            .iter()
            .fold(Clear::new(), |what, name| what.with_limit(*name))
    };
    for (what, pattern) in [
        (named(&[]), "tollgate:*"),
        (named(&["a"]), "tollgate:a:*"),
        (named(&["a", "b"]), "tollgate:*"),
    ] {
        assert!(!what.is_dry_run() && what.clone().dry_run().is_dry_run());
        let store = holding(vec![Duration::ZERO]);
        let cleared = now(store.clear(&what, &mut |_| ())).unwrap();
        assert_eq!((cleared.found, cleared.cleared, cleared.skipped), (1, 1, 0));
        assert_eq!(store.engine().sent("SCAN")[0].1[3], pattern);
        let counted =
            now(holding(vec![Duration::ZERO]).clear(&what.dry_run(), &mut |_| ())).unwrap();
        assert_eq!((counted.found, counted.cleared), (1, 0));
    }
    let other = now(holding(vec![Duration::ZERO]).clear(&named(&["b"]), &mut |_| ())).unwrap();
    assert_eq!((other.found, other.skipped), (0, 0));
}

#[test]
fn states_ahead_by_no_more_than_was_said_stay() {
    let secs = Duration::from_secs;
    let store = holding(vec![secs(4), secs(5), secs(6)]);
    let cleared = now(store.clear(&Clear::new().ahead_by(secs(5)), &mut |_| ())).unwrap();
    assert_eq!((cleared.found, cleared.skipped), (1, 0));
    // A state that is gone by the time that it is read is neither found nor passed over.
    let gone = Fake::store(|words| match words[0].as_str() {
        "SCAN" => Reply::List(vec![bytes("0"), list(&["tollgate:a:gcra:v1:{k}"])]),
        "TIME" => time(0),
        _ => Reply::Nil,
    });
    let cleared = now(gone.clear(&Clear::new().ahead_by(secs(5)), &mut |_| ())).unwrap();
    assert_eq!((cleared.found, cleared.skipped), (0, 0));
}

#[test]
fn a_refused_deletion_is_an_error_unless_the_key_is_elsewhere_in_a_cluster() {
    let clear = |clustered: bool, reply: Reply| {
        let store = Fake::with(Options::new(), clustered, move |words| {
            match words[0].as_str() {
                "CLUSTER" => Reply::List(vec![range(0, 16_383, "h", 1)]),
                "SCAN" => Reply::List(vec![bytes("0"), list(&["tollgate:a:gcra:v1:{k}"])]),
                "UNLINK" => reply.clone(),
                _ => Reply::Nil,
            }
        });
        let cleared = now(store.clear(&Clear::new(), &mut |_| ()));
        let cleared = cleared.map(|cleared| (cleared.found, cleared.cleared));
        (
            cleared.map_err(|error| error.kind()),
            store.engine().sent("FORGET").len(),
        )
    };
    let refused = |line: &str| Reply::Error(line.to_owned());
    for line in ["ASK 1 h:1", "CLUSTERDOWN no", "MOVED 1 h:1", "TRYAGAIN no"] {
        assert_eq!(clear(true, refused(line)), (Ok((1, 1)), 1), "{line}");
        let alone = clear(false, refused(line));
        assert_eq!(alone, (Err(ErrorKind::Unavailable), 0), "{line}");
    }
    for clustered in [false, true] {
        let denied = clear(clustered, refused("NOPERM no"));
        assert_eq!(denied, (Err(ErrorKind::Misconfigured), 0));
        assert_eq!(clear(clustered, Reply::Integer(0)), (Ok((1, 0)), 0));
        assert_eq!(clear(clustered, Reply::Nil), (Ok((1, 0)), 0));
    }
}

/// Returns what the doctor finds of permissions and of writes where these commands are refused.
fn refusing(refusals: &'static [(&'static str, &'static str)]) -> [(Severity, String); 2] {
    let store = Fake::store(move |words| {
        let mut refused = refusals.iter();
        match refused.find(|(command, _)| words[0] == *command) {
            Some((_, line)) => Reply::Error((*line).to_owned()),
            None => Reply::Nil,
        }
    });
    let diagnosis = now(store.diagnose());
    ["permissions", "writes"].map(|check| {
        let finding = found(&diagnosis, check);
        (finding.severity, finding.found.clone())
    })
}

#[test]
fn what_a_missing_command_means_is_said() {
    const NO: &str = "NOPERM this user has no permissions to run the 'x' command";
    let (ok, unknown) = (Severity::Ok, Severity::Unknown);
    let (warning, serious) = (Severity::Warning, Severity::Serious);
    for (refusals, permissions, writes) in [
        (&[][..], (ok, "the user may run every command"), ok),
        (
            &[("LINDEX", NO)][..],
            (warning, "cannot run `lindex`: sliding logs fail"),
            ok,
        ),
        (
            &[("UNLINK", NO)][..],
            (warning, "cannot run `unlink`: calls fail once"),
            ok,
        ),
        (
            &[("SCRIPT", "ERR unknown subcommand 'LOAD'")][..],
            (warning, "cannot run `script|load`: calls fail once"),
            ok,
        ),
        (
            &[("UNLINK", NO), ("RPUSH", NO), ("LLEN", NO)][..],
            (
                warning,
                "cannot run `llen`, `rpush`, `unlink`: sliding logs fail, and some other",
            ),
            ok,
        ),
        (
            &[("GET", NO), ("LINDEX", NO)][..],
            (serious, "cannot run `get`, `lindex`: calls fail"),
            ok,
        ),
        (
            &[("TIME", "ERR unknown command 'TIME'")][..],
            (serious, "cannot run `time`: calls fail"),
            ok,
        ),
        (
            &[("SET", NO)][..],
            (serious, "cannot run `set`: calls fail"),
            unknown,
        ),
        (
            &[("SET", "OOM no memory")][..],
            (unknown, "could not try `lpush`, `rpush`"),
            serious,
        ),
        (
            &[("SET", "NOPERM No permissions to access a key")][..],
            (
                serious,
                "the user may not touch keys that begin with `tollgate:`",
            ),
            unknown,
        ),
        // Whatever else is said of a command is said because it would be run.
        (
            &[("LPUSH", "WRONGTYPE no")][..],
            (ok, "the user may run every command"),
            ok,
        ),
    ] {
        let [found_permissions, found_writes] = refusing(refusals);
        assert_eq!(found_permissions.0, permissions.0, "{refusals:?}");
        assert!(
            found_permissions.1.starts_with(permissions.1),
            "{refusals:?}: {found_permissions:?}"
        );
        assert_eq!(found_writes.0, writes, "{refusals:?}: {found_writes:?}");
    }
    let store = Fake::store(|words| match words[0].as_str() {
        "SET" => Reply::Error("OOM no memory".into()),
        _ => Reply::Nil,
    });
    let diagnosis = now(store.diagnose());
    // They would make a key that never expires.
    assert!(store.engine().sent("LPUSH").is_empty() && store.engine().sent("RPUSH").is_empty());
    assert_eq!(severity(&diagnosis, "decisions"), Severity::Serious);
}

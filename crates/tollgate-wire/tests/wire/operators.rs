//! What `diagnose` and `clear` say and send, number by number, on a server that no machine can be.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_wire::{Clear, Diagnosis, Finding, Node, Options, Reply, Severity, WireStore};

use crate::admin::{Fake, HERE, Refusals, bytes, list, range, severity, time};
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
        let times = [900 * MS, MS, 800 * MS, median, 2 * MS];
        *store.engine().delays.lock().unwrap() = times.into();
        let diagnosis = now(store.diagnose());
        let finding = found(&diagnosis, "round trip");
        assert_eq!(finding.severity, expected, "{finding:?}");
        assert!(finding.found.starts_with(shown), "{finding:?}");
    }
}

#[test]
fn a_clock_offset_within_the_round_trip_is_not_reported() {
    // How far the server's clock is ahead of this machine's before the round trip, how long that
    // takes, and what is said.
    for (off, took, expected) in [
        (3, 3, (Severity::Ok, "agree")),
        (4, 3, (Severity::Ok, "agree")),
        (5, 3, (Severity::Note, "2.0s ahead of")),
        (5, 10, (Severity::Ok, "agree")),
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
fn states_ahead_are_counted_and_the_furthest_is_named() {
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
    // So many keys a scan, without an end: the third scan passes a thousand, or the second reaches it.
    for (keys, scans) in [(400, 3), (500, 2)] {
        let full = Fake::store(move |words| match words[0].as_str() {
            "SCAN" => {
                let key = |index: usize| bytes(format!("tollgate:a:gcra:v1:{{{index}}}"));
                Reply::List(vec![bytes("1"), Reply::List((0..keys).map(key).collect())])
            }
            "GET" => bucket(Duration::ZERO),
            "TIME" => time(0),
            _ => Reply::Nil,
        });
        let diagnosis = now(full.diagnose());
        let expected = format!("none of {} states", keys * scans);
        assert_eq!(found(&diagnosis, "states ahead").found, expected);
        assert_eq!(full.engine().sent("SCAN").len(), scans);
    }
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
        "INFO" => bytes("cluster_enabled:1"),
        _ => Reply::Nil,
    })
}

#[test]
fn a_store_of_one_server_at_a_node_of_a_cluster_is_reported() {
    for (info, is_reported) in [("cluster_enabled:1", true), ("cluster_enabled:0", false)] {
        let store = Fake::store(move |words| match words[0].as_str() {
            "INFO" => bytes(info),
            _ => Reply::Nil,
        });
        let diagnosis = now(store.diagnose());
        let mut findings = diagnosis.findings().iter();
        let reported = findings.find(|finding| finding.check == "cluster");
        let severity = reported.map(|finding| finding.severity);
        assert_eq!(severity, is_reported.then_some(Severity::Serious), "{info}");
    }
}

#[test]
fn unserved_slots_and_failing_masters_are_serious() {
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
            "all 16384 are served by 1 master",
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
fn finding_the_masters_is_tried_ten_times() {
    for (failures, is_found) in [(0, true), (1, true), (9, true), (10, false)] {
        let store = cluster(16_383, Reply::Nil);
        store.engine().failures.store(failures, Relaxed);
        let cleared = now(store.clear(&Clear::new(), &mut |_| ()));
        let asked = store.engine().sent("CLUSTER").len();
        assert_eq!(asked, usize::from(is_found), "{failures}");
        // With a pause after each but the last.
        let pauses = u32::try_from(failures).unwrap().min(9);
        let elapsed = *store.engine().elapsed.lock().unwrap();
        assert_eq!(elapsed, pauses * 50 * MS, "{failures}");
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
fn progress_never_exceeds_the_number_of_keys() {
    for (held, expected) in [
        (Some(150), vec![0, 100, 150]),
        (Some(500), vec![0, 100, 500]),
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
fn states_ahead_by_no_more_than_the_margin_stay() {
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

#[test]
fn an_impossible_number_of_keys_does_not_overflow() {
    let store = Fake::with(Options::new(), true, |words| match words[0].as_str() {
        "CLUSTER" => Reply::List(vec![range(0, 99, "a", 1), range(100, 16_383, "b", 1)]),
        "DBSIZE" => bytes(u64::MAX.to_string()),
        "SCAN" if words[1] == "0" => Reply::List(vec![bytes("7"), list(&[])]),
        "SCAN" => Reply::List(vec![bytes("0"), list(&[])]),
        _ => Reply::Nil,
    });
    let mut scanned = Vec::new();
    let cleared = now(store.clear(&Clear::new(), &mut |so_far| scanned.push(so_far.scanned)));
    assert_eq!(cleared.unwrap().keys, Some(u64::MAX));
    assert_eq!(scanned, [0, 100, u64::MAX, u64::MAX, u64::MAX]);
}

#[test]
fn a_wrong_number_of_replies_is_an_error() {
    for store in [holding(vec![Duration::ZERO]), cluster(16_383, Reply::Nil)] {
        store.engine().missing.store(1, Relaxed);
        let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert!(store.engine().sent("CLUSTER").len() <= 1);
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
    const ALL: &str = "the user may run every command that limits need, on the keys of this prefix";
    const AT_TIMES: &str = "cannot run `unlink`: calls fail once the server forgets its scripts, \
                            or keys cannot be reset";
    let (ok, unknown) = (Severity::Ok, Severity::Unknown);
    let (warning, serious) = (Severity::Warning, Severity::Serious);
    for (refusals, permissions, writes) in [
        (&[][..], (ok, ALL), ok),
        (
            &[("LINDEX", NO)][..],
            (warning, "cannot run `lindex`: sliding logs fail"),
            ok,
        ),
        (&[("UNLINK", NO)][..], (warning, AT_TIMES), ok),
        (
            &[("SCRIPT", "ERR unknown subcommand 'LOAD'")][..],
            (
                warning,
                "cannot run `script|load`: calls fail once the server forgets its scripts, or keys \
                 cannot be reset",
            ),
            ok,
        ),
        (
            &[("UNLINK", NO), ("RPUSH", NO), ("LLEN", NO)][..],
            (
                warning,
                "cannot run `llen`, `rpush`, `unlink`: sliding logs fail, and some other calls will",
            ),
            ok,
        ),
        (
            &[("GET", NO), ("LINDEX", NO)][..],
            (serious, "cannot run `get`, `lindex`: calls fail"),
            ok,
        ),
        (
            &[("TIME", NO), ("LPUSH", NO)][..],
            (serious, "cannot run `lpush`, `time`: calls fail"),
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
        (&[("LPUSH", "WRONGTYPE no")][..], (ok, ALL), ok),
        (
            &[("GET", "MISCONF not able to run the command")][..],
            (ok, ALL),
            ok,
        ),
    ] {
        let [found_permissions, found_writes] = refusing(refusals);
        assert_eq!(found_permissions.0, permissions.0, "{refusals:?}");
        assert_eq!(found_permissions.1, permissions.1, "{refusals:?}");
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

/// On a key without a value, `HSET` would create one that never expires.
#[test]
fn commands_of_schedules_are_tried_on_a_key_that_holds_a_string() {
    for (refusal, is_set) in [
        (None, true),
        (Some("OOM no memory"), false),
        (
            Some("NOPERM this user has no permissions to run the 'set' command"),
            false,
        ),
        (Some("NOPERM No permissions to access a key"), false),
    ] {
        let store = Fake::store(move |words| match (words[0].as_str(), refusal) {
            ("SET", Some(line)) => Reply::Error(line.to_owned()),
            _ => Reply::Nil,
        });
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
    let cases: [(Refusals, Severity, &str, &str); 4] = [
        (
            |_| None,
            Severity::Ok,
            "a call was decided by every algorithm",
            "",
        ),
        (
            |key| key.contains("sliding-log").then_some("NOPERM no"),
            Severity::Warning,
            "calls cannot be decided by sliding-log",
            "grant",
        ),
        (
            |key| key.contains("gcra").then_some("OOM no"),
            Severity::Serious,
            "calls cannot be decided by gcra",
            "maxmemory",
        ),
        (
            |key| match () {
                () if key.contains("sliding-log") => Some("NOPERM no"),
                () => key.contains("gcra").then_some("OOM no"),
            },
            Severity::Serious,
            "calls cannot be decided by gcra, sliding-log",
            "maxmemory",
        ),
    ];
    for (refusals, severity, shown, advice) in cases {
        let store = Fake::store(|_| Reply::Nil);
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
            assert!(
                deleted.iter().any(|(_, keys)| keys[1] == words[1]),
                "{words:?}"
            );
        }
        // What is written to try commands is a string, and is named as one.
        let set = &store.engine().sent("SET")[0].1;
        assert!(
            set[1].starts_with("tollgate:tollgate-doctor:fixed-window-"),
            "{set:?}"
        );
        assert!(deleted.iter().any(|(_, keys)| keys[1] == set[1]));
    }
}

#[test]
fn keys_that_may_not_be_deleted_are_reported() {
    // The one that commands are tried on is always there.
    let store = Fake::store(|words| match words[0].as_str() {
        "UNLINK" if words[1].ends_with(":commands") => {
            Reply::Error("NOPERM this user has no permissions to run the 'unlink' command".into())
        }
        _ => Reply::Nil,
    });
    let diagnosis = now(store.diagnose());
    let finding = found(&diagnosis, "permissions");
    assert!(
        finding.found.starts_with("cannot run `unlink`"),
        "{finding:?}"
    );
}

/// Returns the slot of what is in the braces of `key`, as the specification of clusters has it.
fn slot(key: &str) -> i64 {
    let tag = key.split(['{', '}']).nth(1).unwrap();
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc >> 15 == 1 { 0x1021 } else { 0 }
        })
    });
    i64::from(crc % 16_384)
}

#[test]
fn each_master_of_a_cluster_is_tried_on_keys_of_its_own() {
    // The first has two ranges, and the second a tenth of all.
    let slots = |host: &str| match host {
        "a" => vec![0..=6_000, 7_639..=16_383],
        _ => vec![6_001..=7_638],
    };
    let store = Fake::with(Options::new(), true, move |words| match words[0].as_str() {
        "CLUSTER" if words[1] == "SLOTS" => {
            let of = |host: &'static str| {
                let ranges = slots(host).into_iter();
                ranges.map(move |slots| range(*slots.start(), *slots.end(), host, 1))
            };
            Reply::List(["a", "b"].into_iter().flat_map(of).collect())
        }
        _ => Reply::Nil,
    });
    let _ = now(store.diagnose());
    for name in ["SET", "UNLINK"] {
        let sent = store.engine().sent(name);
        for host in ["a", "b"] {
            let node = Node::At {
                host: host.to_owned(),
                port: 1,
            };
            let of_node: Vec<_> = sent.iter().filter(|(to, _)| *to == node).collect();
            assert!(!of_node.is_empty());
            for (_, words) in of_node {
                let slot = slot(&words[1]);
                assert!(
                    slots(host).iter().any(|slots| slots.contains(&slot)),
                    "{words:?}"
                );
            }
        }
    }
}

/// A server that cannot be asked now is lost; one that may not be asked has said nothing.
#[test]
fn unreadable_states_are_distinguished_from_a_lost_server() {
    for command in ["SCAN", "GET"] {
        for (line, check) in [("LOADING", "connection"), ("NOPERM", "states ahead")] {
            let store = Fake::store(move |words| match words[0].as_str() {
                name if name == command => Reply::Error(format!("{line} no")),
                "SCAN" => Reply::List(vec![bytes("0"), list(&["tollgate:a:gcra:v1:{k}"])]),
                "TIME" => time(0),
                _ => Reply::Nil,
            });
            let diagnosis = now(store.diagnose());
            let last = diagnosis.findings().last().unwrap();
            assert_eq!(last.check, check, "{command} {line}");
        }
    }
}

#[test]
fn only_states_of_services_are_sampled() {
    let keys = [
        "tollgate:a:gcra:v1:{k}",
        "tollgate:tollgate-doctor:gcra:v1:{k}",
        "tollgate:session:{k}",
        "session:k",
    ];
    let sampled = |value: Reply| {
        let store = Fake::store(move |words| match words[0].as_str() {
            "SCAN" => Reply::List(vec![bytes("0"), list(&keys)]),
            "GET" => value.clone(),
            "TIME" => time(0),
            _ => Reply::Nil,
        });
        let diagnosis = now(store.diagnose());
        let finding = found(&diagnosis, "states ahead");
        (finding.severity, finding.found.clone())
    };
    for (value, severity, shown) in [
        (bucket(Duration::ZERO), Severity::Ok, "none of 1 state"),
        (Reply::Nil, Severity::Ok, "none of 0 states"),
        (
            bytes("x"),
            Severity::Unknown,
            "none of 0 states, but 1 key could not be read",
        ),
        (
            bucket(Duration::from_secs(9)),
            Severity::Serious,
            "1 of 1 state lies ahead of the server's clock, the furthest by 9.0s: they deny until then",
        ),
    ] {
        assert_eq!(sampled(value), (severity, shown.to_owned()));
    }
}

#[test]
fn an_impossible_server_time_is_unknown() {
    for [seconds, micros] in [
        ["288230376151711744", "0"],
        ["18446744073709", "18446744073709551615"],
        ["-1", "0"],
        ["1", "x"],
    ] {
        let store = Fake::store(move |words| match words[0].as_str() {
            "TIME" => list(&[seconds, micros]),
            _ => Reply::Nil,
        });
        assert_eq!(severity(&now(store.diagnose()), "clock"), Severity::Unknown);
    }
}

#[test]
fn a_deletion_without_a_reply_is_unknown_and_a_read_is_not() {
    for (silent, kind) in [
        ("UNLINK", ErrorKind::Unknown),
        ("SCAN", ErrorKind::Unavailable),
        ("DBSIZE", ErrorKind::Unavailable),
    ] {
        let store = holding(vec![Duration::ZERO]);
        *store.engine().silent.lock().unwrap() = Some(silent);
        let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
        assert_eq!(error.kind(), kind, "{silent}: {error}");
    }
    // Where the deletion is followed to another node.
    let store = Fake::with(Options::new(), true, |words| match words[0].as_str() {
        "CLUSTER" => Reply::List(vec![range(0, 16_383, "h", 1)]),
        "SCAN" => Reply::List(vec![bytes("0"), list(&["tollgate:a:gcra:v1:{k}"])]),
        "UNLINK" => Reply::Error("ASK 1 h:1".into()),
        _ => Reply::Nil,
    });
    *store.engine().silent.lock().unwrap() = Some("FORGET");
    let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
}

#[test]
fn a_refusal_says_what_an_operator_can_do() {
    for (line, advice, other) in [
        (
            "ERR unknown command 'SCAN'",
            "undo its renaming",
            "cluster client",
        ),
        ("EXECABORT no", "transaction", "undo its renaming"),
        (
            "CROSSSLOT no",
            "this server is one node of a cluster",
            "partition",
        ),
        ("NOPERM no", "grant", "one node"),
    ] {
        let store = Fake::store(move |_| Reply::Error(line.into()));
        let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(advice) && !text.contains(other), "{text}");
    }
}

#[test]
fn severities_are_padded_in_columns() {
    let shown = [
        Severity::Ok,
        Severity::Note,
        Severity::Unknown,
        Severity::Warning,
        Severity::Serious,
    ]
    .map(|severity| format!("{severity:8}|"));
    let expected = [
        "ok      |",
        "note    |",
        "unknown |",
        "warning |",
        "serious |",
    ];
    assert_eq!(shown, expected);
}

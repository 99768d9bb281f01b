//! Operators' commands on a live server: resets in bulk, and `doctor`.

use std::process::Output;

use serde_json::Value;
use tollgate_testkit::{Cluster, Flavor, Server};

use crate::program::{answer, fails, has, has_fields, run, stderr, stdout};

/// An instant in 2100, at which the states below were counted.
const AHEAD: f64 = 4_102_444_800_000_000.;

fn ask(store: &str, line: &str) -> Output {
    run(&format!("{line} --store {store}"))
}

fn says(store: &str, status: i32, line: &str) -> Value {
    let output = ask(store, &format!("{line} --json"));
    assert_eq!(stderr(&output), "");
    answer(&output, status)
}

/// Writes a full bucket, as left by a clock that was ahead.
fn lock(server: &Server, key: &str) {
    // Debt, instant, and units per token of `gcra:2/1m`.
    let state = [60e6, AHEAD, 30e6].map(f64::to_le_bytes).concat();
    let reply = server.command(&[b"SET", key.as_bytes(), &state]);
    assert_eq!(reply.text(), Some("OK"), "{reply:?}");
}

#[test]
fn states_ahead_of_the_clock_are_cleared() {
    for scheme in ["redis", "fred"] {
        let server = Server::start(Flavor::System);
        let store = format!("{scheme}://{}", server.address());
        let plays = |status, line: &str, fields: &str| {
            has_fields(&says(&store, status, line), fields);
        };
        plays(0, "check alice --limit login=gcra:2/1m", "");
        for key in ["bob", "carol"] {
            lock(&server, &format!("tollgate:login:gcra:v1:{{{key}}}"));
        }
        lock(&server, "tollgate:pages:gcra:v1:{dave}");
        lock(&server, "tollgate:eu:login:gcra:v1:{erin}");
        let bob = "peek bob --limit login=gcra:2/1m";
        let long = "retry_after_us=1000000000000000..9000000000000000";
        plays(1, bob, long);
        let dry = "reset --all --ahead --dry-run";
        plays(0, dry, "found=3 & forgotten=0 & dry_run=true");
        plays(1, bob, long);
        let pages = "reset --all --ahead --limit pages";
        plays(0, pages, r#"found=1 & forgotten=1 & limits.0="pages""#);
        plays(0, "reset --all --ahead", "forgotten=2 & servers=1");
        plays(0, bob, "remaining=2");
        plays(0, "peek alice --limit login=gcra:2/1m", "remaining=1");
        plays(0, "reset --all", "forgotten=1");
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));
    }
}

#[test]
fn output_says_how_many_states_were_cleared() {
    let server = Server::start(Flavor::System);
    let say = |line: &str| stdout(&ask(&server.url(), line));
    for number in 0..1_200 {
        lock(&server, &format!("tollgate:login:gcra:v1:{{{number}}}"));
    }
    server.command(&["SET", "tollgate:login:gcra:v99:{new}", "x"]);
    assert_eq!(
        say("reset --all --ahead --dry-run"),
        "reset tollgate: 1,200 states would be forgotten, all of them ahead of the server's clock\n\
         (1 key was left: written by another release, or by no limit)\n"
    );
    assert_eq!(
        say("reset --all --limit login"),
        "reset tollgate: 1,200 states forgotten of login\n\
         (1 key was left: written by another release, or by no limit)\n"
    );
    let found = say("reset --all --prefix shop");
    assert_eq!(found, "reset shop: 0 states forgotten\n");
}

#[test]
fn a_reset_of_a_name_without_states_says_which_names_have_some() {
    let server = Server::start(Flavor::System);
    let reset = |status: i32, more: &str| {
        let output = ask(&server.url(), &format!("reset --all {more}"));
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        stdout(&output)
    };
    lock(&server, "tollgate:pages:gcra:v1:{alice}");
    says(&server.url(), 0, "check alice --limit login=gcra:5/1m");
    assert_eq!(
        reset(1, "--limit logon"),
        "reset tollgate: 0 states forgotten of logon\n\
         The server holds no state of logon; it has states of login, pages.\n"
    );
    // Nothing is ahead, which is what one hopes for.
    let ahead = reset(0, "--limit login --ahead");
    assert!(ahead.starts_with("reset tollgate: 0 states"), "{ahead}");
    let both = reset(0, "--limit pages --limit logon");
    has(&both, "1 state forgotten of pages, logon\n");
    has(&both, "\nThe server holds no state of logon; ");
    has(&reset(1, "--limit pages"), "has states of login.\n");
}

#[test]
fn a_failed_reset_says_what_was_done_and_what_to_do() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let nodes = cluster.addresses();
    let store = format!("redis-cluster://{}", nodes.join(","));
    for key in 0..30 {
        says(&store, 0, &format!("check {key} --limit login=gcra:2/1m"));
    }
    let one = ask(&format!("redis://{}", nodes[0]), "reset --all");
    fails(&one, &["one node of a cluster", "a cluster client"]);

    // The last master refuses to delete keys.
    let last = &cluster.nodes()[2];
    last.command(&["ACL", "SETUSER", "default", "-unlink"]);
    let cut = ask(&store, "reset --all");
    fails(&cut, &["states were forgotten before that", "again"]);
    last.command(&["ACL", "SETUSER", "default", "+unlink"]);
    let left = says(&store, 0, "reset --all")["forgotten"].as_u64();
    assert!((1..30).contains(&left.unwrap()), "{left:?}");
}

#[test]
fn a_doctor_ignores_the_leftovers_of_an_earlier_one() {
    let server = Server::start(Flavor::System);
    server.command(&["ACL", "SETUSER", "default", "-unlink"]);
    for _ in 0..2 {
        let found = says(&server.url(), 0, "doctor");
        let findings = found["findings"].as_array().unwrap();
        let ahead = findings.iter().find(|one| one["check"] == "states ahead");
        assert_eq!(ahead.unwrap()["severity"], "ok", "{findings:#?}");
    }
}

#[test]
fn doctors_rate_findings_and_say_what_to_do() {
    let healthy = Server::start(Flavor::System);
    let evicts = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lfu"];
    let evicting = Server::options(Flavor::System).args(evicts).start();
    for scheme in ["redis", "fred"] {
        let store = |server: &Server| format!("{scheme}://{}", server.address());
        has_fields(&says(&store(&healthy), 0, "doctor"), r#"worst="warning""#);
        for (least, status) in [("warning", 1), ("serious", 0), ("error", 0)] {
            says(
                &store(&healthy),
                status,
                &format!("doctor --fail-on {least}"),
            );
        }
        let answer = says(&store(&evicting), 1, "doctor");
        assert_eq!(answer["worst"], "serious");
        let findings = answer["findings"].as_array().unwrap();
        let serious = findings.iter();
        let mut serious = serious.filter(|finding| finding["severity"] == "serious");
        let finding = serious.next().unwrap();
        assert_eq!(finding["check"], "eviction");
        assert!(finding["advice"].as_str().unwrap().contains("noeviction"));
        assert_eq!(serious.next(), None);

        let output = ask(&store(&evicting), "doctor");
        assert_eq!(output.status.code(), Some(1));
        let text = stdout(&output);
        let head = format!("doctor {}: serious\n\n", store(&evicting));
        assert!(text.starts_with(&head), "{text}");
        for part in [
            "\nSEVERITY  SERVER  CHECK         FOUND\n",
            "\nserious   server  eviction      `maxmemory-policy` is",
            "\nWhat to do:\n",
            "\n- eviction: set ",
        ] {
            has(&text, part);
        }
        // With a prefix, and for a service that uses callers' clocks.
        let options = "doctor --prefix shop --time-source caller";
        says(&store(&healthy), 0, options);
    }
    for server in [healthy, evicting] {
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(0));
    }
    let output = ask("redis://127.0.0.1:1", "doctor");
    fails(&output, &["(unavailable)", "running"]);
}

#[test]
fn options_of_other_commands_are_refused() {
    for case in "\
reset => --all
reset --limit login=gcra:2/1m => --key
reset --all --key alice => --key
reset alice --all => '[KEY]' cannot be used
reset --ahead --limit login=gcra:2/1m --key alice => '--ahead' cannot be used with '--key
reset alice --ahead => '[KEY]' cannot be used with '--ahead'
reset --ahead => |--all>
reset --dry-run => --all
reset alice --key alice => cannot be used
reset --all --rest /a => --rest
reset --all --limit login=gcra:2/1m => not a name
reset --all --prefix a* => not a prefix
doctor --prefix a* => not a prefix"
        .lines()
    {
        let (line, hint) = case.split_once(" => ").unwrap();
        let output = ask("redis://127.0.0.1:1", line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        has(&stderr(&output), hint);
    }
}

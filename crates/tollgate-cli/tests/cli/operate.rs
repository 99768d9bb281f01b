//! Operators' commands on a live server: resets in bulk, and `doctor`.

use std::process::Output;

use serde_json::Value;
use tollgate_testkit::{Cluster, Flavor, Server};

use crate::program::{fails, stderr, stdout, tollgate};

/// An instant in 2100, at which the states below were counted.
const AHEAD: f64 = 4_102_444_800_000_000.;

fn run(store: &str, arguments: &[&str]) -> Output {
    let mut command = tollgate();
    command.args(arguments).args(["--store", store]);
    command.output().unwrap()
}

fn says(store: &str, status: i32, arguments: &[&str]) -> Value {
    let output = run(store, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    serde_json::from_slice(&output.stdout).unwrap()
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
        let ask = |status, command: &str, key| {
            let login = ["--limit", "login=gcra:2/1m", "--key", key];
            says(&store, status, &[&[command], &login[..]].concat())
        };
        ask(0, "check", "alice");
        for key in ["bob", "carol"] {
            lock(&server, &format!("tollgate:login:gcra:v1:{{{key}}}"));
        }
        lock(&server, "tollgate:pages:gcra:v1:{dave}");
        lock(&server, "tollgate:eu:login:gcra:v1:{erin}");
        assert!(ask(1, "peek", "bob")["retry_after_us"].as_f64().unwrap() > 1e15);

        let found = says(&store, 0, &["reset", "--all", "--ahead", "--dry-run"]);
        assert_eq!(found["found"], 3);
        let seen = (&found["forgotten"], &found["dry_run"]);
        assert_eq!(seen, (&0.into(), &true.into()));
        ask(1, "peek", "bob");
        let words = ["reset", "--all", "--ahead", "--limit", "pages"];
        let one = says(&store, 0, &words);
        assert_eq!((&one["found"], &one["forgotten"]), (&1.into(), &1.into()));
        assert_eq!(one["limits"][0], "pages");
        let rest = says(&store, 0, &["reset", "--all", "--ahead"]);
        let seen = (&rest["forgotten"], &rest["servers"]);
        assert_eq!(seen, (&2.into(), &1.into()));
        assert_eq!(ask(0, "peek", "bob")["remaining"], 2);
        assert_eq!(ask(0, "peek", "alice")["remaining"], 1);
        let all = says(&store, 0, &["reset", "--all"]);
        assert_eq!(all["forgotten"], 1);
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));
    }
}

#[test]
fn output_says_how_many_states_were_cleared() {
    let server = Server::start(Flavor::System);
    let say = |arguments: &[&str]| stdout(&run(&server.url(), arguments));
    for number in 0..1_200 {
        lock(&server, &format!("tollgate:login:gcra:v1:{{{number}}}"));
    }
    server.command(&["SET", "tollgate:login:gcra:v99:{new}", "x"]);
    assert_eq!(
        say(&["reset", "--all", "--ahead", "--dry-run"]),
        "reset tollgate: 1,200 states would be forgotten, all of them ahead of the server's clock\n\
         (1 key was left: written by another release, or by no limit)\n"
    );
    assert_eq!(
        say(&["reset", "--all", "--limit", "login"]),
        "reset tollgate: 1,200 states forgotten of login\n\
         (1 key was left: written by another release, or by no limit)\n"
    );
    let found = say(&["reset", "--all", "--prefix", "shop"]);
    assert_eq!(found, "reset shop: 0 states forgotten\n");
}

#[test]
fn a_reset_of_a_name_without_states_says_which_names_have_some() {
    let server = Server::start(Flavor::System);
    let reset = |status: i32, more: &[&str]| {
        let output = run(&server.url(), &[&["reset", "--all"], more].concat());
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        stdout(&output)
    };
    lock(&server, "tollgate:pages:gcra:v1:{alice}");
    let known = ["--limit", "pages"];
    let call = ["check", "alice", "--limit", "login=gcra:5/1m"];
    says(&server.url(), 0, &call);
    assert_eq!(
        reset(1, &["--limit", "logon"]),
        "reset tollgate: 0 states forgotten of logon\n\
         The server holds no state of logon; it has states of login, pages.\n"
    );
    // Nothing is ahead, which is what one hopes for.
    let ahead = reset(0, &["--limit", "login", "--ahead"]);
    assert!(ahead.starts_with("reset tollgate: 0 states"), "{ahead}");
    let both = reset(0, &[&known[..], &["--limit", "logon"]].concat());
    let said = "1 state forgotten of pages, logon\n";
    assert!(both.contains(said), "{both}");
    let said = "\nThe server holds no state of logon; ";
    assert!(both.contains(said), "{both}");
    assert!(reset(1, &known).contains("has states of login.\n"));
}

#[test]
fn a_failed_reset_says_what_was_done_and_what_to_do() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let nodes = cluster.addresses();
    let store = format!("redis-cluster://{}", nodes.join(","));
    for number in 0..30 {
        let key = number.to_string();
        let login = ["--limit", "login=gcra:2/1m", "--key", &key];
        says(&store, 0, &[&["check"], &login[..]].concat());
    }
    let one = run(&format!("redis://{}", nodes[0]), &["reset", "--all"]);
    fails(&one, &["one node of a cluster", "a cluster client"]);

    // The last master refuses to delete keys.
    let last = &cluster.nodes()[2];
    last.command(&["ACL", "SETUSER", "default", "-unlink"]);
    let cut = run(&store, &["reset", "--all"]);
    fails(&cut, &["states were forgotten before that", "again"]);
    last.command(&["ACL", "SETUSER", "default", "+unlink"]);
    let left = says(&store, 0, &["reset", "--all"])["forgotten"].as_u64();
    assert!((1..30).contains(&left.unwrap()), "{left:?}");
}

#[test]
fn a_doctor_ignores_the_leftovers_of_an_earlier_one() {
    let server = Server::start(Flavor::System);
    server.command(&["ACL", "SETUSER", "default", "-unlink"]);
    for _ in 0..2 {
        let found = says(&server.url(), 0, &["doctor"]);
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
        let answer = says(&store(&healthy), 0, &["doctor"]);
        assert_eq!(answer["worst"], "warning");
        for (least, status) in [("warning", 1), ("serious", 0), ("error", 0)] {
            says(&store(&healthy), status, &["doctor", "--fail-on", least]);
        }
        let answer = says(&store(&evicting), 1, &["doctor"]);
        assert_eq!(answer["worst"], "serious");
        let findings = answer["findings"].as_array().unwrap();
        let serious = findings.iter();
        let mut serious = serious.filter(|finding| finding["severity"] == "serious");
        let finding = serious.next().unwrap();
        assert_eq!(finding["check"], "eviction");
        assert!(finding["advice"].as_str().unwrap().contains("noeviction"));
        assert_eq!(serious.next(), None);

        let output = run(&store(&evicting), &["doctor"]);
        assert_eq!(output.status.code(), Some(1));
        let text = stdout(&output);
        assert!(text.starts_with(&format!("doctor {}: serious\n\n", store(&evicting))));
        let said = "\nSEVERITY  SERVER  CHECK         FOUND\n";
        assert!(text.contains(said), "{text}");
        assert!(text.contains("\nserious   server  eviction      `maxmemory-policy` is"));
        assert!(text.contains("\nWhat to do:\n") && text.contains("\n- eviction: set "));
        // With a prefix, and for a service that uses callers' clocks.
        let options = ["doctor", "--prefix", "shop", "--time-source", "caller"];
        says(&store(&healthy), 0, &options);
    }
    for server in [healthy, evicting] {
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(0));
    }
    let output = run("redis://127.0.0.1:1", &["doctor"]);
    fails(&output, &["(unavailable)", "running"]);
}

#[test]
fn options_of_other_commands_are_refused() {
    let key = ["--key", "alice"];
    let limit = ["--limit", "login=gcra:2/1m"];
    for (arguments, hint) in [
        (vec!["reset"], "--all"),
        ([&["reset"], &limit[..]].concat(), "--key"),
        ([&["reset", "--all"], &key[..]].concat(), "--key"),
        (vec!["reset", "alice", "--all"], "'[KEY]' cannot be used"),
        (
            [&["reset", "--ahead"], &limit[..], &key[..]].concat(),
            "'--ahead' cannot be used with '--key",
        ),
        (
            vec!["reset", "alice", "--ahead"],
            "'[KEY]' cannot be used with '--ahead'",
        ),
        (vec!["reset", "--ahead"], "|--all>"),
        (vec!["reset", "--dry-run"], "--all"),
        (vec!["reset", "alice", "--key", "alice"], "cannot be used"),
        (vec!["reset", "--all", "--rest", "/a"], "--rest"),
        ([&["reset", "--all"], &limit[..]].concat(), "not a name"),
        (vec!["reset", "--all", "--prefix", "a*"], "not a prefix"),
        (vec!["doctor", "--prefix", "a*"], "not a prefix"),
    ] {
        let output = run("redis://127.0.0.1:1", &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    }
}

//! Ctrl-C and SIGTERM: what the program has counted or written is given back before it ends.

#![cfg(unix)]

use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{stderr, stdout, tollgate};
use crate::servers::{begun, size};

/// The signals, with the exit status that shells expect after each.
const SIGNALS: [(&str, i32); 2] = [("INT", 130), ("TERM", 143)];

/// Sends `signal` to `child`, and returns what it printed.
fn ended_by(signal: &str, child: Child) -> Output {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", signal, &id]).status();
    assert!(sent.unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_replay_leaves_no_keys() {
    let server = Server::start(Flavor::System);
    for scheme in ["redis", "fred"] {
        for (signal, status) in SIGNALS {
            let output = ended_by(signal, begun(&server, scheme));
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
            assert_eq!(stderr(&output), "tollgate: interrupted\n");
            assert!(output.stdout.is_empty());
            assert_eq!(size(&server), 0, "{scheme} {signal}");
        }
    }
}

/// Starts a check that has to wait for a minute, and waits until it is counted.
fn waiting(desk: &Desk, scheme: &str, limit: &str, key: &str) -> Child {
    let before = desk.server.command(&["GET", key]);
    let store = format!("{scheme}://{}", desk.server.address());
    let child = tollgate()
        .args([
            "check", "--limit", limit, "--key", "alice", "--within", "1h",
        ])
        .args(["--store", &store, "--prefix", &desk.prefix])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while desk.server.command(&["GET", key]) == before {
        assert!(Instant::now() < deadline, "nothing is counted");
        sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn an_interrupted_wait_is_given_back() {
    let limit = "mail=gcra:1/1m";
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let subject = ["--limit", limit, "--key", "alice"];
        desk.says(0, &[&["check"], &subject[..]].concat());
        let key = desk.key("mail:gcra:v1:{alice}");
        for (signal, status) in SIGNALS {
            let output = ended_by(signal, waiting(&desk, scheme, limit, &key));
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
            assert_eq!(stderr(&output), "tollgate: interrupted\n");
            assert!(output.stdout.is_empty());
            let wait = desk.says(1, &[&["peek"], &subject[..]].concat());
            let wait = wait["retry_after_us"].as_u64().unwrap();
            assert!(wait <= 60_000_000, "{scheme} {signal}: {wait}");
        }
    }
}

#[test]
fn an_interrupted_wait_says_so_if_the_server_is_lost() {
    let server = Server::start(Flavor::System);
    let check = |within: &[&str]| {
        let mut command = tollgate();
        command
            .args(["check", "--limit", "mail=gcra:1/1m", "--key", "alice"])
            .args(["--store", &server.url()])
            .args(within)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    assert!(check(&[]).wait().unwrap().success());
    let child = check(&["--within", "1h"]);
    let reserved = |server: &Server| {
        let stats = server.command(&["INFO", "commandstats"]);
        let line = "cmdstat_set:calls=2,";
        stats.text().unwrap().contains(line)
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !reserved(&server) {
        assert!(Instant::now() < deadline, "nothing is counted");
        sleep(Duration::from_millis(2));
    }
    server.kill();
    let begun = Instant::now();
    let output = ended_by("INT", child);
    // It waits for the server, but not for ever.
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

//! Ctrl-C and SIGTERM: what the program has counted or written is given back before it ends.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{stderr, stdout, tollgate, words};
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

/// A limit whose next start is at most a second ahead, so that a check that waits reserves it.
const LIMIT: &str = "--limit mail=gcra:1/1s --key alice";

/// Starts `command`, whose output is kept.
fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts a check that has to wait, on a key that is used up, and interrupts it once its start is
/// reserved. Returns what it printed, or `None` if it was admitted before.
fn interrupted(desk: &Desk, signal: &str) -> Option<Output> {
    let key = desk.key("mail:gcra:v1:{alice}");
    let _ = desk.ask("check");
    let before = desk.server.command(&["GET", &key]);
    let mut child = started(desk.command("check --wait-up-to 1h"));
    while desk.server.command(&["GET", &key]) == before {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        sleep(Duration::from_millis(2));
    }
    let output = ended_by(signal, child);
    (output.status.code() != Some(0)).then_some(output)
}

#[test]
fn an_interrupted_wait_is_given_back() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme).about(LIMIT);
        for (signal, status) in SIGNALS {
            // On a busy machine, it may be admitted before it is interrupted.
            let mut attempts = (0..20).filter_map(|_| interrupted(&desk, signal));
            let output = attempts.next().expect("it was always admitted at once");
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
            assert_eq!(stderr(&output), "tollgate: interrupted\n");
            assert!(output.stdout.is_empty());
            // Its start is due, and nobody has used it: otherwise it would count for a second.
            desk.says(0, "peek");
        }
    }
}

#[test]
fn an_interrupted_wait_says_so_if_the_server_is_lost() {
    let server = Server::start(Flavor::System);
    let check = |waits: &str| {
        let mut command = tollgate();
        command.args(words("check --limit mail=gcra:1/1m --key alice"));
        command.args(["--store", &server.url()]).args(words(waits));
        started(command)
    };
    assert!(check("").wait().unwrap().success());
    let child = check("--wait-up-to 1h");
    let asked = |server: &Server| {
        let stats = server.command(&["INFO", "commandstats"]);
        let stats = stats.text().unwrap().to_owned();
        stats
            .lines()
            .any(|line| line.starts_with("cmdstat_get:calls=2,"))
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !asked(&server) {
        assert!(Instant::now() < deadline, "nothing is asked");
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

#[test]
fn top_looks_again_until_it_is_interrupted_or_not_read() {
    let desk = Desk::new("redis");
    let begun = |every: &str| {
        let top = format!("top --limit login=gcra:5/1d --json --every {every}");
        let mut child = started(desk.command(&top));
        let mut line = String::new();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        answers.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"command\":\"top\","), "{line}");
        (child, answers)
    };
    for (signal, status) in SIGNALS {
        let (child, _answers) = begun("1h");
        let output = ended_by(signal, child);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(stderr(&output), "tollgate: interrupted\n");
    }
    let (child, answers) = begun("1ms");
    drop(answers);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

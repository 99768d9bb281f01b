//! `peek` names the states that a key has under other algorithms, windows and clocks.

use serde_json::{Value, json};
use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{stderr, stdout, tollgate};

const ALICE: [&str; 2] = ["--key", "alice"];

/// What is counted under, what is asked with, and what is shown of what was counted.
const OTHERS: &str = "\
gcra:5/1m sliding-log:5/1m gcra:N/WINDOW
sliding-log:5/1m gcra:5/1m sliding-log:N/WINDOW
sliding-counter:5/1h gcra:5/1m sliding-counter:N/1h
sliding-counter:5/1h sliding-counter:5/2h sliding-counter:N/1h
fixed-window:5/5m fixed-window:5/5m,anchored fixed-window:N/5m
fixed-window:5/7s,anchored gcra:9/7s fixed-window:N/7s,anchored
sliding-buckets:5/1h,buckets=12 sliding-buckets:5/1h,buckets=6 sliding-buckets:N/1h,buckets=12";

fn say(desk: &Desk, status: i32, command: &str, limit: &str, more: &[&str]) -> Value {
    let arguments = [&[command, "--limit", limit], &ALICE[..], more].concat();
    desk.says(status, &arguments)
}

#[test]
fn peek_names_states_of_other_algorithms() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        for case in OTHERS.lines() {
            let [counted, asked, shown] = case.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{case}");
            };
            let [counted, asked, shown] = [counted, asked, shown].map(|it| format!("login={it}"));
            say(&desk, 0, "check", &counted, &["--cost", "5"]);
            let peek = say(&desk, 0, "peek", &asked, &[]);
            let expected = json!([{"state": shown, "clock": "server"}]);
            assert_eq!(peek["other_states"], expected, "{asked}");
            // Who asks as the service does sees that the key is denied, and nothing else.
            let peek = say(&desk, 1, "peek", &counted, &[]);
            assert_eq!(peek.get("other_states"), None, "{peek}");
            say(&desk, 0, "reset", &counted, &[]);
        }
    }
}

#[test]
fn peek_names_states_of_other_clocks_and_kinds() {
    let desk = Desk::new("redis");
    let by_caller = ["--time-source", "caller"];
    say(&desk, 0, "check", "login=gcra:1/1h", &by_caller);
    say(&desk, 0, "block", "login=block:5m", &[]);
    say(&desk, 0, "check", "mail=gcra:1/1h", &[]);
    say(&desk, 0, "check", "other=gcra:1/1h", &[]);
    for (kind, name) in [("schedule", "login"), ("leases", "mail")] {
        let key = desk.key(&format!("{name}:{kind}:v1:{{alice}}"));
        desk.server.command(&["SET", &key, "x", "EX", "60"]);
    }
    let limits = ["--limit", "mail=gcra:5/1h"];
    let peek = say(&desk, 0, "peek", "login=gcra:1/1h", &limits);
    let expected = json!([
        {"state": "login=gcra:N/WINDOW", "clock": "caller"},
        {"state": "login=block:LENGTH", "clock": "server"},
        {"state": "the schedule called login", "clock": "server"},
        {"state": "the leases called mail", "clock": "server"},
    ]);
    assert_eq!(peek["other_states"], expected);
    // Of another key, there are none.
    let bob = ["peek", "--limit", "login=gcra:1/1h", "--key", "bob"];
    assert_eq!(desk.says(0, &bob).get("other_states"), None);

    let arguments = [&["peek", "--limit", "login=gcra:1/1h"], &limits[..], &ALICE].concat();
    let output = desk.ask(&arguments);
    let text = stdout(&output);
    let end = "\n\nThe server holds other states of this key, which these limits do not read:\n\
               - login=gcra:N/WINDOW, by the clocks of callers (--time-source caller)\n\
               - login=block:LENGTH\n\
               - the schedule called login\n\
               - the leases called mail\n\
               If the service has one of them, ask with its limit.\n";
    assert!(text.ends_with(&end[1..]), "{text}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn peek_answers_even_if_other_states_cannot_be_looked_for() {
    let server = Server::start(Flavor::System);
    server.command(&["ACL", "SETUSER", "default", "-exists"]);
    let output = tollgate()
        .args(["peek", "--limit", "login=gcra:5/1m", "--key", "alice"])
        .args(["--store", &server.url()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("peek alice, cost 1: allowed\n"));
    let remark = stderr(&output);
    let start = "tollgate: cannot look for other states of this key: ";
    let holds = remark.starts_with(start) && remark.contains("exists");
    assert!(holds, "{remark}");
}

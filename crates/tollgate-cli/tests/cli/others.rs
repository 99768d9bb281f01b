//! `peek` names the states that a key has under other algorithms, windows and clocks.

use serde_json::json;
use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{run, stderr, stdout};

/// What is counted under, what is asked with, and what is shown of what was counted.
const OTHERS: &str = "\
gcra:5/1m sliding-log:5/1m gcra:N/WINDOW
sliding-log:5/1m gcra:5/1m sliding-log:N/WINDOW
sliding-counter:5/1h gcra:5/1m sliding-counter:N/1h
sliding-counter:5/1h sliding-counter:5/2h sliding-counter:N/1h
fixed-window:5/5m fixed-window:5/5m,anchored fixed-window:N/5m
fixed-window:5/7s,anchored gcra:9/7s fixed-window:N/7s,anchored
sliding-buckets:5/1h,buckets=12 sliding-buckets:5/1h,buckets=6 sliding-buckets:N/1h,buckets=12";

#[test]
fn peek_names_states_of_other_algorithms() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        for case in OTHERS.lines() {
            let [counted, asked, shown] = case.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{case}");
            };
            desk.says(0, &format!("check alice --limit login={counted} --cost 5"));
            let peek = desk.says(0, &format!("peek alice --limit login={asked}"));
            let expected = json!([{"state": format!("login={shown}"), "clock": "server"}]);
            assert_eq!(peek["other_states"], expected, "{asked}");
            // Who asks as the service does sees that the key is denied, and nothing else.
            let peek = format!("1 peek alice --limit login={counted}");
            desk.plays(&format!("{peek} => other_states=none"));
            desk.says(0, &format!("reset alice --limit login={counted}"));
        }
    }
}

#[test]
fn peek_names_states_of_other_clocks_and_kinds() {
    let desk = Desk::new("redis");
    desk.plays(
        "
        0 block alice --limit login=block:5m
        0 check alice --limit login=gcra:1/1h --time-source caller
        0 check alice --limit other=gcra:1/1h
        ",
    );
    for (kind, name) in [("schedule", "login"), ("leases", "mail")] {
        let key = desk.key(&format!("{name}:{kind}:v1:{{alice}}"));
        desk.server.command(&["SET", &key, "x", "EX", "60"]);
    }
    // Of another key, there are none.
    desk.plays("0 peek bob --limit login=gcra:1/1h => other_states=none");

    let output = desk.ask("peek alice --limit login=gcra:1/1h --limit mail=gcra:5/1h");
    let text = stdout(&output);
    let end = "\nThe server holds other states of this key, which these limits do not read:\n\
               - login=block:LENGTH\n\
               - login=gcra:N/WINDOW, by the clocks of callers (--time-source caller)\n\
               - the leases called mail\n\
               - the schedule called login\n\
               If the service has one of them, ask with its limit.\n";
    assert!(text.ends_with(end), "{text}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn peek_answers_even_if_other_states_cannot_be_looked_for() {
    let server = Server::start(Flavor::System);
    server.command(&["ACL", "SETUSER", "default", "-scan"]);
    let peek = "peek alice --limit login=gcra:5/1m";
    let output = run(&format!("{peek} --store {}", server.url()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("peek alice, cost 1: allowed\n"));
    let remark = stderr(&output);
    let start = "tollgate: cannot look for other states of this key: ";
    let holds = remark.starts_with(start) && remark.contains("scan");
    assert!(holds, "{remark}");
}

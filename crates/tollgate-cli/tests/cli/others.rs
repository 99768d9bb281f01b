//! `peek` names the states that a key has under other algorithms, windows and clocks.

use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{run, stderr, stdout};

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

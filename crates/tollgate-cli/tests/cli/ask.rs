//! `check`, `peek` and `reset` on a live server: what they print, and the exit status.

use std::process::Stdio;

use serde_json::Value;
use tollgate_testkit::{Flavor, Reply, Server};

use crate::desk::Desk;
use crate::program::{
    SAMPLE, all_fail, fails, has, has_fields, replay, run, stderr, stdout, tollgate, words,
};

const LOGIN: &str = "--limit login=gcra:2/1d --key alice";

#[test]
fn checks_count_peeks_do_not_and_resets_forget() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme).about(LOGIN);
        desk.plays("0 peek => remaining=2");
        assert_eq!(desk.keys(), [""; 0]);
        desk.plays("0 check => remaining=1");
        assert_eq!(desk.keys(), [desk.key("login:gcra:v1:{alice}")]);
        let denied = r#"allowed=false & limits.0.limit="login=gcra:2/1d" & limits.0.capacity=2"#;
        desk.plays("0 check => remaining=0");
        let answer = desk.says(1, "check");
        has_fields(&answer, denied);
        has_fields(&answer, "retry_after_us=43000000000..43200000000");
        desk.plays("1 peek => remaining=0");
        desk.plays(r#"0 reset => limits.0="login=gcra:2/1d""#);
        assert_eq!(desk.keys(), [""; 0]);
        desk.plays("0 peek => remaining=2");
    }
}

/// A ban at night should not depend on a second connection, which the server may refuse.
#[test]
fn a_block_and_the_look_after_it_share_a_connection() {
    let server = Server::start(Flavor::System);
    let store = server.url();
    let received = || -> u64 {
        let reply = server.command(&["INFO", "stats"]);
        let text = reply.text().unwrap().to_owned();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
        count.unwrap().trim().parse().unwrap()
    };
    let opened = |command: &str| {
        let before = received();
        let subject = "--key mallory --limit ban=block:15m";
        let asked = run(&format!("{command} {subject} --store {store}"));
        assert!(asked.status.success(), "{}", stderr(&asked));
        received() - before
    };
    assert_eq!(opened("peek"), opened("block"));
}

#[test]
fn a_blocked_key_is_denied_until_it_is_reset() {
    for scheme in ["redis", "fred"] {
        let subject = "--key mallory --limit api=gcra:5/1d --limit ban=block:15m";
        Desk::new(scheme).about(subject).plays(
            r#"
            0 block => limits=["ban=block:15m"] & wait_us=900000000
            1 check => limits.0.allowed=true & limits.1.remaining=0 & retry_after_us=800000000..900000000
            0 block --lasting 2h => wait_us=7200000000
            0 reset
            0 check => remaining=4
            "#,
        );
    }
    let desk = Desk::new("redis").about("--key mallory --limit api=gcra:5/1d");
    let text = desk.text("block --limit ban=block:15m");
    assert_eq!(text, "block mallory: blocked for 15m by ban=block:15m\n");
    fails(
        &desk.ask("block"),
        &["only a limit that blocks can block a key"],
    );
}

#[test]
fn units_are_charged_and_given_back_once_for_each_id() {
    let limits = "--limit minutes=fixed-window:100/1d,anchored --limit ban=block:15m";
    for scheme in ["redis", "fred"] {
        Desk::new(scheme)
            .about(&format!("--key alice {limits}"))
            .plays(
                r#"
            0 charge --cost 130 --id call => remaining=0 & owed=30 & limits.0.given=none & limits.1=none & unread=["minutes"]
            0 charge --cost 130 --id call => owed=30
            1 peek => limits.0.owed=30 & limits.1.owed=none
            0 give --cost 40 --id ticket => owed=0 & limits.0.remaining=10 & limits.0.given=40
            0 give --cost 40 --id ticket => limits.0.remaining=10 & limits.0.given=40
            0 give --cost 900 => limits.0.remaining=100 & limits.0.given=90
            "#,
            );
    }
    let desk = Desk::new("redis").about("alice");
    let minutes = "--limit minutes=fixed-window:1000/1d";
    assert_eq!(
        desk.text(&format!("charge {minutes} --cost 2500")),
        "charge alice, cost 2,500: 1,500 owed\n- minutes=fixed-window:1000/1d: 0 of 1,000 left, 1,500 owed\n"
    );
    has(&desk.text(&format!("peek {minutes}")), "0, owes 1,500");
    assert_eq!(
        desk.text(&format!("give {minutes} --cost 1501")),
        "give alice, cost 1,501: 1 left\n- minutes=fixed-window:1000/1d: 1,501 given back, 1 of 1,000 left\n"
    );
    desk.plays(
        "0 charge --limit day=fixed-window:9/1d --limit hour=gcra:1/1h --cost 3 => remaining=0 & owed=2 & limits.*.owed=[0, 2]",
    );
    // As the service does not count it.
    let other = r#"other_states=["minutes=fixed-window:N/1d"]"#;
    for command in ["give", "charge"] {
        desk.plays(&format!(
            "1 {command} --limit minutes=gcra:1000/1d => {other} & limits.0.remaining=999..1001"
        ));
    }
    fails(
        &desk.ask("give --limit ban=block:15m"),
        &["a block counts nothing"],
    );
}

#[test]
fn a_limit_in_shadow_says_what_it_would_do() {
    let desk = Desk::new("redis").about("--limit next=sliding-log:1/1d,shadow");
    let check = "check --key alice --limit api=gcra:9/1d";
    desk.says(0, check);
    desk.plays(&format!(
        "0 {check} => allowed=true & limits.*.allowed=[true, false]"
    ));
    let text = desk.text(check);
    assert!(text.starts_with("check alice, cost 1: allowed\n"), "{text}");
    has(
        &text,
        "next=sliding-log:1/1d,shadow  would be denied          0   1",
    );
    desk.plays("0 top --limit api=gcra:9/1d => keys=2 & denied=0");
    has(&desk.text("top"), "would be denied");
}

#[test]
fn a_check_that_is_repeated_with_its_id_counts_once() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme).about(LOGIN);
        let first = desk.says(0, "check --id request-1");
        has_fields(&first, "remaining=1");
        assert_eq!(desk.says(0, "check --id request-1"), first);
        desk.plays("0 check --id request-2 => remaining=0");
        desk.plays("1 check --id request-3 => allowed=false");
        assert_eq!(desk.says(0, "check --id request-1"), first);
    }
    let desk = Desk::new("redis").about(LOGIN);
    desk.says(0, "check --id request-1 --cost 1");
    let taken = desk.ask("check --id request-1 --cost 2");
    fails(&taken, &["this id was used for another call"]);
}

#[test]
fn a_check_waits_until_it_is_allowed() {
    for (scheme, limit) in [
        ("redis", "mail=gcra:1/1s"),
        ("fred", "mail=sliding-log:1/1s"),
    ] {
        let desk = Desk::new(scheme).about(&format!("--limit {limit} --key alice"));
        let waited = |answer: &Value| answer["waited_us"].as_u64().unwrap();
        let first = desk.says(0, "check --wait-up-to 5s");
        assert_eq!(first["limits"][0]["limit"], limit);
        let second = desk.says(0, "check --wait-up-to 5s");
        assert_eq!(second["allowed"], true);
        assert!(waited(&second) > waited(&first), "{first} {second}");
        let refused = desk.says(1, "check --wait-up-to 1ms");
        assert_eq!(refused["limit"], limit);
        has_fields(
            &refused,
            "allowed=false & wait_us=1001..1000001 & wait_up_to_us=1000",
        );
        desk.plays("1 check --wait-up-to 5s --cost 2 => wait_us=null");

        let allowed = desk.text("check --wait-up-to 5s");
        let said = "check alice, cost 1: allowed after ";
        assert!(allowed.starts_with(said), "{allowed}");
        let refused = desk.text("check --wait-up-to 1ms");
        let start = "check alice, cost 1: denied, it would have to wait ";
        assert!(refused.starts_with(start), "{refused}");
        let said = format!("\nlimit: {limit}\n");
        assert!(refused.ends_with(&said), "{refused}");
        has(
            &desk.text("check --wait-up-to 1ms --cost 2"),
            "denied forever",
        );
    }
    let desk = Desk::new("redis").about(LOGIN);
    let wrong = desk.ask("check --wait-up-to soon");
    fails(&wrong, &["--wait-up-to soon: that is not a length of time"]);
}

#[test]
fn several_limits_are_decided_together_for_both_parts_of_a_key() {
    let desk = Desk::new("redis")
        .about("--limit a=gcra:5/1d --limit b=sliding-log:1/1d --key 'al ice' --rest /x:y");
    desk.plays("0 check => limits.*.allowed=[true, true]");
    let names = ["a:gcra", "b:sliding-log"];
    let expected = names.map(|name| desk.key(&format!("{name}:v1:{{al%20ice}}:/x%3ay")));
    assert_eq!(desk.keys(), expected);
    // The fourth cost is above the capacity of a limit.
    desk.plays(
        "
        1 check => limits.*.allowed=[true, false] & limits.0.remaining=4
        1 peek --cost 2 => retry_after_us=null
        0 check --cost 0 => remaining=0
        0 reset
        0 peek => remaining=1
        ",
    );
}

#[test]
fn a_key_of_several_lines_is_shown_on_one() {
    let desk = Desk::new("redis").about("--key 'a\nb' --rest '/\r\n'");
    for line in [
        "check --limit login=gcra:5/1d",
        "peek --limit login=gcra:5/1d",
        "charge --limit login=gcra:5/1d",
        "block --limit ban=block:15m",
        "explain",
        "reset",
        "reset",
    ] {
        let head = format!("{} a\\nb", words(line)[0]);
        let text = desk.text(line);
        assert!(text.starts_with(&head), "{text}");
    }
    let text = desk.text("schedule list --schedule mails");
    assert_eq!(text, "list a\\nb /\\r\\n: 0 events\n");
}

#[test]
fn tables_and_json_agree() {
    let desk =
        Desk::new("redis").about("--limit login=fixed-window:2000/1d,anchored --key 'a\u{1b}[1m'");
    assert_eq!(
        desk.text("check --cost 1500"),
        "check a\\u{1b}[1m, cost 1,500: allowed\n\n\
         LIMIT                                VERDICT  REMAINING     OF  RETRY AFTER  RESET AFTER\n\
         login=fixed-window:2000/1d,anchored  allowed        500  2,000           0s           1d\n"
    );
    let denied = desk.text("peek --cost 501");
    let first = denied.lines().next().unwrap();
    let wait = "peek a\\u{1b}[1m, cost 501: denied, to be tried again after 23h 59m ";
    assert!(first.starts_with(wait), "{denied}");
    let never = desk.text("peek --cost 2001");
    assert!(never.contains("denied forever") && never.contains("never"));
    let expected = "reset a\\u{1b}[1m: 1 state forgotten\n- login=fixed-window:N/1d,anchored\n";
    assert_eq!(desk.text("reset"), expected);
}

#[test]
fn the_readme_shows_the_actual_output() {
    let manual = include_str!("../../README.md");
    let desk = Desk::new("redis");
    let shows = |line: &str, end: &str| has(manual, &format!("\n{}{end}", desk.text(line)));
    let both = "alice --limit login=gcra:10/1m --limit attempts=sliding-log:3/1h";
    shows(&format!("check {both}"), "");
    shows(&format!("reset {both}"), "");
    shows("block alice --limit ban=block:15m", "");
    desk.says(0, "check bob --limit login=sliding-log:5/1h");
    shows("peek bob --limit login=gcra:10/1m", "```");
    shows("reset bob --limit login=gcra:10/1m", "");
    shows("reset bob", "");
}

#[test]
fn keys_are_hashed_with_the_secret_of_the_service() {
    let desk = Desk::new("redis").about(LOGIN);
    let ask = |line: &str, secret: Option<&str>| {
        let secret = secret.map(|secret| ("TOLLGATE_KEY_SECRET", secret));
        desk.command(line).envs(secret).output().unwrap()
    };
    let secret = Some("000102030405060708090a0b0c0d0e0f");
    assert!(ask("check --hashed-long-keys", secret).status.success());
    assert_eq!(desk.keys(), [desk.key("login:gcra:v1:{alice}")]);
    assert!(ask("check", secret).status.success());
    assert_eq!(
        desk.keys()[0],
        desk.key("login:gcra:v1:{#450a165128a44da4321e3cfdb05ce071}")
    );
    for (secret, line) in [
        (Some("0001"), "peek"),
        (Some(&*"0".repeat(33)), "peek"),
        (Some("+0102030405060708090a0b0c0d0e0ff"), "peek"),
        (Some(""), "peek"),
        (None, "peek --hashed-long-keys"),
    ] {
        let hints = ["TOLLGATE_KEY_SECRET", "32 hex digits"];
        fails(&ask(line, secret), &hints);
    }
}

#[test]
fn a_call_counts_even_if_the_output_is_closed() {
    let desk = Desk::new("redis");
    let mut child = tollgate()
        .args(words("peek --cost 3"))
        .args(words(LOGIN))
        .args(["--prefix", &desk.prefix])
        .env("TOLLGATE_STORE", desk.server.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_key_of_another_kind_is_an_error() {
    let mut desk = Desk::new("redis").about(LOGIN);
    let key = desk.key("login:gcra:v1:{alice}");
    for (command, hint) in [
        ("SADD", "WRONGTYPE"),
        ("SET", "that tollgate has not written"),
    ] {
        desk.server.command(&["DEL", &key]);
        let written = desk.server.command(&[command, &key, "x"]);
        assert!(!matches!(written, Reply::Error(_)));
        for scheme in ["redis", "fred"] {
            desk.scheme = scheme;
            for command in ["check", "peek"] {
                let hints = ["(misconfigured)", hint, "choose another prefix"];
                fails(&desk.ask(command), &hints);
            }
        }
    }
}

#[test]
fn unreachable_servers_are_errors() {
    for case in "\
redis://127.0.0.1:1 => (unavailable), refused, running
fred://127.0.0.1:1 => (unavailable), refused, running
redis-cluster://127.0.0.1:1 => (unavailable), running
redis://127.0.0.1:x => (misconfigured), --store
fred://127.0.0.1:x => (misconfigured), --store
redis:// => the host is missing, redis://HOST:PORT
127.0.0.1:6379 => not the address, redis://HOST:PORT
http://127.0.0.1 => scheme is not known, redis://HOST:PORT
rediss://u:secret@127.0.0.1:1 => (unavailable), running
freds://u:secret@127.0.0.1:1 => (unavailable), running
redis-clusters://127.0.0.1:1 => scheme is not known, rediss or freds for TLS
memory => not the address, give redis://HOST:PORT
 => not the address"
        .lines()
    {
        let (store, hints) = case.split_once(" => ").unwrap();
        let output = run(&format!("peek {LOGIN} --store '{store}'"));
        fails(&output, &hints.split(", ").collect::<Vec<_>>());
        let text = stderr(&output);
        assert!(!text.contains("secret") && !text.contains(" { "), "{text}");
        // One piece of advice is enough.
        let advice = text.matches("see that").count() + text.matches("check that").count();
        assert!(advice <= 1, "{text}");
    }
    for (store, hint) in [
        ("redis://127.0.0.1:1", "(unavailable)"),
        ("fred://127.0.0.1:1", "(unavailable)"),
        ("memry", "give memory, redis://HOST:PORT"),
    ] {
        let output = replay(SAMPLE, &format!("--limit gcra:5/1m --store {store}"));
        fails(&output, &[store, hint]);
    }
}

#[test]
fn invalid_command_lines_are_errors() {
    let desk = Desk::new("redis");
    let cases = "\
gcra:5/1m => name, login=gcra:10/1m
gcra:5/1m,burst=2 => name, login=
a b=gcra:5/1m => not a name
a=gcra:5 => --limit a=gcra:5, expected `/` and a window
=gcra:5/1m => not a name
login=gcra:2/1d' --limit 'login=gcra:3/1d => two limits of one limiter are called \"login\"";
    all_fail(cases, |limit| {
        desk.ask(&format!("check a --limit '{limit}'"))
    });
    let store = desk.server.url();
    for prefix in ["", "a b", &"x".repeat(65)] {
        let server = format!("--store {store} --prefix '{prefix}'");
        let asked = run(&format!("peek {LOGIN} {server}"));
        fails(&asked, &["--prefix", "1 to 64"]);
        let replayed = replay(SAMPLE, &format!("--limit gcra:5/1m {server}"));
        fails(&replayed, &["--prefix", "1 to 64"]);
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

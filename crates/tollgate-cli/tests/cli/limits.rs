//! Limits by name, from the service's file, and keys, in every command for a live server; what `reset`
//! forgets, and what it says.

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::program::{all_fail, fails, file, has, has_fields, stderr, stdout};

const LIMITS: &str = "\
login = ['login-minute=gcra:5/1d', 'login-day=sliding-log:9/1d']
free = 'api=fixed-window:2/1d'
pro = 'api=fixed-window:9/1d'
ban = 'block:15m'
upload = 'off'
";

/// A limit of the zone of each call is decided, reset and looked for in the zone that the command names.
#[test]
fn a_limit_of_the_calls_zone_and_day_needs_both() {
    let path = file(
        "local.toml",
        "bill = 'fixed-window:5/month@local,day=local'",
    );
    let desk = Desk::new("redis");
    let script = r#"
        0 check alice --cost 3 IN Europe/Berlin => remaining=2 & limits.*.limit=["bill=fixed-window:5/month@Europe/Berlin,day=15"]
        0 peek alice IN Asia/Tokyo => remaining=5
        0 peek alice IN Europe/Berlin => remaining=2
        0 reset alice IN Europe/Berlin
        0 peek alice IN Europe/Berlin => remaining=5
    "#;
    let bill = format!("--limit bill --limits {}", &*path);
    desk.plays(&script.replace("IN", &format!("{bill} --day 15 --zone")));
    let peek = format!("peek alice {bill} --day 15");
    fails(&desk.ask(&peek), &["give it as --zone"]);
    let peek_without = format!("peek alice {bill} --zone UTC");
    fails(&desk.ask(&peek_without), &["give it as --day"]);
    let refused = desk.ask(&format!("{peek_without} --day 32"));
    assert!(stderr(&refused).contains("32 is not in 1..=31"));
    let wrong = desk.ask(&format!("{peek} --zone Europe/Berl"));
    fails(&wrong, &["--zone Europe/Berl"]);
}

#[test]
fn every_command_takes_names_from_the_file_of_the_service() {
    let path = file("limits.toml", LIMITS);
    let as_json = file("limits.json", r#"{"login": ["login-minute=gcra:5/1d"]}"#);
    // The same name does not make the same state.
    let other = file("other.toml", "ban = 'gcra:5/1d'");
    // A key is alike with its option and without, and what is shown is understood.
    let script = r#"
        0 check alice --limit login FILE => limits.*.limit=["login-minute=gcra:5/1d", "login-day=sliding-log:9/1d"]
        0 peek --key alice --limit login-minute FILE => limits.*.limit=["login-minute=gcra:5/1d"] & remaining=4
        0 peek alice --limit login JSON => remaining=4
        0 block alice --limit ban FILE
        0 check alice --limit pro FILE
        0 peek alice --limit login-minute=gcra:N/WINDOW FILE => limits.*.limit=["login-minute=gcra:5/1d"]
        0 explain alice --limit api=fixed-window:N/1d FILE => limits.*.limit=PLANS
        0 explain --key alice --limit free FILE => limits.*.limit=["api=fixed-window:2/1d"]
        0 check bob --limit free FILE
        0 explain bob FILE => limits.*.limit=PLANS
        0 top --limit login FILE => limits=["login-minute=gcra:5/1d", "login-day=sliding-log:9/1d"]
        0 top FILE => limits.#=5
        0 list FILE => limits.0.read_by=PLANS & limits.1.read_by=["ban=block:15m"]
        0 list --limit login FILE => keys=2
        0 list --limit ban=block:LENGTH => keys=1 & read_by=none
    "#;
    let script = script
        .replace("FILE", &format!("--limits {}", &*path))
        .replace("JSON", &format!("--limits {}", &*as_json))
        .replace(
            "PLANS",
            r#"["api=fixed-window:2/1d", "api=fixed-window:9/1d"]"#,
        );
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(&script);
        let text = desk.text(&format!("list --limits {}", &*path));
        has(&text, "  READ BY\n");
        has(&text, "api=fixed-window:2/1d or api=fixed-window:9/1d\n");
        let text = desk.text(&format!("list --limits {}", &*other));
        has(&text, "  no limit of the file\n");
        assert!(!text.contains("ban=gcra:5/1d"), "{text}");
        let reset = format!(
            "0 reset alice --limit login --limits {} => forgotten=2",
            &*path
        );
        desk.plays(&reset);
        desk.plays(
            r#"0 explain alice => states.*.state=["api=fixed-window:N/1d", "ban=block:LENGTH"]"#,
        );
    }
}

#[test]
fn limits_that_are_not_clear_are_errors() {
    let path = file("limits.toml", LIMITS);
    let wrong = file("wrong.toml", "login = 'gcra:5'");
    let empty = file("empty.toml", "# login = 'gcra:5/1m'");
    let desk = Desk::new("redis");
    let cases = "\
explain alice --limits EMPTY => no limits in it
list --limits EMPTY => no limits in it
peek alice --limits FILE => say which, ban, free, login, pro, upload
reset alice --limits FILE => --limits, --limit
block alice --limit ban=block:15m --lasting 0s => --lasting, lasts longer
peek alice --limits FILE --limit api => several limits, give the entry: free, pro
peek alice --limits FILE --limit upload => --limit upload, off
top --limits FILE --limit logon => no limits of that name, ban, free, login
top --limits FILE --limit api=gcra:N/WINDOW => no limits of that name, ban, free, login
check alice --limit login => that is a name, login=gcra:10/1m, --limits
check alice --limit ban=block:LENGTH => the letters stand for numbers, --limits
list --limits WRONG => --limits , wrong.toml: , limits of \"login\", expected `/`
list --limits no/such/file => --limits no/such/file: No such file";
    let cases = cases.replace("EMPTY", &empty).replace("FILE", &path);
    all_fail(&cases.replace("WRONG", &wrong), |line| desk.ask(line));
    assert_eq!(desk.keys(), [""; 0]);
}

#[test]
fn a_reset_forgets_what_explain_lists() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let set = |name: &str| {
            let key = desk.key(name);
            desk.server.command(&["SET", &key, "x", "EX", "600"]);
        };
        desk.plays(
            "
            0 check alice --limit login=gcra:5/1d
            0 check alice --limit login=gcra:5/1d --time-source caller
            0 check alice --limit login=gcra:5/1d --rest /a
            0 check alicea --limit login=gcra:5/1d
            0 check alice --limit api=gcra:5/1d --id x
            ",
        );
        set("jobs:leases:v1:{alice}");
        set("login:fixed-window-anchored-60000000:v1-plain-5:{alice}");
        set("login:gcra:v7:{alice}");
        desk.plan_mail();
        // The first of the last six is of every rest, unless one is given, and the third by both clocks. The last
        // forgets the call's answer, and what it counted.
        desk.plays(
            r#"
            0 explain alice => states.#=9
            0 reset alice --dry-run => forgotten=0 & dry_run=true & states.#=8
            0 explain alice => states.#=9
            0 reset alice --limit 'the leases called jobs' => forgotten=1
            0 reset alice --limit 'login=fixed-window:N/1m,anchored without scripts' => forgotten=1
            0 reset alice --limit login --dry-run => states.#=3
            0 reset alice --limit login=gcra:N/WINDOW --rest /a => forgotten=1
            0 reset alice --limit login=gcra:5/1d => forgotten=2
            0 reset alice --limit mails => forgotten=1
            0 reset alice => forgotten=2
            0 explain alice => states.*.state=["login=gcra:N/WINDOW of another release"]
            0 explain alicea => states.*.state=["login=gcra:N/WINDOW"]
            "#,
        );
    }
}

#[test]
fn a_state_without_a_verdict_says_why() {
    let text = "login = 'gcra:5/1d'\napi = 'sliding-log:5/1d'\n";
    let path = file("limits.toml", text);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(
            "
            0 check alice --limit login=gcra:5/1d
            0 check alice --limit login=gcra:5/1d --rest /a
            0 check alice --limit login=gcra:5/1d --time-source caller
            0 check alice --limit old=gcra:5/1d
            ",
        );
        let set = |name: &str| {
            let key = desk.key(name);
            desk.server.command(&["SET", &key, "x", "EX", "600"]);
        };
        set("login:gcra:v7:{alice}");
        set("api:sliding-log:v1:{alice}");
        set("jobs:leases:v1:{alice}");
        let explain = format!("explain alice --limits {}", &*path);
        desk.plays(&format!(r#"0 {explain} => limits.*.rest=["", "/a"]"#));
        let text = desk.text(&explain);
        let (_, why) = text.split_once("\nWithout a verdict:\n").unwrap();
        assert_eq!(
            why,
            "- api=sliding-log:N/WINDOW: another program wrote it\n\
             - login=gcra:N/WINDOW: counted by callers' clocks: ask with --time-source caller\n\
             - login=gcra:N/WINDOW of another release: another release of tollgate wrote it\n\
             - old=gcra:N/WINDOW: none of the limits reads it\n\
             - the leases called jobs: it is not that of a limit\n"
        );
        let text = desk.text(&format!("{explain} --rest /b"));
        let why = "\n- login=gcra:N/WINDOW of the rest /a: its rest is not that of --rest\n";
        has(&text, why);
        // Of a limit with a name, those that it might be thought to read.
        let text = desk.text("explain alice --limit login=gcra:5/1d");
        has(&text, "ask with --time-source caller\n");
        assert!(!text.contains("- old="), "{text}");
        let text = desk.text("explain alice");
        assert!(!text.contains("Without a verdict"), "{text}");
    }
}

#[test]
fn a_state_of_another_release_is_left_to_it() {
    let desk = Desk::new("redis");
    let key = desk.key("login:gcra:v7:{alice}");
    desk.server.command(&["SET", &key, "x", "EX", "600"]);
    let reset = desk.ask("reset alice");
    assert_eq!(reset.status.code(), Some(1));
    assert_eq!(
        stdout(&reset),
        "reset alice: there is nothing to forget\n\
         The server holds other states of this key:\n\
         - login=gcra:N/WINDOW of another release\n\
         Those of another release are reset by its own `tollgate`; left alone, they expire.\n"
    );
}

#[test]
fn a_reset_says_that_nothing_is_there() {
    let desk = Desk::new("redis");
    desk.says(0, "check alice --rest /b --limit login=sliding-log:5/1d");
    let other = json!([{"state": "login=sliding-log:N/WINDOW", "clock": "server", "rest": "/b"}]);
    for line in [
        "reset alice --limit login=sliding-log:5/1d",
        "reset alice --limit login=gcra:5/1d",
        "reset alice --limit logon=gcra:5/1d",
        "reset alice --rest /a",
    ] {
        let answer = desk.says(1, line);
        let found = (&answer["forgotten"], &answer["other_states"]);
        assert_eq!(found, (&json!(0), &other));
        let next = ", such as with --limit 'login=sliding-log:N/WINDOW'.\n";
        assert!(desk.text(line).ends_with(next));
    }
    let text = desk.text("reset bob");
    let said = "reset bob: there is nothing to forget\nThe server holds no state of this key. ";
    assert!(text.starts_with(said), "{text}");
    let expected =
        "reset alice: 1 state would be forgotten\n- login=sliding-log:N/WINDOW of the rest /b\n";
    let text = desk.text("reset alice --limit login=sliding-log:N/WINDOW --dry-run");
    assert_eq!(text, expected);
    assert_eq!(desk.keys().len(), 1);
}

fn warning(desk: &Desk, line: &str) -> String {
    let output = desk.ask(line);
    let is_idle = stdout(&output).contains(", but seems to deny nobody\n");
    assert_eq!(
        output.status.code(),
        Some(is_idle.into()),
        "{}",
        stderr(&output)
    );
    stderr(&output)
}

#[test]
fn a_block_that_nothing_reads_is_a_warning() {
    let path = file("limits.toml", LIMITS);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let unread = warning(&desk, "block alice --limit bann=block:15m");
        let said = "tollgate: warning: nothing seems to read this: ";
        assert!(unread.starts_with(said), "{unread}");
        has(&unread, " the name bann; `tollgate list` ");
        let of_file = format!("block alice --limit ban=block:15m --limits {}", &*path);
        assert_eq!(warning(&desk, &of_file), "");
        // The name is in use by now, for this key and for another.
        assert_eq!(warning(&desk, "block alice --limit ban=block:15m"), "");
        assert_eq!(warning(&desk, "block bob --limit ban=block:15m"), "");
        desk.plays(r#"0 block carol --limit banned=block:15m => unread=["banned"]"#);
    }
}

/// What `top` says of each key: its verdicts, by limit.
fn rows(top: &Value) -> Vec<(&str, &str, bool, bool)> {
    let rows = top["top"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["key"].as_str().unwrap(),
            row["limit"].as_str().unwrap(),
            row["allowed"].as_bool().unwrap(),
            row.get("perhaps").is_some(),
        )
    })
    .collect()
}

#[test]
fn top_tells_apart_the_plans_that_share_a_name() {
    let [free, pro] = ["api=fixed-window:2/1d", "api=fixed-window:9/1d"];
    let plans = format!("free = '{free}'\npro = '{pro}'\nban = 'block:15m'\n");
    let path = file("limits.toml", plans);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        for (key, cost) in [("low", "1"), ("equal", "2"), ("pro", "5"), ("full", "9")] {
            desk.says(0, &format!("check {key} --limit {pro} --cost {cost}"));
        }
        let expected = [
            ("full", pro, false, false),
            ("equal", free, false, true),
            ("pro", pro, true, false),
            ("low", free, true, false),
            ("equal", pro, true, false),
            ("low", pro, true, false),
        ];
        let of_file = format!("top --limits {}", &*path);
        for line in [&of_file, &format!("top --limit {free} --limit {pro}")] {
            let top = desk.says(0, line);
            assert_eq!(rows(&top), expected);
            has_fields(&top, "denied=1 & perhaps_denied=1 & keys=4 & beyond=0");
            assert_eq!(top["shared"], json!([[free, pro]]));
        }
        // One plan, and a file that knows the other.
        let top = desk.says(0, &format!("{of_file} --limit free"));
        assert_eq!(rows(&top), [expected[1], expected[3]]);
        has_fields(&top, "denied=1 & perhaps_denied=1");
        let text = desk.text(&of_file);
        has(&text, ": 4 keys, 1 denied, 1 perhaps\n");
        has(&text, "\nequal  perhaps denied          0   2 ");
        let shared = format!("\nThese limits read the same states: {free}, {pro}.\n");
        has(&text, &shared);

        // One plan, and nobody who knows of others.
        let alone = format!("top --limit {free}");
        let fields = "denied=1 & perhaps_denied=2 & beyond=2 & shared=none";
        desk.plays(&format!("0 {alone} => {fields}"));
        has(
            &desk.text(&alone),
            "\n2 keys hold more than these limits admit: another limit reads the same states",
        );
    }
}

/// A denial by the limit of another plan is not the key's.
#[test]
fn explain_tells_the_plans_of_a_key_apart() {
    let plans = "free = 'requests=gcra:60/1h,burst=3'\npro = 'requests=gcra:6000/1h,burst=100'\n";
    let path = file("limits.toml", plans);
    let desk = Desk::new("redis");
    let explain = format!("explain bob --limits {}", &*path);
    for (cost, fields) in [
        ("20", "limits.*.allowed=[true] & limits.*.perhaps=[null]"),
        (
            "3",
            "limits.*.allowed=[false, true] & limits.*.perhaps=[true, null]",
        ),
    ] {
        let check = format!("check bob --cost {cost} --limit pro --limits {}", &*path);
        desk.says(0, &check);
        desk.plays(&format!("0 {explain} => {fields}"));
        let text = desk.text(&explain);
        for said in ["perhaps denied", "\nPerhaps denied: plans share this state"] {
            assert_eq!(text.contains(said), cost == "3");
        }
        desk.says(0, "reset bob");
    }
}

/// `reset` lists states with their rests and clocks, and takes them so.
#[test]
fn a_state_is_reset_as_it_is_listed() {
    for counted in [
        "login=gcra:5/1d --rest 17|5|alice",
        "login=fixed-window:5/1d --time-source caller",
        "ban=sliding-log:5/1d --rest /a --time-source caller",
    ] {
        let desk = Desk::new("redis");
        desk.says(0, &format!("check alice --limit {counted}"));
        let list = desk.text("reset alice --dry-run");
        let shown = list.lines().nth(1).unwrap().strip_prefix("- ").unwrap();
        desk.plays(&format!("0 reset alice --limit '{shown}' => forgotten=1"));
    }
}

#[test]
fn a_block_has_no_amount() {
    let desk = Desk::new("redis").about("--limit ban=block:15m");
    desk.says(0, "block alice");
    for command in ["top", "peek alice", "peek bob"] {
        let text = desk.text(command);
        assert!(!text.contains("007,199"), "{text}");
        has(&text, "ban=block:15m");
    }
}

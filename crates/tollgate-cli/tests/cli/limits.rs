//! Limits by name, from the service's file, and keys, in every command for a live server; what `reset`
//! forgets, and what it says.

use serde_json::{Value, json};

use crate::desk::{Desk, plan};
use crate::program::{fails, file, stderr, stdout};

const LIMITS: &str = "\
login = ['login-minute=gcra:5/1d', 'login-day=sliding-log:9/1d']
free = 'api=fixed-window:2/1d'
pro = 'api=fixed-window:9/1d'
ban = 'block:15m'
upload = 'off'
";

/// What else `tollgate explain` lists.
fn states(desk: &Desk, key: &str) -> Vec<String> {
    let answer = desk.says(0, &["explain", key]);
    let states = answer["states"].as_array().unwrap().iter();
    states
        .map(|state| state["state"].as_str().unwrap().to_owned())
        .collect()
}

fn names(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["limit"].as_str().unwrap()).collect()
}

/// A limit of the zone of each call is decided, reset and looked for in the zone that the command names.
#[test]
fn a_limit_of_the_calls_zone_needs_the_zone() {
    let path = file("local.toml", "bill = 'fixed-window:5/month@local'");
    let desk = Desk::new("redis");
    let ask =
        |status, arguments: &[&str]| desk.says(status, &[arguments, &["--limits", &path]].concat());
    let berlin = ["--limit", "bill", "--zone", "Europe/Berlin"];
    let words = [&["check", "alice", "--cost", "3"], &berlin[..]].concat();
    let checked = ask(0, &words);
    let found = names(&checked["limits"]);
    assert_eq!(found, ["bill=fixed-window:5/month@Europe/Berlin"]);
    assert_eq!(checked["remaining"], 2);
    let tokyo = ["peek", "alice", "--limit", "bill", "--zone", "Asia/Tokyo"];
    assert_eq!(ask(0, &tokyo)["remaining"], 5);
    assert_eq!(
        ask(0, &[&["peek", "alice"], &berlin[..]].concat())["remaining"],
        2
    );
    ask(0, &[&["reset", "alice"], &berlin[..]].concat());
    assert_eq!(
        ask(0, &[&["peek", "alice"], &berlin[..]].concat())["remaining"],
        5
    );

    let asked = ["peek", "alice", "--limit", "bill", "--limits", &path];
    fails(&desk.ask(&asked), &["give it as --zone"]);
    let asked = [&asked[..], &["--zone", "Europe/Berl"]].concat();
    fails(&desk.ask(&asked), &["--zone Europe/Berl"]);
}

#[test]
fn every_command_takes_names_from_the_file_of_the_service() {
    let path = file("limits.toml", LIMITS);
    let as_json = file("limits.json", r#"{"login": ["login-minute=gcra:5/1d"]}"#);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let ask = |status, arguments: &[&str]| {
            desk.says(status, &[arguments, &["--limits", &path]].concat())
        };
        // A key is alike with its option and without.
        let checked = ask(0, &["check", "alice", "--limit", "login"]);
        let login = ["login-minute=gcra:5/1d", "login-day=sliding-log:9/1d"];
        assert_eq!(names(&checked["limits"]), login);
        let peek = ask(0, &["peek", "--key", "alice", "--limit", "login-minute"]);
        assert_eq!(names(&peek["limits"]), login[..1]);
        assert_eq!(peek["remaining"], 4);
        let arguments = ["peek", "alice", "--limit", "login", "--limits", &as_json];
        assert_eq!(desk.says(0, &arguments)["remaining"], 4);
        ask(0, &["block", "alice", "--limit", "ban"]);
        ask(0, &["check", "alice", "--limit", "pro"]);

        // What is shown is understood.
        let shown = ["peek", "alice", "--limit", "login-minute=gcra:N/WINDOW"];
        assert_eq!(names(&ask(0, &shown)["limits"]), login[..1]);
        let both = ["explain", "alice", "--limit", "api=fixed-window:N/1d"];
        let plans = ["api=fixed-window:2/1d", "api=fixed-window:9/1d"];
        assert_eq!(names(&ask(0, &both)["limits"]), plans);
        let one = ask(0, &["explain", "--key", "alice", "--limit", "free"]);
        assert_eq!(names(&one["limits"]), plans[..1]);
        // Without a name: of the file, what has a state for this key.
        ask(0, &["check", "bob", "--limit", "free"]);
        let bob = ask(0, &["explain", "bob"]);
        assert_eq!(names(&bob["limits"]), plans);
        let top = ask(0, &["top", "--limit", "login"]);
        assert_eq!(top["limits"], json!(login));
        assert_eq!(ask(0, &["top"])["limits"].as_array().unwrap().len(), 5);

        let list = ask(0, &["list"]);
        let readers: Vec<_> = list["limits"].as_array().unwrap().iter().collect();
        assert_eq!(readers[0]["read_by"], json!(plans));
        assert_eq!(readers[1]["read_by"], json!(["ban=block:15m"]));
        let list = ask(0, &["list", "--limit", "login"]);
        assert_eq!(list["keys"], 2);
        let list = desk.says(0, &["list", "--limit", "ban=block:LENGTH"]);
        assert_eq!((&list["keys"], list.get("read_by")), (&json!(1), None));
        let text = stdout(&desk.ask(&["list", "--limits", &path]));
        assert!(text.contains("  READ BY\n"), "{text}");
        let said = "api=fixed-window:2/1d or api=fixed-window:9/1d\n";
        assert!(text.contains(said), "{text}");
        // The same name does not make the same state.
        let other = file("other.toml", "ban = 'gcra:5/1d'");
        let text = stdout(&desk.ask(&["list", "--limits", &other]));
        assert!(text.contains("  no limit of the file\n"), "{text}");
        assert!(!text.contains("ban=gcra:5/1d"), "{text}");

        let reset = ask(0, &["reset", "alice", "--limit", "login"]);
        assert_eq!(reset["forgotten"], 2);
        let found = states(&desk, "alice");
        assert_eq!(found, ["api=fixed-window:N/1d", "ban=block:LENGTH"]);
    }
}

#[test]
fn limits_that_are_not_clear_are_errors() {
    let path = file("limits.toml", LIMITS);
    let wrong = file("wrong.toml", "login = 'gcra:5'");
    let empty = file("empty.toml", "# login = 'gcra:5/1m'");
    let desk = Desk::new("redis");
    for case in "\
explain alice --limits EMPTY => no limits in it
list --limits EMPTY => no limits in it
peek alice --limits FILE => say which, ban, free, login, pro, upload
peek alice --limits FILE --limit api => several limits, give the entry: free, pro
peek alice --limits FILE --limit upload => --limit upload, off
top --limits FILE --limit logon => no limits of that name, ban, free, login
top --limits FILE --limit api=gcra:N/WINDOW => no limits of that name, ban, free, login
check alice --limit login => that is a name, login=gcra:10/1m, --limits
check alice --limit ban=block:LENGTH => the letters stand for numbers, --limits
list --limits WRONG => --limits , wrong.toml: , limits of \"login\", expected `/`
list --limits no/such/file => --limits no/such/file: No such file"
        .lines()
    {
        let (arguments, hints) = case.split_once(" => ").unwrap();
        let arguments = arguments.split(' ').map(|word| match word {
            "EMPTY" => &*empty,
            "FILE" => &*path,
            "WRONG" => &*wrong,
            word => word,
        });
        let hints: Vec<_> = hints.split(", ").collect();
        fails(&desk.ask(&arguments.collect::<Vec<_>>()), &hints);
    }
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
        let caller = ["--time-source", "caller"];
        let login = ["--limit", "login=gcra:5/1d"];
        desk.says(0, &[&["check", "alice"], &login[..]].concat());
        desk.says(0, &[&["check", "alice"], &login[..], &caller].concat());
        let words = [&["check", "alice", "--rest", "/a"], &login[..]].concat();
        desk.says(0, &words);
        desk.says(0, &[&["check", "alicea"], &login[..]].concat());
        desk.says(
            0,
            &[
                &["check", "alice", "--id", "x"],
                &["--limit", "api=gcra:5/1d"][..],
            ]
            .concat(),
        );
        set("jobs:leases:v1:{alice}");
        set("login:fixed-window-anchored-60000000:v1-plain-5:{alice}");
        set("login:gcra:v7:{alice}");
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let event = ("m", &*soon.to_string(), 1);
        plan(
            &desk.server.url(),
            &desk.prefix,
            ("mails", "5/1h"),
            "alice",
            event,
        );
        let before = states(&desk, "alice");
        assert_eq!(before.len(), 9);

        let dry = desk.says(0, &["reset", "alice", "--dry-run"]);
        let found = (&dry["forgotten"], &dry["dry_run"]);
        assert_eq!(found, (&json!(0), &json!(true)));
        assert_eq!(dry["states"].as_array().unwrap().len(), 8);
        assert_eq!(states(&desk, "alice"), before);

        let some = |selected: &[&str], expected: u64| {
            let answer = desk.says(0, &[&["reset", "alice"], selected].concat());
            assert_eq!(answer["forgotten"], expected, "{answer}");
        };
        some(&["--limit", "the leases called jobs"], 1);
        some(
            &[
                "--limit",
                "login=fixed-window:N/1m,anchored without scripts",
            ],
            1,
        );
        // Of every rest, unless one is given.
        let dry = ["reset", "alice", "--limit", "login", "--dry-run"];
        let dry = desk.says(0, &dry);
        assert_eq!(dry["states"].as_array().unwrap().len(), 3, "{dry}");
        some(&["--limit", "login=gcra:N/WINDOW", "--rest", "/a"], 1);
        // By both clocks.
        some(&login, 2);
        some(&["--limit", "mails"], 1);
        // The call's answer, and what it counted.
        some(&[], 2);
        let another = "login=gcra:N/WINDOW of another release";
        assert_eq!(states(&desk, "alice"), [another]);
        assert_eq!(states(&desk, "alicea"), ["login=gcra:N/WINDOW"]);
    }
}

#[test]
fn a_state_without_a_verdict_says_why() {
    let text = "login = 'gcra:5/1d'\napi = 'sliding-log:5/1d'\n";
    let path = file("limits.toml", text);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let check = |more: &[&str]| {
            let call = ["check", "alice", "--limit", "login=gcra:5/1d"];
            desk.says(0, &[&call[..], more].concat());
        };
        check(&[]);
        check(&["--rest", "/a"]);
        check(&["--time-source", "caller"]);
        desk.says(0, &["check", "alice", "--limit", "old=gcra:5/1d"]);
        let set = |name: &str| {
            let key = desk.key(name);
            desk.server.command(&["SET", &key, "x", "EX", "600"]);
        };
        set("login:gcra:v7:{alice}");
        set("api:sliding-log:v1:{alice}");
        set("jobs:leases:v1:{alice}");
        let explain = ["explain", "alice", "--limits", &path];
        let answer = desk.says(0, &explain);
        let limits = answer["limits"].as_array().unwrap().iter();
        let rests: Vec<_> = limits.map(|it| it["rest"].as_str().unwrap()).collect();
        assert_eq!(rests, ["", "/a"]);
        let text = stdout(&desk.ask(&explain));
        let (_, why) = text.split_once("\nWithout a verdict:\n").unwrap();
        assert_eq!(
            why,
            "- api=sliding-log:N/WINDOW: another program wrote it\n\
             - login=gcra:N/WINDOW: counted by callers' clocks: ask with --time-source caller\n\
             - login=gcra:N/WINDOW of another release: another release of tollgate wrote it\n\
             - old=gcra:N/WINDOW: none of the limits reads it\n\
             - the leases called jobs: it is not that of a limit\n"
        );
        let text = stdout(&desk.ask(&[&explain[..], &["--rest", "/b"]].concat()));
        let why = "\n- login=gcra:N/WINDOW of the rest /a: its rest is not that of --rest\n";
        assert!(text.contains(why), "{text}");
        // Of a limit with a name, those that it might be thought to read.
        let limit = ["explain", "alice", "--limit", "login=gcra:5/1d"];
        let text = stdout(&desk.ask(&limit));
        assert!(text.contains("ask with --time-source caller\n"), "{text}");
        assert!(!text.contains("- old="), "{text}");
        let text = stdout(&desk.ask(&limit[..2]));
        assert!(!text.contains("Without a verdict"), "{text}");
    }
}

#[test]
fn a_state_of_another_release_is_left_to_it() {
    let desk = Desk::new("redis");
    let key = desk.key("login:gcra:v7:{alice}");
    desk.server.command(&["SET", &key, "x", "EX", "600"]);
    let reset = desk.ask(&["reset", "alice"]);
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
    let check = ["check", "alice", "--limit", "login=sliding-log:5/1d"];
    desk.says(0, &check);
    let limit = ["--limit", "login=gcra:5/1d"];
    let wrong = desk.says(1, &[&["reset", "alice"], &limit[..]].concat());
    let other = json!([{"state": "login=sliding-log:N/WINDOW", "clock": "server", "rest": ""}]);
    let found = (&wrong["forgotten"], &wrong["other_states"]);
    assert_eq!(found, (&json!(0), &other));
    let typo = desk.says(1, &["reset", "alice", "--limit", "logon=gcra:5/1d"]);
    assert_eq!(typo["other_states"], other);
    let rest = desk.says(1, &["reset", "alice", "--rest", "/a"]);
    assert_eq!(rest["other_states"], other);
    let text = stdout(&desk.ask(&["reset", "bob"]));
    assert!(
        text.starts_with(
            "reset bob: there is nothing to forget\nThe server holds no state of this key. "
        ),
        "{text}"
    );
    let shown = ["reset", "alice", "--limit", "login=sliding-log:N/WINDOW"];
    let text = stdout(&desk.ask(&[&shown[..], &["--dry-run"]].concat()));
    let expected = "reset alice: 1 state would be forgotten\n- login=sliding-log:N/WINDOW\n";
    assert_eq!(text, expected);
    assert_eq!(desk.keys().len(), 1);
}

#[test]
fn a_block_that_nothing_reads_is_a_warning() {
    let path = file("limits.toml", LIMITS);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let block = |key: &str, name: &str, more: &[&str]| {
            let limit = format!("{name}=block:15m");
            let output = desk.ask(&[&["block", key, "--limit", &limit], more].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stderr(&output)
        };
        let warning = block("alice", "bann", &[]);
        let said = "tollgate: warning: nothing seems to read this block: ";
        assert!(warning.starts_with(said), "{warning}");
        let said = " the name bann; `tollgate list` ";
        assert!(warning.contains(said), "{warning}");
        assert_eq!(block("alice", "ban", &["--limits", &path]), "");
        // The name is in use by now, for this key and for another.
        assert_eq!(block("alice", "ban", &[]), "");
        assert_eq!(block("bob", "ban", &[]), "");
        let other = ["block", "carol", "--limit", "banned=block:15m"];
        assert_eq!(desk.says(0, &other)["unread"], json!(["banned"]));
    }
}

/// `top` shows a network of IPv6 as KEY, and the client's in the column REST.
#[test]
fn a_block_of_a_key_without_its_rest_is_a_warning() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let customer = ["--address", "2001:db8:66:1::7"];
        let check = [&["check", "--limit", "api=gcra:5/1m"], &customer[..]].concat();
        assert_eq!(desk.ask(&check).status.code(), Some(0));
        let block = |whom: &[&str]| {
            let output = desk.ask(&[&["block", "--limit", "api=block:15m"], whom].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stderr(&output)
        };
        let warning = block(&["2001:db8:66::/48"]);
        assert!(warning.contains("with other rests"), "{warning}");
        // Also when that block stands.
        assert_eq!(block(&["2001:db8:66::/48"]), warning);
        assert_eq!(block(&customer), "");
        let found = block(&["2001:db8:66::/48", "--rest", "2001:db8:66:1::/64"]);
        assert_eq!(found, "");
        assert_eq!(block(&["nobody"]), "");
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
            desk.says(0, &["check", key, "--limit", pro, "--cost", cost]);
        }
        let of_file = ["--limits", &path];
        let expected = [
            ("full", pro, false, false),
            ("equal", free, false, true),
            ("pro", pro, true, false),
            ("low", free, true, false),
            ("equal", pro, true, false),
            ("low", pro, true, false),
        ];
        let all = ["--limit", free, "--limit", pro];
        for limits in [
            &[&["top"], &of_file[..]].concat(),
            &[&["top"], &all[..]].concat(),
        ] {
            let top = desk.says(0, limits);
            assert_eq!(rows(&top), expected);
            let found = (&top["denied"], &top["perhaps_denied"]);
            assert_eq!(found, (&json!(1), &json!(1)));
            assert_eq!((&top["keys"], &top["beyond"]), (&json!(4), &json!(0)));
            assert_eq!(top["shared"], json!([[free, pro]]));
        }
        // One plan, and a file that knows the other.
        let top = desk.says(0, &[&["top", "--limit", "free"], &of_file[..]].concat());
        assert_eq!(rows(&top), [expected[1], expected[3]]);
        let found = (&top["denied"], &top["perhaps_denied"]);
        assert_eq!(found, (&json!(1), &json!(1)));
        let text = stdout(&desk.ask(&[&["top"], &of_file[..]].concat()));
        assert!(text.contains(": 4 keys, 1 denied, 1 perhaps\n"), "{text}");
        let said = "\nequal  perhaps denied          0   2 ";
        assert!(text.contains(said), "{text}");
        let shared = format!("\nThese limits read the same states: {free}, {pro}.\n");
        assert!(text.contains(&shared), "{text}");

        // One plan, and nobody who knows of others.
        let top = desk.says(0, &["top", "--limit", free]);
        let found = (&top["denied"], &top["perhaps_denied"]);
        assert_eq!(found, (&json!(1), &json!(2)));
        assert_eq!((&top["beyond"], top.get("shared")), (&json!(2), None));
        let text = stdout(&desk.ask(&["top", "--limit", free]));
        let beyond =
            "\n2 keys hold more than these limits admit: another limit reads the same states";
        assert!(text.contains(beyond), "{text}");
    }
}

/// A denial by the limit of another plan is not the key's.
#[test]
fn explain_tells_the_plans_of_a_key_apart() {
    let plans = "free = 'requests=gcra:60/1h,burst=3'\npro = 'requests=gcra:6000/1h,burst=100'\n";
    let path = file("limits.toml", plans);
    let desk = Desk::new("redis");
    let pro = ["--limits", &path, "--limit", "pro"];
    for (cost, allowed, perhaps) in [
        ("20", &[true][..], &[false][..]),
        ("3", &[false, true], &[true, false]),
    ] {
        desk.says(0, &[&["check", "bob", "--cost", cost], &pro[..]].concat());
        let explain = ["explain", "bob", "--limits", &path];
        let answer = desk.says(0, &explain);
        let limits = answer["limits"].as_array().unwrap().iter();
        let of = |field: &'static str| {
            limits
                .clone()
                .map(move |it| it.get(field) == Some(&json!(true)))
        };
        assert!(of("allowed").eq(allowed.iter().copied()), "{answer}");
        assert!(of("perhaps").eq(perhaps.iter().copied()), "{answer}");
        let text = stdout(&desk.ask(&explain));
        let found = text.contains("perhaps denied");
        assert_eq!(found, perhaps.contains(&true), "{text}");
        desk.says(0, &["reset", "bob"]);
    }
}

/// `reset` lists states with their rests and clocks, and takes them so.
#[test]
fn a_state_is_reset_as_it_is_listed() {
    for (limit, more) in [
        ("login=gcra:5/1d", &["--rest", "17|5|alice"][..]),
        ("login=fixed-window:5/1d", &["--time-source", "caller"]),
        (
            "ban=sliding-log:5/1d",
            &["--rest", "/a", "--time-source", "caller"],
        ),
    ] {
        let desk = Desk::new("redis");
        desk.says(0, &[&["check", "alice", "--limit", limit], more].concat());
        let list = stdout(&desk.ask(&["reset", "alice", "--dry-run"]));
        let shown = list.lines().nth(1).unwrap().strip_prefix("- ").unwrap();
        let reset = desk.says(0, &["reset", "alice", "--limit", shown]);
        assert_eq!(reset["forgotten"], 1, "{shown}");
    }
}

#[test]
fn options_without_effect_are_told() {
    let path = file("limits.toml", LIMITS);
    let desk = Desk::new("redis");
    let reset = desk.ask(&["reset", "alice", "--limits", &path]);
    fails(&reset, &["--limits", "--limit"]);
    let block = ["block", "alice", "--limit", "ban=block:15m"];
    let block = desk.ask(&[&block[..], &["--lasting", "0s"]].concat());
    fails(&block, &["--lasting", "lasts longer"]);
}

#[test]
fn a_block_has_no_amount() {
    let desk = Desk::new("redis");
    let block = ["block", "alice", "--limit", "ban=block:15m"];
    let _ = desk.ask(&block);
    for command in [&["top"][..], &["peek", "alice"], &["peek", "bob"]] {
        let text = stdout(&desk.ask(&[command, &block[2..]].concat()));
        assert!(!text.contains("007,199"), "{text}");
        assert!(text.contains("ban=block:15m"), "{text}");
    }
}

//! `explain`, `list` and `top` on live servers: what they find, and that they only read.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tollgate_testkit::{Cluster, Flavor, Server};

use crate::desk::Desk;
use crate::program::{all_fail, answer, fails, has, has_fields, run, stderr, stdout, words};

/// A day's units under `gcra:5/1d`, in its unit of time.
const UNIT: f64 = 17_280e6;

fn now_us() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_micros().to_string().parse().unwrap()
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().copied().flat_map(f64::to_le_bytes).collect()
}

#[test]
fn explain_lists_every_algorithm_of_a_key() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(
            "
            0 check alice --cost 3 --limit login=gcra:5/1d
            0 check alice --cost 3 --limit login=sliding-log:5/1d
            0 check alice --cost 3 --limit login=sliding-counter:5/1d
            0 check alice --cost 3 --limit login=fixed-window:5/1d,anchored
            0 check alice --cost 3 --limit login=sliding-buckets:5/1d,buckets=12
            0 block alice --limit ban=block:15m
            0 check alicea --limit login=gcra:5/1d
            ",
        );
        let before = desk.keys();
        let answer = desk.says(0, "explain alice");
        let states = [
            "ban=block:LENGTH",
            "login=fixed-window:N/1d,anchored",
            "login=gcra:N/WINDOW",
            "login=sliding-buckets:N/1d,buckets=12",
            "login=sliding-counter:N/1d",
            "login=sliding-log:N/WINDOW",
        ];
        has_fields(&answer, &format!("states.*.state={states:?}"));
        has_fields(&answer, r#"key_hashes={"": "1504cb571759afdb"}"#);
        let said = "\nIn events of denied calls, key_hash is 1504cb571759afdb.\n";
        has(&desk.text("explain alice"), said);
        // Without an amount, nothing is said to be left.
        has_fields(&answer, "limits=[] & states.2.remaining=none");
        has_fields(&answer, "states.*.consumed=[null, 3, 3, 3, 3, 3]");
        for state in answer["states"].as_array().unwrap() {
            assert_eq!(state["understood"], true, "{state}");
            assert!(state["expires"].is_string(), "{state}");
            // An instant later than that of the answer.
            let ends = [&state["ends"], &state["expires"]];
            let ends = ends.iter().find_map(|end| end.as_str()).unwrap();
            assert!(ends > state["now"].as_str().unwrap(), "{state}");
        }
        let asked = "--limit login=sliding-log:5/1d --limit login=gcra:4/1d";
        let answer = desk.says(0, &format!("explain alice {asked}"));
        let limits = r#"limits.*.limit=["login=sliding-log:5/1d", "login=gcra:4/1d"]"#;
        has_fields(&answer, limits);
        has_fields(
            &answer,
            "limits.*.remaining=[2, 1] & limits.0.has_state=true",
        );
        assert_eq!(desk.keys(), before);
    }
}

#[test]
fn a_limit_without_a_state_names_the_others() {
    let desk = Desk::new("redis");
    desk.plays(
        r#"
        0 check alice --limit login=gcra:5/1d --cost 5
        0 explain alice --limit login=sliding-log:5/1d => limits.0.has_state=false & limits.0.remaining=5
        0 explain alice --limit login=sliding-log:5/1d => limits.0.other_states=["login=gcra:N/WINDOW"]
        0 top --limit login=sliding-log:5/1d => other_states=["login=gcra:N/WINDOW"] & keys=0 & top=[]
        "#,
    );
    let text = desk.text("explain alice --limit login=sliding-log:5/1d");
    let remark = "\nlogin=sliding-log:5/1d has no state for this key. Under its name the server \
                  holds others, which it does not read:\n- login=gcra:N/WINDOW\n";
    assert!(text.ends_with(remark), "{text}");
    assert_eq!(
        stderr(&desk.ask("peek alice --limit login=sliding-log:5/1d")),
        "tollgate: warning: the server holds states of this key that these limits do not read: \
         login=gcra:N/WINDOW\n"
    );
    // The same limit by another clock, and of another rest.
    for (options, other) in [
        (
            "--time-source caller",
            "login=gcra:N/WINDOW, by the server's clock (--time-source server)",
        ),
        ("--rest /login", "login=gcra:N/WINDOW without a rest"),
    ] {
        let answer = desk.says(
            0,
            &format!("explain alice --limit login=gcra:5/1d {options}"),
        );
        has_fields(&answer, "limits.0.has_state=false");
        assert_eq!(answer["limits"][0]["other_states"], json!([other]));
    }
}

#[test]
fn a_lost_state_is_not_invented() {
    let desk = Desk::new("redis");
    let explain = "explain alice --limit login=gcra:5/1d";
    desk.plays(
        "
        0 check alice --limit login=gcra:5/1d
        0 explain alice --limit login=gcra:5/1d => limits.0.has_state=true
        ",
    );
    desk.server.command(&["DEL", &desk.keys()[0]]);
    let lost = "states=[] & limits.0.has_state=false & limits.0.other_states=[]";
    desk.plays(&format!("0 {explain} => {lost}"));
    let text = desk.text(explain);
    let said = "explain alice: 0 states\n\nLIMIT ";
    assert!(text.starts_with(said), "{text}");
    let remark =
        "has no state for this key, which was never counted, or not since its state ended.\n";
    assert!(text.ends_with(remark), "{text}");

    // What another program has written there.
    let key = desk.key("login:gcra:v1:{alice}");
    for command in ["SET", "SADD"] {
        desk.server.command(&["DEL", &key]);
        desk.server.command(&[command, &key, "x"]);
        desk.plays(
            "
            0 explain alice => states.0.understood=false & states.0.consumed=null
            0 top --limit login=gcra:5/1d => keys=1 & unreadable=1
            ",
        );
        fails(&desk.ask(explain), &["(misconfigured)"]);
    }
}

#[test]
fn states_of_every_kind_are_explained() {
    let desk = Desk::new("redis");
    let set = |name: &str, state: &[u8]| {
        let key = desk.key(name);
        desk.server
            .command(&[b"SET", key.as_bytes(), state, b"PX", b"60000"]);
    };
    let now = now_us();
    // Weight 5, in one lease that ends in half a minute.
    let header = doubles(&[now, 7., 5.]);
    let lease = [&[9; 16][..], &doubles(&[now + 30e6, 7.]), &[5, 0]].concat();
    set("jobs:leases:v1:{alice}", &[header, lease].concat());
    // A sliding counter: 2 in the window, 4 in the one before it.
    let hour = 3_600e6;
    let start = now - now % hour;
    let counter = "login:sliding-counter-3600000000:v1:{alice}";
    set(counter, &doubles(&[start, 2., 4.]));
    // A sliding log whose first element has left, without an element for what was refunded.
    let log = desk.key("login:sliding-log:v1:{alice}");
    for (at, total) in [(now, 3_u32), (now - 9e6, 4), (now - 5e6, 8)] {
        let element = [doubles(&[at]), total.to_le_bytes().to_vec()].concat();
        desk.server.command(&[b"RPUSH", log.as_bytes(), &element]);
    }
    set("login:gcra:v7:{alice}", b"of the future");
    // 3 of 5 in a counter of a store without scripts.
    let window = format!("{}", start / hour);
    let plain = desk.key(&format!(
        "login:fixed-window-aligned-3600000000:v1-plain-5-{window}:{{alice}}"
    ));
    let counted = (i64::MAX / 5 * 3).to_string();
    desk.server
        .command(&["BITFIELD", &plain, "SET", "u63", "0", &counted]);
    // 2 of 5, in one that began with its first call.
    let plain = desk.key("login:fixed-window-anchored-60000000:v1-plain-5:{alice}");
    let counted = (i64::MAX / 5 * 2).to_string();
    let ends = format!("{:.0}", (now + 60e6) / 1e3);
    desk.server
        .command(&["BITFIELD", &plain, "SET", "u63", "0", &counted]);
    desk.server.command(&["PEXPIREAT", &plain, &ends]);
    // A key that tollgate does not write: the partition is another one.
    set("login:gcra:v1:{bob}:{alice}", b"x");
    desk.plan_mail();
    // Two events in a schedule of the other form.
    let events = desk.key("many:schedule:v1:{alice}");
    let head = "redis.call('HSET', KEYS[1], 'c', struct.pack('<dI4BI4', ARGV[1], 2, 0, 1))";
    desk.server
        .command(&["EVAL", head, "1", &events, &now.to_string()]);
    desk.says(0, "check alice --limit api=gcra:5/1d --id x");

    let answer = desk.says(0, "explain alice");
    let rows = answer["states"].as_array().unwrap();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row["state"].as_str().unwrap(), row["consumed"].as_u64()))
        .collect();
    let of_another = "login=gcra:N/WINDOW of another release";
    assert_eq!(
        shown,
        [
            ("api=gcra:N/WINDOW", Some(1)),
            ("login=fixed-window:N/1h without scripts", Some(3)),
            ("login=fixed-window:N/1m,anchored without scripts", Some(2)),
            (of_another, None),
            ("login=sliding-counter:N/1h", Some(2)),
            ("login=sliding-log:N/WINDOW", Some(5)),
            ("the answer to a call with an id, kept by api", None),
            ("the leases called jobs", Some(5)),
            ("the schedule called mails", Some(1)),
            ("the schedule called many", Some(2)),
        ]
    );
    for row in rows {
        assert_eq!(row["understood"], row["state"] != of_another, "{row}");
    }
    let [_, aligned, anchored, _, counter, log, _, leases, _, many] = rows.as_slice() else {
        unreachable!("as above");
    };
    assert_eq!(counter["previous"], 4);
    // The log and the counter never expire: this test has not let them.
    assert_eq!(log["expires"], Value::Null);
    let near = |value: &Value, at: f64| {
        let value: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(at / 1e6);
        let apart = value.duration_since(at.try_into().unwrap()).abs();
        // Redis tells TTLs in milliseconds, by a clock that it reads now and then.
        assert!(apart < jiff::SignedDuration::from_millis(100), "{value}");
    };
    near(&aligned["since"], start);
    near(&aligned["ends"], start + hour);
    near(&anchored["since"], now);
    near(&anchored["ends"], now + 60e6);
    near(&counter["since"], start - hour);
    near(&counter["ends"], start + 2. * hour);
    near(&log["since"], now - 9e6);
    near(&log["last"], now);
    near(&leases["last"], now);
    near(&leases["ends"], now + 30e6);
    near(&many["last"], now);
    let text = desk.text("explain alice");
    let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    let counter = row("login=sliding-counter:N/1h ");
    assert!(counter.contains(" 2 + 4 "), "{counter}");
    // The lease ends in half a minute, and its key lives for a whole one.
    let leases = row("the leases called jobs ");
    let is_half = ["(in 30s)", "(in 2", "(in 1"]
        .iter()
        .any(|left| leases.contains(left));
    assert!(is_half && !leases.contains("(in 1m"), "{leases}");

    desk.plays(
        r#"
        0 list => keys=11
        0 list --limit api --limit jobs => limits.*.name=["api", "api", "jobs"]
        "#,
    );
    // A typo is no list of nothing.
    let typo = desk.ask("list --limit logn");
    fails(&typo, &["no state of logn:"]);
}

#[test]
fn names_from_a_server_manipulate_no_terminal() {
    let desk = Desk::new("redis");
    for name in [
        "\u{1b}[2J\rlogin\n:gcra:v1:{alice}",
        "login:calendar-window-day-\u{1b}[31m\nUTC:v1:{alice}",
        "login:gcra:v1:{ali\u{9b}ce}:\u{202e}\n",
    ] {
        desk.server.command(&["SET", &desk.key(name), "x"]);
    }
    for line in [
        "list",
        "explain alice",
        "explain alice --limit login=sliding-log:5/1d",
        "top --limit login=gcra:5/1d",
        "peek alice --limit login=gcra:5/1d",
    ] {
        for format in ["", " --json"] {
            let output = desk.ask(&format!("{line}{format}"));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            for text in [stdout(&output), stderr(&output)] {
                let is_harmful = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
                assert!(!text.contains(is_harmful), "{text:?}");
                assert!(!text.contains("\nUTC") && !text.contains("\n:"), "{text:?}");
            }
        }
    }
    let row = "\n\\u{1b}[2J\\rlogin\\n=gcra:N/WINDOW ";
    has(&desk.text("list"), row);
}

#[test]
fn times_are_local_if_a_zone_is_given() {
    let desk = Desk::new("redis");
    desk.says(0, "block alice --limit ban=block:15m");
    has(&desk.text("explain alice"), "Z (in 1");
    let tokyo = desk.text("explain alice --time-zone Asia/Tokyo");
    has(&tokyo, "+09:00 (in 1");
    let top = desk.text("top --limit ban=block:15m --time-zone Asia/Tokyo");
    let first = top.lines().next().unwrap();
    assert!(first.ends_with("+09:00: 1 key, 1 denied"), "{top}");
}

/// Writes a thousand states that have most left, one that is denied, and one that is near.
fn fill(server: &Server) {
    let mut connection = server.connection();
    let now = now_us();
    let mut keys: Vec<_> = (0..1_000)
        .map(|n| (n.to_string(), f64::from(n % 3)))
        .collect();
    keys.push(("near%3a1".to_owned(), 4.));
    keys.push(("full".to_owned(), 5.));
    for (key, used) in &keys {
        let key = format!("tollgate:login:gcra:v1:{{{key}}}");
        let state = doubles(&[used * UNIT, now, UNIT]);
        let words = [b"SET", key.as_bytes(), &state, b"EX", b"86400"];
        connection.send(&words).unwrap();
    }
    for _ in &keys {
        assert_eq!(connection.receive().unwrap().text(), Some("OK"));
    }
}

#[test]
fn top_and_list_only_read_a_thousand_keys() {
    let server = Server::start(Flavor::System);
    fill(&server);
    server.command(&["SET", "tollgate:pages:sliding-log:v9:{x}", "x"]);
    server.command(&["SET", "session:1", "x"]);
    server.command(&["CONFIG", "RESETSTAT"]);
    for scheme in ["redis", "fred"] {
        let says = |line: &str| {
            let output = run(&format!("{line} --store {scheme}://{}", server.address()));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert_eq!(stderr(&output), "");
            stdout(&output)
        };
        let json = |line: &str| -> Value {
            serde_json::from_str(&says(&format!("{line} --json"))).unwrap()
        };
        assert_eq!(
            json("list"),
            json!({"command": "list", "prefix": "tollgate", "keys": 1_003, "limits": [
                {"name": "login", "state": "login=gcra:N/WINDOW", "clock": "server", "keys": 1_002},
                {"name": "pages", "state": "pages=sliding-log:N/WINDOW of another release",
                 "clock": "server", "keys": 1},
            ]})
        );
        let list = says("list");
        let rows = "list tollgate: 1,003 keys\n\n\
                    STATES                                          KEYS  CLOCK\n\
                    login=gcra:N/WINDOW                            1,002  server's\n";
        assert!(list.starts_with(rows), "{list}");

        let top = json("top --limit login=gcra:5/1d --top 3");
        has_fields(&top, "keys=1002 & denied=1 & sampled=false");
        has_fields(&top, "top.*.remaining=[0, 1, 3]");
        has_fields(&top, r#"top.0.key="full" & top.1.key="near:1""#);
        let fields: Vec<_> = top["top"][0].as_object().unwrap().keys().collect();
        let expected = "allowed capacity key limit remaining reset_after_us rest retry_after_us";
        assert_eq!(fields, words(expected));

        let sample = json("top --limit login=gcra:5/1d --sample 150");
        has_fields(&sample, "keys=150 & sampled=true");
        let twice = says("top --json --limit login=gcra:5/1d --every 1ms --count 2");
        assert_eq!(twice.lines().count(), 2);
        let text = says("top --limit login=gcra:5/1d --top 1");
        has(&text, ": 1,002 keys, 1 denied\n\nKEY   VERDICT ");
        let answer = json("explain near:1");
        has_fields(&answer, r#"states.*.state=["login=gcra:N/WINDOW"]"#);
    }
    let stats = server.command(&["INFO", "commandstats"]);
    let mut used: Vec<&str> = stats.text().unwrap().lines().collect();
    used.retain(|line| line.starts_with("cmdstat_"));
    let names: Vec<_> = used
        .iter()
        .map(|line| line["cmdstat_".len()..].split(':').next().unwrap())
        .collect();
    let writes = [
        "set", "del", "unlink", "expire", "pexpire", "keys", "getex", "rpush",
    ];
    assert!(!names.iter().any(|name| writes.contains(name)), "{names:?}");
    let holds = names.contains(&"scan") && names.contains(&"evalsha");
    assert!(holds, "{names:?}");
}

#[test]
fn clusters_are_searched_as_a_whole() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let state = doubles(&[UNIT, now_us(), UNIT]);
    // More than a page for each master; two of three refuse a key that is not theirs.
    for node in cluster.nodes() {
        let mut connection = node.connection();
        for key in 0..900 {
            let key = format!("tollgate:login:gcra:v1:{{{key}}}");
            let words = [b"SET", key.as_bytes(), &state, b"EX", b"86400"];
            connection.send(&words).unwrap();
        }
        for _ in 0..900 {
            connection.receive().unwrap();
        }
    }
    let (limit, mut left) = ("--limit login=gcra:5/1d", 900);
    for scheme in ["redis-cluster", "fred-cluster"] {
        let store = format!("{scheme}://{}", cluster.addresses().join(","));
        let says = |line: &str| answer(&run(&format!("{line} --json --store {store}")), 0);
        has_fields(&says("list --limit login"), &format!("keys={left}"));
        let full = left - 1;
        says(&format!("check --key {full} --cost 4 {limit}"));
        let most = format!(r#"keys={left} & denied=1 & top.0.key="{full}""#);
        has_fields(&says(&format!("top {limit}")), &most);
        has_fields(&says(&format!("top {limit} --sample 500")), "keys=500");
        for key in left - 10..left {
            let found = says(&format!("explain {key} {limit}"));
            let own = r#"states.*.state=["login=gcra:N/WINDOW"] & limits.0.has_state=true"#;
            has_fields(&found, own);
            let peek = says(&format!("peek --key {key} --limit login=sliding-log:5/1d"));
            let other = json!([{"state": "login=gcra:N/WINDOW", "clock": "server"}]);
            assert_eq!(peek["other_states"], other, "{key}");
            says(&format!("reset --key {key} {limit}"));
        }
        left -= 10;
    }
}

#[test]
fn top_asks_no_clock_of_a_server_that_refuses_it() {
    let server = Server::start(Flavor::System);
    server.command(&["ACL", "SETUSER", "default", "-time"]);
    let says = |command: &str| -> Value {
        let asked = format!("--limit login=gcra:5/1d --json --store {}", server.url());
        answer(&run(&format!("{command} --time-source caller {asked}")), 0)
    };
    says("check alice");
    has_fields(&says("top"), "top.0.remaining=4");
}

#[test]
fn bad_input_is_an_error() {
    let nowhere = |line: &str| run(&format!("{line} --store redis://127.0.0.1:1"));
    let cases = "\
explain alice => (unavailable), refused
list => (unavailable)
top --limit gcra:5/1d => --limit gcra:5/1d, has a name
top --limit login=gcra:5/1d --limit login=gcra:5/1d => login=gcra:5/1d is given twice
explain alice --limit login=gcra:5/1d --limit login=gcra:5/1d => is given twice
top --limit login=gcra:5/1d --every soon => --every soon
explain alice --time-zone Mars => --time-zone Mars, Europe/Berlin
explain alice --hashed-long-keys => TOLLGATE_KEY_SECRET
list --limit 'a b' => --limit a b, name";
    all_fail(cases, nowhere);
    for line in [
        "explain",
        "top",
        "top --limit login=gcra:5/1d --count 2",
        "top --limit login=gcra:5/1d --sample 0",
        "doctor --fail-on note",
    ] {
        let output = nowhere(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let text = stderr(&output);
        assert!(text.starts_with("error: "), "{text}");
    }
}

#[test]
fn states_on_callers_clocks_are_found() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(
            r#"
            0 check alice --limit login=gcra:5/1d --time-source caller
            0 top --limit login=gcra:5/1d --time-source caller => top.0.remaining=4 & other_states=[]
            0 top --limit login=gcra:5/1d => keys=0 & other_states=["login=gcra:N/WINDOW, by the clocks of callers (--time-source caller)"]
            0 explain alice --limit login=gcra:5/1d --time-source caller => limits.0.has_state=true & states.0.clock="caller"
            0 list => limits.0.clock="caller"
            "#,
        );
        has(&desk.text("explain alice"), " (in at most 4h 5");
    }
}

#[test]
fn the_readme_shows_actual_lists() {
    let manual = include_str!("../../README.md");
    let desk = Desk::new("redis");
    desk.plays(
        "
        0 check alice --limit login=sliding-log:5/1h --cost 5
        0 block alice --limit ban=block:15m
        0 check bob --limit login=sliding-log:5/1h
        ",
    );
    let list = desk.text("list").replace(&desk.prefix, "tollgate");
    has(manual, &format!("\n{list}```"));
    let text = desk.text("explain alice --limit login=gcra:5/1m");
    let (_, limits) = text.split_once("\n\nLIMIT").unwrap();
    has(manual, &format!("\n\nLIMIT{limits}```"));
}

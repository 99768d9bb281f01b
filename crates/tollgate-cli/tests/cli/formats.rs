//! Known requests, written in the formats that are read, give the numbers of the algorithms'
//! definitions; other lines and other content are skipped or refused with a reason.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::expected::{self, Hit};
use crate::program::{
    SAMPLE, answer, fails, file, has, has_fields, replay, replay_json, run, scratch, stderr,
    stdout, tollgate, with_input, words,
};

const LIMIT: &str = "--limit gcra:5/1m";

const LIMITS: [&str; 2] = ["sliding-log:3/30s", "fixed-window:20/1m"];

const CLIENTS: [&str; 6] = [
    "203.0.113.1",
    "203.0.113.2",
    "198.51.100.7",
    "10.0.0.9",
    "2001:db8::7",
    "2001:db8::1:443",
];

/// A request, before it is written in any format.
struct Known {
    /// Seconds after 10:00 on 17 May 2015, in UTC.
    second: u32,
    client: &'static str,
    user: &'static str,
    path: &'static str,
}

/// The first instant, in seconds since 1970.
const START: u32 = 1_431_856_800;

fn known() -> Vec<Known> {
    let mut seed = 7_u32;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(seed >> 16).unwrap() % below
    };
    let one = |number: u32| Known {
        second: 2 * number,
        client: CLIENTS[next(CLIENTS.len())],
        user: ["-", "-", "alice", "bob"][next(4)],
        path: ["/", "/a", "/b/c.html"][next(3)],
    };
    (0..300).map(one).collect()
}

impl Known {
    fn clock(&self) -> String {
        format!("10:{:02}:{:02}", self.second / 60, self.second % 60)
    }

    /// Returns the client and a port, which is another one each time.
    fn peer(&self) -> String {
        let port = 40_000 + self.second;
        if self.client.contains(':') {
            format!("[{}]:{port}", self.client)
        } else {
            format!("{}:{port}", self.client)
        }
    }

    fn write(&self, line: &str) -> String {
        let values = [
            ("CLIENT", self.client.to_owned()),
            ("CLOCK", self.clock()),
            ("PATH", self.path.to_owned()),
            ("PEER", self.peer()),
            ("UNIX", (START + self.second).to_string()),
            ("USER", self.user.to_owned()),
        ];
        let values = values.iter();
        values.fold(line.to_owned(), |line, (name, value)| {
            line.replace(name, value)
        })
    }
}

/// Ways to write requests: how the program names the format, and what stands before it, the options that
/// reading them takes, and a line.
const SHAPES: &str = r#"
combined none => PEER COMBINED
vhost_combined none => shop.example CLIENT, 10.0.0.1 COMBINED
vhost_combined syslog => <190>1 2015-05-17TCLOCKZ web1 nginx 17 id [a@1 ip="192.0.2.1" b="\"]"] 192.0.2.1:80 CLIENT COMBINED
combined container => [pod/web-abc/nginx] 2015-05-17TCLOCK.123456789Z CLIENT COMBINED
combined json => {"log":"CLIENT - USER [17/May/2015:CLOCK +0000] \"GET PATH?q HTTP/1.1\" 200 17\n","stream":"stdout","time":"2015-05-17T00:00:00Z"}
json syslog => <190>May 17 CLOCK web1 nginx: {"time":UNIX,"ip":"PEER","user":"USER","path":"PATH"}
elb none => https 2015-05-17TCLOCK.25Z app/lb/50dc PEER 10.0.0.1:80 0.0 0.1 0.0 200 200 17 17 "GET https://shop.example:443PATH?q HTTP/2.0" "agent 192.0.2.1" - TLSv1.2
haproxy syslog => May 17 CLOCK lb haproxy[14389]: CLIENT:33317 [17/May/2015:CLOCK.250] http-in~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {192.0.2.1|a b} "GET PATH?q HTTP/1.1"
pattern none --pattern '{date} {time} [{ip}] user={user}; "{path}"' => 2015-05-17TABCLOCK,250   [CLIENT] user=USER; "GET PATH?q HTTP/1.1" x
"#;

const COMBINED: &str = r#"- USER [17/May/2015:CLOCK +0000] "GET PATH?q=UNIX HTTP/1.1" 200 17 "-" "agent [1] 192.0.2.1""#;

struct Shape {
    names: [&'static str; 2],
    options: &'static str,
    line: String,
}

fn shapes() -> Vec<Shape> {
    let of = |row: &'static str| {
        let (about, line) = row.split_once(" => ").unwrap();
        let mut about = about.splitn(3, ' ');
        Shape {
            names: [about.next().unwrap(), about.next().unwrap()],
            options: about.next().unwrap_or_default(),
            line: line.replace("COMBINED", COMBINED).replace("TAB", "\t"),
        }
    };
    SHAPES.trim().lines().map(of).collect()
}

impl Shape {
    fn log(&self) -> String {
        let lines: Vec<_> = known().iter().map(|hit| hit.write(&self.line)).collect();
        lines.join("\n")
    }
}

/// Checks that a replay of `log` finds the known requests, whatever their key.
fn agrees(shape: &Shape, log: &str) {
    let path = file("shape.log", log);
    let other = match shape.line.contains("USER") {
        true => "user+path",
        false => "path+ip",
    };
    for key in ["ip", "ip --ipv6-prefix 128", other] {
        let is_network = |client: &str| client.contains(':') && !key.ends_with("128");
        let limits = LIMITS.map(|limit| format!("--limit {limit}")).join(" ");
        let hits = known().into_iter().map(|hit| Hit {
            at_us: 1_000_000 * u64::from(START + hit.second),
            ip: match is_network(hit.client) {
                true => "2001:db8::/64".to_owned(),
                false => hit.client.to_owned(),
            },
            user: hit.user.to_owned(),
            path: hit.path.to_owned(),
        });
        let parts = words(key)[0];
        let mut expected = expected::of_replay(hits.collect(), 0, parts, &LIMITS);
        let [format, prefix] = shape.names;
        expected["read_as"] = json!([{"format": format, "prefix": prefix, "requests": 300}]);
        let options = format!("--key {key} {} {limits}", shape.options);
        let found = replay_json(&path, &options);
        assert_eq!(found, expected, "{format} {prefix} by {key}");
    }
}

#[test]
fn every_format_is_read() {
    for shape in shapes() {
        agrees(&shape, &shape.log());
    }
}

/// Returns a W3C log with `separator` between values, whose columns change in the middle.
fn w3c(separator: &str) -> String {
    let mut log = "#Version: 1.0\n".to_owned();
    for (number, hit) in known().iter().enumerate() {
        let (clock, client, user, path) = (hit.clock(), hit.client, hit.user, hit.path);
        let date = "2015-05-17";
        if number == 0 {
            log += "#Fields: date time s-ip cs-username cs-uri-stem c-ip cs(User-Agent)\n";
        } else if number == 150 {
            log += "#Fields: c-ip cs-uri-stem cs-username time date\n";
        }
        let values = if number < 150 {
            vec![date, &clock, "192.0.2.1", user, path, client, "agent+1"]
        } else {
            vec![client, path, user, &clock, date]
        };
        writeln!(log, "{}", values.join(separator)).unwrap();
    }
    log
}

#[test]
fn w3c_logs_are_read_by_the_names_of_their_columns() {
    let shape = Shape {
        names: ["w3c", "none"],
        options: "",
        line: "USER".to_owned(),
    };
    agrees(&shape, &w3c(" "));
    agrees(&shape, &w3c("\t").replace('\n', "\r\n"));
    // Over several blocks of the log, too.
    let log = w3c(" ").repeat(40);
    assert!(log.len() > 2 * 256 * 1024);
    let first = file("long.log", log);
    // Another log knows nothing of these columns.
    let text = w3c(" ");
    let cut: Vec<_> = text.lines().rev().take(100).collect();
    let second = file("cut.log", cut.join("\n"));
    for format in ["", "--format w3c"] {
        let found = replay_json(&first, &format!("'{}' {LIMIT} {format}", &*second));
        assert_eq!(found["requests"], 300 * 40);
        has_fields(&found, "keys=5 & skipped_lines=100");
    }
    let alone = replay(&second, &format!("--format w3c {LIMIT}"));
    let hints = ["no request found", "100 lines skipped", "#Fields"];
    fails(&alone, &hints);
}

#[test]
fn a_log_is_recognized_after_lines_of_another_kind() {
    for shape in shapes() {
        // For one that is not the likeliest, more than a block of them.
        let count = match shape.names {
            ["haproxy", _] => 6_500,
            _ => 50,
        };
        let noise = "entrypoint.sh: launching, ready for start up\n".repeat(count);
        let path = file("noise.log", noise + &shape.log());
        let found = replay_json(&path, &format!("{} {LIMIT}", shape.options));
        let numbers = (&found["requests"], &found["skipped_lines"], &found["keys"]);
        let expected = (&300.into(), &count.into(), &5.into());
        assert_eq!(numbers, expected, "{:?}", shape.names);
    }
}

#[test]
fn each_file_has_a_format_of_its_own() {
    let shapes = shapes().into_iter();
    let shapes = shapes.filter(|shape| shape.options.is_empty());
    let files: Vec<_> = shapes.map(|shape| file("one.log", shape.log())).collect();
    let more = files[1..].iter().map(|file| format!("'{}' ", &**file));
    let found = replay_json(&files[0], &(more.collect::<String>() + LIMIT));
    assert_eq!(found["requests"], 300 * files.len());
    has_fields(&found, "keys=5 & skipped_lines=0");
}

#[test]
fn lines_of_another_format_are_skipped_with_a_reason() {
    let shapes = shapes();
    let [combined, .., haproxy, _] = &shapes[..] else {
        unreachable!("there are many");
    };
    let other = haproxy.log();
    let few: Vec<_> = other.lines().take(50).collect();
    let path = file("mixed.log", combined.log() + "\n" + &few.join("\n"));
    for (format, requests) in [("auto", 300), ("common", 300), ("haproxy", 50)] {
        let output = replay(&path, &format!("--json --format {format} {LIMIT}"));
        let found = answer(&output, 0);
        assert_eq!(found["requests"], requests, "{format}");
        assert_eq!(found["skipped_lines"], 350 - requests, "{format}");
        has(&stderr(&output), " more)");
    }
    // JSON lines may stand beside any others.
    let both = combined.log() + "\n{\"time\":1431856800,\"ip\":\"10.0.0.1\"}";
    has_fields(
        &replay_json(&file("both.log", both), LIMIT),
        "skipped_lines=0",
    );
}

pub(crate) fn packed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn from_standard_input(text: &[u8]) -> std::process::Output {
    let mut command = tollgate();
    command.args(["replay", "-", "--json"]).args(words(LIMIT));
    with_input(command, text)
}

#[test]
fn the_same_log_may_be_packed_marked_or_from_standard_input() {
    let text = fs::read(SAMPLE).unwrap();
    let (one, two) = text.split_at(text.len() / 2);
    let sample = replay_json(SAMPLE, LIMIT);
    for content in [
        text.clone(),
        packed(&text),
        // As written by `cat a.gz b.gz`.
        [packed(one), packed(two)].concat(),
        [b"\xef\xbb\xbf", &*text].concat(),
    ] {
        // Under any name.
        let path = file("any.log", &content);
        assert_eq!(replay_json(&path, LIMIT), sample);
        assert_eq!(answer(&from_standard_input(&content), 0), sample);
    }
}

#[test]
fn content_that_is_not_read_is_named() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    let half = packed(text.as_bytes());
    let marked = [&b"\xff\xfe"[..], &wide(u16::to_le_bytes)].concat();
    let returns = text.replace('\n', "\r").into_bytes();
    for (content, hints) in [
        (half[..half.len() / 2].to_vec(), ["", "readable file"]),
        (wide(u16::to_be_bytes), ["UTF-16", "iconv"]),
        (marked, ["UTF-16", "iconv"]),
        (packed(&wide(u16::to_le_bytes)), ["UTF-16", "iconv"]),
        (returns, ["CR", "tr '\\r' '\\n'"]),
    ] {
        let path = file("other.log", &content);
        let output = replay(&path, LIMIT);
        fails(&output, &["cannot read", "other.log", hints[0], hints[1]]);
        let output = from_standard_input(&content);
        fails(&output, &["cannot read -", hints[0], hints[1]]);
    }
}

#[test]
fn long_keys_neither_end_a_replay_nor_widen_its_rows() {
    let line = |path: &str| {
        format!("10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 414 1\n")
    };
    let paths = ["/a", &"/b".repeat(4_096), &"/c".repeat(4_097)];
    let log = file("long.log", paths.map(line).concat());
    let output = replay(&log, "--key path --limit gcra:0/1m");
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = stdout(&output);
    has(&rows, "/b/b/…");
    assert!(rows.lines().all(|row| row.chars().count() < 200), "{rows}");
    let reason = ":3: a part of the key is longer than 8 KiB";
    has(&stderr(&output), reason);
    // Other keys do not need the path.
    let found = replay_json(&log, "--limit gcra:0/1m");
    has_fields(&found, "requests=3 & keys=1");
}

#[test]
fn json_lines_need_only_the_fields_of_the_key() {
    let log = "{\"time\": 1, \"user\": \"u\"}\n{\"time\": 1}\n{\"time\": 2, \"user\": null}\n";
    let path = file("users.json", log);
    let found = replay_json(&path, "--key user --limit gcra:1/1m");
    has_fields(&found, r#"requests=3 & top_denied.0.key="-""#);
    fails(&replay(&path, "--limit gcra:1/1m"), &["--ip-field"]);
}

#[test]
fn bad_lines_are_counted_and_shown_with_their_numbers() {
    let good = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let log = format!(
        "{good}garbage\n\n{good}{{\"time\": 5}}\n{{broken\n10.0.0.1 - - [yesterday] x\na\nb\n{good}"
    );
    let path = file("bad.log", log);
    let output = replay(&path, &format!("--json {LIMIT}"));
    has_fields(&answer(&output, 0), "requests=3 & skipped_lines=7");
    let remarks = stderr(&output);
    for (number, reason) in [
        (2, "no {word} where its format has one"),
        (3, "the line is empty"),
        (5, "no address field"),
        (6, "not a JSON object"),
        (7, "no {time} where its format has one"),
    ] {
        let expected = format!("bad.log:{number}: ");
        let line = remarks.lines().find(|line| line.contains(&expected));
        let line = line.unwrap_or_else(|| panic!("{number} in {remarks}"));
        assert!(line.contains(reason), "{line}");
        assert_eq!(line.contains("(and 2 more)"), number == 2, "{line}");
    }
    let said = "tollgate: 7 lines skipped\n";
    assert!(remarks.starts_with(said), "{remarks}");
    assert_eq!(remarks.lines().count(), 6, "each reason once: {remarks}");
}

/// Options, and a line of a format with a method, a status and a user agent.
const FULL_LINES: &str = r#"
 => 10.0.0.1 - - [17/May/2015:10:05:03 +0000] "POST /login?x HTTP/1.1" 401 17 "/\"a" "bot/1" 0.1
 => https 2015-05-17T10:05:03Z a/lb 10.0.0.1:28 10.0.0.9:80 0.0 0.1 0.0 401 200 34 366 "POST http://x:80/login HTTP/1.1" "bot/1" -
 => #Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)LF2015-05-17 10:05:03 10.0.0.1 POST /login 401 bot/1
 => {"time":1431857103,"ip":"10.0.0.1","path":"/login","method":"POST","status":401,"user_agent":"bot/1"}
--agent-field h.UA.0 --status-field code => {"time":1431857103,"ip":"10.0.0.1","path":"POST /login HTTP/1.1","code":"401","h":{"UA":["bot/1"]}}
--pattern '{time} {ip} {method} {path} {status} {agent}|' => 1431857103 10.0.0.1 POST /login 401 bot/1|
"#;

#[test]
fn requests_can_be_counted_by_path_method_and_status() {
    let lines = FULL_LINES.trim_matches('\n').lines();
    let cases: Vec<_> = lines.map(|case| case.split_once(" => ").unwrap()).collect();
    for (options, line) in &cases {
        let log = file("full.log", line.replace("LF", "\n") + "\n");
        let filtered = |filter: &str| replay(&log, &format!("{options} {filter} --json {LIMIT}"));
        for filter in [
            "--path /login",
            "--path /x --path /log*",
            "--method get,post",
            "--status 401",
            "--status 200 --status 4xx",
            "--path *in --method POST --status 401",
        ] {
            let found = filtered(filter);
            assert!(found.status.success(), "{filter} {line} {}", stderr(&found));
            assert!(!stdout(&found).contains("left_out"), "{filter}");
        }
        for filter in [
            "--path /log",
            "--method GET",
            "--status 403,5xx",
            "--path /login --status 200",
        ] {
            fails(&filtered(filter), &["--status say, but 1 others"]);
        }
        let advise = format!("advise '{}' {options} --json --window 1s", &*log);
        has(&stdout(&run(&advise)), "\"requests\":1");
    }
    let (_, line) = cases[0];
    let other = line.replace("401", "200");
    let both = file("both.log", format!("{line}\n{other}\n"));
    let options = format!("--status 401 {LIMIT}");
    let found = replay_json(&both, &options);
    has_fields(&found, "requests=1 & left_out=1");
    let said = "1 request is left out, by --path, --method or --status.";
    has(&stdout(&replay(&both, &options)), said);
    let report = scratch("left.html");
    for command in ["advise", "replay --limit gcra:5/1m"] {
        let files = format!("'{}' --report '{}'", &*both, &*report);
        let output = run(&format!("{command} {files} --status 401"));
        assert!(output.status.success(), "{}", stderr(&output));
        let html = fs::read_to_string(&*report).unwrap();
        has(&html, &format!("UTC. {said}"));
    }
    // What is left out need not have a client that can be counted.
    let host = other.replace("10.0.0.1", "a.example");
    let host = file("host.log", format!("{line}\n{host}\n"));
    let found = replay_json(&host, &options);
    has_fields(&found, "left_out=1 & skipped_lines=0");
    // A line that does not say is skipped, and not left out.
    let text = "{\"time\":1431857103,\"ip\":\"10.0.0.1\",\"path\":\"/\"}";
    let json = file("none.jsonl", text);
    for (filter, hint) in [
        ("--method GET", "--method-field"),
        ("--status 200", "--status-field"),
    ] {
        let output = replay(&json, &format!("{filter} {LIMIT}"));
        fails(&output, &["1 line skipped", hint]);
    }
    for (filter, hint) in [
        ("--path /a?b", "query"),
        ("--path api", "'/api/*'"),
        ("--method 'G T'", "such as POST"),
        ("--status 40", "4xx"),
        ("--status 4x", "4xx"),
        (
            "--pattern '{time} {ip}' --status 401",
            "{status} is missing",
        ),
    ] {
        let output = replay(&both, &format!("{filter} {LIMIT}"));
        fails(&output, &[words(filter)[0], hint]);
    }
}

#[test]
fn times_without_a_year_get_the_latest_before_the_logs_last_change() {
    let line = |time: &str, ip: &str| {
        format!(
            "{time} web1 sshd[4711]: Failed password for invalid user a b from {ip} port 4711 ssh2\n"
        )
    };
    let text = [
        line("Dec 31 23:59:59", "10.0.0.1"),
        "Dec 31 23:59:59 web1 CRON[1]: pam_unix(cron:session): session opened\n".to_owned(),
        line("Jan  1 00:00:01", "10.0.0.1"),
        line("Jan  1 00:00:02", "10.0.0.2"),
    ];
    let log = file("auth.log", text.concat());
    // 2 January 2015.
    let changed = UNIX_EPOCH + Duration::from_secs(1_420_156_800);
    let opened = fs::OpenOptions::new().write(true).open(&*log).unwrap();
    opened.set_modified(changed).unwrap();
    let options = "--key ip+user --limit gcra:1/1m --pattern \
        '{time} {} sshd[{}]: Failed password for {user} from {address} port {number} ssh2'";
    let text = stdout(&replay(&log, options));
    let head = "3 requests of 2 keys (ip+user), 31 Dec 2014 23:59:59 to 1 Jan 2015 00:00:02 UTC\n\
                Read as pattern.\n\
                Times without a year: 2014 and 2015 are assumed, from when the log was changed last.\n";
    assert!(text.starts_with(head), "{text}");
    has(&text, "10.0.0.1 invalid user a b       1   2");
    let found = replay_json(&log, options);
    assert_eq!(found["assumed_years"], json!([2014, 2015]));
}

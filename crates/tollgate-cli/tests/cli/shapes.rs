//! Known requests, written in every format that is read, give the numbers of the algorithms' definitions.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::{FixedWindow, SlidingLog};

use crate::expected::{self, Hit, Written, quota, written};
use crate::program::{fails, file, replay, replay_json, stderr};

fn limits() -> [Written; 2] {
    [
        written(
            "sliding-log:3/30s",
            SlidingLog::new(quota(3, Duration::from_secs(30))).unwrap(),
        ),
        written(
            "fixed-window:20/1m",
            FixedWindow::aligned(quota(20, Duration::from_secs(60))),
        ),
    ]
}

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

    fn iso(&self) -> String {
        format!("2015-05-17T{}", self.clock())
    }

    fn unix(&self) -> u32 {
        START + self.second
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

    fn request(&self) -> String {
        format!("\"GET {}?q={} HTTP/1.1\"", self.path, self.second)
    }

    fn combined(&self) -> String {
        self.combined_of(self.client)
    }

    fn combined_of(&self, client: &str) -> String {
        format!(
            "{client} - {} [17/May/2015:{} +0000] {} 200 17 \"-\" \"agent [1] 192.0.2.1\"",
            self.user,
            self.clock(),
            self.request(),
        )
    }
}

/// A way to write requests.
struct Shape {
    name: &'static str,
    /// How the program names it.
    format: &'static str,
    prefix: &'static str,
    options: &'static [&'static str],
    /// The parts of a request that it does not have.
    lacks: &'static [&'static str],
    line: fn(&Known) -> String,
}

const fn shape(
    name: &'static str,
    [format, prefix]: [&'static str; 2],
    line: fn(&Known) -> String,
) -> Shape {
    Shape {
        name,
        format,
        prefix,
        options: &[],
        lacks: &[],
        line,
    }
}

const fn with(options: &'static [&'static str], shape: Shape) -> Shape {
    Shape { options, ..shape }
}

const fn without_user(shape: Shape) -> Shape {
    Shape {
        lacks: &["user"],
        ..shape
    }
}

const SHAPES: &[Shape] = &[
    shape("combined", ["combined", "none"], Known::combined),
    shape("ports", ["combined", "none"], |hit| {
        hit.combined_of(&hit.peer())
    }),
    shape("forwarded", ["combined", "none"], |hit| {
        hit.combined_of(&format!("{}, 10.0.0.1, 10.0.0.2", hit.client))
    }),
    shape("mapped", ["combined", "none"], |hit| {
        let mapped = if hit.client.contains(':') {
            ""
        } else {
            "::ffff:"
        };
        hit.combined_of(&format!("{mapped}{}", hit.client))
    }),
    shape("no status", ["combined", "none"], |hit| {
        hit.combined().replace(" 200 17 ", " - - ")
    }),
    shape("vhost", ["vhost_combined", "none"], |hit| {
        format!("shop.example:443 {}", hit.combined())
    }),
    shape("vhost name", ["vhost_combined", "none"], |hit| {
        format!("shop.example {}", hit.combined())
    }),
    shape("vhost address", ["vhost_combined", "none"], |hit| {
        format!("192.0.2.1:80 {}", hit.combined())
    }),
    shape("ingress", ["combined", "none"], |hit| {
        let list = format!("{} - [{}]", hit.client, hit.client);
        hit.combined_of(&list)
    }),
    shape("syslog", ["combined", "syslog"], |hit| {
        format!("May 17 {} web1 nginx: {}", hit.clock(), hit.combined())
    }),
    shape("syslog priority", ["combined", "syslog"], |hit| {
        format!("<190>May 17 {} web1 nginx: {}", hit.clock(), hit.combined())
    }),
    shape("syslog ISO", ["vhost_combined", "syslog"], |hit| {
        let (time, line) = (hit.iso(), hit.combined());
        format!("{time}.25+00:00 10.1.1.1 apache2[17]: shop.example:80 {line}")
    }),
    shape("RFC 5424", ["combined", "syslog"], |hit| {
        format!(
            "<190>1 {}.25Z web1 nginx 17 - - {}",
            hit.iso(),
            hit.combined()
        )
    }),
    shape("RFC 5424 data", ["combined", "syslog"], |hit| {
        let data = "[a@1 ip=\"192.0.2.1\" b=\"\\\"]\"]";
        format!(
            "<190>1 {}Z web1 nginx 17 id {data} {}",
            hit.iso(),
            hit.combined()
        )
    }),
    shape("kubectl", ["combined", "container"], |hit| {
        format!("[pod/web-abc/nginx] {}", hit.combined())
    }),
    shape("kubectl times", ["combined", "container"], |hit| {
        format!(
            "[pod/web-abc/nginx] {}.123456789Z {}",
            hit.iso(),
            hit.combined()
        )
    }),
    shape("CRI", ["combined", "container"], |hit| {
        format!("{}.123456789+00:00 stdout F {}", hit.iso(), hit.combined())
    }),
    shape("compose", ["combined", "container"], |hit| {
        format!("web-1  | {}", hit.combined())
    }),
    shape("docker", ["combined", "json"], |hit| {
        let log = hit.combined() + "\n";
        json!({"log": log, "stream": "stdout", "time": "2015-05-17T00:00:00Z"}).to_string()
    }),
    shape("json", ["json", "none"], |hit| {
        json!({"time": hit.unix(), "ip": hit.peer(), "user": hit.user, "path": hit.path})
            .to_string()
    }),
    shape("json after syslog", ["json", "syslog"], |hit| {
        let line =
            json!({"time": hit.unix(), "ip": hit.client, "user": hit.user, "path": hit.path});
        format!("<190>May 17 {} web1 nginx: {line}", hit.clock())
    }),
    without_user(with(
        &[
            "--time-field",
            "ts",
            "--ip-field",
            "request.headers.X-Forwarded-For.0",
        ],
        shape("caddy", ["json", "none"], |hit| {
            let headers = json!({"Accept": ["*/*"], "X-Forwarded-For": [hit.client, "10.0.0.1"]});
            json!({"ts": f64::from(hit.unix()), "path": hit.path, "request": {"headers": headers}})
                .to_string()
        }),
    )),
    without_user(shape("alb", ["elb", "none"], |hit| {
        let path = hit.path;
        format!(
            "https {}.25Z app/lb/50dc {} 10.0.0.1:80 0.0 0.1 0.0 200 200 17 17 \"GET \
             https://shop.example:443{path}?q HTTP/2.0\" \"agent 192.0.2.1\" - TLSv1.2",
            hit.iso(),
            hit.peer(),
        )
    })),
    without_user(shape("elb", ["elb", "none"], |hit| {
        let (client, path) = (hit.client, hit.path);
        format!(
            "{}.25Z lb {client}:4711 10.0.0.1:80 0.0 0.1 0.0 200 200 0 17 \"GET \
             http://shop.example:80{path} HTTP/1.1\" \"agent\" - -",
            hit.iso(),
        )
    })),
    without_user(shape("haproxy", ["haproxy", "syslog"], |hit| {
        let (client, clock) = (hit.client, hit.clock());
        format!(
            "May 17 {clock} lb haproxy[14389]: {client}:33317 [17/May/2015:{clock}.250] http-in~ \
             static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {{192.0.2.1|a b}} {}",
            hit.request(),
        )
    })),
    with(
        &["--pattern", "{date} {time} [{ip}] user={user}; \"{path}\""],
        shape("pattern", ["pattern", "none"], |hit| {
            let request = hit.request();
            let (clock, peer, user) = (hit.clock(), hit.peer(), hit.user);
            let peer = peer.trim_start_matches('[').replace("]:", " port ");
            let address = peer.split(' ').next().unwrap();
            format!("2015-05-17\t{clock},250   [{address}] user={user}; {request} 192.0.2.1")
        }),
    ),
];

/// Returns what a replay of `hits` by `key` should print.
fn expected(hits: &[Known], key: &str) -> Value {
    let hits = hits.iter().map(|hit| Hit {
        at_us: 1_000_000 * u64::from(hit.unix()),
        ip: hit.client.to_owned(),
        user: hit.user.to_owned(),
        path: hit.path.to_owned(),
    });
    expected::of_replay(hits.collect(), 0, key, &limits())
}

/// Checks that a replay of `log` finds the known requests, whatever their key.
fn agrees(shape: &Shape, log: &str) {
    let path = file("shape.log", log);
    for key in ["ip", "user", "path", "ip+user", "path+ip"] {
        if shape.lacks.iter().any(|part| key.contains(part)) {
            continue;
        }
        let mut arguments = vec![&*path, "--key", key];
        arguments.extend(shape.options);
        for limit in limits() {
            arguments.extend(["--limit", limit.text]);
        }
        let mut expected = expected(&known(), key);
        expected["read_as"] =
            json!([{"format": shape.format, "prefix": shape.prefix, "requests": 300}]);
        assert_eq!(replay_json(&arguments), expected, "{} by {key}", shape.name);
    }
}

#[test]
fn every_format_is_read() {
    for shape in SHAPES {
        let lines: Vec<_> = known().iter().map(shape.line).collect();
        agrees(shape, &lines.join("\n"));
    }
}

/// Returns a W3C log with `separator` between values, whose columns change in the middle, unless
/// they stay.
fn w3c(separator: &str, changes: bool) -> String {
    let mut log = "#Version: 1.0\n".to_owned();
    for (number, hit) in known().iter().enumerate() {
        let is_second = changes && number >= 150;
        if number == 0 || (changes && number == 150) {
            log += if is_second {
                "#Fields: c-ip cs-uri-stem cs-username time date\n"
            } else {
                "#Fields: date time s-ip cs-username cs-uri-stem c-ip cs(User-Agent)\n"
            };
        }
        let (clock, client, user, path) = (hit.clock(), hit.client, hit.user, hit.path);
        let values = if is_second {
            vec![client, path, user, &clock, "2015-05-17"]
        } else {
            vec![
                "2015-05-17",
                &clock,
                "192.0.2.1",
                user,
                path,
                client,
                "agent+1",
            ]
        };
        writeln!(log, "{}", values.join(separator)).unwrap();
    }
    log
}

#[test]
fn w3c_logs_are_read_by_the_names_of_their_columns() {
    let shape = shape("w3c", ["w3c", "none"], Known::combined);
    for log in [w3c(" ", false), w3c("\t", false), w3c(" ", true)] {
        agrees(&shape, &log);
        agrees(&shape, &log.replace('\n', "\r\n"));
    }
}

#[test]
fn columns_hold_in_all_blocks_and_with_any_number_of_threads() {
    let log = w3c(" ", true).repeat(40);
    assert!(log.len() > 2 * 256 * 1024);
    let path = file("long.log", log);
    for jobs in ["1", "2", "7"] {
        let found = replay_json(&[&path, "--limit", "gcra:5/1m", "--jobs", jobs]);
        assert_eq!(found["requests"], 300 * 40);
        assert_eq!(found["keys"], CLIENTS.len());
        assert_eq!(found["skipped_lines"], 0);
    }
    // Without the line that names them, the columns are unknown.
    let cut = w3c(" ", false)
        .lines()
        .skip(2)
        .collect::<Vec<_>>()
        .join("\n");
    let options = ["--format", "w3c", "--limit", "gcra:5/1m"];
    let output = replay(&[&[&*file("cut.log", cut)], &options[..]].concat());
    fails(
        &output,
        &["no request found", "300 lines skipped", "#Fields"],
    );
}

#[test]
fn columns_of_one_log_are_not_those_of_the_next() {
    let first = file("first.log", w3c(" ", false));
    let other = w3c(" ", false)
        .lines()
        .skip(2)
        .collect::<Vec<_>>()
        .join("\n");
    let second = file("second.log", other);
    for format in [&[][..], &["--format", "w3c"]] {
        let arguments = [&first, &*second, "--limit", "gcra:5/1m"];
        let found = replay_json(&[&arguments, format].concat());
        let numbers = (&found["requests"], &found["skipped_lines"]);
        assert_eq!(numbers, (&300.into(), &300.into()));
    }
}

#[test]
fn a_log_is_recognized_after_lines_of_another_kind() {
    let noise = "entrypoint.sh: launching, ready for start up\n".repeat(500);
    for shape in SHAPES {
        let lines: Vec<_> = known().iter().map(shape.line).collect();
        let path = file("noise.log", noise.clone() + &lines.join("\n"));
        let limit = ["--limit", "gcra:5/1m"];
        let found = replay_json(&[&[&*path], shape.options, &limit].concat());
        let numbers = (&found["requests"], &found["skipped_lines"], &found["keys"]);
        assert_eq!(
            numbers,
            (&300.into(), &500.into(), &6.into()),
            "{}",
            shape.name
        );
    }
}

#[test]
fn each_file_has_a_format_of_its_own() {
    let files: Vec<_> = SHAPES
        .iter()
        .filter(|shape| shape.options.is_empty())
        .map(|shape| {
            let lines: Vec<_> = known().iter().map(shape.line).collect();
            file("one.log", lines.join("\n"))
        })
        .collect();
    let mut arguments: Vec<&str> = files.iter().map(|file| &**file).collect();
    arguments.extend(["--limit", "gcra:5/1m"]);
    let found = replay_json(&arguments);
    assert_eq!(found["requests"], 300 * files.len());
    assert_eq!(
        (&found["keys"], &found["skipped_lines"]),
        (&6.into(), &0.into())
    );
}

#[test]
fn lines_of_another_format_are_skipped_with_a_reason() {
    let mut log = String::new();
    for hit in known() {
        writeln!(log, "{}", hit.combined()).unwrap();
    }
    let haproxy = SHAPES.iter().find(|shape| shape.name == "haproxy").unwrap();
    log += &known()
        .iter()
        .take(50)
        .map(haproxy.line)
        .collect::<Vec<_>>()
        .join("\n");
    let path = file("mixed.log", log);
    for (format, requests) in [("auto", 300), ("haproxy", 50)] {
        let output = replay(&[&path, "--json", "--format", format, "--limit", "gcra:5/1m"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["requests"], requests, "{format}");
        assert_eq!(found["skipped_lines"], 350 - requests, "{format}");
        assert!(stderr(&output).contains(" more)"), "{}", stderr(&output));
    }
}

#[test]
fn an_unknown_prefix_makes_no_keys() {
    for start in [
        "2015-05-17 10:05:03 INFO ",
        "web-abc nginx ",
        "10.9.9.9 May 17 10:05:03 ",
        "INFO:access:",
        "(shop) ",
        "192.0.2.1 192.0.2.2 ",
    ] {
        let lines = known();
        let lines = lines
            .iter()
            .map(|hit| format!("{start}{}\n", hit.combined()));
        let path = file("prefix.log", lines.collect::<String>());
        for key in ["ip", "client", "user", "path"] {
            let output = replay(&[&path, "--key", key, "--limit", "gcra:5/1m"]);
            fails(
                &output,
                &["no request found", "300 lines skipped", "--pattern"],
            );
        }
    }
}

#[test]
fn names_of_hosts_are_clients_and_not_addresses() {
    let line = known()[0].combined_of("crawler.example");
    let path = file("names.log", line);
    let output = replay(&[&path, "--limit", "gcra:1/1m"]);
    fails(&output, &["not an address", "--key client"]);
    let found = replay_json(&[&path, "--key", "client", "--limit", "gcra:0/1m"]);
    assert_eq!(found["top_denied"][0]["key"], "crawler.example");
}

#[test]
fn wrong_patterns_are_errors() {
    let path = file("any.log", known()[0].combined());
    for (pattern, hint) in [
        ("{ip} {when}", "{when}"),
        ("{ip}{time}", "between them"),
        ("{ip", "closed"),
        ("{ip} x", "{time} is missing"),
    ] {
        let output = replay(&[&path, "--pattern", pattern, "--limit", "gcra:1/1m"]);
        fails(&output, &["--pattern", hint, "{ip} {} [{time}]"]);
    }
}

//! Lines of every format, what may stand before them, and lines that are none.

use std::time::{Duration, UNIX_EPOCH};

use clap::{Parser as _, ValueEnum};

use super::instant::Clock;
use super::key::KeyParts;
use super::lines::Line;
use super::options::{Format, LogOptions};
use super::parser::{Layout, Parser};
use super::record::Skip;
use super::table::Prefix;

/// The options of a command that reads logs.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    log: LogOptions,
}

fn options(format: Format, more: &[&str]) -> LogOptions {
    let arguments = ["tollgate", "-"].iter().chain(more);
    let mut options = Options::parse_from(arguments).log;
    options.format = format;
    options
}

fn layout(prefix: Prefix, format: Format) -> Layout {
    Layout { prefix, format }
}

/// Reads lines of a log that has this layout, and returns the last one: its client, user and path, but
/// for the time, which is the same in all of these tests.
fn last(layout: Layout, options: &LogOptions, key: &str, lines: &[&str]) -> Result<String, Skip> {
    let key: KeyParts = key.parse().unwrap();
    let key = key.with_ipv6_prefix(128);
    let mut parser = Parser::new(options, &key).unwrap();
    let mut bytes = Vec::new();
    let read = lines.iter().map(|line| {
        let read = parser.read(layout, line.as_bytes(), &mut bytes);
        let text = key.readable(&bytes);
        read.map(|(at, _)| {
            assert_eq!(at.as_micros() / 1_000_000, 1_431_857_103, "{line}");
            text
        })
    });
    read.last().unwrap()
}

fn read(format: Format, line: &str) -> Result<String, Skip> {
    let layout = layout(Prefix::None, format);
    last(layout, &options(format, &[]), "client+user+path", &[line])
}

const END: &str = r#"[17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17"#;

/// Lines of each format, and the client, the user and the path of their requests.
const READ: &str = r#"
combined => 10.0.0.1 - bob END => 10.0.0.1 bob /a
combined => 10.0.0.1:80 - - END "-" "agent "with quotes => 10.0.0.1 - /a
combined => h - a c [17/May/2015:03:05:03 -0700] "GET /\"x\" HTTP/1.1" - - => h a c /\"x\"
combined => ::ffff:10.0.0.1, 10.0.0.2 - - END => 10.0.0.1 - /a
combined => unix: - - END => unix: - /a
combined => 10.0.0.1 - [10.0.0.1] - bob END => 10.0.0.1 bob /a
combined => shop.example 10.0.0.1 - bob END => 10.0.0.1 bob /a
combined => 10.9.9.9 10.0.0.1 - bob END => 10.0.0.1 bob /a
combined => 10.9.9.9:443 10.0.0.1 - bob END => 10.0.0.1 bob /a
combined => [::1]:443 10.0.0.1, 10.0.0.2 - - END => 10.0.0.1 - /a
combined => shop.example:80 bot.example - - END => bot.example - /a
elb => https NOW a/lb 10.0.0.1:28 ELB => 10.0.0.1 - /a
elb => NOW lb [::1]:28 ELB => ::1 - /a
elb => h2 NOW a/lb 10.0.0.1:28 - -1 -1 -1 400 - 0 0 "- http://x:80- " => 10.0.0.1 - -
haproxy => 10.0.0.1:33317 PROXY200 1 - - ---- 1/1 {a|#22c} {d} "GET /a HTTP/1.1" 0 => 10.0.0.1 - /a
haproxy => 2001:db8::1:443 PROXY-1 1 - - ---- 1/1 "<BADREQ>" => 2001:db8::1 - <BADREQ>
json => {"x":[1,{"ip":2}],"time":1431857103.5,"ip":"a\u0020b","path":"/p?q","user":7} => a b 7 /p
"#;

/// Lines that are no requests of a format, and the field that is missing.
const MISSING: &str = r#"
combined => garbage => word
combined => one - three => address
combined => TIME GET / => time
combined => TIME "GET / HT => path
combined => TIME "GET \ => path
combined => TIME "GET /" => path
combined => TIME "GET /" 200 => status
combined => TIME "GET /" 2x0 1 => status
combined => TIME "GET /" - x => number
elb => tls 2.0 NOW net/lb/c6e77e28c25b2234 10.0.0.1:28 ELB => peer
elb => https NOW lb 10.0.0.1 ELB => peer
elb => https NOW lb 10.0.0.1:28 0 0 0 0 200 200 34 366 GET / => word
elb => https NOW lb 10.0.0.1:28 0 0 0 0 200 200 34 366 "- - - " => path
haproxy => 10.0.1.2:3 [06/Feb/2009:12:12:51.443] f b/s 0/0/5007 212 -- 0/0/0/0/3 0/0 => word
haproxy => 10.0.1.2:3 [06/Feb/2009:12:12:51.443] f: Connection error => word
haproxy => Proxy http-in started. => peer
"#;

/// Returns the cases of a table: a format, a line, and what is to be found.
fn cases(table: &str) -> impl Iterator<Item = (Format, String, String)> {
    table.trim().lines().map(|case| {
        let case = case.replace("END", END);
        let case = case.replace("NOW", "2015-05-17T10:05:03.25Z");
        let elb = "10.0.0.9:80 0.0 0.1 0.0 200 200 34 366 \"GET http://x:80/a?b HTTP/1.1\" \"x\"";
        let proxy = "[17/May/2015:10:05:03.25] in b/s 10/0/30/69/109 ";
        let time = "h - - [17/May/2015:10:05:03 +0000]";
        let case = case.replace("ELB", elb).replace("PROXY", proxy);
        let case = case.replace("TIME", time);
        let parts: Vec<_> = case.split(" => ").map(str::to_owned).collect();
        let [format, line, found] = parts.try_into().unwrap();
        (Format::from_str(&format, true).unwrap(), line, found)
    })
}

#[test]
fn the_lines_of_every_format_are_read() {
    for (format, line, expected) in cases(READ) {
        assert_eq!(read(format, &line), Ok(expected), "{line}");
    }
}

#[test]
fn a_user_name_cannot_hide_its_request() {
    for user in [
        "a [b] c",
        "[",
        "a [ [ [",
        "[17/May/2015",
        "a [99/May/2015:10:05:03 +0000] b",
        "a [01/Jan/1960:00:00:00 +0000]",
        "a [01/Jan/2020:00:00:00 +0000]",
        r#"a [01/Jan/2020:00:00:00 +0000] \"GET /b HTTP/1.1\" 200 1"#,
    ] {
        let found = read(Format::AccessLog, &format!("h - {user} {END}"));
        assert_eq!(found, Ok(format!("h {user} /a")), "{user}");
    }
}

#[test]
fn words_before_the_client_are_not_taken_for_it() {
    for start in [
        "May 17 10:05:03 web1 nginx: 10.0.0.1",
        "<190>1 2015-05-17T10:05:03Z web1 nginx - - - 10.0.0.1",
        "10.9.9.9 May 17 10:05:03 nginx: 10.0.0.1",
        "10.9.9.9 10.0.0.1 10.0.0.2",
        "web-abc nginx 10.0.0.1",
        "web-abc nginx",
        "nginx: web-abc",
        "shop.example:443",
        "[pod/web-abc/nginx] 10.0.0.1",
        "2015-05-17 10:05:03 10.0.0.1",
        "(null)",
        "",
    ] {
        let found = read(Format::AccessLog, &format!("{start} - bob {END}"));
        let holds = matches!(found, Err(Skip::NotThere(_)));
        assert!(holds, "{start}: {found:?}");
    }
}

#[test]
fn other_lines_name_what_is_missing() {
    for (format, line, missing) in cases(MISSING) {
        match read(format, &line) {
            Err(Skip::NotThere(found)) => assert_eq!(found, missing, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
        assert_eq!(read(format, " "), Err(Skip::Blank));
    }
    for (line, skip) in [
        ("[]", Skip::NotJson),
        ("{\"time\": 1", Skip::NotJson),
        ("{} {}", Skip::NotJson),
        (r#"{"time": true}"#, Skip::NoTimeField),
        (r#"{"time": 1}"#, Skip::NoIpField),
        (r#"{"time": 1, "ip": "i"}"#, Skip::NoPathField),
        (
            r#"{"time": "now", "ip": "i", "path": "/"}"#,
            Skip::UnknownTime,
        ),
    ] {
        assert_eq!(read(Format::Json, line), Err(skip), "{line}");
    }
}

#[test]
fn dotted_names_reach_into_objects_and_lists() {
    let line = r#"{"h":{"F":["i","j",{"x":"k"}],"0":"l"},"a.b":"m","time":1431857103}"#;
    for (name, client) in [
        ("h.F.0", "i"),
        ("h.F.1", "j"),
        ("h.F.2.x", "k"),
        ("h.0", "l"),
        ("a.b", "m"),
        ("h.F", ""),
        ("h.F.3", ""),
        ("h.F.00", ""),
        ("h.F.0.x", ""),
        ("h.F.2", ""),
    ] {
        let options = options(Format::Json, &["--ip-field", name]);
        let expected = match client {
            "" => Err(Skip::NoIpField),
            client => Ok(client.to_owned()),
        };
        let found = last(
            layout(Prefix::None, Format::Json),
            &options,
            "client",
            &[line],
        );
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn columns_are_found_by_name() {
    let w3c = layout(Prefix::None, Format::W3c);
    let own = options(Format::W3c, &[]);
    let of = |fields: &str, key, line: &str| last(w3c, &own, key, &[fields, line]);
    let fields = "#Fields: date time s-ip cs-uri-stem cs-username c-ip cs(User-Agent)";
    for case in r#"
2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1 a+b => 10.0.0.1 bob /a
2015-05-17 10:05:03.25 9 /a?b - 10.0.0.1 "a ""b"" c" => 10.0.0.1 - /a
2015-05-17TAB10:05:03TABTAB/aTABbobTAB10.0.0.1TABa b => 10.0.0.1 bob /a
2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1 => no {ip} where
2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1 a b => no {word} where
2015-05-17 1:5 10.9.9.9 /a bob 10.0.0.1 a => the time is neither
#Date: 2015-05-17 10:05:03 => a line of the log about itself
"#
    .trim()
    .lines()
    {
        let (line, expected) = case.split_once(" => ").unwrap();
        let line = line.replace("TAB", "\t");
        match of(fields, "client+user+path", &line) {
            Ok(found) => assert_eq!(found, expected, "{line}"),
            Err(skip) => assert!(skip.to_string().starts_with(expected), "{line}: {skip}"),
        }
        assert!(last(w3c, &own, "client+user+path", &[&line]).is_err());
    }
    let line = "2015-05-17 10:05:03 10.0.0.1";
    for (fields, key, is_complete) in [
        ("#Fields: date time c-ip", "ip", true),
        ("#Fields: date time x", "ip", false),
        ("#Fields: date time c-ip", "path", false),
        ("#Fields: date time c-ip", "user", false),
        ("#Fields: x time c-ip", "ip", false),
        ("#Fields: date x c-ip", "ip", false),
    ] {
        let found = of(fields, key, line);
        assert_eq!(found.is_ok(), is_complete, "{fields}");
        assert!(is_complete || found == Err(Skip::MissingColumn));
    }
    assert_eq!(last(w3c, &own, "ip", &[line]), Err(Skip::NoColumns));
    let names = ["--time-field", "at", "--ip-field", "X-Forwarded-For"];
    let lines = [
        "#Fields: c-ip at X-Forwarded-For",
        "10.9.9.9 2015-05-17T10:05:03Z 10.0.0.1",
    ];
    let seen = last(w3c, &options(Format::W3c, &names), "ip", &lines);
    assert_eq!(seen, Ok("10.0.0.1".to_owned()));
}

/// What stands before a line, and whether a line of an access log after it is read as one after that.
const BEFORE: &str = r#"
syslog: May 17 10:05:03 web1 nginx: LINE
syslog: May  7 10:05:03 web1 nginx[17]: LINE
syslog: May 17 10:05:03 nginx: LINE
syslog: <190>May 17 10:05:03 web1 nginx: LINE
syslog: 2015-05-17T10:05:03.25+00:00 web1 nginx: LINE
syslog: <190>1 2015-05-17T10:05:03.25Z web1 nginx 17 - - LINE
syslog: <190>1 - - - - - - MARKLINE
syslog: 87 <190>1 2015-05-17T10:05:03Z web1 nginx 17 - [a b="]\"]"][c] LINE
container: [pod/web-abc/nginx] LINE
container: [pod/web-abc/nginx] 2015-05-17T10:05:03.123456789Z LINE
container: 2015-05-17T10:05:03.123456789Z LINE
container: 2015-05-17T10:05:03.123456789+02:00 stdout F LINE
container: web-1  | LINE
container: web-1  | 2015-05-17T10:05:03Z LINE
wrapped: {"x":[1],"log":JSON}
wrapped: {"x":[1],"message":JSON}
wrapped: {"x":[1],"MESSAGE":JSON}
not syslog: LINE
not syslog: May 17 10:05:03 LINE
not syslog: May 17 10:05:03 web1 nginx LINE
not container: LINE
not container: [nginx] LINE
not container: 2015-05-17 10:05:03 LINE
not wrapped: LINE
"#;

#[test]
fn what_stands_before_a_line_is_removed() {
    let line = format!("10.0.0.1 - bob {END}");
    let json = serde_json::to_string(&format!("{line}\n")).unwrap();
    for case in BEFORE.trim().lines() {
        let (prefix, text) = case.split_once(": ").unwrap();
        let text = text.replace("LINE", &line).replace("JSON", &json);
        let text = text.replace("MARK", "\u{feff}");
        let before = match prefix.trim_start_matches("not ") {
            "syslog" => Prefix::Syslog,
            "container" => Prefix::Container,
            _ => Prefix::Wrapped,
        };
        let layout = layout(before, Format::AccessLog);
        let found = last(layout, &options(Format::Auto, &[]), "ip+user", &[&text]);
        let expected = match prefix.starts_with("not ") {
            true => Err(Skip::NoPrefix),
            false => Ok("10.0.0.1 bob".to_owned()),
        };
        assert_eq!(found, expected, "{text}");
    }
}

fn by_pattern(pattern: &str, line: &str) -> Result<String, Skip> {
    let layout = layout(Prefix::None, Format::Pattern);
    let options = options(Format::Auto, &["--pattern", pattern]);
    last(layout, &options, "client+user+path", &[line])
}

#[test]
fn the_fields_of_a_pattern_end_where_the_next_text_begins() {
    for case in r#"
{ip} {user} {time} {path} => 10.0.0.1 bob 1431857103 /a?b
{ip} {user} {time} {path} STOP => 10.0.0.1   bobTAB1431857103 TAB /a STOP c
{time},{},{ip},{path},{user} => 1431857103,,10.0.0.1,/a,bob
{{{ip}}} [{time}] {user} "{path}" => {10.0.0.1} [17/May/2015:10:05:03 +0000] bob "GET /a HTTP/1.1" 200
{date} {time} {ip} {path} {user} => 2015-05-17 10:05:03 10.0.0.1 /a bob
{time} {date} {ip} {path} {user} => 10:05:03,5 2015-05-17 10.0.0.1 /a bob
{time} {ip} {path} {user} => 2015-05-17 10:05:03 10.0.0.1 /a bob
át={time} ip={ip} {}user={user} path={path} STOP => át=2015-05-17T10:05:03Z ip=10.0.0.1 x=y user=bob path=/a STOP
"#
    .trim()
    .lines()
    {
        let (pattern, line) = case.split_once(" => ").unwrap();
        // A pattern may end with a space.
        let pattern = pattern.replace("STOP", "");
        let line = line.replace("STOP", "end").replace("TAB", "\t");
        let found = by_pattern(&pattern, &line);
        assert_eq!(found, Ok("10.0.0.1 bob /a".to_owned()), "{pattern}");
    }
    let quoted = by_pattern("{time} {ip} \"{path}\" {user}", r#"1431857103 i "/\"\\" u"#);
    assert_eq!(quoted, Ok(r#"i u /\"\\"#.to_owned()));
    let nobody = by_pattern("{time} {ip}|{user}|{path}", "1431857103 i||/");
    assert_eq!(nobody, Ok("i - /".to_owned()));
    let pattern = "[{time}] \"{ip}\" \"{path}\" \"{user}\"";
    for (line, skip) in [
        ("", Skip::Blank),
        ("1431857103 \"i\"", Skip::NotThere("start")),
        ("[1431857103] i", Skip::NotThere("time")),
        ("[1431857103]\"i\"", Skip::NotThere("time")),
        ("[1431857103] \"i", Skip::NotThere("ip")),
        ("[1431857103] \"i\\\"", Skip::NotThere("ip")),
        ("[today] \"i\"", Skip::NotThere("time")),
    ] {
        assert_eq!(by_pattern(pattern, line), Err(skip), "{line}");
    }
}

#[test]
fn a_wrong_pattern_says_what_is_wrong() {
    for (pattern, key, expected) in [
        ("{ip", "ip", "not closed"),
        ("{ip} {time}}", "ip", "not opened"),
        ("{ip}{time}", "ip", "between them"),
        ("{ip} {ip} {time}", "ip", "twice"),
        ("{when} {time}", "ip", "{when}"),
        ("{ip}", "ip", "{time} is missing"),
        ("{time}", "ip", "{ip} is missing"),
        ("{time}", "client", "{ip} is missing"),
        ("{time} {ip}", "ip+path", "{path} is missing"),
        ("{time} {ip}", "user", "{user} is missing"),
        ("", "path", "{time} is missing"),
    ] {
        let key = key.parse().unwrap();
        let options = options(Format::Auto, &["--pattern", pattern]);
        let error = Parser::new(&options, &key).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("--pattern"), "{error}");
    }
}

/// Times that mean the same, and how many microseconds after 17 May 2015 10:05:03 UTC that is.
const TIMES: &str = "
17/May/2015:10:05:03 +0000 | 17/May/2015:03:05:03 -0700 | 17/May/2015:15:35:03 +0530 | 17/May/2015:10:05:03 => 0
2015-05-17T10:05:03Z | 2015-05-17T12:05:03+02:00 | 2015-05-17T10:05:03 | 2015-05-17 10:05:03 => 0
1431857103 | 1431857103000 | 1431857103000000 | 1431857103000000000 | 1.431857103e9 => 0
2015-05-17T12:05:03.25+02:00 | 2015-05-17 10:05:03,25 | 17/May/2015:10:05:03.25 => 250000
1431857103.25 | 1431857103250 | 1.43185710325e9 => 250000
1431857103.123456789 | 2015-05-17 10:05:03.1234567 => 123456
1431857103000.5 => 500
01/Jan/1970:00:00:00 +0000 | 0 | 1e-9 => epoch
31/Dec/1969:23:59:59 +0000 | 17/May/9999:10:05:03 +0000 => no such
1969-12-31T23:59:59.5Z | 1969-12-31 23:59:59 => no such
99999999999999999999999 | 99999999999 | 1e99 => no such
29/Feb/2015:10:05:03 +0000 | 17/Mai/2015:10:05:03 +0000 | 17/May/2015:24:05:03 +0000 => no time
17/May/2015:10:60:03 +0000 | 17/May/2015:10:05:61 +0000 | 17/May/2015:10:05:03 00000 => no time
17/May/2015:10:05:0x +0000 | 17/May/2015 | 2015-02-29 10:05:03 | 2015-05-17 => no time
2015-05-17 10:05:03. | 2015-05-17 10:05:03 +2 | 2015-05-17 10:05:03[Europe/Berlin] => no time
1.431857103e9 | 1431857103e0 | 1431857103E+00 | 14318571030000e-4 | 0.000001431857103e+15 | 0001431857.103e3 | 1431857103000000000e-9 | 1.431857103e12 | 1.431857103e15 => 0
2015-05-17T10:05:03,250 | 1431857103.25 => 250000
9.9e10 | 1e19 | 1e20 | 31/Dec/1969:23:59:59.5 => no such
0e99999999999999999999 | 1e-99999999999999999999 | 0.00e5 => epoch
1e+ | 1e- | 1e5e5 | 1e5.0 | 1e+-5 | 1 e5 | -1e5 | 2015-13-01 10:05:03 | 2015-05-17 24:05:03 | 2015-05-17 10:60:03 | 2015-05-17 10:05:61 | 32/May/2015:10:05:03 | 17-May-2015:10:05:03 +0000 => no time
2015-05-17 10:05:03.x | 2015-05-17 10:05:03x | 2015-05-17 10:05:03.25. | 2015-05-17T10:05:03,x => no time
2015-05-17 10:05:03+99:00 | yesterday | -5 | . | 1e | e5 => no time
";

#[test]
fn times_are_read_as_logs_write_them() {
    const MAY: u64 = 1_431_857_103_000_000;
    let mut clock = Clock::new();
    for case in TIMES.trim().lines() {
        let (texts, expected) = case.split_once(" => ").unwrap();
        let expected = match expected {
            "no time" => Err(Skip::UnknownTime),
            "no such" => Err(Skip::NoSuchInstant),
            "epoch" => Ok(0),
            micros => Ok(MAY + micros.parse::<u64>().unwrap()),
        };
        for text in texts.split(" | ") {
            let read = clock.read(text).map(|at| at.as_micros());
            assert_eq!(read, expected, "{text}");
            // What a clock remembers changes nothing.
            let found = Clock::new().read(text).map(|at| at.as_micros());
            assert_eq!(found, expected, "{text}");
        }
    }
    assert_eq!(clock.read(""), Err(Skip::UnknownTime));
    // Which year depends on when the log was changed last: what follows is less than a day later.
    clock.begin(UNIX_EPOCH + Duration::from_micros(MAY - 86_400_000_000));
    for (text, year, full) in [
        ("May 17 10:05:03", 2015, "17/May/2015:10:05:03 +0000"),
        ("May 17 10:05:03.25", 2014, "17/May/2014:10:05:03 +0000"),
        ("May  7 10:05:03", 2015, "07/May/2015:10:05:03 +0000"),
        ("Dec 31 10:05:03", 2014, "31/Dec/2014:10:05:03 +0000"),
        ("Feb 29 10:05:03", 2012, "29/Feb/2012:10:05:03 +0000"),
    ] {
        let at = clock.read(text).unwrap().as_micros();
        assert_eq!(clock.assumed_year, Some(year), "{text}");
        let fraction = if text.ends_with(".25") { 250_000 } else { 0 };
        let wanted = clock.read(full).unwrap().as_micros() + fraction;
        assert_eq!(at, wanted, "{text}");
        assert_eq!(clock.assumed_year, None);
    }
    for text in [
        "Mai 17 10:05:03",
        "May 32 10:05:03",
        "May 17",
        "May 17 10:05",
    ] {
        assert_eq!(clock.read(text), Err(Skip::UnknownTime), "{text}");
    }
    let leap = Clock::new().read("29/Feb/2016:23:59:60 +0000");
    assert_eq!(leap, Clock::new().read("01/Mar/2016:00:00:00 +0000"));
}

const LINES: [&str; 8] = [
    r#"10.0.0.1 - bob [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "x""#,
    r#"s.example:443 ::ffff:10.0.0.1, 10.0.0.2 - - [17/May/2015:10:05:03 +0000] "\"" - -"#,
    r#"<190>May 17 10:05:03 web1 nginx: 10.0.0.1 - - [17/May/2015:10:05:03 +0000] "-" 400 0"#,
    r#"{"log":"10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 17\n","time":"1"}"#,
    "#Fields: date time c-ip cs-username cs-uri-stem",
    "2015-05-17 10:05:03.25 10.0.0.1 \"a \"\"b\"\"\" /a?b",
    r#"https 2015-05-17T10:05:03Z lb [::1]:1 t:1 0 0 0 200 200 1 1 "GET http://x/a HTTP/1.1""#,
    r#"10.0.0.1:1 [17/May/2015:10:05:03.25] f b/s 1/2/3/4/5 200 1 - - ---- 1/1 {a} "GET / H""#,
];

#[test]
fn the_layout_of_most_lines_is_chosen() {
    // A JSON object without a user would be a request.
    let key: KeyParts = "user".parse().unwrap();
    let options = options(Format::Auto, &[]);
    let mut parser = Parser::new(&options, &key).unwrap();
    let mut of = |lines: &[&str]| {
        let lines = lines.iter().map(|line| Line::Whole(line.as_bytes()));
        let (layout, has_requests) = parser.layout(lines);
        has_requests.then_some((layout.prefix, layout.format))
    };
    let [combined, vhost, syslog, docker, ..] = LINES;
    let noise = r#"{"log":"started\n","time":"1431857103"}"#;
    let is_combined = Some((Prefix::None, Format::AccessLog));
    for (lines, expected) in [
        (&[combined][..], is_combined),
        (&[combined, syslog], is_combined),
        (&["x", vhost], is_combined),
        (
            &[combined, syslog, syslog],
            Some((Prefix::Syslog, Format::AccessLog)),
        ),
        (&LINES[4..6], Some((Prefix::None, Format::W3c))),
        (&LINES[6..7], Some((Prefix::None, Format::LoadBalancer))),
        (&LINES[7..], Some((Prefix::None, Format::Haproxy))),
        // Docker's own fields are no request, even if most lines within are none either.
        (
            &[noise, noise, docker],
            Some((Prefix::Wrapped, Format::AccessLog)),
        ),
        (&[noise], None),
        (&["x", ""], None),
    ] {
        assert_eq!(of(lines), expected, "{lines:?}");
    }
}

#[test]
fn values_that_cannot_be_used_tell_the_layout_too() {
    let key: KeyParts = "ip".parse().unwrap();
    let options = options(Format::Auto, &[]);
    let mut parser = Parser::new(&options, &key).unwrap();
    // No column of clients; and a client that is no address.
    let w3c = ["#Fields: date time cs-uri-stem", "2015-05-17 10:05:03 /a"];
    let syslog = format!("May 17 10:05:03 web1 nginx: shop-bot - bob {END}");
    for (lines, prefix, format) in [
        (&w3c[..], Prefix::None, Format::W3c),
        (&[&*syslog], Prefix::Syslog, Format::AccessLog),
    ] {
        let read = parser.layout(lines.iter().map(|line| Line::Whole(line.as_bytes())));
        assert_eq!(read, (Layout { prefix, format }, false), "{lines:?}");
    }
}

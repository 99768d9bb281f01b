//! Parses HAProxy's HTTP log.

use std::borrow::Cow;

use memchr::memchr;

use super::quoted::{quoted, word};
use crate::input::address::without_port;
use crate::input::format::Shape;
use crate::input::instant;
use crate::input::record::{Record, Skip, path_of_request};

/// Parses lines such as `CLIENT:PORT [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109
/// 200 2750 - - ---- 1/1/1/1/0 0/0 {captured} "GET / HTTP/1.1"`. The time is taken for UTC, since it
/// has no zone.
pub(super) fn parse(line: &[u8]) -> Result<Record<'_>, Skip> {
    if line.trim_ascii().is_empty() {
        return Err(Skip::Blank);
    }
    let (client, rest) = word(line).ok_or(Skip::NotHaproxy)?;
    let bare = without_port(client);
    let (time, rest) = word(rest).ok_or(Skip::NotHaproxy)?;
    let time = time
        .strip_prefix(b"[")
        .and_then(|time| time.strip_suffix(b"]"));
    let time = time.ok_or(Skip::NotHaproxy)?;
    let (_frontend, rest) = word(rest).ok_or(Skip::NotHaproxy)?;
    let (server, rest) = word(rest).ok_or(Skip::NotHaproxy)?;
    let (timers, rest) = word(rest).ok_or(Skip::NotHaproxy)?;
    let (status, rest) = word(rest).ok_or(Skip::NotHaproxy)?;
    let slashes = |text: &[u8]| text.iter().filter(|&&byte| byte == b'/').count();
    let is_status = status == b"-1" || (status.len() == 3 && status.iter().all(u8::is_ascii_digit));
    // A TCP log has three timers, and no status.
    if bare.len() == client.len() || slashes(server) == 0 || slashes(timers) != 4 || !is_status {
        return Err(Skip::NotHaproxy);
    }
    // Quotes in captured headers are escaped as `#22`.
    let quote = memchr(b'"', rest).ok_or(Skip::NoRequest)?;
    let (request, _) = quoted(&rest[quote..]).ok_or(Skip::NoRequest)?;
    Ok(Record {
        at: instant::read_log_utc(time)?,
        client: Cow::Borrowed(bare),
        user: Cow::Borrowed(b"-"),
        path: Cow::Borrowed(path_of_request(request)),
        shape: Shape::Haproxy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<[String; 2], Skip> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        super::parse(line.as_bytes()).map(|record| [text(&record.client), text(&record.path)])
    }

    #[test]
    fn requests_are_read() {
        let rest = "2750 - - ---- 1/1/1/1/0 0/0";
        let line = |client: &str, status: &str, request: &str| {
            format!(
                "{client}:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 \
                 {status} {rest} {request}"
            )
        };
        for (line, expected) in [
            (
                line("10.0.1.2", "200", r#""GET /a?b HTTP/1.1""#),
                ["10.0.1.2", "/a"],
            ),
            (
                line("10.0.1.2", "200", r#"{a b|#22c} {d} "GET /a HTTP/1.1" 0/0"#),
                ["10.0.1.2", "/a"],
            ),
            (
                line("2001:db8::1", "-1", r#""<BADREQ>""#),
                ["2001:db8::1", "<BADREQ>"],
            ),
        ] {
            assert_eq!(parse(&line), Ok(expected.map(str::to_owned)), "{line}");
        }
        assert_eq!(
            parse(&line("10.0.1.2", "200", "GET /")),
            Err(Skip::NoRequest)
        );
        assert_eq!(
            parse(&line("10.0.1.2", "x", "\"GET /\"")),
            Err(Skip::NotHaproxy)
        );
    }

    #[test]
    fn other_lines_are_not_requests() {
        for line in [
            "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
            "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt/f1: Connection error during handshake",
            "Proxy http-in started.",
            "10.0.1.2 - - [06/Feb/2009:12:12:51 +0000] \"GET / HTTP/1.1\" 200 17",
        ] {
            assert_eq!(parse(line), Err(Skip::NotHaproxy), "{line}");
        }
        assert_eq!(parse(""), Err(Skip::Blank));
    }
}

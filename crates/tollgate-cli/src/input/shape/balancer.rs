//! Parses access logs of AWS load balancers: application (ALB) and classic (ELB).

use std::borrow::Cow;
use std::str;

use super::quoted::{quoted, word};
use crate::input::address::without_port;
use crate::input::format::Shape;
use crate::input::instant;
use crate::input::record::{Record, Skip, path_of_request, path_of_url};

/// How an application load balancer starts its lines. A network load balancer writes connections,
/// not requests, and starts them with `tls`.
const KINDS: [&[u8]; 6] = [b"http", b"https", b"h2", b"grpcs", b"ws", b"wss"];

/// The words between the client and the request: the target, three times, two statuses, two sizes.
const WORDS: usize = 8;

/// Parses lines such as `https TIME NAME CLIENT:PORT TARGET:PORT 0.1 0.1 0.1 200 200 17 17 "GET
/// https://shop.example:443/ HTTP/1.1" ..`; those of classic load balancers start with the time.
pub(super) fn parse(line: &[u8]) -> Result<Record<'_>, Skip> {
    if line.trim_ascii().is_empty() {
        return Err(Skip::Blank);
    }
    let (first, rest) = word(line).ok_or(Skip::NotBalancer)?;
    let rest = if KINDS.contains(&first) { rest } else { line };
    let (time, rest) = word(rest).ok_or(Skip::NotBalancer)?;
    if !time.contains(&b'T') {
        return Err(Skip::NotBalancer);
    }
    let time = str::from_utf8(time).map_err(|_| Skip::NotBalancer)?;
    let (_name, rest) = word(rest).ok_or(Skip::NotBalancer)?;
    let (client, mut rest) = word(rest).ok_or(Skip::NotBalancer)?;
    for _ in 0..WORDS {
        let (text, after) = word(rest).ok_or(Skip::NotBalancer)?;
        if text.contains(&b'"') {
            return Err(Skip::NotBalancer);
        }
        rest = after;
    }
    let (request, _) = quoted(rest).ok_or(Skip::NoRequest)?;
    if request.starts_with(b"- - -") {
        // A connection to a TCP listener.
        return Err(Skip::NoRequest);
    }
    // A request that the load balancer could not parse has no method, and no path either.
    let path = if request.starts_with(b"- ") {
        b"-"
    } else {
        path_of_url(path_of_request(request))
    };
    Ok(Record {
        at: instant::read_any(time)?,
        client: Cow::Borrowed(without_port(client)),
        user: Cow::Borrowed(b"-"),
        path: Cow::Borrowed(path),
        shape: Shape::LoadBalancer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<[String; 2], Skip> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        super::parse(line.as_bytes()).map(|record| [text(&record.client), text(&record.path)])
    }

    const REST: &str = "10.0.0.1:80 0.000 0.001 0.000 200 200 34 366";

    #[test]
    fn both_kinds_are_read() {
        let expected = Ok(["192.0.2.9", "/a"].map(str::to_owned));
        let request = r#""GET https://shop.example:443/a?b HTTP/1.1" "agent" - -"#;
        let start = "2018-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188";
        for line in [
            format!("https {start} 192.0.2.9:2817 {REST} {request}"),
            format!("ws {start} 192.0.2.9:2817 - -1 -1 -1 400 - 0 0 {request}"),
            format!("{start} 192.0.2.9:2817 {REST} {request}"),
        ] {
            assert_eq!(parse(&line), expected, "{line}");
        }
        let line = format!("h2 {start} [2001:db8::1]:2817 {REST} \"- http://x:80- \"");
        assert_eq!(parse(&line), Ok(["[2001:db8::1]", "-"].map(str::to_owned)));
    }

    #[test]
    fn other_lines_are_not_requests() {
        let start = "2018-07-02T22:23:00.186641Z lb 192.0.2.9:2817";
        assert_eq!(parse(" "), Err(Skip::Blank));
        assert_eq!(parse("http"), Err(Skip::NotBalancer));
        assert_eq!(
            parse(&format!("tls {start} {REST} \"GET / HTTP/1.1\"")),
            Err(Skip::NotBalancer)
        );
        assert_eq!(
            parse(&format!("{start} \"GET / HTTP/1.1\" {REST}")),
            Err(Skip::NotBalancer)
        );
        assert_eq!(
            parse(&format!("{start} {REST} GET /")),
            Err(Skip::NoRequest)
        );
        assert_eq!(
            parse(&format!("{start} {REST} \"GET / HTTP/1.1")),
            Err(Skip::NoRequest)
        );
        assert_eq!(
            parse(&format!("{start} {REST} \"- - - \" -")),
            Err(Skip::NoRequest)
        );
        let bad = format!("http T {start} {REST} \"GET / HTTP/1.1\"");
        assert_eq!(parse(&bad), Err(Skip::NoRequest));
    }
}

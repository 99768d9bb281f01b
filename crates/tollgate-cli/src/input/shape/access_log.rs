//! `AccessLog`: parses Apache and nginx access logs, in common, combined or vhost_combined format.

use std::borrow::Cow;

use memchr::memchr;
use tollgate_core::Timestamp;

use super::quoted::{quoted, word};
use crate::input::address::{is_address, is_name, is_name_with_port};
use crate::input::format::Shape;
use crate::input::instant::LogClock;
use crate::input::record::{Record, Skip, path_of_request};

/// The length of `[17/May/2015:10:05:03 +0000] `.
const TIME: usize = 29;

/// Parses lines such as `203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17`,
/// also after the name of the site.
pub(super) struct AccessLog {
    clock: LogClock,
}

impl AccessLog {
    pub(super) fn new() -> Self {
        Self {
            clock: LogClock::new(),
        }
    }

    /// Parses `line` up to the size. The rest is ignored: it is chosen by clients, and may contain
    /// quotes that never close.
    #[inline]
    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        let Start {
            client,
            ident,
            rest,
            shape,
        } = start_of(line)?;
        let (user, at, rest) = self.user_and_time(rest)?;
        // A program's name or a date before the client would otherwise be an ident and a user.
        if ident != b"-" && user.contains(&b' ') {
            return Err(Skip::NoAddress);
        }
        let (request, rest) = quoted(rest).ok_or(Skip::NoRequest)?;
        let rest = rest.strip_prefix(b" ").ok_or(Skip::NoStatus)?;
        if !is_status_and_size(rest) {
            return Err(Skip::NoStatus);
        }
        Ok(Record {
            at,
            client: Cow::Borrowed(client),
            user: Cow::Borrowed(without_repeated_address(user)),
            path: Cow::Borrowed(path_of_request(request)),
            shape,
        })
    }

    /// Returns the user, the instant, and what follows it.
    ///
    /// The user name is attacker-controlled, and may contain brackets and even a fake time. It
    /// cannot contain an unescaped quote, so the real time is the one followed by a quote.
    #[inline]
    fn user_and_time<'a>(
        &mut self,
        text: &'a [u8],
    ) -> Result<(&'a [u8], Timestamp, &'a [u8]), Skip> {
        let mut skip = Skip::NoTime;
        let mut from = 0;
        while let Some(found) = memchr(b'[', &text[from..]) {
            let bracket = from + found;
            from = bracket + 1;
            if bracket < 2 || text[bracket - 1] != b' ' {
                continue;
            }
            let Some((time, rest)) = text[bracket..].split_first_chunk::<TIME>() else {
                break;
            };
            let [b'[', stamp @ .., b']', b' '] = time else {
                continue;
            };
            match self.clock.read(stamp) {
                Ok(at) if rest.first() == Some(&b'"') => {
                    return Ok((&text[..bracket - 1], at, rest));
                }
                Ok(_) => skip = Skip::NoRequest,
                Err(reason) => skip = reason,
            }
        }
        Err(skip)
    }
}

/// How a line starts.
struct Start<'a> {
    client: &'a [u8],
    ident: &'a [u8],
    rest: &'a [u8],
    shape: Shape,
}

/// Returns the client, the ident, and what follows them.
///
/// The client is the first word, or the second one if the first is a site. An ident is never an
/// address, so a second word that is one is the client. A name in the client's place is the name of a
/// host only if the ident is missing, as it always is today: any other text would have words there.
#[inline]
fn start_of(line: &[u8]) -> Result<Start<'_>, Skip> {
    let (first, rest) = client_word(line).ok_or_else(|| {
        if line.trim_ascii().is_empty() {
            Skip::Blank
        } else {
            Skip::NoAddress
        }
    })?;
    let (second, after) = word(rest).ok_or(Skip::NoAddress)?;
    let without_site = Start {
        client: first,
        ident: second,
        rest: after,
        shape: Shape::Combined,
    };
    if second == b"-" && !is_name_with_port(first) {
        let is_client = is_address(first) || is_name(first) || first.starts_with(b"unix:");
        return if is_client {
            Ok(without_site)
        } else {
            Err(Skip::NoAddress)
        };
    }
    let (client, rest) = client_word(rest).ok_or(Skip::NoAddress)?;
    let (ident, rest) = word(rest).ok_or(Skip::NoAddress)?;
    let is_site = if is_address(client) {
        is_name(first) || is_address(first) || is_name_with_port(first)
    } else {
        is_name_with_port(first) && is_name(client)
    };
    if is_site && ident == b"-" {
        Ok(Start {
            client,
            ident,
            rest,
            shape: Shape::Vhost,
        })
    } else if is_address(first) && !is_site {
        Ok(without_site)
    } else {
        Err(Skip::NoAddress)
    }
}

/// Splits `text` after the client, which may be a list with a space after each comma.
#[inline]
fn client_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, mut rest) = word(text)?;
    let mut last = first;
    while last.last() == Some(&b',') {
        (last, rest) = word(rest)?;
    }
    Some((first, rest))
}

/// Removes from the user the `[address] - ` that older nginx ingress controllers write before it.
#[inline]
fn without_repeated_address(user: &[u8]) -> &[u8] {
    let Some(bracketed) = user.strip_prefix(b"[") else {
        return user;
    };
    match memchr::memmem::find(bracketed, b"] - ") {
        Some(end) if is_address(&bracketed[..end]) => &bracketed[end + 4..],
        _ => user,
    }
}

/// Returns whether `text` starts with a status of three digits and a size; both may be `-`.
#[inline]
fn is_status_and_size(text: &[u8]) -> bool {
    let size = match text {
        [b'-', b' ', size @ ..] => size,
        [a, b, c, b' ', size @ ..] if [a, b, c].into_iter().all(u8::is_ascii_digit) => size,
        _ => return false,
    };
    let size = match memchr(b' ', size) {
        Some(end) => &size[..end],
        None => size,
    };
    size == b"-" || (!size.is_empty() && size.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(String, String, String, u64), Skip> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        AccessLog::new().parse(line.as_bytes()).map(|record| {
            let seconds = record.at.as_micros() / 1_000_000;
            (
                text(&record.client),
                text(&record.user),
                text(&record.path),
                seconds,
            )
        })
    }

    #[test]
    fn common_and_combined_lines_are_read() {
        let common = r#"10.0.0.1 - bob [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 -"#;
        let expected = ("10.0.0.1".into(), "bob".into(), "/a".into(), 1_431_857_103);
        assert_eq!(parse(common), Ok(expected));
        assert_eq!(
            parse(&format!(r#"{common} "-" "agent "with quotes"#)),
            parse(common)
        );
    }

    #[test]
    fn user_names_may_hold_spaces_and_requests_quotes() {
        let line = r#"h - a [b] c [17/May/2015:03:05:03 -0700] "GET /\"x\" HTTP/1.1" 404 0"#;
        let expected = |user: &str| {
            (
                "h".to_owned(),
                user.to_owned(),
                r#"/\"x\""#.to_owned(),
                1_431_857_103,
            )
        };
        assert_eq!(parse(line), Ok(expected("a [b] c")));
        let line = |user: &str| line.replace("a [b] c", user);
        assert_eq!(parse(&line("a c")), Ok(expected("a c")));
    }

    #[test]
    fn a_user_name_cannot_hide_its_request() {
        let line = |user: &str| {
            format!(r#"h - {user} [17/May/2015:03:05:03 -0700] "GET /a HTTP/1.1" 404 0"#)
        };
        for user in [
            "[",
            "a [",
            "a [ [ [",
            "[17/May/2015",
            "a [99/May/2015:10:05:03 +0000] b",
            "a [01/Jan/1960:00:00:00 +0000]",
            "a [01/Jan/2020:00:00:00 +0000]",
            r#"a [01/Jan/2020:00:00:00 +0000] \"GET /b HTTP/1.1\" 200 1"#,
        ] {
            let expected = ("h".into(), user.into(), "/a".into(), 1_431_857_103);
            assert_eq!(parse(&line(user)), Ok(expected), "{user}");
        }
    }

    const END: &str = r#"[17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1"#;

    #[test]
    fn the_client_may_follow_the_site_and_be_a_list() {
        for start in [
            "10.0.0.1",
            "shop.example 10.0.0.1",
            "shop.example:443 10.0.0.1",
            "10.9.9.9:443 10.0.0.1",
            "[2001:db8::1]:443 10.0.0.1",
        ] {
            let expected = ("10.0.0.1".into(), "bob".into(), "/a".into(), 1_431_857_103);
            assert_eq!(
                parse(&format!("{start} - bob {END}")),
                Ok(expected),
                "{start}"
            );
        }
        for (start, client) in [
            ("10.0.0.1, 10.0.0.2, 10.0.0.3", "10.0.0.1,"),
            ("shop.example 10.0.0.1, 10.0.0.2", "10.0.0.1,"),
            ("shop.example:80 crawler.example", "crawler.example"),
            ("crawler.example", "crawler.example"),
            ("2001:db8::1", "2001:db8::1"),
            ("10.0.0.1:4000", "10.0.0.1:4000"),
            ("unix:", "unix:"),
        ] {
            let found = parse(&format!("{start} - bob {END}")).map(|record| record.0);
            assert_eq!(found, Ok(client.to_owned()), "{start}");
        }
        let ident = parse(&format!("10.0.0.1 frank bob {END}")).map(|record| record.1);
        assert_eq!(ident, Ok("bob".into()));
        let ingress = parse(&format!("10.0.0.1 - [10.0.0.1] - bob {END}"));
        assert_eq!(ingress.map(|record| record.1), Ok("bob".into()));
    }

    #[test]
    fn words_before_the_client_are_not_taken_for_it() {
        for start in [
            "May 17 10:05:03 web1 nginx: 10.0.0.1",
            "<190>May 17 10:05:03 web1 nginx: 10.0.0.1",
            "<190>1 2015-05-17T10:05:03Z web1 nginx - - - 10.0.0.1",
            "10.9.9.9 May 17 10:05:03 nginx: 10.0.0.1",
            "10.9.9.9 10.0.0.1 10.0.0.2",
            "web-abc nginx 10.0.0.1",
            "[pod/web-abc/nginx] 10.0.0.1",
            "2015-05-17 10:05:03 10.0.0.1",
            "(null)",
            "",
        ] {
            let found = parse(&format!("{start} - bob {END}"));
            assert_eq!(found, Err(Skip::NoAddress), "{start}");
        }
    }

    #[test]
    fn a_missing_status_or_size_is_a_request() {
        for end in ["- -", "- 0", "408 -", "000 0"] {
            let line = END.replace("200 1", end);
            assert!(parse(&format!("10.0.0.1 - - {line}")).is_ok(), "{end}");
        }
        for end in ["-", "- x", "-- 1", "x 1", "20 1"] {
            let line = END.replace("200 1", end);
            assert_eq!(
                parse(&format!("10.0.0.1 - - {line}")),
                Err(Skip::NoStatus),
                "{end}"
            );
        }
    }

    #[test]
    fn errors_name_the_missing_field() {
        let time = "h - - [17/May/2015:10:05:03 +0000]";
        assert_eq!(parse(""), Err(Skip::Blank));
        assert_eq!(parse("  "), Err(Skip::Blank));
        assert_eq!(parse("garbage"), Err(Skip::NoAddress));
        assert_eq!(parse("one two three"), Err(Skip::NoAddress));
        assert_eq!(parse("one - three"), Err(Skip::NoTime));
        assert_eq!(parse("h - - [17/May/2015]"), Err(Skip::NoTime));
        assert_eq!(parse(time), Err(Skip::NoTime));
        assert_eq!(parse(&format!("{time} \"GET / HT")), Err(Skip::NoRequest));
        assert_eq!(parse(&format!("{time} \"GET \\")), Err(Skip::NoRequest));
        assert_eq!(parse(&format!("{time} \"GET /\"")), Err(Skip::NoStatus));
        assert_eq!(parse(&format!("{time} \"GET /\" 200")), Err(Skip::NoStatus));
        assert_eq!(
            parse(&format!("{time} \"GET /\" 2x0 1")),
            Err(Skip::NoStatus)
        );
        assert_eq!(
            parse(&format!("{time} \"GET /\" 200 ")),
            Err(Skip::NoStatus)
        );
    }
}

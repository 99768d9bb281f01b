//! `AccessLog`: parses Apache and nginx access logs, in common or combined format.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use tollgate_core::Timestamp;

use super::instant::LogClock;
use super::record::{Record, Skip, path_of_request};

/// The length of `[17/May/2015:10:05:03 +0000] `.
const TIME: usize = 29;

/// Parses lines such as `203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17`.
pub(crate) struct AccessLog {
    clock: LogClock,
}

impl AccessLog {
    pub(crate) fn new() -> Self {
        Self {
            clock: LogClock::new(),
        }
    }

    /// Parses `line` up to the size. The rest is ignored: it is chosen by clients, and may contain
    /// quotes that never close.
    #[inline]
    pub(crate) fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        let (ip, rest) = word(line).ok_or_else(|| {
            if line.trim_ascii().is_empty() {
                Skip::Blank
            } else {
                Skip::NoAddress
            }
        })?;
        let (_ident, rest) = word(rest).ok_or(Skip::NoTime)?;
        let (user, at, rest) = self.user_and_time(rest)?;
        let (request, rest) = quoted(rest).ok_or(Skip::NoRequest)?;
        if !is_status_and_size(rest) {
            return Err(Skip::NoStatus);
        }
        Ok(Record {
            at,
            ip: Cow::Borrowed(ip),
            user: Cow::Borrowed(user),
            path: Cow::Borrowed(path_of_request(request)),
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

/// Splits `text` at the first space; `None` if there is nothing before it.
#[inline]
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    match memchr(b' ', text)? {
        0 => None,
        end => Some((&text[..end], &text[end + 1..])),
    }
}

/// Returns the quoted text at the start, and what follows it and a space.
#[inline]
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let found = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[found] == b'"' {
            return Some((&text[..found], text[found + 1..].strip_prefix(b" ")?));
        }
        // The next character is escaped, and may be a quote.
        from = found + 2;
    }
}

/// Returns whether `text` starts with a status of three digits and a size, which may be `-`.
#[inline]
fn is_status_and_size(text: &[u8]) -> bool {
    let [a, b, c, b' ', size @ ..] = text else {
        return false;
    };
    let size = match memchr(b' ', size) {
        Some(end) => &size[..end],
        None => size,
    };
    [a, b, c].into_iter().all(u8::is_ascii_digit)
        && (size == b"-" || (!size.is_empty() && size.iter().all(u8::is_ascii_digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(String, String, String, u64), Skip> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        AccessLog::new().parse(line.as_bytes()).map(|record| {
            let seconds = record.at.as_micros() / 1_000_000;
            (
                text(&record.ip),
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

    #[test]
    fn errors_name_the_missing_field() {
        let time = "h - - [17/May/2015:10:05:03 +0000]";
        assert_eq!(parse(""), Err(Skip::Blank));
        assert_eq!(parse("  "), Err(Skip::Blank));
        assert_eq!(parse("garbage"), Err(Skip::NoAddress));
        assert_eq!(parse("one two three"), Err(Skip::NoTime));
        assert_eq!(parse("h - - [17/May/2015]"), Err(Skip::NoTime));
        assert_eq!(parse(time), Err(Skip::NoTime));
        assert_eq!(parse(&format!("{time} \"GET / HT")), Err(Skip::NoRequest));
        assert_eq!(parse(&format!("{time} \"GET \\")), Err(Skip::NoRequest));
        assert_eq!(parse(&format!("{time} \"GET /\"")), Err(Skip::NoRequest));
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

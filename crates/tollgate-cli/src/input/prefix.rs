//! `Prefix`: what syslog and containers write before each line of a log.

use std::borrow::Cow;

/// What stands before a line, or around it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Prefix {
    None,
    /// Syslog: `<190>May 17 10:05:03 web1 nginx: `, and as RFC 5424 has it.
    Syslog,
    /// Kubernetes, CRI and Docker Compose: `[pod/web/nginx] `, `web-1  | `, a time, `stdout F `.
    Container,
    /// A JSON object with the line in a field, as Docker keeps it, and collectors of logs.
    #[serde(rename = "json")]
    Wrapped,
}

impl Prefix {
    /// All prefixes. An object with a request in a field may also look like a request itself, so it
    /// comes first.
    pub(super) const ALL: [Self; 4] = [Self::Wrapped, Self::None, Self::Syslog, Self::Container];

    /// Returns the line without the prefix; `None` if it does not have it.
    #[inline]
    pub(super) fn strip(self, line: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::None => Some(Cow::Borrowed(line)),
            Self::Syslog => after_syslog(line).map(Cow::Borrowed),
            Self::Container => after_container(line).map(Cow::Borrowed),
            Self::Wrapped => unwrapped(line).map(Cow::Owned),
        }
    }
}

/// Returns whether `line` starts as in the files of Docker, in which every line is wrapped.
pub(super) fn is_from_docker(line: &[u8]) -> bool {
    line.starts_with(b"{\"log\":\"")
}

/// Splits `text` after its first word and the spaces after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text).filter(|&end| end > 0)?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Returns whether `text` is a time such as `2015-05-17T10:05:03.25Z`.
fn is_iso_time(text: &[u8]) -> bool {
    let (Some(date), Some(b'T')) = (text.get(..10), text.get(10)) else {
        return false;
    };
    let is_date = date
        .iter()
        .zip(b"0000-00-00")
        .all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            _ => byte == like,
        });
    let is_time = |byte: &u8| byte.is_ascii_digit() || b":.,Z+-".contains(byte);
    is_date && text.len() >= 16 && text[11..].iter().all(is_time)
}

fn after_syslog(line: &[u8]) -> Option<&[u8]> {
    // Over TCP, each message may follow its length.
    let line = match word(line) {
        Some((length, message)) if is_number(length) && message.starts_with(b"<") => message,
        _ => line,
    };
    let rest = match line.strip_prefix(b"<") {
        Some(line) => {
            let end = memchr::memchr(b'>', line).filter(|&end| is_number(&line[..end]))?;
            let rest = &line[end + 1..];
            if let Some(rest) = rest.strip_prefix(b"1 ") {
                return after_rfc5424(rest);
            }
            rest
        }
        None => line,
    };
    let rest = after_syslog_time(rest)?;
    // The host, which may be missing, and the program.
    let (first, after) = word(rest)?;
    if first.ends_with(b":") {
        return Some(after);
    }
    let (program, after) = word(after)?;
    program.ends_with(b":").then_some(after)
}

/// Returns what follows `May 17 10:05:03 `, or a time as in RFC 3339.
fn after_syslog_time(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(text)?;
    if is_iso_time(first) {
        return Some(rest);
    }
    let (day, rest) = word(rest)?;
    let (time, rest) = word(rest)?;
    let is_month = first.len() == 3 && first.iter().all(u8::is_ascii_alphabetic);
    let is_time = time.len() >= 8 && time[2] == b':' && time[5] == b':';
    (is_month && is_number(day) && is_time).then_some(rest)
}

/// Returns the message after `TIME HOST PROGRAM PROCESS ID DATA `.
fn after_rfc5424(text: &[u8]) -> Option<&[u8]> {
    let (time, mut rest) = word(text)?;
    if time != b"-" && !is_iso_time(time) {
        return None;
    }
    for _ in 0..4 {
        (_, rest) = word(rest)?;
    }
    let rest = match rest.strip_prefix(b"-") {
        Some(rest) => rest,
        None => after_elements(rest)?,
    };
    let message = rest.strip_prefix(b" ")?;
    Some(message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message))
}

/// Returns what follows structured data such as `[id name="value"][id]`.
fn after_elements(mut text: &[u8]) -> Option<&[u8]> {
    while let Some(element) = text.strip_prefix(b"[") {
        let mut is_quoted = false;
        let mut bytes = element.iter().enumerate();
        text = loop {
            match bytes.next()? {
                (_, b'\\') if is_quoted => drop(bytes.next()),
                (_, b'"') => is_quoted = !is_quoted,
                (end, b']') if !is_quoted => break &element[end + 1..],
                _ => {}
            }
        };
    }
    text.starts_with(b" ").then_some(text)
}

fn after_container(line: &[u8]) -> Option<&[u8]> {
    let named = after_pod(line).or_else(|| after_service(line));
    let timed = after_container_time(named.unwrap_or(line));
    timed.or(named)
}

/// Returns what follows `[pod/web-abc/nginx] `.
fn after_pod(line: &[u8]) -> Option<&[u8]> {
    let (name, rest) = word(line)?;
    let name = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    name.contains(&b'/').then_some(rest)
}

/// Returns what follows `web-1  | `.
fn after_service(line: &[u8]) -> Option<&[u8]> {
    let (name, rest) = word(line)?;
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let rest = rest.strip_prefix(b"| ")?;
    name.iter().all(is_letter).then_some(rest)
}

/// Returns what follows a time, and `stdout F ` after it.
fn after_container_time(line: &[u8]) -> Option<&[u8]> {
    let (time, rest) = word(line)?;
    if !is_iso_time(time) {
        return None;
    }
    let stream = rest
        .strip_prefix(b"stdout ")
        .or_else(|| rest.strip_prefix(b"stderr "));
    let Some(tagged) = stream else {
        return Some(rest);
    };
    let (tag, rest) = word(tagged)?;
    (tag == b"F" || tag == b"P").then_some(rest)
}

/// The names of the field with the line: Docker's, Filebeat's and the journal's.
#[derive(serde::Deserialize)]
struct Wrapper<'a> {
    #[serde(borrow, default)]
    log: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "MESSAGE")]
    journal: Option<Cow<'a, str>>,
}

fn unwrapped(line: &[u8]) -> Option<Vec<u8>> {
    let wrapper: Wrapper<'_> = serde_json::from_slice(line).ok()?;
    let text = wrapper.log.or(wrapper.message).or(wrapper.journal)?;
    let text = text.trim_end_matches(['\r', '\n']);
    // A line of its own only: what follows would be a second one.
    (!text.contains('\n')).then(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "10.0.0.1 - - [x";

    fn strip(prefix: Prefix, line: &str) -> Option<String> {
        let text = prefix.strip(line.as_bytes())?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn known_prefixes_are_removed() {
        for (prefix, start) in [
            (Prefix::None, ""),
            (Prefix::Syslog, "May 17 10:05:03 web1 nginx: "),
            (Prefix::Syslog, "May  7 10:05:03 web1 nginx[17]: "),
            (Prefix::Syslog, "May 17 10:05:03 nginx: "),
            (Prefix::Syslog, "<190>May 17 10:05:03 web1 nginx: "),
            (Prefix::Syslog, "2015-05-17T10:05:03.25+00:00 web1 nginx: "),
            (
                Prefix::Syslog,
                "<190>1 2015-05-17T10:05:03.25Z web1 nginx 17 - - ",
            ),
            (Prefix::Syslog, "<190>1 - - - - - - \u{feff}"),
            (
                Prefix::Syslog,
                "87 <190>1 2015-05-17T10:05:03Z web1 nginx 17 - [a b=\"]\\\"]\"][c] ",
            ),
            (Prefix::Container, "[pod/web-abc/nginx] "),
            (
                Prefix::Container,
                "[pod/web-abc/nginx] 2015-05-17T10:05:03.123456789Z ",
            ),
            (Prefix::Container, "2015-05-17T10:05:03.123456789Z "),
            (
                Prefix::Container,
                "2015-05-17T10:05:03.123456789+02:00 stdout F ",
            ),
            (Prefix::Container, "web-1  | "),
            (Prefix::Container, "web-1  | 2015-05-17T10:05:03Z "),
        ] {
            let found = strip(prefix, &format!("{start}{LINE}"));
            assert_eq!(found.as_deref(), Some(LINE), "{start}");
        }
        for name in ["log", "message", "MESSAGE"] {
            let line = format!("{{\"x\":[1],\"{name}\":\"{LINE}\\n\"}}");
            assert_eq!(strip(Prefix::Wrapped, &line).as_deref(), Some(LINE));
        }
    }

    #[test]
    fn other_lines_have_no_prefix() {
        for (prefix, start) in [
            (Prefix::Syslog, ""),
            (Prefix::Syslog, "May 17 10:05:03 "),
            (Prefix::Syslog, "May 17 10:05:03 web1 nginx "),
            (Prefix::Syslog, "<x>May 17 10:05:03 web1 nginx: "),
            (Prefix::Syslog, "<190>1 yesterday web1 nginx 17 - - "),
            (Prefix::Syslog, "<190>1 - web1 nginx 17 - [a b=\"c\" "),
            (Prefix::Syslog, "<190"),
            (Prefix::Container, ""),
            (Prefix::Container, "[pod] "),
            (Prefix::Container, "2015-05-17 "),
            (Prefix::Container, "2015-05-17T10:05:03Z stdout X "),
            (Prefix::Container, "10.0.0.1:80| "),
            (Prefix::Wrapped, ""),
            (Prefix::Wrapped, "{\"log\": 5}"),
            (Prefix::Wrapped, "{\"log\": \"a\\nb\"}"),
            (Prefix::Wrapped, "{}"),
        ] {
            assert_eq!(strip(prefix, &format!("{start}{LINE}")), None, "{start}");
            assert_eq!(strip(prefix, start), None, "{start}");
        }
    }
}

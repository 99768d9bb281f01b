//! `Pattern`: lines as `--pattern` describes them.

use std::borrow::Cow;
use std::str::{self, FromStr};

use crate::failure::Failure;
use crate::input::format::Shape;
use crate::input::instant;
use crate::input::key::{KeyParts, Part};
use crate::input::record::{Record, Skip, path_of_field};
use crate::text::Short;

/// A line as text with fields in braces, such as `{ip} {} [{time}] "{path}"`.
///
/// It has no directives of its own, unlike the log formats of servers, which differ from each other:
/// only the four values that are needed have names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    /// Text that the line has, too; a space is one or more spaces or tabs.
    Text(Vec<u8>),
    /// A field, which ends where the next text begins for the first time.
    Field(Field),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Field {
    Date,
    Ip,
    Other,
    Path,
    Time,
    User,
}

impl Pattern {
    /// Returns an error if lines like this do not have what `key` needs.
    pub(crate) fn check(&self, text: &str, key: &KeyParts) -> Result<(), Failure> {
        let has = |field| self.0.contains(&Piece::Field(field));
        let missing = [
            (true, Field::Time, "{time}"),
            (key.has_client(), Field::Ip, "{ip}"),
            (key.contains(Part::Path), Field::Path, "{path}"),
            (key.contains(Part::User), Field::User, "{user}"),
        ];
        let missing = missing
            .into_iter()
            .find(|&(is_needed, field, _)| is_needed && !has(field));
        match missing {
            Some((_, _, name)) => Err(failure(text, format!("{name} is missing"))),
            None => Ok(()),
        }
    }

    /// Parses `line`; what follows the end of the pattern is ignored.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        if line.trim_ascii().is_empty() {
            return Err(Skip::Blank);
        }
        let [mut date, mut ip, mut path, mut time, mut user] = [&b""[..]; 5];
        let mut rest = line;
        let mut before: &[u8] = b"";
        let mut pieces = self.0.iter().peekable();
        while let Some(piece) = pieces.next() {
            let field = match piece {
                Piece::Text(text) => {
                    let length = length_of(text, rest).ok_or(Skip::NotAsPattern)?;
                    rest = &rest[length..];
                    before = text;
                    continue;
                }
                Piece::Field(field) => field,
            };
            let end = match pieces.peek() {
                Some(Piece::Text(text)) => end_of_field(rest, before, text),
                _ => Some(rest.len()),
            };
            let (value, after) = rest.split_at(end.ok_or(Skip::NotAsPattern)?);
            rest = after;
            match field {
                Field::Date => date = value,
                Field::Ip => ip = value,
                Field::Other => {}
                Field::Path => path = value,
                Field::Time => time = value,
                Field::User => user = value,
            }
        }
        let text = |value| str::from_utf8(value).map_err(|_| Skip::UnknownTime);
        let at = if date.is_empty() {
            instant::read_any(text(time)?)?
        } else {
            instant::read_any(&format!("{} {}", text(date)?, text(time)?))?
        };
        Ok(Record {
            at,
            client: Cow::Borrowed(ip),
            user: Cow::Borrowed(if user.is_empty() { b"-" } else { user }),
            path: Cow::Borrowed(path_of_field(path)),
            shape: Shape::Pattern,
        })
    }
}

impl FromStr for Pattern {
    type Err = Failure;

    fn from_str(pattern: &str) -> Result<Self, Failure> {
        let bad = |reason: &str| failure(pattern, reason.to_owned());
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        let mut rest = pattern.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, rest.first()) {
                (b'{', Some(b'{')) | (b'}', Some(b'}')) => {
                    text.push(byte);
                    rest = &rest[1..];
                }
                (b'{', _) => {
                    let end = memchr::memchr(b'}', rest);
                    let end = end.ok_or_else(|| bad("a { is not closed; write {{ for a brace"))?;
                    let field = Field::named(&rest[..end]).ok_or_else(|| {
                        let name = String::from_utf8_lossy(&rest[..end]);
                        failure(pattern, format!("there is no field {{{}}}", Short(&name)))
                    })?;
                    rest = &rest[end + 1..];
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    } else if !pieces.is_empty() {
                        return Err(bad("two fields need text between them"));
                    }
                    let piece = Piece::Field(field);
                    if field != Field::Other && pieces.contains(&piece) {
                        return Err(bad("a field is given twice"));
                    }
                    pieces.push(piece);
                }
                (b'}', _) => return Err(bad("a } is not opened; write }} for a brace")),
                (b' ' | b'\t', _) if text.last() == Some(&b' ') => {}
                (b'\t', _) => text.push(b' '),
                _ => text.push(byte),
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self(pieces))
    }
}

impl Field {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"" => Self::Other,
            b"date" => Self::Date,
            b"ip" => Self::Ip,
            b"path" => Self::Path,
            b"time" => Self::Time,
            b"user" => Self::User,
            _ => return None,
        })
    }
}

fn failure(pattern: &str, reason: String) -> Failure {
    Failure::Pattern {
        pattern: pattern.to_owned(),
        reason,
    }
}

/// Returns how much of `line` is `text`, which has no two spaces in a row; `None` if it does not
/// start like this.
fn length_of(text: &[u8], line: &[u8]) -> Option<usize> {
    let mut length = 0;
    for &byte in text {
        let rest = &line[length..];
        length += match byte {
            b' ' => {
                let blanks = rest.iter().take_while(|byte| b" \t".contains(byte)).count();
                (blanks > 0).then_some(blanks)?
            }
            _ => (rest.first() == Some(&byte)).then_some(1)?,
        };
    }
    Some(length)
}

/// Returns where a field at the start of `line` ends, between the texts `before` and `after` it.
///
/// In double quotes, a quote after a backslash belongs to the field.
fn end_of_field(line: &[u8], before: &[u8], after: &[u8]) -> Option<usize> {
    let is_quoted = before.ends_with(b"\"") && after.starts_with(b"\"");
    let mut from = 0;
    loop {
        let rest = line.get(from..)?;
        if is_quoted && rest.first() == Some(&b'\\') {
            from += 2;
        } else if length_of(after, rest).is_some() {
            return Some(from);
        } else {
            from += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pattern: &str, line: &str) -> Result<[String; 3], Skip> {
        let pattern: Pattern = pattern.parse().unwrap();
        let record = pattern.parse(line.as_bytes())?;
        assert_eq!(record.at.as_micros(), 1_431_857_103_000_000);
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        Ok([text(&record.client), text(&record.user), text(&record.path)])
    }

    #[test]
    fn fields_end_where_the_next_text_begins() {
        let expected = ["10.0.0.1", "bob", "/a"].map(str::to_owned);
        for (pattern, line) in [
            (
                "{ip} {user} {time} {path}",
                "10.0.0.1 bob 1431857103 /a?b c",
            ),
            (
                "{ip} {user} {time} {path}",
                "10.0.0.1   bob\t1431857103 \t /a",
            ),
            (
                "{time},{},{ip},{path},{user}",
                "1431857103,,10.0.0.1,/a,bob",
            ),
            (
                "{{{ip}}} [{time}] {user} \"{path}\"",
                "{10.0.0.1} [17/May/2015:10:05:03 +0000] bob \"GET /a HTTP/1.1\" 200",
            ),
            (
                "{date} {time} {ip} {path} {user}",
                "2015-05-17 10:05:03 10.0.0.1 /a bob",
            ),
            (
                "at={time} ip={ip} {}user={user} path={path} ",
                "at=2015-05-17T10:05:03Z ip=10.0.0.1 x=y user=bob path=/a end",
            ),
        ] {
            assert_eq!(parse(pattern, line), Ok(expected.clone()), "{pattern}");
        }
        let quoted = parse("{time} {ip} \"{path}\" {user}", r#"1431857103 i "/\"\\" u"#);
        assert_eq!(quoted, Ok(["i", "u", r#"/\"\\"#].map(str::to_owned)));
        let nobody = parse("{time} {ip}|{user}|{path}", "1431857103 i||/");
        assert_eq!(nobody, Ok(["i", "-", "/"].map(str::to_owned)));
    }

    #[test]
    fn other_lines_are_skipped() {
        let pattern = "[{time}] \"{ip}\"";
        for (line, skip) in [
            ("", Skip::Blank),
            ("1431857103 \"i\"", Skip::NotAsPattern),
            ("[1431857103] i", Skip::NotAsPattern),
            ("[1431857103]\"i\"", Skip::NotAsPattern),
            ("[1431857103] \"i", Skip::NotAsPattern),
            ("[1431857103] \"i\\", Skip::NotAsPattern),
            ("[1431857103] \"i\\\"", Skip::NotAsPattern),
            ("[today] \"i\"", Skip::UnknownTime),
        ] {
            assert_eq!(parse(pattern, line), Err(skip), "{line}");
        }
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        for (pattern, key, expected) in [
            ("{ip", "ip", "not closed"),
            ("{ip} {time}}", "ip", "not opened"),
            ("{ip}{time}", "ip", "between them"),
            ("{ip} {ip} {time}", "ip", "twice"),
            ("{address} {time}", "ip", "{address}"),
            ("{ip}", "ip", "{time} is missing"),
            ("{time}", "ip", "{ip} is missing"),
            ("{time}", "client", "{ip} is missing"),
            ("{time} {ip}", "ip+path", "{path} is missing"),
            ("{time} {ip}", "user", "{user} is missing"),
            ("", "path", "{time} is missing"),
        ] {
            let key = key.parse().unwrap();
            let read: Result<Pattern, _> = pattern.parse();
            let error = read.and_then(|read| read.check(pattern, &key)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("--pattern"), "{error}");
        }
    }
}

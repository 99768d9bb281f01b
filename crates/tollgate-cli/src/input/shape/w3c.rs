//! `Columns`: the W3C extended log format, which IIS and CloudFront write.

use std::borrow::Cow;
use std::str;

use memchr::memchr;

use crate::input::format::Shape;
use crate::input::instant;
use crate::input::key::{KeyParts, Part};
use crate::input::options::{FieldNames, TIME_FIELD};
use crate::input::record::{Record, Skip, without_query};

/// How a line starts that names the columns of those after it.
const FIELDS: &[u8] = b"#Fields:";

/// Returns whether `line` names the columns of the lines after it.
pub(super) fn is_fields(line: &[u8]) -> bool {
    line.starts_with(FIELDS)
}

/// Where the values are in the lines after a `#Fields` line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::input) struct Columns {
    count: usize,
    date: Option<usize>,
    time: Option<usize>,
    /// Only if the key needs it, as the following ones.
    client: Option<usize>,
    user: Option<usize>,
    path: Option<usize>,
    /// A column that the key needs is missing.
    is_incomplete: bool,
}

impl Columns {
    /// Reads a line such as `#Fields: date time c-ip cs-username cs-uri-stem`.
    pub(super) fn new(line: &[u8], names: &FieldNames, key: &KeyParts) -> Self {
        let line = line.strip_prefix(FIELDS).unwrap_or(line);
        let columns: Vec<&[u8]> = line
            .split(u8::is_ascii_whitespace)
            .filter(|name| !name.is_empty())
            .collect();
        let find = |wanted: &str| columns.iter().position(|name| *name == wanted.as_bytes());
        let find_any = |wanted: &[&str]| wanted.iter().find_map(|name| find(name));
        // Columns have names of their own; those for JSON lines come first, if the log has them.
        let own_time = find(&names.time_field).filter(|_| names.time_field != TIME_FIELD);
        let (date, time) = match own_time {
            Some(time) => (None, Some(time)),
            None => (find("date"), find("time")),
        };
        let needed = |is_needed: bool, wanted: &[&str]| {
            let found = find_any(wanted).filter(|_| is_needed);
            (found, is_needed && found.is_none())
        };
        let (client, no_client) = needed(key.has_client(), &[&names.ip_field, "c-ip"]);
        let (user, no_user) = needed(
            key.contains(Part::User),
            &[&names.user_field, "cs-username", "cs(Username)"],
        );
        let (path, no_path) = needed(
            key.contains(Part::Path),
            &[&names.path_field, "cs-uri-stem", "cs-uri"],
        );
        let no_time = time.is_none() || (date.is_none() && own_time.is_none());
        Self {
            count: columns.len(),
            date,
            time,
            client,
            user,
            path,
            is_incomplete: no_client || no_user || no_path || no_time,
        }
    }
}

/// Parses `line`, whose columns a line before it has named.
pub(super) fn parse<'a>(line: &'a [u8], columns: Option<&Columns>) -> Result<Record<'a>, Skip> {
    let line = line.trim_ascii_end();
    match line.first() {
        None => return Err(Skip::Blank),
        Some(b'#') => return Err(Skip::Directive),
        Some(_) => {}
    }
    let columns = columns.ok_or(Skip::NoColumns)?;
    let wanted = [
        columns.date,
        columns.time,
        columns.client,
        columns.user,
        columns.path,
    ];
    let mut found = [None; 5];
    let mut count = 0;
    for value in Values::of(line) {
        for (column, found) in wanted.into_iter().zip(&mut found) {
            if column == Some(count) {
                *found = Some(value);
            }
        }
        count += 1;
    }
    if count != columns.count {
        return Err(Skip::OtherColumns);
    }
    if columns.is_incomplete {
        return Err(Skip::MissingColumn);
    }
    let [date, time, client, user, path] = found;
    let time = time.ok_or(Skip::MissingColumn)?;
    let at = match date {
        Some(date) => instant::read_utc(date, time)?,
        None => instant::read_any(str::from_utf8(time).map_err(|_| Skip::UnknownTime)?)?,
    };
    Ok(Record {
        at,
        client: Cow::Borrowed(client.unwrap_or_default()),
        user: Cow::Borrowed(user.unwrap_or(b"-")),
        path: Cow::Borrowed(without_query(path.unwrap_or_default())),
        shape: Shape::W3c,
    })
}

/// The values of a line: between tabs if it has any, otherwise between spaces, unless in quotes.
struct Values<'a> {
    rest: Option<&'a [u8]>,
    has_tabs: bool,
}

impl<'a> Values<'a> {
    fn of(line: &'a [u8]) -> Self {
        Self {
            rest: Some(line),
            has_tabs: memchr(b'\t', line).is_some(),
        }
    }

    /// Takes the value before the next `separator`.
    fn until(&mut self, separator: u8) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = memchr(separator, rest);
        self.rest = end.map(|end| &rest[end + 1..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.has_tabs {
            return self.until(b'\t');
        }
        self.rest = self.rest.map(<[u8]>::trim_ascii_start);
        // A quote within quotes is doubled.
        let quoted = self.rest?.strip_prefix(b"\"");
        let Some(quoted) = quoted else {
            return self.until(b' ');
        };
        let mut from = 0;
        loop {
            let Some(found) = memchr(b'"', &quoted[from..]) else {
                self.rest = None;
                return Some(quoted);
            };
            let end = from + found;
            if quoted.get(end + 1) == Some(&b'"') {
                from = end + 2;
                continue;
            }
            let after = &quoted[end + 1..];
            self.rest = (!after.is_empty()).then_some(after);
            return Some(&quoted[..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> FieldNames {
        FieldNames {
            time_field: "time".to_owned(),
            ip_field: "ip".to_owned(),
            user_field: "user".to_owned(),
            path_field: "path".to_owned(),
        }
    }

    fn columns(line: &str, key: &str, names: &FieldNames) -> Columns {
        Columns::new(line.as_bytes(), names, &key.parse().unwrap())
    }

    fn parse(line: &str, columns: &Columns) -> Result<[String; 3], Skip> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let record = super::parse(line.as_bytes(), Some(columns))?;
        Ok([text(&record.client), text(&record.user), text(&record.path)])
    }

    #[test]
    fn columns_are_found_by_name() {
        let fields = "#Fields: date time s-ip cs-uri-stem cs-username c-ip cs(User-Agent)";
        let columns = columns(fields, "ip+user+path", &names());
        let expected = Ok(["10.0.0.1", "bob", "/a"].map(str::to_owned));
        for line in [
            "2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1 a+b",
            "2015-05-17 10:05:03.25 10.9.9.9 /a?b bob 10.0.0.1 \"a \"\"b\"\" c\" ",
            "2015-05-17\t10:05:03\t\t/a\tbob\t10.0.0.1\ta b",
        ] {
            assert_eq!(parse(line, &columns), expected, "{line}");
        }
        for (line, skip) in [
            (
                "2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1",
                Skip::OtherColumns,
            ),
            (
                "2015-05-17 10:05:03 10.9.9.9 /a bob 10.0.0.1 a b",
                Skip::OtherColumns,
            ),
            (
                "2015-05-17 10:05:03 10.9.9.9 /a bob \"10.0.0.1 a b",
                Skip::OtherColumns,
            ),
            (
                "2015-05-17 10:05 10.9.9.9 /a bob 10.0.0.1 a",
                Skip::UnknownTime,
            ),
            ("#Date: 2015-05-17 10:05:03", Skip::Directive),
            (" ", Skip::Blank),
        ] {
            assert_eq!(parse(line, &columns), Err(skip), "{line}");
        }
    }

    #[test]
    fn columns_must_be_complete() {
        let line = "2015-05-17 10:05:03 10.0.0.1";
        for (fields, key, is_complete) in [
            ("#Fields: date time c-ip", "ip", true),
            ("#Fields: date time c-ip", "client", true),
            ("#Fields: date time x", "ip", false),
            ("#Fields: date time c-ip", "path", false),
            ("#Fields: date time c-ip", "user", false),
            ("#Fields: x time c-ip", "ip", false),
            ("#Fields: date x c-ip", "ip", false),
        ] {
            let found = parse(line, &columns(fields, key, &names()));
            assert_eq!(found.is_ok(), is_complete, "{fields}");
            assert!(is_complete || found == Err(Skip::MissingColumn));
        }
        assert_eq!(super::parse(line.as_bytes(), None), Err(Skip::NoColumns));
    }

    #[test]
    fn other_columns_can_be_named() {
        let names = FieldNames {
            time_field: "at".to_owned(),
            ip_field: "X-Forwarded-For".to_owned(),
            ..names()
        };
        let columns = columns("#Fields: c-ip at X-Forwarded-For", "ip", &names);
        let found = parse("10.9.9.9 2015-05-17T10:05:03Z 10.0.0.1", &columns);
        assert_eq!(
            found.map(|found| found[0].clone()),
            Ok("10.0.0.1".to_owned())
        );
    }
}

//! `JsonLines`: parses logs with one JSON object per line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::input::format::Shape;
use crate::input::instant;
use crate::input::key::{KeyParts, Part};
use crate::input::options::FieldNames;
use crate::input::record::{Record, Skip, path_of_field};

const FIELDS: usize = 4;
const TIME: usize = 0;
const IP: usize = 1;
const USER: usize = 2;
const PATH: usize = 3;

/// Parses objects such as `{"time": 1431857103, "ip": "203.0.113.7"}`.
pub(super) struct JsonLines<'n> {
    /// The names of the fields; `None` for fields that the key does not need.
    names: [Option<&'n str>; FIELDS],
}

impl<'n> JsonLines<'n> {
    pub(super) fn new(names: &'n FieldNames, key: &KeyParts) -> Self {
        let needed = |is_needed: bool, name: &'n str| is_needed.then_some(name);
        Self {
            names: [
                Some(&names.time_field),
                needed(key.has_client(), &names.ip_field),
                needed(key.contains(Part::User), &names.user_field),
                needed(key.contains(Part::Path), &names.path_field),
            ],
        }
    }

    /// Parses `line`.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        let mut found = [None; FIELDS];
        let fields = Fields {
            names: self.names,
            found: &mut found,
        };
        let is_object = line.trim_ascii_start().first() == Some(&b'{');
        let mut reader = serde_json::Deserializer::from_slice(line);
        if !is_object || fields.deserialize(&mut reader).is_err() || reader.end().is_err() {
            let is_blank = line.trim_ascii().is_empty();
            return Err(if is_blank { Skip::Blank } else { Skip::NotJson });
        }
        let time = found[TIME].and_then(text).ok_or(Skip::NoTimeField)?;
        let part = |index: usize, skip: Skip| match (self.names[index], found[index]) {
            (None, _) => Ok(Cow::Borrowed("")),
            (Some(_), value) => value.and_then(text).ok_or(skip),
        };
        let ip = part(IP, Skip::NoIpField)?;
        let path = part(PATH, Skip::NoPathField)?;
        Ok(Record {
            at: instant::read_any(&time)?,
            client: bytes(ip),
            user: found[USER].and_then(text).map_or(NOBODY, bytes),
            path: match path {
                Cow::Borrowed(path) => Cow::Borrowed(path_of_field(path.as_bytes())),
                Cow::Owned(path) => Cow::Owned(path_of_field(path.as_bytes()).to_vec()),
            },
            shape: Shape::Json,
        })
    }
}

/// How access logs write a missing user.
const NOBODY: Cow<'_, [u8]> = Cow::Borrowed(b"-");

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Returns the text of a string or number; other values count as missing.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    match json.as_bytes().first()? {
        b'"' => {
            let inner = json.get(1..json.len() - 1)?;
            if inner.contains('\\') {
                serde_json::from_str(json).ok().map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(inner))
            }
        }
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(json)),
        _ => None,
    }
}

/// Finds the fields with `names` in an object or a list, and within their values for dotted names.
struct Fields<'f, 'n, 'a> {
    names: [Option<&'n str>; FIELDS],
    found: &'f mut [Option<&'a RawValue>; FIELDS],
}

impl<'a> Fields<'_, '_, 'a> {
    /// Returns whether a field with this name is wanted, or one within it.
    fn wants(&self, name: &str) -> bool {
        let starts = |wanted: &str| {
            let rest = wanted.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.names.into_iter().flatten().any(starts)
    }

    /// Notes `value`, whose name or index is `name`, and what is wanted within it.
    fn see(&mut self, name: &str, value: &'a RawValue) {
        for (wanted, found) in self.names.into_iter().zip(&mut *self.found) {
            if wanted == Some(name) {
                *found = Some(value);
            }
        }
        let inner = self
            .names
            .map(|wanted| wanted?.strip_prefix(name)?.strip_prefix('.'));
        if inner.iter().any(Option::is_some) {
            let fields = Fields {
                names: inner,
                found: self.found,
            };
            // If the value is neither an object nor a list, the field is missing.
            let _ = fields.deserialize(&mut serde_json::Deserializer::from_str(value.get()));
        }
    }
}

impl<'a> DeserializeSeed<'a> for Fields<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Fields<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(name)) = map.next_key()? {
            if self.wants(&name) {
                self.see(&name, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, mut list: S) -> Result<(), S::Error> {
        let mut index = 0_usize;
        while let Some(value) = list.next_element()? {
            self.see(&index.to_string(), value);
            index += 1;
        }
        Ok(())
    }
}

/// The name of a field, borrowed if possible.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, time: &str, ip: &str) -> Result<[String; 3], Skip> {
        let names = FieldNames {
            time_field: time.to_owned(),
            ip_field: ip.to_owned(),
            user_field: "user".to_owned(),
            path_field: "path".to_owned(),
        };
        let key = "ip+user+path".parse().unwrap();
        let record = JsonLines::new(&names, &key).parse(line.as_bytes())?;
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        Ok([text(&record.client), text(&record.user), text(&record.path)])
    }

    #[test]
    fn fields_are_found_by_name() {
        let line =
            r#"{"x": [1, {"ip": 2}], "time": 1, "ip": "a\u0020b", "path": "/p?q", "user": 7}"#;
        let expected = ["a b", "7", "/p"].map(str::to_owned);
        assert_eq!(parse(line, "time", "ip"), Ok(expected));
    }

    #[test]
    fn dotted_names_reach_inside() {
        let line =
            r#"{"request": {"ip": "i", "user": "no"}, "ts": {"at": 1}, "path": "/", "user": null}"#;
        let expected = ["i", "-", "/"].map(str::to_owned);
        assert_eq!(parse(line, "ts.at", "request.ip"), Ok(expected));
        let flat = r#"{"request.ip": "i", "time": 1, "path": "/"}"#;
        assert!(parse(flat, "time", "request.ip").is_ok());
    }

    #[test]
    fn numbers_in_names_are_elements_of_lists() {
        let line = r#"{"h": {"For": ["i", "j", {"x": "k"}]}, "time": [1, 2], "path": "/"}"#;
        for (name, expected) in [("h.For.0", "i"), ("h.For.1", "j"), ("h.For.2.x", "k")] {
            let expected = [expected, "-", "/"].map(str::to_owned);
            assert_eq!(parse(line, "time.0", name), Ok(expected), "{name}");
        }
        for name in [
            "h.For",
            "h.For.3",
            "h.For.00",
            "h.For.-1",
            "h.For.0.x",
            "h.For.2",
        ] {
            assert_eq!(parse(line, "time.1", name), Err(Skip::NoIpField), "{name}");
        }
        // An object may have numbers for names.
        let line = r#"{"h": {"0": "i"}, "time": 1, "path": "/"}"#;
        assert!(parse(line, "time", "h.0").is_ok());
    }

    #[test]
    fn errors_name_the_missing_field() {
        let parse = |line| parse(line, "time", "ip");
        assert_eq!(parse(""), Err(Skip::Blank));
        assert_eq!(parse("[]"), Err(Skip::NotJson));
        assert_eq!(parse("{\"time\": 1"), Err(Skip::NotJson));
        assert_eq!(parse("{} {}"), Err(Skip::NotJson));
        assert_eq!(parse("{}"), Err(Skip::NoTimeField));
        assert_eq!(parse(r#"{"time": true}"#), Err(Skip::NoTimeField));
        assert_eq!(parse(r#"{"time": 1}"#), Err(Skip::NoIpField));
        assert_eq!(parse(r#"{"time": 1, "ip": "i"}"#), Err(Skip::NoPathField));
        let bad = r#"{"time": "now", "ip": "i", "path": "/"}"#;
        assert_eq!(parse(bad), Err(Skip::UnknownTime));
    }
}

//! `Pattern`: what a line looks like, as `--pattern` and the table of formats describe it.

use std::str::{self, FromStr};

use memchr::{memchr, memchr2, memmem};
use tollgate_core::Timestamp;

use super::address::{is_address, is_name, is_name_with_port, without_port};
use super::instant::Clock;
use super::record::{Record, Skip, method_of_field, path_of_field};
use super::wanted::Needs;
use crate::failure::Failure;
use crate::text::Short;

/// A line as text with fields in braces, such as `{ip} {} [{time}] "{path}"`.
///
/// It has no directives of its own, unlike the log formats of servers, which differ from each other:
/// only the values that are needed have names, and a few kinds of text tell one format from another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
    /// The time is apart from its date.
    has_date: bool,
    /// Every value is a column, and nothing else is in the line.
    has_columns: bool,
    /// A time goes on where the text after it begins for the first time, if it is no time there.
    has_long_times: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    /// Text that the line has, too; a space is one or more spaces or tabs.
    Text(Vec<u8>),
    /// A field, which ends where the next text begins for the first time.
    Field(Field),
    End,
}

/// A piece of a line, by what it may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Field {
    /// The client, which is an address.
    Address,
    Agent,
    /// The user agent, without a space unless in quotes.
    AgentWord,
    Date,
    /// The client, which is an address or the name of a host.
    Host,
    /// The client, whatever it is.
    Ip,
    Method,
    /// Digits, or `-`.
    Number,
    Other,
    Path,
    /// The client and its port.
    Peer,
    /// The name or the address of a site, perhaps with a port.
    Site,
    /// Digits, or `-`.
    Status,
    Time,
    User,
    /// Something without a space, unless in quotes.
    Word,
}

const FIELDS: [(&str, Field); 15] = [
    ("", Field::Other),
    ("address", Field::Address),
    ("agent", Field::Agent),
    ("date", Field::Date),
    ("host", Field::Host),
    ("ip", Field::Ip),
    ("method", Field::Method),
    ("number", Field::Number),
    ("path", Field::Path),
    ("peer", Field::Peer),
    ("site", Field::Site),
    ("status", Field::Status),
    ("time", Field::Time),
    ("user", Field::User),
    ("word", Field::Word),
];

/// Longer text is no time. Looking further for its end would let one line take very long.
const LONGEST_TIME: usize = 64;

/// The values of a line.
#[derive(Default)]
struct Values<'a> {
    date: &'a [u8],
    time: &'a [u8],
    /// The time, if it is not apart from its date.
    at: Option<Timestamp>,
    /// Without its time, and with the path as the line has it.
    record: Record<'a>,
}

/// How far a line is like a pattern: how many pieces it has, and which field is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlike {
    pub(super) pieces: usize,
    pub(super) skip: Skip,
}

impl Unlike {
    /// Of a line that is not like any pattern.
    pub(super) const NOTHING: Self = Self {
        pieces: 0,
        skip: Skip::NotThere("line"),
    };
}

impl Pattern {
    fn new(pieces: Vec<Piece>) -> Self {
        let has_date = pieces.contains(&Piece::Field(Field::Date));
        let has_columns = pieces.contains(&Piece::End);
        Self {
            pieces,
            has_date,
            has_columns,
            has_long_times: false,
        }
    }

    /// Returns this pattern of a user's own lines, with times that may hold the text after them.
    ///
    /// The patterns of the table tell formats apart, and are more exact.
    pub(super) fn with_long_times(self) -> Self {
        Self {
            has_long_times: true,
            ..self
        }
    }

    /// Returns a pattern of `fields` with `separator` between them, and the end of the line after them.
    pub(super) fn of_columns(fields: impl IntoIterator<Item = Field>, separator: u8) -> Self {
        let mut pieces = Vec::new();
        for field in fields {
            if !pieces.is_empty() {
                pieces.push(Piece::Text(vec![separator]));
            }
            pieces.push(Piece::Field(field));
        }
        pieces.push(Piece::End);
        Self::new(pieces)
    }

    /// Returns an error if lines like this do not have what is needed.
    pub(super) fn check(&self, text: &str, needs: Needs) -> Result<(), Failure> {
        let has = |fields: &[Field]| {
            let mut pieces = self.pieces.iter();
            pieces.any(|piece| matches!(piece, Piece::Field(field) if fields.contains(field)))
        };
        let client = [Field::Ip, Field::Address, Field::Host, Field::Peer];
        for (is_needed, fields, name) in [
            (true, &[Field::Time][..], "{time}"),
            (needs.client, &client, "{ip}"),
            (needs.path, &[Field::Path], "{path}"),
            (needs.user, &[Field::User], "{user}"),
            (needs.method, &[Field::Method, Field::Path], "{method}"),
            (needs.status, &[Field::Status], "{status}"),
        ] {
            if is_needed && !has(fields) {
                return Err(failure(text, format!("{name} is missing")));
            }
        }
        Ok(())
    }

    /// Returns the request that `line` is, and what follows the end of the pattern.
    pub(super) fn read<'a>(
        &self,
        line: &'a [u8],
        clock: &mut Clock,
    ) -> Result<(Record<'a>, &'a [u8]), Unlike> {
        let (values, rest) = self.fit(line, clock)?;
        let of_value = |skip| Unlike {
            pieces: usize::MAX,
            skip,
        };
        let at = match values.at {
            Some(at) => at,
            None => {
                let text = |value| str::from_utf8(value).map_err(|_| of_value(Skip::UnknownTime));
                let both = format!("{} {}", text(values.date)?, text(values.time)?);
                clock.read(&both).map_err(of_value)?
            }
        };
        let mut record = Record {
            at,
            path: path_of_field(values.record.path),
            ..values.record
        };
        if record.user.is_empty() {
            record.user = b"-";
        }
        if record.method.is_empty() {
            record.method = method_of_field(values.record.path);
        }
        Ok((record, rest))
    }

    /// Returns what follows the pattern in `line`.
    pub(super) fn after<'a>(&self, line: &'a [u8], clock: &mut Clock) -> Option<&'a [u8]> {
        self.fit(line, clock).ok().map(|(_, rest)| rest)
    }

    /// Returns the values of `line`, and what follows the pattern.
    ///
    /// Clients choose the name of a user, which may look like the text after it. So it ends where the
    /// rest of the line fits first, unless it is a column of its own.
    #[inline]
    fn fit<'a>(&self, line: &'a [u8], clock: &mut Clock) -> Result<(Values<'a>, &'a [u8]), Unlike> {
        let mut values = Values::default();
        let (mut index, mut rest, mut from) = (0, line, 0);
        // Where a user begins, and how far the next end to try is from there.
        let mut user = None;
        let mut unlike = Unlike::NOTHING;
        while let Some(piece) = self.pieces.get(index) {
            let length = match piece {
                Piece::Text(text) => length_of(text, rest),
                Piece::End => rest.is_empty().then_some(0),
                Piece::Field(Field::Time) if self.has_long_times => {
                    self.time(index, rest, &mut values, clock)
                }
                Piece::Field(field) => self
                    .end(index, *field, rest, from)
                    .filter(|&end| values.take(*field, &rest[..end], self.has_date, clock)),
            };
            match length {
                Some(length) => {
                    if *piece == Piece::Field(Field::User) && !self.has_columns {
                        user = Some((index, rest, length + 1));
                    }
                    rest = &rest[length..];
                    (index, from) = (index + 1, 0);
                }
                None => {
                    if index >= unlike.pieces {
                        unlike = Unlike {
                            pieces: index,
                            skip: Skip::NotThere(self.name_at(index)),
                        };
                    }
                    (index, rest, from) = user.take().ok_or(unlike)?;
                }
            }
        }
        Ok((values, rest))
    }

    /// Returns the length of the time at `index`, which begins `line`: it may hold the text after it,
    /// as `May 17 10:05:03` holds spaces.
    #[inline]
    fn time<'a>(
        &self,
        index: usize,
        line: &'a [u8],
        values: &mut Values<'a>,
        clock: &mut Clock,
    ) -> Option<usize> {
        let mut end = self.end(index, Field::Time, line, 0)?;
        while !values.take(Field::Time, &line[..end], self.has_date, clock) {
            // Without text after it, it is the rest of the line.
            let next = self.end(index, Field::Time, line, end + 1)?;
            end = Some(next).filter(|&next| next > end)?;
        }
        Some(end)
    }

    /// Returns the name of the field at `index`, or before it.
    fn name_at(&self, index: usize) -> &'static str {
        let fields = self.pieces[..=index].iter().rev();
        let mut named = fields.filter_map(|piece| {
            let Piece::Field(field) = piece else {
                return None;
            };
            let field = match field {
                Field::AgentWord => &Field::Word,
                field => field,
            };
            FIELDS.iter().find(|(_, of)| of == field)
        });
        named.next().map_or("start", |(name, _)| name)
    }

    /// Returns where the field at `index` ends, which begins `line`: at least `from` bytes further on.
    #[inline]
    fn end(&self, index: usize, field: Field, line: &[u8], from: usize) -> Option<usize> {
        let before = match index.checked_sub(1).map(|before| &self.pieces[before]) {
            Some(Piece::Text(text)) => &text[..],
            _ => b"",
        };
        match self.pieces.get(index + 1) {
            Some(Piece::Text(after)) => {
                let line = match field {
                    Field::Time => &line[..line.len().min(LONGEST_TIME + after.len())],
                    _ => line,
                };
                let from = match field {
                    Field::AgentWord | Field::Word if line.first() == Some(&b'"') => {
                        end_of_quotes(line)?
                    }
                    _ => from,
                };
                end_before(line, from, before.ends_with(b"\""), after)
            }
            None if matches!(
                field,
                Field::AgentWord | Field::Number | Field::Status | Field::Word
            ) =>
            {
                Some(memchr2(b' ', b'\t', line).unwrap_or(line.len()))
            }
            _ => Some(line.len()),
        }
    }
}

impl<'a> Values<'a> {
    /// Takes the value of `field`; `false` if it cannot be one.
    #[inline]
    fn take(&mut self, field: Field, value: &'a [u8], has_date: bool, clock: &mut Clock) -> bool {
        let record = &mut self.record;
        match field {
            Field::Address | Field::Host | Field::Ip => record.client = value,
            Field::Agent | Field::AgentWord => record.agent = value,
            Field::Date => self.date = value,
            Field::Method => record.method = value,
            Field::Number | Field::Other | Field::Site | Field::Word => {}
            Field::Path => record.path = value,
            Field::Peer => record.client = without_port(value),
            Field::Status => record.status = value,
            Field::Time => {
                self.time = value;
                // The date may come later.
                let text = str::from_utf8(value).ok().filter(|_| !has_date);
                self.at = text.and_then(|text| clock.read(text).ok());
            }
            Field::User => record.user = value,
        }
        match field {
            Field::Address => is_address(value),
            Field::Agent | Field::Date | Field::Ip | Field::Method | Field::Other => true,
            Field::AgentWord | Field::Word => {
                let is_quoted = value.starts_with(b"\"");
                !value.is_empty() && (is_quoted || memchr2(b' ', b'\t', value).is_none())
            }
            Field::Host => is_address(value) || is_name(value) || value.starts_with(b"unix:"),
            Field::Number | Field::Status => {
                let digits = value.strip_prefix(b"-").unwrap_or(value);
                !value.is_empty() && digits.iter().all(u8::is_ascii_digit)
            }
            // A load balancer's connection without a request.
            Field::Path => !value.starts_with(b"- - -"),
            Field::Peer => record.client.len() < value.len(),
            Field::Site => is_name(value) || is_address(value) || is_name_with_port(value),
            Field::Time => has_date || self.at.is_some(),
            Field::User => {
                // The address that older ingress controllers write before it is a field of its own.
                let rest = value.strip_prefix(b"[");
                let repeated = rest.and_then(|rest| Some(&rest[..memmem::find(rest, b"] - ")?]));
                !repeated.is_some_and(is_address)
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = Failure;

    fn from_str(pattern: &str) -> Result<Self, Failure> {
        let bad = |reason: &str| failure(pattern, reason.to_owned());
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        let mut rest = pattern;
        while let Some(char) = rest.chars().next() {
            let after = &rest[char.len_utf8()..];
            rest = after;
            match char {
                '{' | '}' if after.starts_with(char) => {
                    text.extend_from_slice(char.to_string().as_bytes());
                    rest = &after[1..];
                }
                '{' => {
                    let (name, after) = after
                        .split_once('}')
                        .ok_or_else(|| bad("a { is not closed; write {{ for a brace"))?;
                    rest = after;
                    let field = FIELDS.iter().find(|(of, _)| *of == name);
                    let (_, field) = field.ok_or_else(|| {
                        failure(pattern, format!("there is no field {{{}}}", Short(name)))
                    })?;
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    } else if !pieces.is_empty() {
                        return Err(bad("two fields need text between them"));
                    }
                    let is_value = !matches!(field, Field::Other | Field::Number | Field::Word);
                    if is_value && pieces.contains(&Piece::Field(*field)) {
                        return Err(bad("a field is given twice"));
                    }
                    pieces.push(Piece::Field(*field));
                }
                '}' => return Err(bad("a } is not opened; write }} for a brace")),
                ' ' | '\t' if text.last() == Some(&b' ') => {}
                '\t' => text.push(b' '),
                other => text.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self::new(pieces))
    }
}

fn failure(pattern: &str, reason: String) -> Failure {
    let give = "give {time}, {date} before it, {ip}, {user}, {path} and {} for the rest, such as '{ip} {} [{time}] \"{path}\"'";
    Failure::wrong("--pattern", pattern, format!("{reason}; {give}"))
}

/// Returns the text between double quotes that comes after `before` others in `line`; empty if there is
/// none.
pub(super) fn quoted(mut line: &[u8], before: usize) -> &[u8] {
    let mut found = &line[..0];
    for _ in 0..=before {
        let inner = memchr(b'"', line).map(|start| &line[start + 1..]);
        let end = inner.and_then(|inner| Some((inner, end_before(inner, 0, true, b"\"")?)));
        let Some((inner, end)) = end else {
            return &line[..0];
        };
        (found, line) = (&inner[..end], &inner[end + 1..]);
    }
    found
}

/// Returns how much of `line` is `text`, which has no two spaces in a row; `None` if it does not
/// start like this.
#[inline]
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

/// Returns where `after` begins in `line`, at least `from` bytes further on.
///
/// In double quotes, a quote after a backslash belongs to the field.
#[inline]
fn end_before(line: &[u8], mut from: usize, is_quoted: bool, after: &[u8]) -> Option<usize> {
    let &first = after.first()?;
    let is_quoted = is_quoted && first == b'"';
    loop {
        let rest = line.get(from..)?;
        from += match first {
            b'"' if is_quoted => memchr2(b'"', b'\\', rest)?,
            b' ' => memchr2(b' ', b'\t', rest)?,
            first => memchr(first, rest)?,
        };
        if is_quoted && line[from] == b'\\' {
            from += 2;
        } else if length_of(after, &line[from..]).is_some() {
            return Some(from);
        } else {
            from += 1;
        }
    }
}

/// Returns where the quoted text at the start of `line` ends; a quote within it is doubled.
fn end_of_quotes(line: &[u8]) -> Option<usize> {
    let mut from = 1;
    loop {
        from += memchr(b'"', line.get(from..)?)? + 1;
        if line.get(from) != Some(&b'"') {
            return Some(from);
        }
        from += 1;
    }
}

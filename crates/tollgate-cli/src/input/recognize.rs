//! `Layout`: recognizes the format of a log from its first lines.

use std::borrow::Cow;
use std::sync::Arc;

use super::format::Shape;
use super::lines::Line;
use super::prefix::{Prefix, is_from_docker};
use super::record::{Record, Skip};
use super::shape::{Columns, Parser};

/// How many lines that are requests decide about the format.
const ENOUGH: u64 = 100;

/// The format of a log, and what precedes its lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    pub(super) prefix: Prefix,
    pub(super) shape: Shape,
    /// In a W3C log: what the last `#Fields` line named.
    pub(super) columns: Option<Arc<Columns>>,
}

impl Layout {
    /// Returns the layout that can be read from the most of `lines`; lines are taken until enough of
    /// them are requests. Also returns whether any was.
    pub(super) fn of<'a>(
        lines: impl Iterator<Item = Line<'a>>,
        candidates: &'static [Shape],
        parser: &mut Parser<'_>,
    ) -> (Self, bool) {
        let likely = candidates.first().copied().unwrap_or(Shape::Combined);
        let mut candidates: Vec<Candidate> = candidates
            .iter()
            .flat_map(|&shape| Prefix::ALL.map(|prefix| Candidate::new(prefix, shape)))
            .filter(Candidate::is_possible)
            .collect();
        let mut requests = 0;
        for line in lines {
            let Line::Whole(line) = line else {
                continue;
            };
            let mut is_request = false;
            for candidate in &mut candidates {
                is_request |= candidate.try_on(line, parser);
            }
            requests += u64::from(is_request);
            if requests == ENOUGH {
                break;
            }
        }
        // The first of the best, since likelier ones come first.
        let best = candidates.into_iter().rev().max_by_key(Candidate::score);
        let best = best.filter(|best| best.score() > (0, 0));
        let best = best.unwrap_or_else(|| Candidate::new(Prefix::None, likely));
        let layout = Self {
            prefix: best.prefix,
            shape: best.shape,
            columns: None,
        };
        (layout, best.requests > 0)
    }

    /// Parses `line` after its prefix.
    #[inline]
    pub(super) fn parse<'a>(
        &self,
        line: &'a [u8],
        parser: &mut Parser<'_>,
    ) -> Result<Record<'a>, Skip> {
        parse(self.prefix, self.shape, line, parser)
    }
}

#[inline]
fn parse<'a>(
    prefix: Prefix,
    shape: Shape,
    line: &'a [u8],
    parser: &mut Parser<'_>,
) -> Result<Record<'a>, Skip> {
    // Some programs start a file with a UTF-8 byte order mark.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    match prefix.strip(line) {
        Some(Cow::Borrowed(text)) => parser.parse(shape, text),
        Some(Cow::Owned(text)) => parser.parse(shape, &text).map(Record::into_owned),
        None if line.trim_ascii().is_empty() => Err(Skip::Blank),
        None => Err(Skip::NoPrefix),
    }
}

/// A layout, and how many lines can be read with it.
struct Candidate {
    prefix: Prefix,
    shape: Shape,
    columns: Option<Arc<Columns>>,
    requests: u64,
    /// Lines of this layout with a value that cannot be used.
    others: u64,
}

impl Candidate {
    fn new(prefix: Prefix, shape: Shape) -> Self {
        Self {
            prefix,
            shape,
            columns: None,
            requests: 0,
            others: 0,
        }
    }

    /// Returns whether lines of this format can have this prefix: a pattern covers the whole line, and
    /// the `#Fields` lines of W3C logs start at its beginning.
    fn is_possible(&self) -> bool {
        self.prefix == Prefix::None || !matches!(self.shape, Shape::Pattern | Shape::W3c)
    }

    fn score(&self) -> (u64, u64) {
        (self.requests, self.others)
    }

    /// Counts `line`, and returns whether it is a request.
    fn try_on(&mut self, line: &[u8], parser: &mut Parser<'_>) -> bool {
        if self.prefix == Prefix::None && is_from_docker(line) {
            return false;
        }
        parser.continue_with(self.columns.take());
        let parsed = parse(self.prefix, self.shape, line, parser);
        let parsed = parsed.and_then(|record| parser.has_key(&record));
        self.columns = parser.columns().cloned();
        match parsed {
            Ok(()) => {
                self.requests += 1;
                true
            }
            Err(skip) => {
                self.others += u64::from(skip.is_about_value());
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::format::Format;
    use crate::input::key::{KeyParts, Part};
    use crate::input::options::{FieldNames, LogOptions};
    use crate::input::shape::Pattern;
    use std::net::IpAddr;
    use std::str;

    const SHAPES: [Shape; 6] = [
        Shape::Combined,
        Shape::W3c,
        Shape::LoadBalancer,
        Shape::Haproxy,
        Shape::Json,
        Shape::Pattern,
    ];

    const LINES: [&str; 13] = [
        r#"10.0.0.1 - bob [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "x""#,
        r#"s.example:443 ::ffff:10.0.0.1, 10.0.0.2 - - [17/May/2015:10:05:03 +0000] "\"" - -"#,
        r#"10.0.0.1 - [10.0.0.1] - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17"#,
        r#"<190>May 17 10:05:03 web1 nginx: 10.0.0.1 - - [17/May/2015:10:05:03 +0000] "-" 400 0"#,
        r#"87 <190>1 2015-05-17T10:05:03Z a b 1 - [a b="]\""] {"time":1e9,"ip":"[::1]:80"}"#,
        r#"[pod/web/nginx] 2015-05-17T10:05:03.5Z stdout F {"time":"2015-05-17 10:05:03,5"}"#,
        r#"web-1  | 10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17"#,
        r#"{"log":"10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 17\n","time":"1"}"#,
        r#"{"time":1431857103.5,"ip":["1.1.1.1",{"x":null}],"user":7,"path":"/\u0061?b"}"#,
        "#Fields: date time c-ip cs-username cs-uri-stem",
        "2015-05-17 10:05:03.25 10.0.0.1 \"a \"\"b\"\"\" /a?b",
        r#"https 2015-05-17T10:05:03Z lb [::1]:1 t:1 0 0 0 200 200 1 1 "GET http://x/a HTTP/1.1""#,
        r#"10.0.0.1:1 [17/May/2015:10:05:03.25] f b/s 1/2/3/4/5 200 1 - - ---- 1/1 {a} "GET / H""#,
    ];

    /// Pseudo-random numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % end.max(1)
        }

        fn byte(&mut self) -> u8 {
            let likely = b" \"\\[]{}:.,-#<>/|\t0159abT\xff\0";
            match self.below(4) {
                0 => u8::try_from(self.below(256)).unwrap(),
                _ => likely[self.below(likely.len())],
            }
        }

        /// Damages `line` in a few places.
        fn damage(&mut self, line: &mut Vec<u8>) {
            for _ in 0..=self.below(4) {
                let at = self.below(line.len());
                match self.below(5) {
                    0 => line.truncate(at),
                    1 => drop(line.drain(at.min(line.len())..(at + 3).min(line.len()))),
                    2 => line.insert(at, self.byte()),
                    3 => line.extend_from_within(at..),
                    _ => {
                        let byte = self.byte();
                        if let Some(damaged) = line.get_mut(at) {
                            *damaged = byte;
                        }
                    }
                }
            }
        }
    }

    fn options() -> LogOptions {
        LogOptions {
            files: Vec::new(),
            key: String::new(),
            format: Format::Auto,
            pattern: None,
            jobs: None,
            fields: FieldNames {
                time_field: "time".to_owned(),
                ip_field: "ip".to_owned(),
                user_field: "user".to_owned(),
                path_field: "path".to_owned(),
            },
        }
    }

    /// Parses `line` in every way, and checks what comes of it.
    fn check(line: &[u8], parser: &mut Parser<'_>) -> u64 {
        let mut requests = 0;
        for shape in SHAPES {
            for prefix in Prefix::ALL {
                let Ok(record) = parse(prefix, shape, line, parser) else {
                    continue;
                };
                requests += 1;
                for part in [Part::Client, Part::Path, Part::User] {
                    let _ = record.part(part);
                }
                if let Ok(ip) = record.part(Part::Ip) {
                    let ip = str::from_utf8(&ip).unwrap();
                    let address: IpAddr = ip.parse().unwrap();
                    assert_eq!(address.to_canonical().to_string(), ip);
                }
            }
        }
        requests
    }

    #[test]
    fn any_bytes_are_a_request_or_skipped() {
        let key: KeyParts = "ip+user+path".parse().unwrap();
        let pattern: Pattern = "{ip} {user} [{time}] \"{path}\"".parse().unwrap();
        let options = options();
        let mut parser = Parser::new(&options, Some(&pattern), &key);
        let mut numbers = Numbers(1);
        let mut requests = 0;
        for round in 0..400 {
            let mut lines: Vec<Vec<u8>> = LINES.map(|line| line.as_bytes().to_vec()).into();
            if round > 0 {
                lines.iter_mut().for_each(|line| numbers.damage(line));
            }
            lines.push((0..numbers.below(80)).map(|_| numbers.byte()).collect());
            for line in &lines {
                requests += check(line, &mut parser);
            }
            let whole = lines.iter().map(|line| Line::Whole(line));
            let _ = Layout::of(whole, &SHAPES, &mut parser);
        }
        // Damage leaves many lines readable.
        assert!(requests > 1_000, "{requests}");
    }

    #[test]
    fn the_layout_of_most_lines_is_chosen() {
        // A JSON object without a user would be a request.
        let key: KeyParts = "user".parse().unwrap();
        let options = options();
        let mut parser = Parser::new(&options, None, &key);
        let mut of = |lines: &[&str]| {
            let lines = lines.iter().map(|line| Line::Whole(line.as_bytes()));
            let candidates = Shape::candidates(Format::Auto, false);
            let (layout, has_requests) = Layout::of(lines, candidates, &mut parser);
            has_requests.then_some((layout.prefix, layout.shape))
        };
        let [combined, vhost, _, syslog, ..] = LINES;
        assert_eq!(of(&[combined]), Some((Prefix::None, Shape::Combined)));
        assert_eq!(
            of(&[combined, syslog]),
            Some((Prefix::None, Shape::Combined))
        );
        assert_eq!(
            of(&[combined, syslog, syslog]),
            Some((Prefix::Syslog, Shape::Combined))
        );
        assert_eq!(of(&["x", vhost]), Some((Prefix::None, Shape::Combined)));
        assert_eq!(of(&LINES[9..11]), Some((Prefix::None, Shape::W3c)));
        assert_eq!(
            of(&LINES[11..12]),
            Some((Prefix::None, Shape::LoadBalancer))
        );
        assert_eq!(of(&LINES[12..]), Some((Prefix::None, Shape::Haproxy)));
        assert_eq!(of(&LINES[7..8]), Some((Prefix::Wrapped, Shape::Combined)));
        // Docker's own fields are no request, even if most lines within are none either.
        let docker = LINES[7];
        let noise = r#"{"log":"started\n","time":"1431857103"}"#;
        assert_eq!(
            of(&[noise, noise, docker]),
            Some((Prefix::Wrapped, Shape::Combined))
        );
        assert_eq!(of(&[noise]), None);
        assert_eq!(of(&["x", ""]), None);
    }
}

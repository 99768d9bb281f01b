//! The text syntax of algorithms: `ALGORITHM:N/WINDOW[,OPTION...]`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::{Algorithm, Machine, SPELLINGS, with_machine};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::text::Reader;

/// An algorithm whose text is its [name](Machine::NAME), a quota and options.
pub(super) trait Written: Machine + Into<Algorithm> {
    /// The name in the text of limits.
    const WORD: &'static str = Self::NAME;
    /// Whether `@` and a time zone follow the quota, which tells it from an algorithm of the same name.
    const HAS_ZONE: bool = false;
    /// The options, and whether each takes a number.
    const OPTIONS: &'static [(&'static str, bool)];
    /// What an error says was expected instead of a quota.
    const EXPECTED_QUOTA: &'static str = "`:` and a quota, such as `:20/1h`";

    /// Reads the quota.
    fn read_quota(reader: &mut Reader<'_>) -> Result<Quota, LimitError> {
        Quota::read(reader)
    }

    /// Writes the quota.
    fn write_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.quota(), f)
    }

    /// Returns the algorithm of `quota` with `options`.
    fn read(quota: Quota, options: &Options<'_>) -> Result<Self, LimitError>;

    /// Writes the options that differ from their defaults, each after a comma.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The text syntax of one algorithm.
pub(super) struct Spelling {
    name: &'static str,
    has_zone: bool,
    options: &'static [(&'static str, bool)],
    expected_quota: &'static str,
    read_quota: fn(&mut Reader<'_>) -> Result<Quota, LimitError>,
    read: fn(Quota, &Options<'_>) -> Result<Algorithm, LimitError>,
}

impl Spelling {
    pub(super) const fn of<M: Written>() -> Self {
        Self {
            name: M::WORD,
            has_zone: M::HAS_ZONE,
            options: M::OPTIONS,
            expected_quota: M::EXPECTED_QUOTA,
            read_quota: M::read_quota,
            read: |quota, options| M::read(quota, options).map(Into::into),
        }
    }

    /// Returns what an error says was expected instead of an unknown or repeated option.
    fn expected_options(&self, also: Option<&str>) -> String {
        let numbers = |takes| if takes { "=NUMBER" } else { "" };
        let own = self.options.iter();
        let own = own.map(|&(name, takes)| format!("`{name}{}`", numbers(takes)));
        let all: Vec<_> = own.chain(also.map(|also| format!("`{also}`"))).collect();
        match all.len() {
            0 => "the end: there are no options".to_owned(),
            1 => format!("the option {}, once", all[0]),
            _ => format!("one of the options {}, once", listed(&all)),
        }
    }
}

/// The options in the text of an algorithm, each at most once.
pub(super) struct Options<'t> {
    given: Vec<(&'t str, Option<u64>)>,
    #[cfg_attr(
        not(feature = "calendar"),
        allow(dead_code, reason = "only calendars have zones")
    )]
    zone: &'t str,
    reader: Reader<'t>,
}

impl Options<'_> {
    /// Returns whether the option `name` is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// Returns the number of the option `name`, if it is given.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let given = self.given.iter().find(|(given, _)| *given == name);
        given.and_then(|(_, number)| *number)
    }

    /// Returns the name of the time zone, or nothing if the algorithm has none.
    #[cfg(feature = "calendar")]
    pub(super) fn zone(&self) -> &str {
        self.zone
    }

    /// Returns the error that the text ends before `expected`.
    pub(super) fn missing(&self, expected: &'static str) -> LimitError {
        self.reader.expected(self.reader.at(), expected)
    }
}

impl FromStr for Algorithm {
    type Err = LimitError;

    /// Reads `ALGORITHM:N/WINDOW[,OPTION...]`, such as `gcra:10/1m,burst=3`. Of a `block`, the text
    /// has only a time: `block:5m`.
    ///
    /// | algorithm | options |
    /// |---|---|
    /// | `fixed-window` | `anchored`, `count-denied` |
    /// | `gcra` | `burst=NUMBER` |
    /// | `sliding-buckets` | `buckets=NUMBER`, required |
    /// | `sliding-counter` | none |
    /// | `sliding-log` | `count-denied` |
    /// | `block` | `doublings=NUMBER` |
    ///
    /// With the feature `calendar`, a fixed window may also be a day, week, month or year of a time
    /// zone, without options: `fixed-window:10000/month@Europe/Berlin`; `@local` is the zone of each call.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::read(Reader::new(text, 0), None).map(|(algorithm, _)| algorithm)
    }
}

impl Algorithm {
    /// Reads an algorithm up to the end of the text, and whether the option `also` is given, which
    /// is none of the algorithm's.
    pub(crate) fn read(
        mut reader: Reader<'_>,
        also: Option<&str>,
    ) -> Result<(Self, bool), LimitError> {
        let start = reader.at();
        let name = reader.word();
        let mut named = SPELLINGS.iter().filter(|spelling| spelling.name == name);
        let zone_at = reader.find('@');
        let spelling = named
            .clone()
            .find(|spelling| spelling.has_zone == zone_at.is_some());
        let spelling = spelling.or_else(|| named.next()).ok_or_else(|| {
            let is_named = reader.skip('=');
            let expected: &'static str = if is_named { UNNAMED } else { &NAMES };
            reader.expected(start, expected)
        })?;
        if !reader.skip(':') {
            return Err(reader.expected(reader.at(), spelling.expected_quota));
        }
        if let (Some(at), false, true) = (zone_at, cfg!(feature = "calendar"), name == WITH_ZONE) {
            return Err(reader.expected(at, "no time zone: it needs the feature `calendar`"));
        }
        // Where the number is that an algorithm may refuse: that of an option, or the amount.
        let mut number_at = reader.at();
        let quota = (spelling.read_quota)(&mut reader)?;
        let mut zone = "";
        if spelling.has_zone {
            if !reader.skip('@') {
                return Err(reader.expected(reader.at(), "`@` and a time zone"));
            }
            number_at = reader.at();
            zone = reader.until_comma();
        }
        let mut given: Vec<(&str, Option<u64>)> = Vec::new();
        while !reader.is_at_end() {
            if !reader.skip(',') {
                return Err(reader.expected(reader.at(), "`,` and an option, or the end"));
            }
            let start = reader.at();
            let option = reader.word();
            let has_number = reader.skip('=');
            let is_known = spelling.options.contains(&(option, has_number))
                || also == Some(option) && !has_number;
            if !is_known || given.iter().any(|(given, _)| *given == option) {
                return Err(reader.expected(start, spelling.expected_options(also)));
            }
            let number = if has_number {
                number_at = reader.at();
                Some(reader.number("a number")?)
            } else {
                None
            };
            given.push((option, number));
        }
        let options = Options {
            given,
            zone,
            reader,
        };
        let algorithm = (spelling.read)(quota, &options).map_err(|error| match error {
            LimitError(Problem::Syntax { .. }) => error,
            error => options.reader.bad_value(number_at, error),
        })?;
        Ok((algorithm, also.is_some_and(|also| options.has(also))))
    }
}

/// The algorithm whose windows may be those of a calendar.
pub(super) const WITH_ZONE: &str = "fixed-window";

/// What an error says was expected instead of a name before an algorithm.
const UNNAMED: &str = "an algorithm without a name before it, such as `gcra:10/1m`";

/// What an error says was expected instead of an unknown algorithm.
static NAMES: LazyLock<String> = LazyLock::new(|| {
    let spellings = SPELLINGS.iter().filter(|spelling| !spelling.has_zone);
    let names: Vec<_> = spellings.map(|spelling| spelling.name.to_owned()).collect();
    format!("an algorithm: {}", listed(&names))
});

/// Writes the names one after the other, and `or` before the last.
fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, names)) => format!("{} or {last}", names.join(", ")),
        None => String::new(),
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_machine!(self, machine => write_machine(machine, f))
    }
}

fn write_machine<M: Written>(machine: &M, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}:", M::WORD)?;
    machine.write_quota(f)?;
    machine.write(f)
}

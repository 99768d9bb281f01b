//! The text syntax of algorithms: `ALGORITHM:N/WINDOW[,OPTION...]`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::{Algorithm, Machine, SPELLINGS, with_machine};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::text::{Forms, Options, Reader, expected_options, listed, read_number};

/// An algorithm whose text is its [name](Machine::NAME), a quota and options.
pub(super) trait Written: Machine + Into<Algorithm> {
    /// The name in the text of limits.
    const WORD: &'static str = Self::NAME;
    /// Whether `@` and a time zone follow the quota, which tells it from an algorithm of the same name.
    const HAS_ZONE: bool = false;
    /// The options, each with the form of its value.
    const OPTIONS: Forms;
    /// What an error says was expected instead of a quota.
    const EXPECTED_QUOTA: &'static str = "`:` and a quota, such as `:20/1h`";

    fn read_quota(reader: &mut Reader<'_>) -> Result<Quota, LimitError> {
        Quota::read(reader)
    }

    fn write_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.quota(), f)
    }

    /// Reads the value of one of the [`OPTIONS`](Self::OPTIONS).
    fn read_value(reader: &mut Reader<'_>, option: &str) -> Result<u64, LimitError> {
        read_number(reader, option)
    }

    /// Returns the algorithm of `quota` with `options`; `zone` is empty unless it has one.
    fn read(quota: Quota, zone: &str, options: &Options<'_>) -> Result<Self, LimitError>;

    /// Writes the options that differ from their defaults, each after a comma.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The text syntax of one algorithm.
pub(super) struct Spelling {
    name: &'static str,
    has_zone: bool,
    options: Forms,
    expected_quota: &'static str,
    read_quota: fn(&mut Reader<'_>) -> Result<Quota, LimitError>,
    read_value: fn(&mut Reader<'_>, &str) -> Result<u64, LimitError>,
    read: fn(Quota, &str, &Options<'_>) -> Result<Algorithm, LimitError>,
}

impl Spelling {
    pub(super) const fn of<M: Written>() -> Self {
        Self {
            name: M::WORD,
            has_zone: M::HAS_ZONE,
            options: M::OPTIONS,
            expected_quota: M::EXPECTED_QUOTA,
            read_quota: M::read_quota,
            read_value: M::read_value,
            read: |quota, zone, options| M::read(quota, zone, options).map(Into::into),
        }
    }

    fn has(&self, option: &str, has_value: bool) -> bool {
        let own = self.options.iter().find(|(name, _)| *name == option);
        own.is_some_and(|(_, form)| form.is_empty() != has_value)
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
    /// zone: `fixed-window:10000/month@Europe/Berlin`; `@local` is the zone of each call. Its options say
    /// when it begins: `at=HH:MM`, `start=WEEKDAY` of a week, `day=DAY` of a month, or `month=MONTH` and
    /// `day=DAY` of a year.
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
        let named = SPELLINGS.iter().filter(|spelling| spelling.name == name);
        let zone_at = reader.find('@');
        let spelling = named
            .clone()
            .find(|spelling| spelling.has_zone == zone_at.is_some());
        let spelling = spelling.or_else(|| named.clone().next()).ok_or_else(|| {
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
        // Where the number is that an algorithm may refuse, unless that is the value of an option.
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
        // An option that only windows of the calendar have.
        let of_calendar = |option: &str| match named.clone().find(|other| other.has_zone) {
            Some(other) if !spelling.has_zone && other.has(option, true) => {
                format!("; `{option}` needs a unit of a time zone, such as `day@Europe/Berlin`")
            }
            _ => String::new(),
        };
        let options = Options::read(
            reader,
            |option, has_value| {
                spelling.has(option, has_value) || also == Some(option) && !has_value
            },
            spelling.read_value,
            |option| expected_options(spelling.options, also) + &of_calendar(option),
        )?;
        let algorithm = (spelling.read)(quota, zone, &options).map_err(|error| match error {
            LimitError(Problem::Syntax { .. }) => error,
            error => options.bad_value(number_at, error),
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

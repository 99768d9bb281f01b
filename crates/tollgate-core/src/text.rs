//! `Reader`: reads the text of a limit from left to right, and tracks its position. `Options`: those behind a
//! quota. `from_texts`: conversions.

use std::borrow::Cow;
#[cfg(feature = "calendar")]
use std::fmt;

use crate::error::{LimitError, Problem};

/// Reads a type from owned and borrowed texts, as its `FromStr` does.
macro_rules! from_texts {
    ($of:ty) => { from_texts!($of: &str, String, &String); };
    ($of:ty: $($text:ty),+) => {$(
        /// Reads the text as [`FromStr`] does.
        impl TryFrom<$text> for $of {
            type Error = LimitError;

            fn try_from(text: $text) -> Result<Self, LimitError> {
                text.parse()
            }
        }
    )+};
}
pub(crate) use from_texts;

/// A text and the current position in it.
pub(crate) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Returns a reader of `text` that starts at the byte `at`.
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    /// Returns the current position, in bytes from the start of the text.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text that has not been read.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Returns whether all text has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns where the next `mark` is, if there is one.
    pub(crate) fn find(&self, mark: char) -> Option<usize> {
        self.rest().find(mark).map(|after| self.at + after)
    }

    pub(crate) fn until_comma(&mut self) -> &'t str {
        let rest = self.rest();
        let read = rest.split(',').next().unwrap_or(rest);
        self.at += read.len();
        read
    }

    /// Reads `mark` if it comes next, and returns whether it did.
    pub(crate) fn skip(&mut self, mark: char) -> bool {
        let comes = self.rest().starts_with(mark);
        if comes {
            self.at += mark.len_utf8();
        }
        comes
    }

    /// Reads `word` if it comes next, and is not the beginning of a longer one. Returns whether it did.
    #[cfg(feature = "calendar")]
    pub(crate) fn skip_word(&mut self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        let comes = after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()));
        if comes {
            self.at += word.len();
        }
        comes
    }

    /// Reads a weekday, such as `sunday` or `sun`, and returns how many days after Monday it is.
    #[cfg(feature = "calendar")]
    pub(crate) fn weekday(&mut self) -> Option<u8> {
        (0..).zip(WEEKDAYS).find_map(|(number, day)| {
            (self.skip_word(day) || self.skip_word(&day[..3])).then_some(number)
        })
    }

    /// Reads a time of the day, in seconds up to `most`.
    #[cfg(feature = "calendar")]
    pub(crate) fn time(&mut self, most: u32) -> Result<u32, LimitError> {
        let at = self.at();
        let hour = self.number("a time such as `22:00`")?;
        if !self.skip(':') {
            return Err(self.expected(self.at(), "`:` and minutes"));
        }
        let minute = self.number("minutes, in two digits")?;
        let second = match self.skip(':') {
            true => self.number("seconds, in two digits")?,
            false => 0,
        };
        let time = 3_600 * u128::from(hour) + 60 * u128::from(minute) + u128::from(second);
        match u32::try_from(time) {
            Ok(time) if minute < 60 && second < 60 && time <= most => Ok(time),
            _ if most == 86_400 => Err(self.expected(at, "a time from 00:00 to 24:00")),
            _ => Err(self.expected(at, "a time from 00:00 to 23:59")),
        }
    }

    /// Reads up to the next `:`, `,`, `=`, `/` or `@`.
    pub(crate) fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let word = rest.split([':', ',', '=', '/', '@']).next().unwrap_or(rest);
        self.at += word.len();
        word
    }

    /// Reads a number in decimal digits.
    ///
    /// # Errors
    ///
    /// [`Syntax`](crate::LimitErrorKind::Syntax) if no number comes next, or if it does not fit into 64 bits.
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, LimitError> {
        let (rest, start) = (self.rest(), self.at);
        let length = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = &rest[..length];
        self.at += length;
        digits.parse().map_err(|_| {
            self.expected(
                start,
                if digits.is_empty() {
                    expected
                } else {
                    "a smaller number: 9007199254740991, which is 2^53 - 1, at most"
                },
            )
        })
    }

    /// Returns the error that the value at the byte `at` is not possible.
    pub(crate) fn bad_value(&self, at: usize, error: LimitError) -> LimitError {
        LimitError(Problem::BadValue {
            text: self.text.to_owned(),
            at,
            error: Box::new(error),
        })
    }

    /// Returns the error that `expected` is missing at the byte `at`.
    pub(crate) fn expected(&self, at: usize, expected: impl Into<Cow<'static, str>>) -> LimitError {
        LimitError(Problem::Syntax {
            text: self.text.to_owned(),
            at,
            expected: expected.into(),
        })
    }
}

#[cfg(feature = "calendar")]
pub(crate) const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Writes a time of the day, in seconds, as `HH:MM`, and its seconds only if it has some.
#[cfg(feature = "calendar")]
pub(crate) fn write_time(to: &mut dyn fmt::Write, time: u32) -> fmt::Result {
    write!(to, "{:02}:{:02}", time / 3_600, time / 60 % 60)?;
    match time % 60 {
        0 => Ok(()),
        second => write!(to, ":{second:02}"),
    }
}

/// Names of options, each with the form of its value, such as `NUMBER`: empty if it has none.
pub(crate) type Forms = &'static [(&'static str, &'static str)];

/// The options at the end of a text, each at most once: `,NAME` or `,NAME=VALUE`.
pub(crate) struct Options<'t> {
    /// With where each begins.
    given: Vec<(&'t str, Option<u64>, usize)>,
    /// Where the last value is.
    value_at: Option<usize>,
    reader: Reader<'t>,
}

impl<'t> Options<'t> {
    /// Reads up to the end of the text. `is_known` says whether there is an option of this name, with a value or
    /// without, and `expected` what an error says instead of an unknown or repeated one.
    pub(crate) fn read(
        mut reader: Reader<'t>,
        is_known: impl Fn(&str, bool) -> bool,
        read_value: fn(&mut Reader<'_>, &str) -> Result<u64, LimitError>,
        expected: impl Fn(&str) -> String,
    ) -> Result<Self, LimitError> {
        let (mut given, mut value_at) = (Vec::<(&str, _, _)>::new(), None);
        while !reader.is_at_end() {
            if !reader.skip(',') {
                return Err(reader.expected(reader.at(), "`,` and an option, or the end"));
            }
            let start = reader.at();
            let option = reader.word();
            let has_value = reader.skip('=');
            if !is_known(option, has_value) || given.iter().any(|(given, ..)| *given == option) {
                return Err(reader.expected(start, expected(option)));
            }
            let mut value = None;
            if has_value {
                value_at = Some(reader.at());
                value = Some(read_value(&mut reader, option)?);
            }
            given.push((option, value, start));
        }
        Ok(Self {
            given,
            value_at,
            reader,
        })
    }

    fn get(&self, name: &str) -> Option<&(&'t str, Option<u64>, usize)> {
        self.given.iter().find(|(given, ..)| *given == name)
    }

    /// Returns whether the option `name` is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the value of the option `name`, if it is given.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|(_, value, _)| *value)
    }

    /// Returns the error that the text ends before `expected`.
    pub(crate) fn missing(&self, expected: &'static str) -> LimitError {
        self.reader.expected(self.reader.at(), expected)
    }

    /// Returns the error that `expected` is missing in the place of the option `name`.
    #[cfg(feature = "calendar")]
    pub(crate) fn wrong(&self, name: &str, expected: &'static str) -> LimitError {
        let at = self
            .get(name)
            .map_or_else(|| self.reader.at(), |(.., at)| *at);
        self.reader.expected(at, expected)
    }

    /// Returns the error that the last value is not possible, or the one at the byte `at` if there is none.
    pub(crate) fn bad_value(&self, at: usize, error: LimitError) -> LimitError {
        self.reader.bad_value(self.value_at.unwrap_or(at), error)
    }
}

/// Returns the number in decimal digits that most options have as their value.
pub(crate) fn read_number(reader: &mut Reader<'_>, _: &str) -> Result<u64, LimitError> {
    reader.number("a number")
}

/// Writes the names one after the other, and `or` before the last.
pub(crate) fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, names)) => format!("{} or {last}", names.join(", ")),
        None => String::new(),
    }
}

/// Returns what an error says was expected instead of an option that is none of these, or given twice.
pub(crate) fn expected_options(forms: Forms, also: Option<&str>) -> String {
    let written = |(name, form): &(&str, &str)| match form.is_empty() {
        true => format!("`{name}`"),
        false => format!("`{name}={form}`"),
    };
    let also = also.map(|also| format!("`{also}`"));
    let all: Vec<_> = forms.iter().map(written).chain(also).collect();
    match all.len() {
        0 => "the end: there are no options".to_owned(),
        1 => format!("the option {}, once", all[0]),
        _ => format!("one of the options {}, once", listed(&all)),
    }
}

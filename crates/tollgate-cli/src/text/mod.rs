//! Formats numbers, times and tables for people.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp as Instant;
use serde::Serialize;
use tollgate_core::Timestamp;

/// A number with grouped thousands: `1,234,567`.
pub(crate) struct Grouped(pub(crate) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Returns a number with its singular or plural: `1 state`, `2,000 states`.
pub(crate) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", Grouped(count), noun(count, one, many))
}

/// Returns the noun for `count` things: the singular for one, and otherwise the plural.
pub(crate) fn noun<'n>(count: u64, one: &'n str, many: &'n str) -> &'n str {
    if count == 1 { one } else { many }
}

/// A share of a whole in percent, with one decimal: `12.5 %`.
pub(crate) struct Share(pub(crate) u64, pub(crate) u64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part, whole) = *self;
        let text = match per_mille(part, whole) {
            // A share above 0 is not shown as 0 %, nor one below the whole as 100 %.
            0 if part > 0 => "<0.1 %".to_owned(),
            1_000 if part < whole => ">99.9 %".to_owned(),
            tenths => format!("{}.{} %", tenths / 10, tenths % 10),
        };
        f.pad(&text)
    }
}

/// Returns `part` of `whole` in tenths of a percent, rounded to nearest.
fn per_mille(part: u64, whole: u64) -> u128 {
    let whole = u128::from(whole.max(1));
    (u128::from(part) * 2_000 + whole) / (2 * whole)
}

/// How many times larger one number is than another, with two decimals: `1.97`.
pub(crate) struct Times(pub(crate) u64, pub(crate) u64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part, whole) = *self;
        if whole == 0 {
            return f.pad("-");
        }
        // Rounded up, so that an exceeded bound never looks kept.
        let hundredths = (u128::from(part) * 100).div_ceil(u128::from(whole));
        f.pad(&format!("{}.{:02}", hundredths / 100, hundredths % 100))
    }
}

/// Formats an instant in UTC.
pub(crate) fn utc(at: Timestamp, format: &str) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    match Instant::from_microsecond(micros) {
        Ok(instant) => instant.strftime(format).to_string(),
        // Does not occur: jiff's instants end in the year 9999, ours in 2255.
        Err(_) => format!("{micros} us"),
    }
}

/// Formats an instant to the second.
pub(crate) fn utc_second(at: Timestamp) -> String {
    utc(at, "%-d %b %Y %H:%M:%S")
}

/// Formats an exact instant as RFC 3339 in UTC: `2026-03-01T08:00:00Z`, with fractions only if there
/// are any.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    // The conversion cannot fail: jiff's instants end in the year 9999, ours in 2255.
    Instant::from_microsecond(micros).map_or_else(|_| format!("{micros} us"), |at| at.to_string())
}

/// An exact wait in common units: `1h 30m 0.5s`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        let mut text = String::new();
        for (count, unit) in [
            (seconds / 86_400, "d "),
            (seconds / 3_600 % 24, "h "),
            (seconds / 60 % 60, "m "),
        ] {
            if count > 0 {
                text += &format!("{count}{unit}");
            }
        }
        let decimals = format!(".{nanos:09}");
        let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
        if text.is_empty() || seconds % 60 > 0 || nanos > 0 {
            text += &format!("{}{decimals}s", seconds % 60);
        }
        f.pad(text.trim_end())
    }
}

/// Returns `bytes` as text without characters that could manipulate a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    if !text.contains(manipulates) {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if manipulates(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns `value` as JSON on one line, with escapes for characters that could manipulate a terminal.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Serialization cannot fail: answers contain only text and numbers.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    let mut shown = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if manipulates(c) {
            // Such characters are in strings only, and have at most 16 bits.
            shown += &format!("\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.push('\n');
    shown
}

/// How many characters of an argument a message shows, and of a key a row.
pub(crate) const LONGEST_SHOWN: usize = 100;

/// An argument of the command line, at most a hundred characters of it.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.char_indices().skip(LONGEST_SHOWN);
        match rest.next() {
            Some((end, _)) => write!(f, "{}...", printable(&self.0.as_bytes()[..end])),
            None => f.write_str(&printable(self.0.as_bytes())),
        }
    }
}

/// Returns at most `most` characters of `text`; the last one is an ellipsis if there are more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Returns whether a character controls a terminal, or the direction in which text is shown.
fn manipulates(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The longest cell that makes its column wider. A longer one moves the rest of its own row to the
/// right, so that one long key does not fill every row with spaces.
const WIDEST: usize = 200;

/// Rows of cells in columns: the first is left-aligned, the others right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from this one on are left-aligned again.
    remarks: usize,
}

impl Table {
    /// Returns a table with `header`, whose columns from `remarks` on contain text.
    pub(crate) fn new(header: &[&str], remarks: usize) -> Self {
        Self {
            rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()],
            remarks,
        }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let length = |cell: &String| cell.chars().count();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let lengths = cells.map(length).filter(|&length| length <= WIDEST);
            lengths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width.saturating_sub(length(cell)));
                let [before, after] = if column == 0 || column >= self.remarks {
                    ["", &padding]
                } else {
                    [&*padding, ""]
                };
                line.extend([before, cell, after, "  "]);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(Grouped(0).to_string(), "0");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(Grouped(1_000).to_string(), "1,000");
        assert_eq!(Grouped(u64::MAX).to_string(), "18,446,744,073,709,551,615");
    }

    #[test]
    fn percentages_are_never_rounded_to_0_or_100() {
        assert_eq!(Share(1, 3).to_string(), "33.3 %");
        assert_eq!(Share(0, 0).to_string(), "0.0 %");
        assert_eq!(Share(1, 100_000).to_string(), "<0.1 %");
        assert_eq!(Share(99_999, 100_000).to_string(), ">99.9 %");
        assert_eq!(Share(u64::MAX, u64::MAX).to_string(), "100.0 %");
        assert_eq!(Times(1_001, 1_000).to_string(), "1.01");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["A", "N", "WHY"], 2);
        table.row(["long".to_owned(), "10".to_owned(), "because".to_owned()]);
        assert_eq!(table.to_string(), "A      N  WHY\nlong  10  because\n");
    }

    #[test]
    fn a_long_cell_moves_only_its_own_row() {
        for length in [WIDEST, WIDEST + 1, 70_000] {
            let long = "x".repeat(length);
            let mut table = Table::new(&["A", "N"], 2);
            table.row([long.clone(), "10".to_owned()]);
            table.row(["y".to_owned(), "7".to_owned()]);
            let width = if length > WIDEST { 1 } else { length };
            let expected = format!("{:width$}   N\n{long}  10\n{:width$}   7\n", "A", "y");
            assert_eq!(table.to_string(), expected, "{length}");
        }
    }

    #[test]
    fn json_manipulates_no_terminal() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}b\"é";
        let shown = json(&text);
        assert_eq!(shown, "\"a\\u001b\\u007f\\u009b\\u202eb\\\"é\"\n");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable(b"a\x1b[31m\xff"), "a\\u{1b}[31m\u{fffd}");
        let reversed = "alice\u{202e}bob";
        assert_eq!(printable(reversed.as_bytes()), "alice\\u{202e}bob");
    }

    #[test]
    fn times_have_fractions_only_if_needed() {
        let text = |micros| rfc3339(Timestamp::from_micros(micros).unwrap());
        assert_eq!(text(1_772_352_000_000_000), "2026-03-01T08:00:00Z");
        assert_eq!(text(1_772_352_000_500_000), "2026-03-01T08:00:00.5Z");
        assert_eq!(text(1), "1970-01-01T00:00:00.000001Z");
    }

    #[test]
    fn waits_are_exact() {
        let text = |micros| Span(Duration::from_micros(micros)).to_string();
        assert_eq!(text(0), "0s");
        assert_eq!(text(1), "0.000001s");
        assert_eq!(text(5_400_000), "5.4s");
        assert_eq!(text(60_000_000), "1m");
        assert_eq!(text(90_061_500_000), "1d 1h 1m 1.5s");
    }
}

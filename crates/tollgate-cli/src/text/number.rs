//! Formats numbers and shares.

use std::fmt;

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
}

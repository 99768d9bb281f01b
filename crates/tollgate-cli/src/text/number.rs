//! Formats numbers and shares.

/// Returns a number with grouped thousands: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns a number with its singular or plural: `1 state`, `2,000 states`.
pub(crate) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), noun(count, one, many))
}

/// Returns the noun for `count` things: the singular for one, and otherwise the plural.
pub(crate) fn noun<'n>(count: u64, one: &'n str, many: &'n str) -> &'n str {
    if count == 1 { one } else { many }
}

/// Returns a share of a whole in percent, with one decimal: `12.5 %`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match per_mille(part, whole) {
        // A share above 0 is not shown as 0 %, nor one below the whole as 100 %.
        0 if part > 0 => "<0.1 %".to_owned(),
        1_000 if part < whole => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Returns `part` of `whole` in tenths of a percent, rounded to nearest.
fn per_mille(part: u64, whole: u64) -> u128 {
    let whole = u128::from(whole.max(1));
    (u128::from(part) * 2_000 + whole) / (2 * whole)
}

/// Returns how many times larger one number is than another, with two decimals: `1.97`.
pub(crate) fn times(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    // Rounded up, so that an exceeded bound never looks kept.
    let hundredths = (u128::from(part) * 100).div_ceil(u128::from(whole));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_never_rounded_to_0_or_100() {
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(0, 0), "0.0 %");
        assert_eq!(share(1, 100_000), "<0.1 %");
        assert_eq!(share(99_999, 100_000), ">99.9 %");
        assert_eq!(share(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!(times(1_001, 1_000), "1.01");
    }
}

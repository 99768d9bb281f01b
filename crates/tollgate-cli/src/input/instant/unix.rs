//! Parses numbers of seconds, or smaller units, since the Unix epoch.

use tollgate_core::Timestamp;

/// Returns `None` if `text` is not a number, and `Some(None)` if the number is not a valid instant.
pub(super) fn read_unix(text: &str) -> Option<Option<Timestamp>> {
    let (decimal, exponent) = match text.split_once(['e', 'E']) {
        Some((decimal, exponent)) => (decimal, Some(read_exponent(exponent)?)),
        None => (text, None),
    };
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let Some(exponent) = exponent else {
        return Some(instant(whole, fraction));
    };
    let moved = move_point(whole, fraction, exponent);
    Some(moved.and_then(|(whole, fraction)| instant(&whole, &fraction)))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Parses an exponent; one that is too large for any line is replaced by [`FAR`].
fn read_exponent(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let is_number = !digits.is_empty() && is_digits(digits);
    is_number.then(|| sign * digits.parse().map_or(FAR, |number: i64| number.min(FAR)))
}

/// More than the digits of any line, so that digits cannot compensate for it.
const FAR: i64 = 1 << 40;

/// The most digits of a 64-bit number.
const MOST_DIGITS: i64 = 20;

/// Moves the decimal point to the right by `exponent`, and returns the digits before and after it;
/// `None` if there are too many before it.
fn move_point(whole: &str, fraction: &str, exponent: i64) -> Option<(String, String)> {
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        // Zero stays zero, whatever the exponent.
        return Some((digits, String::new()));
    }
    let zeros = digits.len() - significant.len();
    let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()? + exponent;
    if point > MOST_DIGITS {
        return None;
    }
    // More zeros would only shift digits that are too small to count.
    let before = usize::try_from((-point).min(MOST_DIGITS)).unwrap_or(0);
    let point = usize::try_from(point).unwrap_or(0);
    let digits = format!("{}{significant:0<point$}", "0".repeat(before));
    let (whole, fraction) = digits.split_at(point);
    Some((format!("0{whole}"), fraction.to_owned()))
}

/// Returns the instant `whole.fraction` seconds, or smaller units, after the Unix epoch.
fn instant(whole: &str, fraction: &str) -> Option<Timestamp> {
    let whole: u64 = whole.parse().ok()?;
    // How many digits of the fraction make whole microseconds.
    let digits = match whole {
        0..100_000_000_000 => 6,
        100_000_000_000..100_000_000_000_000 => 3,
        100_000_000_000_000..100_000_000_000_000_000 => 0,
        _ => return at(whole / 1_000),
    };
    let mut micros = whole;
    for place in 0..digits {
        let digit = fraction.as_bytes().get(place).map_or(0, |b| b - b'0');
        micros = micros.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    at(micros)
}

/// Returns the instant so many microseconds after the Unix epoch, if there is one.
pub(super) fn at(micros: u64) -> Option<Timestamp> {
    Timestamp::from_micros(micros).ok()
}

//! SVG building blocks: lengths, scales, bars and escaped text.

use std::fmt::{self, Write};

/// A length in hundredths of a drawing unit, so that charts need no floats.
#[derive(Clone, Copy)]
pub(crate) struct Length(pub(crate) u64);

/// One drawing unit, in hundredths.
pub(crate) const UNIT: u64 = 100;

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / UNIT, self.0 % UNIT)
    }
}

/// Text, escaped for HTML.
pub(crate) struct Escaped<'t>(pub(crate) &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Maps numbers from 0 to `most` onto lengths from 0 to `length`.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    most: u64,
    length: u64,
    step: u64,
}

impl Scale {
    /// Returns a scale of `length` units whose end is `most`, rounded up to a round number.
    pub(crate) fn new(most: u64, length: u64) -> Self {
        let most = most.max(1);
        let step = round_step(most);
        Self {
            most: most.div_ceil(step).saturating_mul(step),
            length: length * UNIT,
            step,
        }
    }

    /// Returns the length for `value`; a value above 0 is always visible.
    pub(crate) fn length(self, value: u64) -> Length {
        let exact = u128::from(value) * u128::from(self.length) / u128::from(self.most);
        let length = u64::try_from(exact).unwrap_or(self.length).min(self.length);
        Length(if value > 0 { length.max(UNIT / 2) } else { 0 })
    }

    /// Returns the round numbers for the axis labels.
    pub(crate) fn ticks(self) -> impl Iterator<Item = u64> {
        (0..=self.most / self.step).map(move |index| index * self.step)
    }
}

/// Returns the smallest round number that divides `most` into at most five steps.
fn round_step(most: u64) -> u64 {
    let mut decade: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            let step = decade.saturating_mul(factor);
            if most.div_ceil(step) <= 5 {
                return step;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// Starts a drawing of `width` by `height` units with the description `label`.
pub(crate) fn open(f: &mut impl Write, width: u64, height: u64, label: &str) -> fmt::Result {
    writeln!(
        f,
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
        Escaped(label),
    )
}

/// Draws a bar, or nothing if it is empty.
pub(crate) fn bar(
    f: &mut impl Write,
    class: &str,
    [x, y, width, height]: [Length; 4],
) -> fmt::Result {
    if width.0 == 0 || height.0 == 0 {
        return Ok(());
    }
    write!(
        f,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ticks = |most| Scale::new(most, 100).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(0), [0, 1]);
        assert_eq!(ticks(7), [0, 2, 4, 6, 8]);
        assert_eq!(ticks(483), [0, 100, 200, 300, 400, 500]);
        assert!(ticks(u64::MAX).len() <= 7);
    }

    #[test]
    fn lengths_stay_within_the_drawing() {
        let scale = Scale::new(10, 100);
        assert_eq!(scale.length(0).to_string(), "0.00");
        assert_eq!(scale.length(5).to_string(), "50.00");
        assert_eq!(scale.length(u64::MAX).to_string(), "100.00");
        assert_eq!(Scale::new(u64::MAX, 100).length(1).to_string(), "0.50");
    }

    #[test]
    fn text_cannot_become_markup() {
        let text = Escaped("<script>alert('&\"')</script>").to_string();
        assert!(!text.contains(['<', '>', '"', '\'']));
    }
}

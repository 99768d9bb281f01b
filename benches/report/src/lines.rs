//! `Lines`: values that change from step to step.

use super::bars::number;
use super::canvas::{Canvas, Heading, colour};
use super::short;

const LEFT: f64 = 84.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 338.0;
const HEIGHT: u32 = 384;
/// How far apart the names of two series are.
const APART: f64 = 16.0;

/// A line: its name, its colour, whether it is dashed, and its values.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) is_dashed: bool,
    pub(super) values: Vec<Option<f64>>,
}

/// A chart of lines; its vertical axis is logarithmic.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    pub(super) heading: Heading,
    /// What the steps are, and the name of each.
    pub(super) steps: (&'a str, Vec<&'a str>),
    pub(super) lines: Vec<Line>,
}

impl Lines<'_> {
    pub(super) fn draw(&self) -> String {
        let mut canvas = Canvas::new(self.heading, HEIGHT);
        let (first, last) = self.powers();
        for power in first..=last {
            let value = 10_f64.powi(power);
            let y = self.y(value);
            canvas.line(format!(r#"<path class="g" d="M{LEFT} {y:.1}H{RIGHT}"/>"#));
            canvas.text(LEFT - 10.0, y + 4.0, "e", round(value));
        }
        let (what, steps) = &self.steps;
        for (step, name) in steps.iter().enumerate() {
            let name = name.parse().map_or_else(|_| (*name).to_owned(), round);
            canvas.text(self.x(step), BOTTOM + 20.0, "c", name);
        }
        canvas.text((LEFT + RIGHT) / 2.0, BOTTOM + 38.0, "c", what);
        let mut ends = Vec::new();
        for line in &self.lines {
            let values = line.values.iter().enumerate();
            let points: Vec<_> = values
                .filter_map(|(step, value)| Some((self.x(step), self.y((*value)?))))
                .collect();
            let path: Vec<_> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let (path, colour) = (path.join(" "), colour(line.colour));
            let class = if line.is_dashed { "far" } else { "" };
            canvas.line(format!(
                r#"<polyline class="{class}" stroke="{colour}" points="{path}"/>"#
            ));
            for (x, y) in &points {
                canvas.line(format!(
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#
                ));
            }
            if let (Some((_, y)), Some(value)) =
                (points.last(), line.values.iter().flatten().last())
            {
                ends.push((*y, format!("{} {}", short(*value), line.name), line.colour));
            }
        }
        // Names that would touch are moved down.
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut lowest = f64::MIN;
        for (y, text, series) in ends {
            let y = y.max(lowest + APART);
            lowest = y;
            let colour = colour(series);
            canvas.line(format!(
                r#"<circle cx="{:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#,
                RIGHT + 12.0
            ));
            canvas.text(RIGHT + 22.0, y + 4.0, "v", text);
        }
        canvas.finish()
    }

    fn x(&self, step: usize) -> f64 {
        let last = number(self.steps.1.len().saturating_sub(1)).max(1.0);
        LEFT + 20.0 + (RIGHT - LEFT - 40.0) * number(step) / last
    }

    /// Returns the powers of ten between which all values are.
    fn powers(&self) -> (i32, i32) {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        let (mut least, mut most) = (f64::MAX, f64::MIN);
        for value in values {
            (least, most) = (least.min(*value), most.max(*value));
        }
        let [first, last] = [least.log10().floor(), most.log10().ceil()];
        (power(first), power(last))
    }

    fn y(&self, value: f64) -> f64 {
        let (first, last) = self.powers();
        let share = (value.log10() - f64::from(first)) / f64::from((last - first).max(1));
        BOTTOM - (BOTTOM - TOP) * share
    }
}

/// Formats a round number, without zeros after the decimal point.
fn round(number: f64) -> String {
    let text = short(number);
    let Some((whole, rest)) = text.split_once('.') else {
        return text;
    };
    let unit = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let decimals = rest[..rest.len() - unit.len()].trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{whole}{point}{decimals}{unit}")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a power of ten is a small number"
)]
fn power(of: f64) -> i32 {
    of as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_have_no_zeros_after_the_point() {
        for (number, text) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (2.5, "2.5"),
            (10.0, "10"),
            (100.0, "100"),
            (1_024.0, "1024"),
            (10_000.0, "10 k"),
            (1_000_000.0, "1 M"),
            (1_500_000.0, "1.5 M"),
        ] {
            assert_eq!(round(number), text);
        }
    }

    #[test]
    fn lines_rise_by_powers_of_ten_and_their_names_do_not_touch() {
        let line = |name: &str, values: &[f64]| Line {
            name: name.to_owned(),
            colour: 0,
            is_dashed: false,
            values: values.iter().copied().map(Some).collect(),
        };
        let chart = Lines {
            heading: Heading {
                title: "Rate",
                note: "a second",
            },
            steps: ("callers", vec!["1", "16"]),
            lines: vec![line("one", &[10.0, 1_000.0]), line("two", &[20.0, 990.0])],
        };
        assert_eq!(chart.powers(), (1, 3));
        let step = |from, to| chart.y(from) - chart.y(to);
        assert!((step(10.0, 100.0) - step(100.0, 1_000.0)).abs() < 0.01);
        assert!((chart.y(1_000.0) - TOP).abs() < 0.01);
        let svg = chart.draw();
        assert_eq!(svg.matches("<polyline").count(), 2);
        let height = |name: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            let y = line.split("y=\"").nth(1).unwrap();
            y.split('"').next().unwrap().parse().unwrap()
        };
        assert!(height("990 two") - height("1000 one") >= APART);
    }
}

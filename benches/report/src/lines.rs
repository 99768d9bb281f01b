//! `Lines`: values that change from step to step.

use super::bars::{colour, number, pixels, power, round, tenth};
use super::canvas::Mark;
use super::{Heading, short};

const LEFT: f64 = 66.0;
const RIGHT: f64 = 400.0;
const HEIGHT: f64 = 230.0;
/// How far apart the names of two series are.
const APART: f64 = 18.0;

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
    /// What solid lines show, and what dashed ones do.
    pub(super) kinds: (&'a str, &'a str),
    /// What the steps are, and the name of each.
    pub(super) steps: (&'a str, Vec<&'a str>),
    pub(super) lines: Vec<Line>,
}

impl Lines<'_> {
    pub(super) fn draw(&self) -> String {
        let mut canvas = self.heading.canvas();
        canvas.note("The vertical axis is logarithmic.");
        canvas.legend(&[
            (Mark::Line, "ink", self.kinds.0),
            (Mark::Dashed, "ink", self.kinds.1),
        ]);
        let top = f64::from(canvas.top()) + 10.0;
        let bottom = top + HEIGHT;
        let y_of = |value| bottom - HEIGHT * self.share(value);
        let (first, last) = self.powers();
        for power in first..=last {
            let value = 10_f64.powi(power);
            let y = y_of(value);
            canvas.path("edge thin", format!("M{LEFT} {}H{RIGHT}", tenth(y)));
            canvas.text(LEFT - 10.0, tenth(y + 5.0), "e soft", round(value));
        }
        let (what, steps) = &self.steps;
        for (step, name) in steps.iter().enumerate() {
            let name = name.parse().map_or_else(|_| (*name).to_owned(), round);
            canvas.text(tenth(self.x(step)), tenth(bottom + 20.0), "c soft", name);
        }
        let middle = tenth(f64::midpoint(LEFT, RIGHT));
        canvas.text(middle, tenth(bottom + 42.0), "c soft", what);
        let mut ends = Vec::new();
        for line in &self.lines {
            let values = line.values.iter().enumerate();
            let points: Vec<_> = values
                .filter_map(|(step, value)| Some((self.x(step), y_of((*value)?))))
                .collect();
            let path: Vec<_> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let (path, colour) = (path.join(" "), colour(line.colour));
            let dash = if line.is_dashed { " dash" } else { "" };
            canvas.line(format!(
                r#"<polyline class="{colour} line{dash}" points="{path}"/>"#
            ));
            for (x, y) in &points {
                canvas.line(format!(
                    r#"<circle class="{colour} fill" cx="{x:.1}" cy="{y:.1}" r="3"/>"#
                ));
            }
            if let (Some((_, y)), Some(value)) =
                (points.last(), line.values.iter().flatten().last())
            {
                ends.push((*y, format!("{} {}", line.name, short(*value)), colour));
            }
        }
        // Names that would touch are moved down.
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut lowest = f64::MIN;
        canvas.line(r#"<g class="legend">"#);
        for (y, text, colour) in ends {
            let y = y.max(lowest + APART);
            lowest = y;
            canvas.line(format!(
                r#"<circle class="{colour} fill" cx="{}" cy="{y:.1}" r="4"/>"#,
                RIGHT + 12.0
            ));
            canvas.text(RIGHT + 22.0, tenth(y + 5.0), "ink", text);
        }
        canvas.line("</g>");
        canvas.finish(pixels(bottom + 56.0))
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

    /// Returns which share of the axis is below a value.
    fn share(&self, value: f64) -> f64 {
        let (first, last) = self.powers();
        (value.log10() - f64::from(first)) / f64::from((last - first).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            kinds: ("together", "alone"),
            steps: ("callers", vec!["1", "16"]),
            lines: vec![line("one", &[10.0, 1_000.0]), line("two", &[20.0, 990.0])],
        };
        assert_eq!(chart.powers(), (1, 3));
        let step = |from, to| chart.share(to) - chart.share(from);
        assert!((step(10.0, 100.0) - step(100.0, 1_000.0)).abs() < 0.01);
        assert!((chart.share(1_000.0) - 1.0).abs() < 0.01);
        let svg = chart.draw();
        assert_eq!(svg.matches("<polyline").count(), 2);
        let height = |name: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            let y = line.split("y=\"").nth(1).unwrap();
            y.split('"').next().unwrap().parse().unwrap()
        };
        assert!(height("two 990") - height("one 1000") >= APART);
    }
}

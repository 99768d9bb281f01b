//! `Bars`: groups of horizontal bars.

use super::canvas::{Canvas, Heading, colour};
use super::short;

const LEFT: f64 = 272.0;
const RIGHT: f64 = 820.0;
const TOP: f64 = 100.0;
const BAR: f64 = 15.0;
const GAP: f64 = 11.0;

/// A chart of bars, one for each series in each group.
#[derive(Debug)]
pub(super) struct Bars<'a> {
    pub(super) heading: Heading,
    pub(super) series: Vec<&'a str>,
    /// The name of each group, and the value of each series, if it has one.
    pub(super) groups: Vec<(String, Vec<Option<f64>>)>,
    /// The most that each group should have.
    pub(super) bounds: Vec<f64>,
    /// Whether the axis is logarithmic.
    pub(super) is_logarithmic: bool,
}

impl Bars<'_> {
    pub(super) fn draw(&self) -> String {
        let rows = |values: &[Option<f64>]| number(values.iter().flatten().count());
        let height = |values: &[Option<f64>]| BAR * rows(values) + GAP;
        let all: f64 = self.groups.iter().map(|(_, values)| height(values)).sum();
        let mut canvas = Canvas::new(self.heading, pixels(TOP + all + 14.0));
        if self.series.len() > 1 {
            canvas.legend(&self.series, TOP - 20.0);
        }
        let mut y = TOP;
        for (place, (name, values)) in self.groups.iter().enumerate() {
            let middle = y + BAR * rows(values) / 2.0 + 4.0;
            canvas.text(LEFT - 12.0, middle, "e v", name);
            let top = y;
            for (series, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let end = self.place(value);
                let colour = colour(series);
                canvas.line(format!(
                    r#"<rect x="{LEFT}" y="{:.1}" width="{:.1}" height="{:.1}" rx="2" fill="{colour}"/>"#,
                    y + 1.0,
                    (end - LEFT).max(1.0),
                    BAR - 2.0
                ));
                let end = self
                    .bounds
                    .get(place)
                    .map_or(end, |bound| end.max(self.place(*bound)));
                canvas.text(end + 6.0, y + BAR - 3.0, "v", short(value));
                y += BAR;
            }
            if let Some(bound) = self.bounds.get(place) {
                let x = self.place(*bound);
                canvas.line(format!(r#"<path class="r" d="M{x:.1} {top:.1}V{y:.1}"/>"#));
            }
            y += GAP;
        }
        canvas.finish()
    }

    /// Returns where a bar of this value ends.
    fn place(&self, value: f64) -> f64 {
        let values = self.groups.iter().flat_map(|(_, values)| values);
        let values = values.flatten().copied().chain(self.bounds.iter().copied());
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let share = if self.is_logarithmic {
            // The axis begins at half of the least value, so that its bar can be seen.
            let least = (least / 2.0).ln();
            (value.ln() - least) / (most.ln() - least)
        } else {
            value / most
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }
}

/// Returns a small number.
pub(super) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(0.0, f64::from)
}

/// Returns a height in whole pixels.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a height is a small positive number"
)]
pub(super) fn pixels(height: f64) -> u32 {
    height as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(is_logarithmic: bool) -> Bars<'static> {
        Bars {
            heading: Heading {
                title: "Time",
                note: "ns",
            },
            series: vec!["one", "two"],
            groups: vec![
                ("a".to_owned(), vec![Some(10.0), Some(40.0)]),
                ("b < c".to_owned(), vec![None, Some(20.0)]),
            ],
            bounds: Vec::new(),
            is_logarithmic,
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let chart = bars(false);
        let full = RIGHT - LEFT;
        for (value, share) in [(40.0, 1.0), (20.0, 0.5), (10.0, 0.25), (80.0, 1.0)] {
            assert!((chart.place(value) - LEFT - full * share).abs() < 0.01);
        }
        let svg = chart.draw();
        // The card, two in the legend, three bars.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains("b &lt; c"));
        let steps = bars(true);
        let step = |from, to| steps.place(to) - steps.place(from);
        assert!((step(10.0, 20.0) - step(20.0, 40.0)).abs() < 0.01);
        assert!(steps.place(10.0) > LEFT);
    }
}

//! `Bars`: groups of horizontal bars.

use super::canvas::{Canvas, Mark, wrapped};
use super::{Heading, short};

const LEFT: f64 = 192.0;
const RIGHT: f64 = 530.0;
const BAR: f64 = 17.0;
const GAP: f64 = 12.0;
/// The distance between the lines of a name, and the most characters of each.
const LINE: f64 = 17.0;
const MOST: usize = 22;

/// Whose limiters the bars of a group show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Of {
    Tollgate,
    Others,
}

/// A chart of bars, one for each series in each group.
#[derive(Debug)]
pub(super) struct Bars<'a> {
    pub(super) heading: Heading,
    pub(super) series: Vec<&'a str>,
    /// The name of each group, and the value of each series, if it has one.
    pub(super) groups: Vec<(String, Vec<Option<f64>>)>,
    /// Whose each group is, if the chart compares limiters.
    pub(super) of: Vec<Of>,
    /// The most that each group should have, and what that is.
    pub(super) bounds: (&'a str, Vec<f64>),
    /// Whether the axis is logarithmic.
    pub(super) is_logarithmic: bool,
}

impl Bars<'_> {
    pub(super) fn draw(&self) -> String {
        let mut canvas = self.heading.canvas();
        if self.is_logarithmic {
            canvas.note("The axis is logarithmic: each line is ten times the one before it.");
        }
        self.legend(&mut canvas);
        let top = f64::from(canvas.top()) + 4.0;
        let all: f64 = self.groups.iter().map(height).sum();
        let bottom = top + all;
        self.decades(&mut canvas, top, bottom);
        let mut y = top;
        for (place, (name, values)) in self.groups.iter().enumerate() {
            let middle = y + (height(&self.groups[place]) - GAP) / 2.0;
            let lines = wrapped(name, MOST);
            let above = LINE * number(lines.len()) / 2.0;
            for (row, line) in lines.iter().enumerate() {
                let y = middle - above + LINE * number(row) + 13.0;
                canvas.text(LEFT - 10.0, tenth(y), "e ink", line);
            }
            let shown = number(values.iter().flatten().count());
            let begin = middle - BAR * shown / 2.0;
            let mut next = begin;
            for (series, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                self.bar(&mut canvas, (place, series), value, next);
                next += BAR;
            }
            if let Some(bound) = self.bounds.1.get(place) {
                let x = tenth(self.place(*bound));
                canvas.path(
                    "ink line dash",
                    format!("M{x} {}V{}", tenth(begin), tenth(next)),
                );
            }
            y += height(&self.groups[place]);
        }
        let below = if self.is_logarithmic { 30.0 } else { 8.0 };
        canvas.finish(pixels(bottom + below))
    }

    fn bar(&self, canvas: &mut Canvas, (place, series): (usize, usize), value: f64, y: f64) {
        let end = self.place(value);
        let colour = self.colour(self.of.get(place).copied(), series);
        canvas.line(format!(
            r#"<rect class="{colour} fill" x="{LEFT}" y="{}" width="{}" height="{}" rx="2"/>"#,
            tenth(y + 1.0),
            tenth((end - LEFT).max(1.0)),
            tenth(BAR - 2.0)
        ));
        let bound = self.bounds.1.get(place);
        let end = bound.map_or(end, |bound| end.max(self.place(*bound)));
        canvas.text(tenth(end + 6.0), tenth(y + BAR - 3.5), "ink", short(value));
    }

    /// Returns the colour of a series: shades of blue and orange tell whose a limiter is.
    fn colour(&self, of: Option<Of>, series: usize) -> String {
        let family = match of {
            None => return colour(series).to_owned(),
            Some(Of::Tollgate) => "blue",
            Some(Of::Others) => "orange",
        };
        let shade = if self.series.len() == 2 {
            2 * series
        } else {
            series
        };
        format!("{family}-{}", shade % 3 + 1)
    }

    /// Adds what the colours mean: a row for tollgate's limiters, and one for those of others.
    fn legend(&self, canvas: &mut Canvas) {
        let families = if self.of.is_empty() {
            vec![(None, "")]
        } else {
            vec![
                (Some(Of::Tollgate), "tollgate, "),
                (Some(Of::Others), "others, "),
            ]
        };
        for (of, whose) in families {
            let entries = self.series.iter().enumerate();
            let entries: Vec<_> = entries
                .map(|(series, name)| (self.colour(of, series), format!("{whose}{name}")))
                .collect();
            let entries: Vec<_> = entries
                .iter()
                .map(|(colour, name)| (Mark::Bar, &**colour, &**name))
                .collect();
            canvas.legend(&entries);
        }
        if !self.bounds.1.is_empty() {
            canvas.legend(&[(Mark::Dashed, "ink", self.bounds.0)]);
        }
    }

    /// Draws a line for each power of ten of a logarithmic axis.
    fn decades(&self, canvas: &mut Canvas, top: f64, bottom: f64) {
        if !self.is_logarithmic {
            return;
        }
        let (first, last) = self.powers();
        for power in first..=last {
            let value = 10_f64.powi(power);
            let x = tenth(self.place(value));
            let (top, end) = (tenth(top - 4.0), tenth(bottom));
            canvas.path("edge thin", format!("M{x} {top}V{end}"));
            canvas.text(x, tenth(bottom + 16.0), "c soft", round(value));
        }
    }

    /// Returns the powers of ten between which all values are. The first is at most half of the least
    /// value, so that its bar can be seen.
    fn powers(&self) -> (i32, i32) {
        let (least, most) = self.range();
        (
            power((least / 2.0).log10().floor()),
            power(most.log10().ceil()),
        )
    }

    fn range(&self) -> (f64, f64) {
        let values = self.groups.iter().flat_map(|(_, values)| values);
        let values = values.flatten().chain(&self.bounds.1);
        values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(*value), most.max(*value))
        })
    }

    /// Returns where a bar of this value ends.
    fn place(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            let (first, last) = self.powers();
            (value.log10() - f64::from(first)) / f64::from(last - first)
        } else {
            value / self.range().1
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }
}

/// Returns how high a group is: as its bars, or as the lines of its name.
fn height((name, values): &(String, Vec<Option<f64>>)) -> f64 {
    let bars = BAR * number(values.iter().flatten().count());
    bars.max(LINE * number(wrapped(name, MOST).len())) + GAP
}

/// Returns the colour of a series.
pub(super) fn colour(series: usize) -> &'static str {
    ["blue", "orange", "green", "violet", "grey"][series % 5]
}

/// Formats a position.
pub(super) fn tenth(position: f64) -> String {
    format!("{position:.1}")
}

/// Formats a round number, without zeros after the decimal point.
pub(super) fn round(number: f64) -> String {
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
pub(super) fn power(of: f64) -> i32 {
    of as i32
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
            of: Vec::new(),
            bounds: ("", Vec::new()),
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
        // The card and its edge, two in the legend, three bars.
        assert_eq!(svg.matches("<rect").count(), 7);
        assert!(svg.contains("b &lt; c"));
    }

    #[test]
    fn logarithmic_axis_shows_each_decade() {
        let chart = bars(true);
        let step = |from, to| chart.place(to) - chart.place(from);
        assert!((step(10.0, 20.0) - step(20.0, 40.0)).abs() < 0.01);
        assert_eq!(chart.powers(), (0, 2));
        let svg = chart.draw();
        assert!(svg.contains("logarithmic"));
        assert_eq!(svg.matches("edge thin\" d=").count(), 3);
    }

    #[test]
    fn limiters_of_others_have_colours_of_their_own() {
        let svg = Bars {
            of: vec![Of::Tollgate, Of::Others],
            ..bars(false)
        }
        .draw();
        for (colour, count) in [
            ("blue-1", 2),
            ("orange-1", 1),
            ("blue-3", 2),
            ("orange-3", 2),
        ] {
            let marks = svg.matches(&format!("\"{colour} fill\"")).count();
            assert_eq!(marks, count, "{colour}");
        }
        assert!(svg.contains("tollgate, one") && svg.contains("others, two"));
    }

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
}

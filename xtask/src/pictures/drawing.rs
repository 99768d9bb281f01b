//! Draws a run as an SVG picture.

use std::fmt::Write;

use tollgate_report::{Canvas, Mark};

use super::Picture;
use super::pattern::{END_MS, Run, WINDOW_MS};

/// The position of time zero, and the milliseconds per tenth of a pixel.
const LEFT: u64 = 880;
const MS_PER_TENTH: u64 = 50;
/// The height of one call, and how far below the heading the curve's zero line is, in pixels.
const CALL: i64 = 5;
const ZERO: i64 = 152;
/// The minimum distance between two dots in a row, and the distance between rows, in tenths of
/// pixels.
const APART: u64 = 49;
const ROW: u64 = 52;
/// How far below the zero line the first rows of dots are.
const ADMITTED: i64 = 44;
const DENIED: i64 = 58;

/// Labels above the calls: an instant, their class, and two lines.
const STRETCHES: [(u64, &str, [&str; 2]); 4] = [
    (57_000, "e soft", ["burst before", "the edge"]),
    (63_000, "soft", ["and right", "after it"]),
    (123_000, "c soft", ["at the rate", "of the quota"]),
    (190_500, "c soft", ["at four times", "the rate"]),
];

/// Returns the picture of `run`.
pub(super) fn draw(picture: &Picture, run: &Run) -> String {
    let quota = i64::try_from(run.algorithm.quota().amount()).unwrap_or(i64::MAX);
    let mut drawing = Drawing::new(picture, run, quota);
    drawing.grid(quota);
    drawing.curve(run, quota);
    drawing.dots(run, true);
    drawing.dots(run, false);
    let height = drawing.zero + 138;
    drawing.canvas.finish(u32::try_from(height).unwrap_or(0))
}

struct Drawing {
    canvas: Canvas,
    /// The height of the curve's zero line.
    zero: i64,
}

impl Drawing {
    fn new(picture: &Picture, run: &Run, quota: i64) -> Self {
        let Picture { title, bound, .. } = picture;
        let (_, worst) = run.worst();
        let (of, admitted) = (run.calls.len(), run.instants(true).count());
        let text = &run.algorithm;
        let summary = format!(
            "{admitted} of {of} calls admitted; {worst} in the worst 60 s; never more than {bound}."
        );
        let mut canvas = Canvas::new(title, format!("{text}. {summary}"));
        canvas.code(text);
        canvas.note(summary);
        let over = format!("more than {quota}");
        let mut legend = vec![
            (Mark::Line, "blue", "admitted in the last 60 s"),
            (Mark::Bar, "sky", "within the quota"),
        ];
        if worst > quota {
            legend.push((Mark::Bar, "rose", &over));
        }
        canvas.legend(&legend);
        canvas.legend(&[
            (Mark::Dot, "blue", "a call that is admitted"),
            (Mark::Ring, "red", "denied"),
        ]);
        let zero = i64::from(canvas.top()) + ZERO;
        Self { canvas, zero }
    }

    fn y(&self, count: i64) -> i64 {
        self.zero - CALL * count
    }

    fn grid(&mut self, quota: i64) {
        let zero = self.zero;
        for ms in (0..=END_MS).step_by(30_000) {
            let at = x(ms);
            if ms % WINDOW_MS == 0 {
                let (top, bottom) = (zero - 112, zero + 102);
                self.canvas
                    .path("edge thin dots", format!("M{at} {top}V{bottom}"));
            }
            let label = format!("{} s", ms / 1_000);
            self.canvas.text(at, zero + 122, "c soft", label);
        }
        for (ms, class, lines) in STRETCHES {
            for (line, y) in lines.into_iter().zip([zero - 138, zero - 120]) {
                self.canvas.text(x(ms), y, class, line);
            }
        }
        self.canvas
            .text(78, zero + ADMITTED + 5, "e soft", "admitted");
        self.canvas.text(78, zero + DENIED + 7, "e soft", "denied");
        for (count, class, label) in [
            (0, "e soft", "0".to_owned()),
            (quota, "w e ink", format!("N = {quota}")),
            (2 * quota, "e soft", format!("2N = {}", 2 * quota)),
        ] {
            self.canvas.text(78, self.y(count) + 5, class, label);
        }
    }

    fn curve(&mut self, run: &Run, quota: i64) {
        let (left, right) = (x(0), x(END_MS));
        let steps = run.trailing();
        let area = |least: i64, most: i64| {
            let mut path = format!("M{left} {}", self.y(least));
            for &(ms, count) in &steps {
                let _ = write!(path, "H{}V{}", x(ms), self.y(count.clamp(least, most)));
            }
            let _ = write!(path, "H{right}V{}Z", self.y(least));
            path
        };
        let (within, over) = (area(0, quota), area(quota, i64::MAX / CALL));
        let mut path = format!("M{left} {}", self.y(0));
        for &(ms, count) in &steps {
            let _ = write!(path, "H{}V{}", x(ms), self.y(count));
        }
        let (ms, worst) = run.worst();
        let (quota_at, zero, worst_at) = (self.y(quota), self.y(0), self.y(worst));
        self.canvas.path("sky fill", within);
        if worst > quota {
            self.canvas.path("rose fill", over);
        }
        self.canvas
            .path("soft thin dash", format!("M{left} {quota_at}H{right}"));
        self.canvas.path("blue line", format!("{path}H{right}"));
        self.canvas
            .path("soft thin", format!("M{left} {zero}H{right}"));
        self.canvas.text(x(ms), worst_at - 6, "w c ink", worst);
    }

    /// Draws a dot for each admitted or denied call. Dots that would touch are stacked away from
    /// the middle.
    fn dots(&mut self, run: &Run, admitted: bool) {
        let (class, radius, first) = if admitted {
            ("blue fill", "2.4", ADMITTED)
        } else {
            ("red thin", "1.9", DENIED)
        };
        let first = 10 * u64::try_from(self.zero + first).unwrap_or_default();
        // The position of the last dot in each row.
        let mut rows: Vec<u64> = Vec::new();
        let mut group = format!(r#"<g class="{class}">"#);
        for ms in run.instants(admitted) {
            let at = tenths(ms);
            let free = rows.iter().position(|&last| last + APART <= at);
            let row = free.unwrap_or_else(|| {
                rows.push(0);
                rows.len() - 1
            });
            rows[row] = at;
            let offset = ROW * u64::try_from(row).unwrap_or_default();
            let height = if admitted {
                first - offset
            } else {
                first + offset
            };
            let (cx, cy) = (decimal(at), decimal(height));
            let _ = write!(group, r#"<circle cx="{cx}" cy="{cy}" r="{radius}"/>"#);
        }
        self.canvas.line(group + "</g>");
    }
}

fn tenths(ms: u64) -> u64 {
    LEFT + ms / MS_PER_TENTH
}

fn x(ms: u64) -> String {
    decimal(tenths(ms))
}

/// Formats tenths as a decimal number.
pub(super) fn decimal(tenths: u64) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_one_dot_for_each_call() {
        let picture = Picture {
            name: "sliding-log",
            title: "Sliding log",
            limit: "sliding-log:10/1m",
            bound: 10,
        };
        let run = Run::of(picture.limit.parse().unwrap()).unwrap();
        let svg = draw(&picture, &run);
        // Two are in the legend.
        assert_eq!(svg.matches("<circle").count(), run.calls.len() + 2);
        assert!(svg.contains("sliding-log:10/1m"));
        assert!(svg.ends_with("</svg>\n"));
        assert_eq!(svg, draw(&picture, &run));
    }

    #[test]
    fn places_have_at_most_one_decimal() {
        assert_eq!(decimal(120), "12");
        assert_eq!(decimal(125), "12.5");
        assert_eq!(x(END_MS), "568");
    }
}

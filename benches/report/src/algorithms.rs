//! The decisions of each algorithm about the same calls, as pictures.

use std::collections::BTreeMap;
use std::fmt::Write;

use tollgate_core::store::{Check, Request, State};
use tollgate_core::{Algorithm, Limit, LimitError, Timestamp};

use super::canvas::{Canvas, Mark};

/// The settings of one picture.
struct Picture {
    /// The file's name without its extension.
    name: &'static str,
    title: &'static str,
    /// The limit as it is written; every quota is 10 per minute.
    limit: &'static str,
    /// The most that the algorithm ever admits within a window.
    bound: i64,
}

const PICTURES: [Picture; 8] = [
    Picture {
        name: "fixed-window",
        title: "Fixed window, aligned to the clock",
        limit: "fixed-window:10/1m",
        bound: 20,
    },
    Picture {
        name: "fixed-window-anchored",
        title: "Fixed window, anchored at the first call",
        limit: "fixed-window:10/1m,anchored",
        bound: 19,
    },
    Picture {
        name: "gcra",
        title: "GCRA (token bucket)",
        limit: "gcra:10/1m",
        bound: 19,
    },
    Picture {
        name: "gcra-burst",
        title: "GCRA with a smaller burst",
        limit: "gcra:10/1m,burst=3",
        bound: 12,
    },
    Picture {
        name: "sliding-buckets",
        title: "Sliding buckets",
        limit: "sliding-buckets:10/1m,buckets=6",
        bound: 10,
    },
    Picture {
        name: "sliding-counter",
        title: "Sliding counter (approximate)",
        limit: "sliding-counter:10/1m",
        bound: 19,
    },
    Picture {
        name: "sliding-log",
        title: "Sliding log",
        limit: "sliding-log:10/1m",
        bound: 10,
    },
    Picture {
        name: "sliding-log-count-denied",
        title: "Sliding log that counts denied calls",
        limit: "sliding-log:10/1m,count-denied",
        bound: 10,
    },
];

/// Returns the name and SVG text of each picture.
pub(crate) fn drawn() -> Result<Vec<(&'static str, String)>, LimitError> {
    let each = PICTURES.iter();
    each.map(|picture| {
        Ok((
            picture.name,
            draw(picture, &Run::of(picture.limit.parse()?)?),
        ))
    })
    .collect()
}

/// The end of the time axis.
const END_MS: u64 = 240_000;
/// The window of every picture's quota.
const WINDOW_MS: u64 = 60_000;

/// Returns the instants of the calls, in milliseconds.
///
/// One call that anchors a window, a burst before the edge of the second minute and one right after
/// it, a minute at exactly the quota's rate, and a minute at four times that rate.
fn calls() -> Vec<u64> {
    let every = |from: u64, to: u64, step: usize| (from..=to).step_by(step);
    std::iter::once(6_000)
        .chain(every(54_000, 59_500, 500))
        .chain(every(60_400, 70_000, 400))
        .chain(every(96_000, 150_000, 6_000))
        .chain(every(160_500, 220_500, 1_500))
        .collect()
}

/// The decisions of an algorithm about the calls.
#[derive(Debug)]
struct Run {
    algorithm: Algorithm,
    /// The instant of each call, and whether it was admitted.
    calls: Vec<(u64, bool)>,
}

impl Run {
    /// Runs `algorithm` on the calls.
    fn of(algorithm: Algorithm) -> Result<Self, LimitError> {
        let limit = Limit::new("picture", algorithm)?;
        let mut state = State::default();
        let calls = calls()
            .into_iter()
            .map(|ms| {
                let now = Timestamp::saturating_from_micros(ms * 1_000);
                let request = Request::consume(Check::new(&limit, "key", 1));
                (ms, request.decide_on(&mut state, now).is_allowed())
            })
            .collect();
        Ok(Self { algorithm, calls })
    }

    /// Returns the instants of the calls that were admitted, or of those that were denied.
    fn instants(&self, admitted: bool) -> impl Iterator<Item = u64> {
        let calls = self.calls.iter();
        calls.filter_map(move |&(ms, was)| (was == admitted).then_some(ms))
    }

    /// Returns the number of admitted calls in the trailing window, which is open at its start, at
    /// each instant at which it changes.
    fn trailing(&self) -> Vec<(u64, i64)> {
        let mut changes = BTreeMap::from([(0, 0)]);
        for ms in self.instants(true) {
            *changes.entry(ms).or_default() += 1;
            *changes.entry(ms + WINDOW_MS).or_default() -= 1;
        }
        changes
            .into_iter()
            .filter(|&(ms, _)| ms < END_MS)
            .scan(0, |count, (ms, change)| {
                *count += change;
                Some((ms, *count))
            })
            .collect()
    }

    /// Returns the first instant at which the trailing window held the most calls, and their
    /// number.
    fn worst(&self) -> (u64, i64) {
        let steps = self.trailing().into_iter();
        steps.fold(
            (0, 0),
            |worst, step| {
                if step.1 > worst.1 { step } else { worst }
            },
        )
    }
}

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
fn draw(picture: &Picture, run: &Run) -> String {
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
        let (top, bottom) = (zero - 112, zero + 102);
        let mut windows = String::new();
        for ms in (0..=END_MS).step_by(60_000) {
            let (at, seconds) = (x(ms), ms / 1_000);
            let _ = write!(windows, "M{at} {top}V{bottom}");
            let label = format!("{seconds} s");
            self.canvas.text(at, zero + 122, "c soft", label);
        }
        self.canvas.path("edge thin dots", windows);
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
fn decimal(tenths: u64) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(limit: &str) -> Run {
        Run::of(limit.parse().unwrap()).unwrap()
    }

    #[test]
    fn no_run_exceeds_the_bound_it_states_and_fixed_windows_reach_it() {
        for picture in &PICTURES {
            let (_, worst) = run(picture.limit).worst();
            assert!(worst <= picture.bound, "{}", picture.name);
            let reaches = picture.name.starts_with("fixed-window");
            assert!(!reaches || worst == picture.bound, "{}", picture.name);
        }
    }

    #[test]
    fn a_call_leaves_the_window_at_its_end() {
        let run = Run {
            algorithm: "sliding-log:2/1m".parse().unwrap(),
            calls: vec![(1_000, true), (2_000, false), (61_000, true)],
        };
        let found = run.trailing();
        assert_eq!(found, [(0, 0), (1_000, 1), (61_000, 1), (121_000, 0)]);
        assert_eq!(run.worst(), (1_000, 1));
    }

    #[test]
    fn a_picture_has_one_dot_for_each_call() {
        let picture = &PICTURES[0];
        let run = run(picture.limit);
        let svg = draw(picture, &run);
        // Two are in the legend.
        assert_eq!(svg.matches("<circle").count(), run.calls.len() + 2);
    }
}

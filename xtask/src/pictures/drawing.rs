//! Draws a run as an SVG picture.

use std::fmt::Write;

use super::Picture;
use super::pattern::{END_MS, Run, WINDOW_MS};

/// The position of time zero, and the milliseconds per tenth of a pixel.
const LEFT: u64 = 760;
const MS_PER_TENTH: u64 = 30;
/// The curve's zero line and the height of one call, in pixels.
const ZERO: i64 = 202;
const CALL: i64 = 5;
/// The minimum distance between two dots in a row, and the distance between rows, in tenths of
/// pixels.
const APART: u64 = 49;
const ROW: u64 = 52;
const ADMITTED_AT: u64 = 2_400;
const DENIED_AT: u64 = 2_520;

/// Labels above the calls: an instant, the text's anchor, and the text.
const STRETCHES: [(u64, &str, &str); 4] = [
    (58_500, "end", "burst before the edge"),
    (61_500, "start", "and right after it"),
    (123_000, "middle", "at the rate of the quota"),
    (190_500, "middle", "at four times the rate"),
];

pub(super) const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#57606a}\
.t{font-size:17px;font-weight:600;fill:#1f2328}\
.m{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px}\
.w{font-weight:600;fill:#1f2328}\
.e{text-anchor:end}.c{text-anchor:middle}\
.g{stroke:#d0d7de;stroke-dasharray:2 3}.x{stroke:#8c959f}\
.n{stroke:#57606a;stroke-dasharray:6 4}\
.k{fill:none;stroke:#0969da;stroke-width:1.6}.u{fill:#ddf4ff}.o{fill:#ffc1bc}\
.a{fill:#0969da}.d{fill:#fff;stroke:#cf222e;stroke-width:1.2}";

/// Returns the picture of `run`.
pub(super) fn draw(picture: &Picture, run: &Run) -> String {
    let quota = i64::try_from(run.algorithm.quota().amount()).unwrap_or(i64::MAX);
    let mut svg = Svg::default();
    svg.frame(picture, run);
    svg.grid(quota);
    svg.curve(run, quota);
    svg.dots(run, true);
    svg.dots(run, false);
    svg.line("</svg>");
    svg.finish()
}

#[derive(Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    pub(super) fn text(&mut self, x: impl AsRef<str>, y: i64, class: &str, text: &str) {
        let x = x.as_ref();
        self.line(format!(
            r#"<text x="{x}" y="{y}" class="{class}">{text}</text>"#
        ));
    }

    fn frame(&mut self, picture: &Picture, run: &Run) {
        let Picture { title, bound, .. } = picture;
        let (_, worst) = run.worst();
        let (of, admitted) = (run.calls.len(), run.instants(true).count());
        let text = &run.algorithm;
        self.line(r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="312" viewBox="0 0 900 312" role="img" aria-labelledby="t d">"#);
        self.line(format!(r#"<title id="t">{title}: {text}</title>"#));
        self.line(format!(
            r#"<desc id="d">{admitted} of {of} calls admitted; {worst} of them in the worst window of 60 seconds; never more than {bound}.</desc>"#
        ));
        self.line(format!("<style>{STYLE}</style>"));
        // A background of its own, because the page may be light or dark.
        self.line(r##"<rect x="0.5" y="0.5" width="899" height="311" rx="8" fill="#fff" stroke="#d0d7de"/>"##);
        self.text("24", 33, "t", title);
        self.text("24", 54, "m", &text.to_string());
        self.text("876", 33, "w e", &format!("{admitted} of {of} admitted"));
        self.text(
            "876",
            54,
            "e",
            &format!("{worst} in the worst 60 s; never more than {bound}"),
        );
    }

    fn grid(&mut self, quota: i64) {
        for ms in (0..=END_MS).step_by(30_000) {
            let at = x(ms);
            if ms % WINDOW_MS == 0 {
                self.line(format!(r#"<path class="g" d="M{at} 92V276"/>"#));
            }
            self.text(&at, 294, "c", &format!("{} s", ms / 1_000));
        }
        for (ms, anchor, text) in STRETCHES {
            let at = x(ms);
            self.line(format!(
                r#"<text x="{at}" y="82" text-anchor="{anchor}">{text}</text>"#
            ));
        }
        self.text("66", 236, "e", "admitted");
        self.text("66", 262, "e", "denied");
        self.text("66", y(0) + 4, "e", "0");
        self.text("66", y(quota) + 4, "w e", &format!("N = {quota}"));
        self.text("66", y(2 * quota) + 4, "e", &format!("2N = {}", 2 * quota));
        self.text("84", y(quota) - 28, "", "admitted in");
        self.text("84", y(quota) - 12, "", "the last 60 s");
    }

    fn curve(&mut self, run: &Run, quota: i64) {
        let (left, right) = (x(0), x(END_MS));
        let steps = run.trailing();
        let area = |least: i64, most: i64| {
            let mut path = format!("M{left} {}", y(least));
            for &(ms, count) in &steps {
                let _ = write!(path, "H{}V{}", x(ms), y(count.clamp(least, most)));
            }
            let _ = write!(path, "H{right}V{}Z", y(least));
            path
        };
        self.line(format!(r#"<path class="u" d="{}"/>"#, area(0, quota)));
        self.line(format!(
            r#"<path class="o" d="{}"/>"#,
            area(quota, i64::MAX / CALL)
        ));
        self.line(format!(
            r#"<path class="n" d="M{left} {}H{right}"/>"#,
            y(quota)
        ));
        let mut path = format!("M{left} {}", y(0));
        for &(ms, count) in &steps {
            let _ = write!(path, "H{}V{}", x(ms), y(count));
        }
        self.line(format!(r#"<path class="k" d="{path}H{right}"/>"#));
        self.line(format!(r#"<path class="x" d="M{left} {}H{right}"/>"#, y(0)));
        let (ms, worst) = run.worst();
        self.text(x(ms), y(worst) - 5, "w c", &worst.to_string());
    }

    /// Draws a dot for each admitted or denied call. Dots that would touch are stacked away from
    /// the middle.
    fn dots(&mut self, run: &Run, admitted: bool) {
        let class = if admitted { "a" } else { "d" };
        let radius = if admitted { "2.4" } else { "1.9" };
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
                ADMITTED_AT - offset
            } else {
                DENIED_AT + offset
            };
            let (cx, cy) = (decimal(at), decimal(height));
            let _ = write!(group, r#"<circle cx="{cx}" cy="{cy}" r="{radius}"/>"#);
        }
        self.line(group + "</g>");
    }
}

fn tenths(ms: u64) -> u64 {
    LEFT + ms / MS_PER_TENTH
}

fn x(ms: u64) -> String {
    decimal(tenths(ms))
}

fn y(count: i64) -> i64 {
    ZERO - CALL * count
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
        assert_eq!(svg.matches("<circle").count(), run.calls.len());
        assert!(svg.contains("sliding-log:10/1m"));
        assert!(svg.ends_with("</svg>\n"));
        assert_eq!(svg, draw(&picture, &run));
    }

    #[test]
    fn places_have_at_most_one_decimal() {
        assert_eq!(decimal(120), "12");
        assert_eq!(decimal(125), "12.5");
        assert_eq!(x(END_MS), "876");
    }
}

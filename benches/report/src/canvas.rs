//! What all charts share: the card, its title, the colours and the legend.

use std::fmt::Display;

/// The width of every chart, in pixels.
pub(super) const WIDTH: u32 = 900;
const STYLE: &str = "\
svg{--card:#fff;--edge:#d0d7de;--ink:#1f2328;--text:#57606a;--0:#0969da;--1:#bc4c00;--2:#1a7f37;--3:#8250df;--4:#6e7781}\
@media(prefers-color-scheme:dark){svg{--card:#0d1117;--edge:#3d444d;--ink:#f0f6fc;--text:#9198a1;--0:#4493f8;--1:#f0883e;--2:#3fb950;--3:#ab7df8;--4:#8b949e}}\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--text)}\
.t{font-size:17px;font-weight:600;fill:var(--ink)}.v{fill:var(--ink)}\
.e{text-anchor:end}.c{text-anchor:middle}\
.g{stroke:var(--edge)}.r{stroke:var(--ink);stroke-dasharray:4 3}\
polyline{fill:none;stroke-width:2}.far{stroke-dasharray:6 4}";

/// What a chart is called, and how it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) title: &'static str,
    /// What is shown, in which unit, and what is better.
    pub(super) note: &'static str,
}

/// An SVG picture in progress.
#[derive(Debug)]
pub(super) struct Canvas(String);

impl Canvas {
    /// Begins a chart of this height.
    pub(super) fn new(heading: Heading, height: u32) -> Self {
        let Heading { title, note } = heading;
        let mut canvas = Self(String::new());
        canvas.line(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">"#
        ));
        canvas.line(format!(r#"<title id="t">{title}</title>"#));
        canvas.line(format!(r#"<desc id="d">{note}</desc>"#));
        canvas.line(format!("<style>{STYLE}</style>"));
        let (right, bottom) = (WIDTH - 1, height - 1);
        canvas.line(format!(
            r#"<rect x="0.5" y="0.5" width="{right}" height="{bottom}" rx="8" fill="var(--card)" stroke="var(--edge)"/>"#
        ));
        canvas.text(24.0, 33.0, "t", title);
        canvas.text(24.0, 54.0, "", note);
        canvas
    }

    /// Adds a line of SVG.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: impl Display) {
        let text = text.to_string().replace('&', "&amp;").replace('<', "&lt;");
        self.line(format!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#
        ));
    }

    /// Adds the names of the series in their colours, from left to right.
    pub(super) fn legend(&mut self, series: &[&str], y: f64) {
        let mut x = 24.0;
        for (number, name) in series.iter().enumerate() {
            let colour = colour(number);
            self.line(format!(
                r#"<rect x="{x:.1}" y="{:.1}" width="12" height="12" rx="2" fill="{colour}"/>"#,
                y - 10.0
            ));
            self.text(x + 18.0, y, "v", name);
            x += 48.0 + 7.0 * f64::from(u32::try_from(name.chars().count()).unwrap_or(0));
        }
    }

    /// Ends the chart.
    pub(super) fn finish(mut self) -> String {
        self.line("</svg>");
        self.0
    }
}

/// Returns the colour of a series, in light and in dark.
pub(super) fn colour(series: usize) -> String {
    format!("var(--{})", series % 5)
}

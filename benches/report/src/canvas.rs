//! `Canvas`: what all pictures share, which is the card, its heading, the legend, and the colours in
//! light and in dark.

use std::fmt::Display;

/// The width of every picture.
pub(crate) const WIDTH: u32 = 600;
/// The margin of the heading.
const LEFT: u32 = 24;
/// The size of text, and of the title. A phone shows a picture 390 pixels wide, and text there 0.65
/// times as large as it is here.
const TEXT: u32 = 14;
const TITLE: u32 = 18;
/// The distance between lines of the heading.
const LINE: u32 = 22;

/// Rules without a colour: each shape is drawn in the colour of its class.
const SHAPES: &str = "\
.t{font-size:18px}.t,.w{font-weight:600}\
.m{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\
.e{text-anchor:end}.c{text-anchor:middle}\
.fill{fill:currentColor}.line,.thin{fill:none;stroke:currentColor;stroke-width:1.8}\
.thin{stroke-width:1}.dash{stroke-dasharray:6 4}.dots{stroke-dasharray:2 3}";

/// The colours: their class, and what they are in light and in dark.
const COLOURS: [(&str, &str, &str); 10] = [
    ("card", "#fff", "#0d1117"),
    ("edge", "#d0d7de", "#3d444d"),
    ("soft", "#57606a", "#9198a1"),
    ("ink", "#1f2328", "#f0f6fc"),
    ("blue", "#0969da", "#4493f8"),
    ("sky", "#ddf4ff", "#12304f"),
    ("red", "#cf222e", "#f85149"),
    ("rose", "#ffc1bc", "#8e2c2c"),
    ("orange", "#bc4c00", "#f0883e"),
    ("green", "#1a7f37", "#3fb950"),
];

/// How a legend shows a colour: as it is in the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// A filled square.
    Bar,
    /// A filled circle.
    Dot,
    /// A line.
    Line,
    /// A circle.
    Ring,
}

/// An SVG picture in progress.
#[derive(Debug)]
pub(crate) struct Canvas {
    title: String,
    description: String,
    body: String,
    /// Where the heading ends.
    top: u32,
}

impl Canvas {
    /// Begins a picture with its title, and a description for those who cannot see it.
    pub(crate) fn new(title: impl Display, description: impl Display) -> Self {
        let mut canvas = Self {
            title: escaped(title),
            description: escaped(description),
            body: String::new(),
            top: 10,
        };
        let title = canvas.title.clone();
        canvas.heading("t ink", TITLE, &title);
        canvas
    }

    /// Adds a paragraph to the heading.
    pub(crate) fn note(&mut self, text: impl Display) {
        self.heading("soft", TEXT, &escaped(text));
    }

    /// Adds a line in a monospaced font to the heading.
    pub(crate) fn code(&mut self, text: impl Display) {
        self.heading("m soft", TEXT, &escaped(text));
    }

    fn heading(&mut self, class: &str, size: u32, text: &str) {
        let most = (WIDTH - 2 * LEFT) * 100 / (size * CHARACTER);
        for line in wrapped(text, usize::try_from(most).unwrap_or(usize::MAX)) {
            self.top += LINE;
            let top = self.top;
            self.line(format!(
                r#"<text x="{LEFT}" y="{top}" class="{class}">{line}</text>"#
            ));
        }
    }

    /// Adds what each colour means to the heading, in as many rows as it takes.
    pub(crate) fn legend(&mut self, entries: &[(Mark, &str, &str)]) {
        self.line(r#"<g class="legend">"#);
        let mut x = WIDTH;
        for (mark, colour, name) in entries {
            let wide = 24 + width(name, TEXT);
            if x + wide > WIDTH - LEFT {
                x = LEFT;
                self.top += LINE;
            }
            self.line(mark.drawn(colour, x + 7, self.top - 5));
            self.text(x + 20, self.top, "ink", name);
            x += wide + 14;
        }
        self.line("</g>");
    }

    /// Returns where the heading ends: what is drawn below it crosses none of it.
    pub(crate) fn top(&self) -> u32 {
        self.top + 12
    }

    /// Adds a line of SVG.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// Adds a text with its left end, its middle (class `c`) or its right end (class `e`) at `x`.
    pub(crate) fn text(
        &mut self,
        x: impl Display,
        y: impl Display,
        class: &str,
        text: impl Display,
    ) {
        let text = escaped(text);
        self.line(format!(
            r#"<text x="{x}" y="{y}" class="{class}">{text}</text>"#
        ));
    }

    /// Adds a path.
    pub(crate) fn path(&mut self, class: &str, path: impl Display) {
        self.line(format!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// Ends the picture at this height.
    pub(crate) fn finish(self, height: u32) -> String {
        let Self {
            title,
            description,
            body,
            ..
        } = self;
        let style = style(&body);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">
<title id="t">{title}</title>
<desc id="d">{description}</desc>
<style>{style}</style>
<rect class="card fill" width="{WIDTH}" height="{height}" rx="8"/>
<rect class="edge thin" x="0.5" y="0.5" width="{}" height="{}" rx="8"/>
{body}</svg>
"#,
            WIDTH - 1,
            height - 1
        )
    }
}

impl Mark {
    /// Returns the mark around a point.
    fn drawn(self, colour: &str, x: u32, y: u32) -> String {
        let (left, right) = (x - 7, x + 7);
        match self {
            Self::Bar => format!(
                r#"<rect class="{colour} fill" x="{}" y="{}" width="12" height="12" rx="2"/>"#,
                x - 6,
                y - 6
            ),
            Self::Dot => format!(r#"<circle class="{colour} fill" cx="{x}" cy="{y}" r="4"/>"#),
            Self::Line => format!(r#"<path class="{colour} line" d="M{left} {y}H{right}"/>"#),
            Self::Ring => format!(r#"<circle class="{colour} line" cx="{x}" cy="{y}" r="4"/>"#),
        }
    }
}

/// Hundredths of a text's size that one of its characters takes, or less.
const CHARACTER: u32 = 58;

/// Returns about how wide a text is.
fn width(text: &str, size: u32) -> u32 {
    let count = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    count.saturating_mul(size * CHARACTER) / 100
}

/// Splits a text into lines of at most `most` characters, between words.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                *line += &format!(" {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the rules for the colours that a picture uses.
fn style(body: &str) -> String {
    let is_used = |class: &str| {
        let elements = body.split("class=\"").skip(1);
        let mut used = elements.flat_map(|of| of.split('"').take(1).flat_map(|of| of.split(' ')));
        ["card", "edge", "soft"].contains(&class) || used.any(|one| one == class)
    };
    let (mut light, mut dark) = (String::new(), String::new());
    for (class, in_light, in_dark) in COLOURS.iter().filter(|(class, ..)| is_used(class)) {
        light += &format!(".{class}{{color:{in_light}}}");
        dark += &format!(".{class}{{color:{in_dark}}}");
    }
    format!(
        "text{{font:{TEXT}px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:currentColor}}\
         {SHAPES}{light}@media(prefers-color-scheme:dark){{{dark}}}"
    )
}

fn escaped(text: impl Display) -> String {
    text.to_string().replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_colours_in_light_and_in_dark() {
        let mut canvas = Canvas::new("A < B", "C");
        canvas.legend(&[(Mark::Dot, "blue", "one"), (Mark::Ring, "red", "two")]);
        let svg = canvas.finish(100);
        for rule in [".blue{color:#0969da}", ".blue{color:#4493f8}", ".red{"] {
            assert!(svg.contains(rule), "{rule}");
        }
        assert!(!svg.contains("green"));
        assert!(svg.contains("A &lt; B"));
    }

    #[test]
    fn long_headings_and_legends_take_several_lines() {
        let mut canvas = Canvas::new("One", "");
        let before = canvas.top();
        canvas.note("word ".repeat(30).trim_end());
        assert_eq!(canvas.top(), before + 3 * LINE);
        let name = "word ".repeat(7);
        canvas.legend(&[(Mark::Bar, "blue", &name), (Mark::Bar, "red", &name)]);
        assert_eq!(canvas.top(), before + 5 * LINE);
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
    }
}

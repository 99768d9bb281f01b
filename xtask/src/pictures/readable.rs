//! Checks that pictures can be read: in the dark, on a phone, and without knowing what a colour means.

use tollgate_report::{COLOURS, PLAIN};

use super::FOLDER;
use crate::project;

/// The width of a phone, and the least size of text there.
const PHONE: f64 = 390.0;
const LEAST: f64 = 9.0;
/// About how wide a character is, as a share of its text's size: in bold or monospaced text, and
/// otherwise.
const WIDE: f64 = 0.6;
const NARROW: f64 = 0.53;

/// Returns what is wrong with a picture.
fn findings(svg: &str) -> Vec<String> {
    let mut findings = Vec::new();
    findings.extend(colours(svg));
    findings.extend(sizes(svg));
    findings.extend(labels(svg));
    let (_, body) = svg.split_once("</style>").unwrap_or_default();
    let is_unit = |text: &str| {
        text.split([' ', '(', ')', ',', '.'])
            .any(|word| word == "us")
    };
    if svg.split(['<', '>']).any(is_unit) {
        findings.push("microseconds are written us: write \u{b5}s".to_owned());
    }
    let (outside, inside) = split_legends(body);
    for (class, ..) in &COLOURS[PLAIN..] {
        if has_class(&outside, class) && !has_class(&inside, class) {
            findings.push(format!("no legend says what {class} means"));
        }
    }
    findings
}

/// Returns whether each colour is a class that also has a rule for the dark.
fn colours(svg: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let (style, body) = svg.split_once("</style>").unwrap_or(("", svg));
    let (light, dark) = style
        .split_once("@media(prefers-color-scheme:dark)")
        .unwrap_or_default();
    for (class, ..) in COLOURS {
        let rule = format!(".{class}{{color:");
        if has_class(body, class) && !(light.contains(&rule) && dark.contains(&rule)) {
            findings.push(format!("{class} has no colour in light or in dark"));
        }
    }
    for fixed in ["fill=\"", "stroke=\"", "style=\""] {
        if body.contains(fixed) {
            findings.push(format!("{fixed} is the same in the dark: use a class"));
        }
    }
    findings
}

/// Returns whether all text is large enough on a phone.
fn sizes(svg: &str) -> Vec<String> {
    let width = attribute(svg, "viewBox").and_then(|size| size.split(' ').nth(2)?.parse().ok());
    let width: f64 = width.unwrap_or(f64::MAX);
    let before = svg.split("px").map(|before| {
        let digit = |c: char| !c.is_ascii_digit() && c != '.';
        before.rsplit(digit).next().unwrap_or_default()
    });
    let sizes: Vec<f64> = before.filter_map(|size| size.parse().ok()).collect();
    let least = sizes.into_iter().fold(f64::MAX, f64::min);
    let on_phone = least * PHONE / width;
    if (LEAST..LEAST * 10.0).contains(&on_phone) {
        Vec::new()
    } else {
        vec![format!(
            "text of {least} is {on_phone:.1} pixels high on a phone"
        )]
    }
}

/// A label, with its left, top, right and bottom edges.
struct Label<'s> {
    text: &'s str,
    edges: [f64; 4],
}

/// Returns the labels that cross the frame or another label.
fn labels(svg: &str) -> Vec<String> {
    let size = attribute(svg, "viewBox").unwrap_or_default();
    let mut size = size.split(' ').filter_map(|number| number.parse().ok());
    let (width, height): (f64, f64) = (size.nth(2).unwrap_or(0.0), size.next().unwrap_or(0.0));
    let labels: Vec<_> = svg.split("<text ").skip(1).filter_map(label).collect();
    let mut findings = Vec::new();
    for (place, Label { text, edges }) in labels.iter().enumerate() {
        let [left, top, right, bottom] = *edges;
        if left < 2.0 || top < 2.0 || right > width - 2.0 || bottom > height - 2.0 {
            findings.push(format!("{text:?} crosses the frame"));
        }
        for other in &labels[..place] {
            let [from, above, until, below] = other.edges;
            if left < until && from < right && top < below && above < bottom {
                findings.push(format!("{text:?} crosses {:?}", other.text));
            }
        }
    }
    findings
}

fn label(text: &str) -> Option<Label<'_>> {
    let (element, rest) = text.split_once('>')?;
    let (text, _) = rest.split_once('<')?;
    let [x, y] = ["x", "y"].map(|name| attribute(element, name)?.parse::<f64>().ok());
    let (x, y) = (x?, y?);
    let classes: Vec<_> = attribute(element, "class")?.split(' ').collect();
    let is = |class| classes.contains(&class);
    let size = if is("t") { 18.0 } else { 14.0 };
    let character = if is("t") || is("w") || is("m") {
        WIDE
    } else {
        NARROW
    };
    let width = size * character * f64::from(u32::try_from(text.chars().count()).ok()?);
    let left = match (is("c"), is("e")) {
        (true, _) => x - width / 2.0,
        (_, true) => x - width,
        _ => x,
    };
    Some(Label {
        text,
        edges: [left, y - 0.74 * size, left + width, y + 0.2 * size],
    })
}

/// Returns what is outside of the legends of a picture, and what is inside.
fn split_legends(body: &str) -> (String, String) {
    let mut parts = body.split(r#"<g class="legend">"#);
    let mut outside = parts.next().unwrap_or_default().to_owned();
    let mut inside = String::new();
    for part in parts {
        let (legend, rest) = part.split_once("</g>").unwrap_or((part, ""));
        inside += legend;
        outside += rest;
    }
    (outside, inside)
}

fn has_class(body: &str, class: &str) -> bool {
    let mut elements = body.split("class=\"").skip(1);
    elements.any(|element| {
        let classes = element.split('"').next().unwrap_or_default();
        classes.split(' ').any(|one| one == class)
    })
}

fn attribute<'s>(element: &'s str, name: &str) -> Option<&'s str> {
    let (_, value) = element.split_once(&format!("{name}=\""))?;
    value.split('"').next()
}

#[test]
fn committed_pictures_are_readable() {
    let shell = project::shell().unwrap();
    let mut pictures = 0;
    for path in shell.read_dir(FOLDER).unwrap() {
        let svg = shell.read_file(&path).unwrap();
        assert_eq!(findings(&svg), [""; 0], "{}", path.display());
        pictures += 1;
    }
    assert!(pictures > 20, "{pictures}");
}

#[test]
fn unreadable_pictures_are_found() {
    let picture = |style: &str, body: &str| {
        format!(
            r#"<svg viewBox="0 0 600 100"><style>text{{font:14px x}}{style}</style>{body}</svg>"#
        )
    };
    let both = ".blue{color:#00f}@media(prefers-color-scheme:dark){.blue{color:#aaf}}";
    let dot = r#"<circle class="blue fill"/>"#;
    let legend = format!(r#"<g class="legend">{dot}</g>"#);
    let text = |x: u32, text: &str| format!(r#"<text x="{x}" y="50" class="ink">{text}</text>"#);
    let ink = ".ink{color:#000}@media(prefers-color-scheme:dark){.ink{color:#fff}}";
    for (svg, expected) in [
        (picture(both, &format!("{dot}{legend}")), ""),
        (picture(both, dot), "no legend says what blue means"),
        (picture(".blue{color:#00f}", &legend), "blue has no colour"),
        (
            picture("", r##"<rect fill="#fff"/>"##),
            "is the same in the dark",
        ),
        (picture(".t{font-size:13px}", ""), "on a phone"),
        (
            picture(ink, &text(10, concat!("3 u", "s"))),
            "write \u{b5}s",
        ),
        (picture(ink, &text(570, "label")), "crosses the frame"),
        (
            picture(ink, &(text(10, "label") + &text(30, "one"))),
            r#"crosses "label""#,
        ),
        (picture(ink, &(text(10, "label") + &text(60, "one"))), ""),
    ] {
        let found = findings(&svg).join("; ");
        assert!(found.contains(expected), "{svg}: {found}");
        assert_eq!(found.is_empty(), expected.is_empty(), "{svg}: {found}");
    }
}

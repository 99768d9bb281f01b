//! The report of `tollgate advise`: what limits would refuse, for each window.

use std::fmt::{self, Write};
use std::path::Path;

use super::advice::{Advice, Refused};
use super::answer::{Answer, percent};
use crate::failure::Failure;
use crate::report::page::{start, tile, write_page};
use crate::report::svg::{self, Escaped, Length, UNIT};
use crate::text::{Grouped, Share, noun, plural, shortened, utc_second};

const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 360;
const LEFT: u64 = 70;
const RIGHT: u64 = 20;
const TOP: u64 = 34;
const BOTTOM: u64 = 58;
const INNER: u64 = WIDTH - LEFT - RIGHT;
const BASE: u64 = HEIGHT - BOTTOM;

/// How many characters of a key are shown.
const SHOWN: usize = 60;

/// Writes the report to `path`.
pub(super) fn write<N: Fn(usize) -> String>(
    path: &Path,
    answer: &Answer<N>,
) -> Result<(), Failure> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = self::page(&mut page, answer);
    write_page(path, &page)
}

fn page<N: Fn(usize) -> String>(f: &mut impl Write, answer: &Answer<N>) -> fmt::Result {
    let title = "Advice for limits";
    start(
        f,
        title,
        &conclusion(&answer.advice),
        format_args!(
            "{} · counted by <b>{}</b> · {} to {} UTC",
            Escaped(&answer.source),
            Escaped(&answer.counted_by),
            utc_second(answer.span.0),
            utc_second(answer.span.1),
        ),
    )?;
    f.write_str("<ul class=\"tiles\">\n")?;
    tile(
        f,
        "",
        answer.requests(),
        noun(answer.requests(), "request", "requests"),
        "",
    )?;
    tile(f, "", answer.keys(), noun(answer.keys(), "key", "keys"), "")?;
    tile(
        f,
        "",
        answer.skipped_lines,
        noun(answer.skipped_lines, "line skipped", "lines skipped"),
        "",
    )?;
    f.write_str("</ul>\n")?;
    for advice in &answer.advice {
        section(f, advice)?;
        most_refused(f, advice, &answer.name)?;
    }
    f.write_str(
        "<footer>A limit of N refuses a request if its key was admitted N times within the window \
         before it, wherever that begins. Written by tollgate.</footer>\n</main></body></html>\n",
    )
}

/// Returns one sentence: which limit is proposed for each window, and what it would refuse.
fn conclusion(advice: &[Advice]) -> String {
    let proposals = advice.iter().map(|advice| {
        let knee = advice.knee;
        format!(
            "{}, which would refuse {} of {} ({}), of {} of {}",
            advice.quota(knee.amount),
            Grouped(knee.requests),
            plural(advice.requests, "request", "requests"),
            Share(knee.requests, advice.requests),
            Grouped(knee.keys),
            plural(advice.keys, "key", "keys"),
        )
    });
    let proposals: Vec<_> = proposals.collect();
    format!("Proposed: {}.", proposals.join("; or "))
}

fn section(f: &mut impl Write, advice: &Advice) -> fmt::Result {
    let knee = advice.knee;
    let quota = advice.quota(knee.amount);
    writeln!(
        f,
        "<section><h2>Limits over {}</h2>\n\
         <p>Proposed is <b>{quota}</b>, which refuses {} of the requests, of {} of the keys. There the \
         curve of refused requests bends: below it, each step to a larger limit spares many \
         requests; above it, few. It is the point furthest below the straight line between the \
         ends of the curve. Whether those few requests matter is for you to decide.</p>",
        advice.window(),
        Escaped(&Share(knee.requests, advice.requests).to_string()),
        Escaped(&Share(knee.keys, advice.keys).to_string()),
    )?;
    f.write_str(
        "<p class=\"legend\"><i class=\"a\"></i> keys refused at least once \
         <i class=\"d\"></i> requests refused <i class=\"mark\"></i> the proposal, where the curve bends</p>\n",
    )?;
    chart(f, advice)?;
    f.write_str(
        "<table><thead><tr><th>Quota</th><th class=\"n\">Keys never refused</th>\
         <th class=\"n\">Keys refused</th><th class=\"n\">Share</th>\
         <th class=\"n\">Requests refused</th><th class=\"n\">Share</th></tr></thead><tbody>\n",
    )?;
    for proposal in &advice.proposals {
        let name = format!("at least {} %", percent(proposal.share));
        row(f, advice, ("", &name), proposal.refused)?;
    }
    row(
        f,
        advice,
        (" class=\"proposed\"", "proposed: the curve bends"),
        knee,
    )?;
    f.write_str("</tbody></table></section>\n")
}

fn row(
    f: &mut impl Write,
    advice: &Advice,
    (class, name): (&str, &str),
    refused: Refused,
) -> fmt::Result {
    writeln!(
        f,
        "<tr{class}><td><code>{}</code></td><td class=\"n\">{name}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td></tr>",
        advice.quota(refused.amount),
        Grouped(refused.keys),
        Escaped(&Share(refused.keys, advice.keys).to_string()),
        Grouped(refused.requests),
        Escaped(&Share(refused.requests, advice.requests).to_string()),
    )
}

fn chart(f: &mut impl Write, advice: &Advice) -> fmt::Result {
    svg::open(
        f,
        WIDTH,
        HEIGHT,
        "Share of keys and of requests that are refused, by the limit",
    )?;
    for percent in [0, 25, 50, 75, 100] {
        let y = height(percent, 100);
        writeln!(
            f,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text class=\"end mid\" x=\"{}\" y=\"{y}\">{percent} %</text>",
            WIDTH - RIGHT,
            LEFT - 8,
        )?;
    }
    let points = u64::try_from(advice.curve.len()).unwrap_or(u64::MAX);
    let x_of =
        |index: u64| Length(LEFT * UNIT + INNER * UNIT * index / points.max(2).saturating_sub(1));
    // About ten labels.
    let step = points.div_ceil(10).max(1);
    for (index, point) in (0..).zip(&advice.curve) {
        let x = x_of(index);
        if index % step == 0 {
            writeln!(
                f,
                "<line class=\"axis\" x1=\"{x}\" x2=\"{x}\" y1=\"{BASE}\" y2=\"{}\"/>\
                 <text class=\"mean\" x=\"{x}\" y=\"{}\">{}</text>",
                BASE + 5,
                BASE + 20,
                Grouped(point.amount),
            )?;
        }
        if point.amount == advice.knee.amount {
            // Near an end of the axis, the label stands beside the mark.
            let anchor = match (x.0 - LEFT * UNIT) * 10 / (INNER * UNIT) {
                0 => "",
                1..=8 => "mean",
                _ => "end",
            };
            writeln!(
                f,
                "<line class=\"mark\" x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{BASE}\"/>\
                 <text class=\"{anchor}\" x=\"{x}\" y=\"{}\">proposed: {}</text>",
                TOP - 10,
                advice.quota(point.amount),
            )?;
        }
    }
    line(f, "a", advice, x_of, |point| (point.keys, advice.keys))?;
    line(f, "d", advice, x_of, |point| {
        (point.requests, advice.requests)
    })?;
    writeln!(
        f,
        "<text class=\"title mean\" x=\"{}\" y=\"{}\">most requests within {} (each step about a quarter more)</text></svg>",
        LEFT + INNER / 2,
        HEIGHT - 8,
        advice.window(),
    )
}

/// Draws a line with a dot for each amount.
fn line(
    f: &mut impl Write,
    class: &str,
    advice: &Advice,
    x_of: impl Fn(u64) -> Length,
    share: impl Fn(&Refused) -> (u64, u64),
) -> fmt::Result {
    let mut points = String::new();
    let mut dots = String::new();
    for (index, point) in (0..).zip(&advice.curve) {
        let (part, whole) = share(point);
        let (x, y) = (x_of(index), height(part, whole));
        write!(points, "{x},{y} ")?;
        write!(
            dots,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{}: {}</title></circle>",
            advice.quota(point.amount),
            Escaped(&Share(part, whole).to_string()),
        )?;
    }
    writeln!(
        f,
        "<polyline class=\"line {class}\" points=\"{}\"/><g>{dots}</g>",
        points.trim_end(),
    )
}

/// Returns the height in the chart of a share of a whole.
fn height(part: u64, whole: u64) -> Length {
    let full = u128::from((BASE - TOP) * UNIT);
    let length = u128::from(part) * full / u128::from(whole.max(1));
    Length((BASE * UNIT).saturating_sub(u64::try_from(length).unwrap_or(0)))
}

fn most_refused(
    f: &mut impl Write,
    advice: &Advice,
    name: impl Fn(usize) -> String,
) -> fmt::Result {
    let quota = advice.quota(advice.knee.amount);
    writeln!(f, "<section><h2>Keys most refused at {quota}</h2>")?;
    if advice.most_refused.is_empty() {
        let none = if advice.knee.keys == 0 {
            "No request would be refused."
        } else {
            "None were asked for."
        };
        return writeln!(f, "<p>{none}</p></section>");
    }
    f.write_str(
        "<table><thead><tr><th>Key</th><th class=\"n\">Refused</th><th class=\"n\">Of</th>\
         <th class=\"n\">Share</th><th class=\"n\">Most in a window</th></tr></thead><tbody>\n",
    )?;
    for key in &advice.most_refused {
        let text = name(key.key);
        writeln!(
            f,
            "<tr><td class=\"key\" title=\"{}\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Escaped(&text),
            Escaped(&shortened(&text, SHOWN)),
            Grouped(key.refused),
            Grouped(key.requests),
            Escaped(&Share(key.refused, key.requests).to_string()),
            Grouped(key.most),
        )?;
    }
    f.write_str("</tbody></table></section>\n")
}

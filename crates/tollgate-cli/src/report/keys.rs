//! The report's chart of the most denied keys.

use std::fmt::{self, Write};

use super::page::legend;
use super::svg::{self, Escaped, Length, Scale, UNIT};
use crate::decisions::Summary;
use crate::text::{Grouped, Share, shortened};

/// The most keys in the chart; more would be unreadable.
const MOST: usize = 30;

/// How many characters of a key are shown beside its bar; its tooltip shows the whole key.
const SHOWN: usize = 34;

const WIDTH: u64 = 1_000;
const LEFT: u64 = 270;
const RIGHT: u64 = 190;
const ROW: u64 = 26;
const BAR: u64 = 16;
const BOTTOM: u64 = 40;

/// Writes the section of the most denied keys.
pub(super) fn chart(f: &mut impl Write, summary: &Summary) -> fmt::Result {
    f.write_str("<section><h2>Keys most limited</h2>\n")?;
    let keys = &summary.top_denied[..summary.top_denied.len().min(MOST)];
    if keys.is_empty() {
        let none = if summary.denied == 0 {
            "No request was denied."
        } else {
            "None were asked for."
        };
        return writeln!(f, "<p>{none}</p></section>");
    }
    legend(f)?;
    let rows = u64::try_from(keys.len()).unwrap_or(1) * ROW;
    let most = keys.iter().map(|key| key.requests).max().unwrap_or(0);
    let scale = Scale::new(most, WIDTH - LEFT - RIGHT);
    svg::open(
        f,
        WIDTH,
        rows + BOTTOM,
        "Requests denied and admitted of the keys denied most",
    )?;
    for value in scale.ticks() {
        let x = Length(LEFT * UNIT + scale.length(value).0);
        writeln!(
            f,
            "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{rows}\"/>\
             <text class=\"mean\" x=\"{x}\" y=\"{}\">{}</text>",
            rows + 16,
            Grouped(value),
        )?;
    }
    for (index, key) in (0_u64..).zip(keys) {
        let top = index * ROW + (ROW - BAR) / 2;
        let middle = index * ROW + ROW / 2;
        let (denied, all) = (scale.length(key.denied), scale.length(key.requests));
        let share = Share(key.denied, key.requests).to_string();
        write!(
            f,
            "<g><title>{}</title><text class=\"key end mid\" x=\"{}\" y=\"{middle}\">{}</text>",
            Escaped(&key.key),
            LEFT - 10,
            Escaped(&shortened(&key.key, SHOWN)),
        )?;
        let (x, y) = (Length(LEFT * UNIT), Length(top * UNIT));
        let height = Length(BAR * UNIT);
        svg::bar(f, "d", [x, y, denied, height])?;
        let x = Length(x.0 + denied.0);
        svg::bar(f, "a", [x, y, Length(all.0 - denied.0), height])?;
        writeln!(
            f,
            "<text class=\"mid\" x=\"{}\" y=\"{middle}\">{} of {} ({})</text></g>",
            Length((LEFT + 8) * UNIT + all.0),
            Grouped(key.denied),
            Grouped(key.requests),
            Escaped(&share),
        )?;
    }
    writeln!(
        f,
        "<text class=\"title mean\" x=\"{}\" y=\"{}\">requests</text></svg></section>",
        LEFT + (WIDTH - LEFT - RIGHT) / 2,
        rows + BOTTOM - 4,
    )
}

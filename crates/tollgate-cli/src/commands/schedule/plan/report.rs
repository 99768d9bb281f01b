//! The report of `tollgate schedule plan`: what became of the messages, and which quotas were in the way.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::path::Path;
use std::slice;

use super::answer::Plan;
use crate::failure::Failure;
use crate::report::page::{start, tile, write_page};
use crate::report::svg::Escaped;
use crate::text::{Grouped, Share, noun, printable, shortened};

/// The most messages that are listed.
const MOST_LISTED: usize = 40;

/// How many characters of a key or an id are shown.
const SHOWN: usize = 24;

/// Writes the report of `plan` to `path`.
pub(super) fn write(path: &Path, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = self::page(&mut page, plan);
    write_page(path, &page)
}

fn page(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let quotas: Vec<_> = plan.quotas.iter().map(|quota| &*quota.quota).collect();
    start(
        f,
        "Plan of messages",
        &plan.title(),
        format_args!(
            "{} · within <b>{}</b>",
            Escaped(plan.messages.name()),
            Escaped(&quotas.join(", ")),
        ),
    )?;
    tiles(f, plan)?;
    if plan.moved + plan.refused > 0 {
        in_the_way(f, plan)?;
    }
    if plan.moved + plan.refused > 0 {
        listed(f, plan)?;
    }
    f.write_str(
        "<footer>In the order of the file, each message got the earliest permitted time that is \
         not before the wanted one. Written by tollgate.</footer>\n</main></body></html>\n",
    )
}

fn short(text: &str) -> String {
    shortened(&printable(text.as_bytes()), SHOWN)
}

fn tiles(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let [messages, keys] = plan.counts();
    let kept = messages - plan.moved - plan.refused;
    let share = |part| Share(part, messages).to_string();
    f.write_str("<ul class=\"tiles\">\n")?;
    tile(f, "", messages, noun(messages, "message", "messages"), "")?;
    tile(f, "admitted", kept, "planned as wanted", &share(kept))?;
    tile(f, "denied", plan.moved, "moved", &share(plan.moved))?;
    tile(f, "", plan.refused, "refused", &share(plan.refused))?;
    tile(f, "", keys, noun(keys, "key", "keys"), "")?;
    f.write_str("</ul>\n")
}

/// Writes how many messages each quota moved and refused.
fn in_the_way(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    f.write_str(
        "<section><h2>Quotas in the way</h2>\n<p>Each message that is moved or refused counts once: \
         for the quota without room at its wanted time, or of several, the one that has room again \
         last; or for the horizon, if its time is beyond it.</p>\n",
    )?;
    let rows = plan.in_the_way().map(|way| {
        let counts = [way.moved, way.refused].map(|count| Grouped(count).to_string());
        [slice::from_ref(&way.quota), &counts].concat()
    });
    table(f, &["Quota", "Moved", "Refused"], rows)
}

/// Writes the messages that were refused, and those that were moved furthest.
fn listed(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let mut rows: Vec<_> = plan.rows().collect();
    // The sort is stable, so ties stay in the order of the file.
    rows.sort_by_key(|row| (row.planned.is_ok(), Reverse(row.later())));
    let all = plan.moved + plan.refused;
    rows.truncate(usize::try_from(all).map_or(MOST_LISTED, |all| all.min(MOST_LISTED)));
    writeln!(
        f,
        "<section><h2>Refused, and moved furthest</h2>\n<p>{} of {}.</p>",
        rows.len(),
        Grouped(all),
    )?;
    let header = ["Key", "Id", "Wanted", "Planned", "Later by", "In the way"];
    let rows = rows.iter().map(|row| {
        let names = [row.key, &row.message.id].map(short);
        [&names[..], &row.cells()].concat()
    });
    table(f, &header, rows)
}

/// Writes a table, and the end of its section.
fn table(
    f: &mut impl Write,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let header = header.iter().map(|&cell| cell.to_owned()).collect();
    f.write_str("<table>")?;
    for (tag, cells) in [("th", header)]
        .into_iter()
        .chain(rows.map(|row| ("td", row)))
    {
        f.write_str("<tr>")?;
        for cell in cells {
            write!(f, "<{tag}>{}</{tag}>", Escaped(&cell))?;
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</table></section>\n")
}

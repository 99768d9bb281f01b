//! The report of `tollgate schedule plan`: what became of the messages, and which quotas were in the way.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::path::Path;

use super::answer::Plan;
use crate::failure::Failure;
use crate::report::page::{Cell, Escaped, end, start, table, tiles, write_page};
use crate::report::{Captions, Timeline};
use crate::text::{grouped, noun, printable, share, shortened};

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
    counts(f, plan)?;
    if plan.moved + plan.refused > 0 {
        in_the_way(f, plan)?;
    }
    let planned = || plan.rows().filter_map(|row| Some((row.planned.ok()?, row)));
    let times = || planned().map(|(time, _)| time);
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        let mut timeline = Timeline::over(first, last);
        for (time, row) in planned() {
            timeline.note(time, time == row.message.wanted);
        }
        let captions = Captions {
            title: "Planned messages over time".to_owned(),
            unit: "messages",
            series: ["as wanted", "moved there"],
        };
        timeline.chart(f, &captions, plan.zone)?;
    }
    if plan.moved + plan.refused > 0 {
        listed(f, plan)?;
    }
    end(
        f,
        "In the order of the file, each message got the earliest permitted time that is not before the \
         wanted one.",
    )
}

fn short(text: &str) -> String {
    shortened(&printable(text.as_bytes()), SHOWN)
}

fn counts(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let [messages, keys] = plan.counts();
    let kept = messages - plan.moved - plan.refused;
    let share = |part| share(part, messages);
    tiles(
        f,
        [
            (
                "",
                messages,
                noun(messages, "message", "messages"),
                String::new(),
            ),
            ("admitted", kept, "planned as wanted", share(kept)),
            ("denied", plan.moved, "moved", share(plan.moved)),
            ("", plan.refused, "refused", share(plan.refused)),
            ("", keys, noun(keys, "key", "keys"), String::new()),
        ],
    )
}

/// Writes how many messages each quota moved and refused.
fn in_the_way(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    f.write_str(
        "<section><h2>Quotas in the way</h2>\n<p>Each message that is moved or refused counts once: \
         for the quota without room at its wanted time, or of several, the one that has room again \
         last; or for the horizon, if its time is beyond it.</p>\n",
    )?;
    let rows = plan.in_the_way().map(|way| {
        let mut cells = vec![Cell::Text(way.quota.clone())];
        cells.extend([way.moved, way.refused].map(|count| Cell::Number(grouped(count))));
        (false, cells)
    });
    table(f, &["Quota", "#Moved", "#Refused"], rows)?;
    f.write_str("</section>\n")
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
        grouped(all),
    )?;
    let header = ["Key", "Id", "Wanted", "Planned", "Later by", "In the way"];
    let rows = rows.iter().map(|row| {
        let names = [row.key, &row.message.id].map(short);
        let cells = names.into_iter().chain(row.cells());
        (false, cells.map(Cell::Text).collect())
    });
    table(f, &header, rows)?;
    f.write_str("</section>\n")
}

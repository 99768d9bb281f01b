//! The report of `tollgate schedule plan`: what became of the messages, and which quotas were in the way.

use std::cmp::Reverse;
use std::path::Path;

use super::answer::Plan;
use crate::failure::Failure;
use crate::report::page::{Cell, Escaped, Page};
use crate::report::{Captions, Timeline};
use crate::text::{grouped, printable, share, shortened};

const MOST_LISTED: usize = 40;

/// How many characters of a key or an id are shown.
const SHOWN: usize = 24;

pub(super) fn write(path: &Path, plan: &Plan<'_>) -> Result<(), Failure> {
    let quotas: Vec<_> = plan.quotas.iter().map(|quota| &*quota.quota).collect();
    let (name, quotas) = (Escaped(plan.messages.name()), quotas.join(", "));
    let about = format!("{name} · within <b>{}</b>", Escaped(&quotas));
    let mut page = Page::new("Plan of messages", &plan.title(), &about);
    counts(&mut page, plan);
    if plan.moved + plan.refused > 0 {
        in_the_way(&mut page, plan);
    }
    let planned = || plan.rows().filter_map(|row| Some((row.planned.ok()?, row)));
    let times = || planned().map(|(time, _)| time);
    if let Some(span) = times().min().zip(times().max()) {
        let mut timeline = Timeline::new(span);
        for (time, row) in planned() {
            timeline.count(time, time == row.message.wanted);
        }
        let captions = Captions {
            title: "Planned messages over time".to_owned(),
            unit: "messages",
            series: ["as wanted", "moved there"],
        };
        timeline.chart(&mut page, &captions, plan.zone);
    }
    if plan.moved + plan.refused > 0 {
        listed(&mut page, plan);
    }
    let how = "In the order of the file, each message got the earliest permitted time that is not before the \
               wanted one.";
    page.write(how, path)
}

fn short(text: &str) -> String {
    shortened(&printable(text.as_bytes()), SHOWN)
}

fn counts(page: &mut Page, plan: &Plan<'_>) {
    let [messages, keys] = plan.counts();
    let (moved, refused) = (plan.moved, plan.refused);
    let kept = messages - moved - refused;
    let share = |part| share(part, messages);
    page.tiles(&[
        ("", messages, ["message", "messages"], ""),
        ("admitted", kept, ["planned as wanted"; 2], &share(kept)),
        ("denied", moved, ["moved"; 2], &share(moved)),
        ("", refused, ["refused"; 2], &share(refused)),
        ("", keys, ["key", "keys"], ""),
    ]);
}

fn in_the_way(page: &mut Page, plan: &Plan<'_>) {
    page.section("Quotas in the way", |page| {
        page.add(
            "<p>Each message that is moved or refused counts once: \
             for the quota without room at its wanted time, or of several, the one that has room again \
             last; or for the horizon, if its time is beyond it.</p>",
        );
        let rows = plan.in_the_way().map(|way| {
            let quota = Cell::Text(way.quota.clone());
            let cells = vec![quota, Cell::count(way.moved), Cell::count(way.refused)];
            (false, cells)
        });
        page.table(&["Quota", "#Moved", "#Refused"], rows);
    });
}

/// Adds the messages that were refused, and those that were moved furthest.
fn listed(page: &mut Page, plan: &Plan<'_>) {
    let mut rows: Vec<_> = plan.rows().collect();
    // The sort is stable, so ties stay in the order of the file.
    rows.sort_by_key(|row| (row.planned.is_ok(), Reverse(row.later())));
    let all = plan.moved + plan.refused;
    rows.truncate(usize::try_from(all).map_or(MOST_LISTED, |all| all.min(MOST_LISTED)));
    page.section("Refused, and moved furthest", |page| {
        page.add(&format!("<p>{} of {}.</p>", rows.len(), grouped(all)));
        let header = ["Key", "Id", "Wanted", "Planned", "Later by", "In the way"];
        let rows = rows.iter().map(|row| {
            let names = [row.key, &row.message.id].map(short);
            let cells = names.into_iter().chain(row.cells());
            (false, cells.map(Cell::Text).collect())
        });
        page.table(&header, rows);
    });
}

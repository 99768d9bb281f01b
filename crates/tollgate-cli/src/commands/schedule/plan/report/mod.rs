//! The report of `tollgate schedule plan`: what became of the messages, and which quotas were in the way.

mod picture;

use std::fmt::{self, Write};
use std::path::Path;
use std::slice;

use tollgate_core::schedule;

use super::answer::{Outcome, Plan};
use crate::failure::Failure;
use crate::report::page::{start, tile, write_page};
use crate::report::svg::Escaped;
use crate::text::{Grouped, Share, Span, exact, noun, plural, printable, shortened};

/// The most rows of each table.
const MOST_LISTED: usize = 20;

/// How many characters of a key are shown beside its line; its tooltip shows the whole key.
const SHOWN: usize = 24;

/// Writes the report of `plan` to `path`.
pub(super) fn write(path: &Path, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = self::page(&mut page, plan);
    write_page(path, &page)
}

fn page(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let title = "Plan of messages";
    let quotas: Vec<_> = plan.quotas().iter().map(ToString::to_string).collect();
    start(
        f,
        title,
        &conclusion(plan),
        format_args!(
            "{} · within <b>{}</b>{}",
            Escaped(plan.source()),
            Escaped(&quotas.join(", ")),
            Escaped(&plan.times_in()),
        ),
    )?;
    tiles(f, plan)?;
    in_the_way(f, plan)?;
    picture::picture(f, plan)?;
    moved(f, plan)?;
    refused(f, plan)?;
    f.write_str(
        "<footer>In the order of the file, each message got the earliest permitted time that is \
         not before the wanted one. Written by tollgate.</footer>\n</main></body></html>\n",
    )
}

/// Returns one sentence: how many messages were moved, how far at most, and why some were refused.
fn conclusion(plan: &Plan<'_>) -> String {
    let messages = plural(plan.len(), "message", "messages");
    if plan.moved + plan.refused == 0 {
        return format!("None of {messages} is moved or refused.");
    }
    let named = |key: &str| shortened(&printable(key.as_bytes()), SHOWN);
    let moved = plan.rows().filter_map(|(key, message, outcome)| {
        let Outcome::Planned { time, .. } = outcome else {
            return None;
        };
        Some((time.saturating_duration_since(message.wanted), key))
    });
    let furthest = moved.max_by_key(|(later, _)| *later);
    let furthest = furthest.filter(|_| plan.moved > 0);
    let furthest = furthest.map_or_else(String::new, |(later, key)| {
        format!(", by at most {} (a message to {})", Span(later), named(key))
    });
    let refused = plan.rows().find_map(|(key, _, outcome)| match outcome {
        Outcome::Refused { reason, .. } => {
            Some(format!(", the first of them to {}: {reason}", named(key)))
        }
        Outcome::Planned { .. } => None,
    });
    format!(
        "Of {messages}, {} moved{furthest}, and {} refused{}.",
        counted(plan.moved),
        counted(plan.refused),
        refused.unwrap_or_default(),
    )
}

/// Returns how many messages are something: `1 is`, `none is`, `2 are`.
fn counted(messages: u64) -> String {
    match messages {
        0 => "none is".to_owned(),
        count => format!("{} {}", Grouped(count), noun(count, "is", "are")),
    }
}

fn tiles(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let share = |part| Share(part, plan.len()).to_string();
    let kept = plan.len() - plan.moved - plan.refused;
    let keys = u64::try_from(plan.keys()).unwrap_or(u64::MAX);
    f.write_str("<ul class=\"tiles\">\n")?;
    tile(
        f,
        "",
        plan.len(),
        noun(plan.len(), "message", "messages"),
        "",
    )?;
    tile(f, "admitted", kept, "planned as wanted", &share(kept))?;
    tile(f, "denied", plan.moved, "moved", &share(plan.moved))?;
    tile(f, "", plan.refused, "refused", &share(plan.refused))?;
    tile(f, "", keys, noun(keys, "key", "keys"), "")?;
    f.write_str("</ul>\n")
}

/// Writes how many messages each quota moved and refused.
fn in_the_way(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    if plan.moved + plan.refused == 0 {
        return Ok(());
    }
    f.write_str(
        "<section><h2>Quotas in the way</h2>\n<p>Each message that is moved or refused counts once: \
         for the quota without room at its wanted time, or of several, the one that has room again \
         last; or for the horizon, if its time is beyond it.</p>\n\
         <table><thead><tr><th>Quota</th><th class=\"n\">Moved</th>\
         <th class=\"n\">Refused</th></tr></thead><tbody>",
    )?;
    for way in plan.reasons() {
        writeln!(
            f,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Escaped(&way.quota),
            Grouped(way.moved),
            Grouped(way.refused),
        )?;
    }
    f.write_str("</tbody></table></section>\n")
}

fn shown(quota: Option<&schedule::Quota>) -> String {
    quota.map_or_else(String::new, ToString::to_string)
}

/// Writes the table of the messages that were moved furthest.
fn moved(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let mut moved: Vec<_> = plan
        .rows()
        .filter_map(|(key, message, outcome)| match outcome {
            Outcome::Planned { time, quota } if *time != message.wanted => {
                let later = time.saturating_duration_since(message.wanted);
                Some((later, key, message, *time, quota.as_ref()))
            }
            _ => None,
        })
        .collect();
    if moved.is_empty() {
        return Ok(());
    }
    // The sort is stable, so ties stay in the order of the file.
    moved.sort_by_key(|(later, ..)| std::cmp::Reverse(*later));
    let more = ["Planned", "Later by", "In the way"];
    head(f, "Moved furthest", moved.len(), &more)?;
    for (later, key, message, time, quota) in moved.into_iter().take(MOST_LISTED) {
        let zone = plan.zone_of(message);
        let cells = [exact(time, zone), Span(later).to_string(), shown(quota)];
        table_row(f, [key, &message.id], &exact(message.wanted, zone), &cells)?;
    }
    f.write_str("</tbody></table></section>\n")
}

/// Writes the table of the messages that were refused.
fn refused(f: &mut impl Write, plan: &Plan<'_>) -> fmt::Result {
    let refused = || {
        plan.rows()
            .filter_map(|(key, message, outcome)| match outcome {
                Outcome::Refused { reason, .. } => Some((key, message, reason)),
                Outcome::Planned { .. } => None,
            })
    };
    if plan.refused == 0 {
        return Ok(());
    }
    head(f, "Refused", refused().count(), &["Why"])?;
    for (key, message, reason) in refused().take(MOST_LISTED) {
        let wanted = exact(message.wanted, plan.zone_of(message));
        table_row(f, [key, &message.id], &wanted, slice::from_ref(reason))?;
    }
    f.write_str("</tbody></table></section>\n")
}

fn head(f: &mut impl Write, title: &str, rows: usize, more: &[&str]) -> fmt::Result {
    writeln!(f, "<section><h2>{title}</h2>")?;
    if rows > MOST_LISTED {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        writeln!(f, "<p>The first {MOST_LISTED} of {}.</p>", Grouped(rows))?;
    }
    f.write_str("<table><thead><tr>")?;
    for title in ["Key", "Id", "Wanted"].iter().chain(more) {
        write!(f, "<th>{title}</th>")?;
    }
    f.write_str("</tr></thead><tbody>\n")
}

fn table_row(f: &mut impl Write, names: [&str; 2], wanted: &str, cells: &[String]) -> fmt::Result {
    f.write_str("<tr>")?;
    for name in names {
        let name = shortened(&printable(name.as_bytes()), SHOWN);
        write!(f, "<td><code>{}</code></td>", Escaped(&name))?;
    }
    for cell in [wanted].into_iter().chain(cells.iter().map(String::as_str)) {
        write!(f, "<td>{}</td>", Escaped(cell))?;
    }
    f.write_str("</tr>\n")
}

//! The report of `tollgate advise`: what limits would deny, for each window.

use std::fmt::{self, Write};
use std::path::Path;

use super::advice::{Advice, Denied, Limit};
use super::answer::Answer;
use crate::failure::Failure;
use crate::report::head;
use crate::report::page::{Cell, end, legend, table, thousandths, tiles, write_page};
use crate::text::{grouped, noun, share};

/// Writes the report to `path`.
pub(super) fn write(path: &Path, answer: &Answer) -> Result<(), Failure> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = self::page(&mut page, answer);
    write_page(path, &page)
}

fn page(f: &mut impl Write, answer: &Answer) -> fmt::Result {
    let texts = ("Advice for limits", &*conclusion(&answer.advice));
    head(
        f,
        texts,
        (&answer.source, &answer.counted_by, &answer.read_as),
        answer.span,
    )?;
    let [requests, keys, skipped] = [answer.requests, answer.keys, answer.skipped_lines];
    let lines = noun(skipped, "line skipped", "lines skipped");
    let counts = [
        (requests, noun(requests, "request", "requests")),
        (keys, noun(keys, "key", "keys")),
        (skipped, lines),
    ];
    tiles(
        f,
        counts.map(|(count, name)| ("", count, name, String::new())),
    )?;
    for advice in &answer.advice {
        section(f, advice)?;
        most_denied(f, advice)?;
    }
    end(
        f,
        "A limit of N denies a request if its key was admitted N times within the window before it, \
         wherever that begins.",
    )
}

/// Returns one sentence: which limit is proposed for each window, and what it would deny.
fn conclusion(advice: &[Advice]) -> String {
    let proposals = advice.iter().map(Advice::proposal);
    let proposals: Vec<_> = proposals.collect();
    format!("Proposed: {}.", proposals.join(". Over another window: "))
}

/// Writes what the limits of one window would deny: the curve, and round shares of the keys.
fn section(f: &mut impl Write, advice: &Advice) -> fmt::Result {
    let proposed = &advice.proposed;
    writeln!(
        f,
        "<section><h2>Limits over {}</h2>\n\
         <p>Proposed is <b>{}</b>, the smallest limit that denies requests of at most one key in a hundred. Look at \
         these keys below: if they are people, or a search engine that you want, take <b>{}</b>, which \
         would have denied no request.</p>",
        advice.window, proposed.quota, advice.nobody.quota,
    )?;
    legend(f, ["keys denied at least once", "requests denied"])?;
    let curve = advice.curve.iter().map(|point| {
        let keys = thousandths(point.keys, advice.keys);
        let requests = thousandths(point.requests, advice.requests);
        let bars = [[("a", keys), ("", 0)], [("d", requests), ("", 0)]];
        let mut cells = row(advice, *point);
        cells.splice(1..1, bars.map(Cell::Bars));
        (*point == proposed.denied, cells)
    });
    let numbers = ["#Keys denied", "#Share", "#Requests denied", "#Share"];
    let heads = [&["Quota", "Keys", "Requests"], &numbers[..]].concat();
    table(f, &heads, curve)?;
    f.write_str("</section>\n<section><h2>Shares of keys that are never denied</h2>\n")?;
    let proposals = advice.proposals.iter().map(|proposal| {
        let mut cells = row(advice, proposal.limit.denied);
        let share = format!("at least {} %", proposal.share);
        cells.insert(1, Cell::Number(share));
        (proposal.limit == *proposed, cells)
    });
    let heads = [&["Quota", "#Keys never denied"], &numbers[..]].concat();
    table(f, &heads, proposals)?;
    f.write_str("</section>\n")
}

/// Returns the quota of `denied`, and what it denies.
fn row(advice: &Advice, denied: Denied) -> Vec<Cell> {
    let numbers = [
        grouped(denied.keys),
        share(denied.keys, advice.keys),
        grouped(denied.requests),
        share(denied.requests, advice.requests),
    ];
    let mut cells = vec![Cell::Code(advice.quota(denied.amount))];
    cells.extend(numbers.map(Cell::Number));
    cells
}

fn most_denied(f: &mut impl Write, advice: &Advice) -> fmt::Result {
    let Limit { quota, denied } = &advice.proposed;
    writeln!(f, "<section><h2>Keys most denied at {quota}</h2>")?;
    if advice.most_denied.is_empty() {
        let none = match denied.keys {
            0 => "No request would be denied.",
            _ => "None were asked for.",
        };
        return writeln!(f, "<p>{none}</p></section>");
    }
    let rows = advice.most_denied.iter().map(|key| {
        let numbers = [
            grouped(key.denied),
            grouped(key.requests),
            share(key.denied, key.requests),
            grouped(key.most),
        ];
        let mut cells = vec![Cell::Text(key.key.clone())];
        cells.extend(numbers.map(Cell::Number));
        cells.extend([&key.caller.path, &key.caller.agent].map(|text| Cell::Text(text.clone())));
        (false, cells)
    });
    let headings = [
        "Key",
        "#Denied",
        "#Of",
        "#Share",
        "#Most in a window",
        "Mostly asks for",
        "As user agent",
    ];
    table(f, &headings, rows)?;
    f.write_str("</section>\n")
}

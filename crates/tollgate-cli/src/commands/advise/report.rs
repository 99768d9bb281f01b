//! The report of `tollgate advise`: what limits would deny, for each window.

use std::path::Path;

use super::advice::{Advice, Denied, Limit};
use super::answer::Answer;
use crate::failure::Failure;
use crate::report::page::{Cell, Page, thousandths};
use crate::report::{About, SKIPPED};

pub(super) fn write(path: &Path, answer: &Answer) -> Result<(), Failure> {
    let about = About {
        title: "Advice for limits",
        conclusion: &conclusion(&answer.advice),
        source: &answer.source,
        key: &answer.counted_by,
        read_as: &answer.read_as,
        span: answer.span,
    };
    let mut page = about.page();
    page.tiles(&[
        ("", answer.requests, ["request", "requests"], ""),
        ("", answer.keys, ["key", "keys"], ""),
        ("", answer.skipped_lines, SKIPPED, ""),
    ]);
    for advice in &answer.advice {
        sections(&mut page, advice);
        most_denied(&mut page, advice);
    }
    let how = "A limit of N denies a request if its key was admitted N times within the window before it, \
               wherever that begins.";
    page.write(how, path)
}

/// Returns one sentence: which limit is proposed for each window, and what it would deny.
fn conclusion(advice: &[Advice]) -> String {
    let proposals = advice.iter().map(Advice::proposal);
    let proposals: Vec<_> = proposals.collect();
    format!("Proposed: {}.", proposals.join(". Over another window: "))
}

/// Adds what the limits of one window would deny: the curve, and round shares of the keys.
fn sections(page: &mut Page, advice: &Advice) {
    let proposed = &advice.proposed;
    let numbers = ["#Keys denied", "#Share", "#Requests denied", "#Share"];
    page.section(&format!("Limits over {}", advice.window), |page| {
        page.add(&format!(
            "<p>Proposed is <b>{}</b>, the smallest limit that denies requests of at most one key in a hundred. Look at \
             these keys below: if they are people, or a search engine that you want, take <b>{}</b>, which \
             would have denied no request.</p>",
            proposed.quota, advice.nobody.quota,
        ));
        page.legend(["keys denied at least once", "requests denied"]);
        let curve = advice.curve.iter().map(|point| {
            let keys = thousandths(point.keys, advice.keys);
            let requests = thousandths(point.requests, advice.requests);
            let bars = [[("a", keys), ("", 0)], [("d", requests), ("", 0)]];
            let mut cells = row(advice, *point);
            cells.splice(1..1, bars.map(Cell::Bars));
            (*point == proposed.denied, cells)
        });
        let heads = [&["Quota", "Keys", "Requests"], &numbers[..]].concat();
        page.table(&heads, curve);
    });
    page.section("Shares of keys that are never denied", |page| {
        let proposals = advice.proposals.iter().map(|proposal| {
            let mut cells = row(advice, proposal.limit.denied);
            let share = format!("at least {} %", proposal.share);
            cells.insert(1, Cell::Number(share));
            (proposal.limit == *proposed, cells)
        });
        let heads = [&["Quota", "#Keys never denied"], &numbers[..]].concat();
        page.table(&heads, proposals);
    });
}

/// Returns the quota of `denied`, and what it denies.
fn row(advice: &Advice, denied: Denied) -> Vec<Cell> {
    vec![
        Cell::Code(advice.quota(denied.amount)),
        Cell::count(denied.keys),
        Cell::share(denied.keys, advice.keys),
        Cell::count(denied.requests),
        Cell::share(denied.requests, advice.requests),
    ]
}

fn most_denied(page: &mut Page, advice: &Advice) {
    let Limit { quota, denied } = &advice.proposed;
    page.section(&format!("Keys most denied at {quota}"), |page| {
        if advice.most_denied.is_empty() {
            return page.add(match denied.keys {
                0 => "<p>No request would be denied.</p>",
                _ => "<p>None were asked for.</p>",
            });
        }
        let rows = advice.most_denied.iter().map(|key| {
            let cells = vec![
                Cell::Text(key.key.clone()),
                Cell::count(key.denied),
                Cell::count(key.requests),
                Cell::share(key.denied, key.requests),
                Cell::count(key.most),
                Cell::Text(key.caller.path.clone()),
                Cell::Text(key.caller.agent.clone()),
            ];
            (false, cells)
        });
        let numbers = ["#Denied", "#Of", "#Share", "#Most in a window"];
        let texts = ["Mostly asks for", "As user agent"];
        page.table(&[&["Key"], &numbers[..], &texts].concat(), rows);
    });
}

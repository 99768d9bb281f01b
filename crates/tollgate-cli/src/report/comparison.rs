//! The report's comparison of all algorithms at one quota.

use super::page::{Cell, Escaped, Page};
use super::timeline::REQUESTS;
use crate::decisions::Comparison;
use crate::text::{grouped, times};

pub(super) fn section(page: &mut Page, comparison: &Comparison, requests: u64) {
    let quota = comparison.quota;
    page.section(&format!("All algorithms at {quota}"), |page| {
        let (demand, amount) = (grouped(comparison.demand), grouped(quota.amount()));
        page.add(&format!(
            "<p>Each alone, on the same requests. Worst window: the most requests of one key that were \
             admitted within any span as long as the quota's window. Without a limit it is \
             <b>{demand}</b>; an exact limit keeps it at or below <b>{amount}</b>.</p>"
        ));
        page.legend(REQUESTS);
        let is_judged = comparison.rows.iter().any(|row| row.judgement.is_some());
        let mut headings = vec!["Algorithm"];
        if is_judged {
            headings.extend(["Verdict", "#Others denied"]);
        }
        headings.extend(["Admitted and denied", "#Admitted", "#Denied", "#Share"]);
        headings.extend(["#Keys denied", "#Worst window", "#x quota", "#Its bound"]);
        let rows = comparison.rows.iter().map(|row| {
            let mut cells = vec![Cell::Code(row.limit.clone())];
            if let Some(judgement) = &row.judgement {
                cells.push(Cell::Text(judgement.verdict.to_owned()));
                cells.push(Cell::count(judgement.others_denied));
            }
            if let Ok(outcome) = &row.outcome {
                let bars = [("a", outcome.allowed), ("d", outcome.denied)];
                cells.extend([
                    Cell::bars(bars, requests),
                    Cell::count(outcome.allowed),
                    Cell::count(outcome.denied),
                    Cell::share(outcome.denied, requests),
                    Cell::count(outcome.denied_keys),
                    Cell::count(outcome.worst),
                    Cell::Number(times(outcome.worst, quota.amount())),
                    Cell::count(row.bound),
                ]);
            }
            (false, cells)
        });
        page.table(&headings, rows);
        for row in &comparison.rows {
            if let Err(error) = &row.outcome {
                let (limit, error) = (Escaped(&row.limit), error.to_string());
                let why = Escaped(&error);
                page.add(&format!("<p><code>{limit}</code> is not possible: {why}</p>"));
            }
        }
    });
}

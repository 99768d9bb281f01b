//! The report's comparison of all algorithms at one quota.

use std::fmt::{self, Write};

use super::page::{Cell, Escaped, legend, table, thousandths};
use super::timeline::REQUESTS;
use crate::decisions::Comparison;
use crate::text::{grouped, share, times};

/// Writes the comparison section.
pub(super) fn section(f: &mut impl Write, comparison: &Comparison, requests: u64) -> fmt::Result {
    let quota = comparison.quota;
    writeln!(
        f,
        "<section><h2>All algorithms at {quota}</h2>\n\
         <p>Each alone, on the same requests. Worst window: the most requests of one key that were \
         admitted within any span as long as the quota's window. Without a limit it is \
         <b>{}</b>; an exact limit keeps it at or below <b>{}</b>.</p>",
        grouped(comparison.demand),
        grouped(quota.amount()),
    )?;
    legend(f, REQUESTS)?;
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
            cells.push(Cell::Number(grouped(judgement.others_denied)));
        }
        if let Ok(outcome) = &row.outcome {
            let bars = [("a", outcome.allowed), ("d", outcome.denied)];
            cells.push(Cell::Bars(
                bars.map(|(class, part)| (class, thousandths(part, requests))),
            ));
            let numbers = [
                grouped(outcome.allowed),
                grouped(outcome.denied),
                share(outcome.denied, requests),
                grouped(outcome.denied_keys),
                grouped(outcome.worst),
                times(outcome.worst, quota.amount()),
                grouped(row.bound),
            ];
            cells.extend(numbers.map(Cell::Number));
        }
        (false, cells)
    });
    table(f, &headings, rows)?;
    for row in &comparison.rows {
        if let Err(error) = &row.outcome {
            let (limit, error) = (Escaped(&row.limit), error.to_string());
            writeln!(
                f,
                "<p><code>{limit}</code> is not possible: {}</p>",
                Escaped(&error)
            )?;
        }
    }
    f.write_str("</section>\n")
}

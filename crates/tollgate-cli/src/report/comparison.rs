//! The report's comparison of all algorithms at one quota.

use std::fmt::{self, Write};

use super::page::legend;
use super::svg::{self, Escaped, Length, Scale, UNIT};
use crate::decisions::{Comparison, Outcome, Row};
use crate::text::{Grouped, Share, Times};

const WIDTH: u64 = 1_000;
const LEFT: u64 = 250;
/// The width of each chart, without the numbers beside its bars.
const PANEL: u64 = 250;
const NUMBERS: u64 = 115;
const ROW: u64 = 28;
const BAR: u64 = 16;
const TOP: u64 = 26;
const BOTTOM: u64 = 26;

/// Writes the comparison section.
pub(super) fn section(f: &mut impl Write, comparison: &Comparison, requests: u64) -> fmt::Result {
    let quota = comparison.quota;
    writeln!(
        f,
        "<section><h2>All algorithms at {quota}</h2>\n\
         <p>Each alone, on the same requests. Worst window: the most requests of one key that were \
         admitted within any span as long as the quota's window. Without a limit it is \
         <b>{}</b>; an exact limit keeps it at or below <b>{}</b>.</p>",
        Grouped(comparison.demand),
        Grouped(quota.amount()),
    )?;
    legend(f)?;
    chart(f, comparison, requests)?;
    table(f, comparison, requests)?;
    f.write_str("</section>\n")
}

/// The two charts: admitted and denied requests, and the worst window.
struct Panels {
    requests: u64,
    amount: u64,
    counts: Scale,
    windows: Scale,
}

/// The left edge of the second chart.
const SECOND: u64 = LEFT + PANEL + NUMBERS;

fn chart(f: &mut impl Write, comparison: &Comparison, requests: u64) -> fmt::Result {
    let amount = comparison.quota.amount();
    let outcomes = comparison.rows.iter().flat_map(|row| &row.outcome);
    let worst = outcomes.map(|outcome| outcome.worst).max().unwrap_or(0);
    let panels = Panels {
        requests,
        amount,
        counts: Scale::new(requests, PANEL),
        // Leave room for the mark of the quota, even if all values are far below it.
        windows: Scale::new(worst.max(amount.saturating_add(amount / 4 + 1)), PANEL),
    };
    let bottom = TOP + u64::try_from(comparison.rows.len()).unwrap_or(0) * ROW;
    let label = "Requests admitted and denied, and the worst window, by algorithm";
    svg::open(f, WIDTH, bottom + BOTTOM, label)?;
    axis(
        f,
        LEFT,
        bottom,
        panels.counts,
        "requests admitted and denied",
    )?;
    axis(f, SECOND, bottom, panels.windows, "worst window (requests)")?;
    for (index, row) in (0..).zip(&comparison.rows) {
        panels.row(f, TOP + index * ROW, row)?;
    }
    let x = panels.mark();
    writeln!(
        f,
        "<line class=\"mark\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{bottom}\"/></svg>\n\
         <p class=\"legend\"><i class=\"within\"></i> within the quota \
         <i class=\"over\"></i> over it <i class=\"mark\"></i> the quota, {}</p>",
        TOP - 4,
        Grouped(amount),
    )
}

fn axis(f: &mut impl Write, left: u64, bottom: u64, scale: Scale, title: &str) -> fmt::Result {
    writeln!(
        f,
        "<text class=\"title\" x=\"{left}\" y=\"14\">{title}</text>"
    )?;
    for value in scale.ticks() {
        let x = Length(left * UNIT + scale.length(value).0);
        writeln!(
            f,
            "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"mean\" x=\"{x}\" y=\"{}\">{}</text>",
            bottom + 16,
            Grouped(value),
        )?;
    }
    Ok(())
}

impl Panels {
    fn row(&self, f: &mut impl Write, top: u64, row: &Row) -> fmt::Result {
        let middle = top + ROW / 2;
        writeln!(
            f,
            "<text class=\"key end mid\" x=\"{}\" y=\"{middle}\">{}</text>",
            LEFT - 10,
            Escaped(&row.limit),
        )?;
        let Ok(outcome) = &row.outcome else {
            let x = LEFT + 8;
            return writeln!(
                f,
                "<text class=\"mid soft\" x=\"{x}\" y=\"{middle}\">not possible</text>"
            );
        };
        let [y, height] = [Length((top + (ROW - BAR) / 2) * UNIT), Length(BAR * UNIT)];
        let (admitted, all) = (
            self.counts.length(outcome.allowed),
            self.counts.length(self.requests),
        );
        let x = Length(LEFT * UNIT);
        svg::bar(f, "a", [x, y, admitted, height])?;
        let x = Length(x.0 + admitted.0);
        svg::bar(f, "d", [x, y, Length(all.0 - admitted.0), height])?;
        let x = Length((LEFT + 6) * UNIT + all.0);
        let share = Share(outcome.denied, self.requests).to_string();
        writeln!(
            f,
            "<text class=\"mid soft\" x=\"{x}\" y=\"{middle}\">{} denied</text>",
            Escaped(&share)
        )?;

        let width = self.windows.length(outcome.worst);
        let is_over = outcome.worst > self.amount;
        let class = if is_over { "over" } else { "within" };
        svg::bar(f, class, [Length(SECOND * UNIT), y, width, height])?;
        // Beside the mark of the quota, not under it.
        let end = SECOND * UNIT + width.0;
        let mark = self.mark().0;
        let is_near = (end..end + 40 * UNIT).contains(&mark);
        let x = Length(6 * UNIT + if is_near { mark } else { end });
        writeln!(
            f,
            "<text class=\"mid\" x=\"{x}\" y=\"{middle}\">{}</text>",
            Grouped(outcome.worst)
        )
    }

    /// Returns the position of the quota's mark.
    fn mark(&self) -> Length {
        Length(SECOND * UNIT + self.windows.length(self.amount).0)
    }
}

fn table(f: &mut impl Write, comparison: &Comparison, requests: u64) -> fmt::Result {
    let is_judged = comparison.rows.iter().any(|row| row.judgement.is_some());
    let (columns, judged) = match is_judged {
        true => (9, "<th>Verdict</th><th class=\"n\">Others denied</th>"),
        false => (7, ""),
    };
    writeln!(
        f,
        "<table><thead><tr><th>Algorithm</th>{judged}<th class=\"n\">Admitted</th>\
         <th class=\"n\">Denied</th><th class=\"n\">Share</th><th class=\"n\">Keys denied</th>\
         <th class=\"n\">Worst window</th><th class=\"n\">x quota</th>\
         <th class=\"n\">Its bound</th></tr></thead><tbody>",
    )?;
    for row in &comparison.rows {
        write!(f, "<tr><td><code>{}</code></td>", Escaped(&row.limit))?;
        match &row.outcome {
            Ok(outcome) => numbers(f, row, outcome, comparison.quota.amount(), requests)?,
            Err(error) => {
                let error = error.to_string();
                write!(f, "<td colspan=\"{columns}\">{}</td>", Escaped(&error))?;
            }
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</tbody></table>\n")
}

fn numbers(
    f: &mut impl Write,
    row: &Row,
    outcome: &Outcome,
    amount: u64,
    requests: u64,
) -> fmt::Result {
    let cells = [
        Grouped(outcome.allowed).to_string(),
        Grouped(outcome.denied).to_string(),
        Share(outcome.denied, requests).to_string(),
        Grouped(outcome.denied_keys).to_string(),
        Grouped(outcome.worst).to_string(),
        Times(outcome.worst, amount).to_string(),
        Grouped(row.bound).to_string(),
    ];
    if let Some(judgement) = &row.judgement {
        let others = Grouped(judgement.others_denied);
        let verdict = judgement.verdict;
        write!(
            f,
            "<td class=\"verdict\">{verdict}</td><td class=\"n\">{others}</td>"
        )?;
    }
    for cell in cells {
        write!(f, "<td class=\"n\">{}</td>", Escaped(&cell))?;
    }
    Ok(())
}

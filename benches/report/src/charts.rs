//! The tables and charts of what `cargo bench` measured: from criterion's estimates into a table of a page, and from
//! that into bars.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Problem;
use super::canvas::{Canvas, Mark};

const LEFT: u32 = 172;
const RIGHT: u32 = 530;
const BAR: u32 = 17;
const GAP: u32 = 12;
/// The colour of each series.
const COLOURS: [&str; 4] = ["blue", "soft", "orange", "green"];

/// A chart of bars from a table: a group for each row, a bar for each column.
#[derive(Debug)]
pub(crate) struct Chart {
    /// The name of the picture, and of the table on the page.
    pub(crate) name: &'static str,
    title: &'static str,
    /// What is shown, and in which unit.
    note: &'static str,
    rows: &'static [&'static str],
    columns: &'static [&'static str],
    /// Whether criterion's groups are the rows, or the columns.
    rows_are_groups: bool,
    /// How many nanoseconds are one of the unit.
    unit: f64,
    /// What bars without length and the longest ones show; on a logarithmic axis if the first is not zero.
    axis: [f64; 2],
}

pub(crate) const CHARTS: [Chart; 2] = [
    Chart {
        name: "bench-stores",
        title: "Time of `limiter.check(key)` by store",
        note: "Microseconds (µs) until a decision is there, on a logarithmic axis: each line is ten times as long as the one before.",
        rows: &[
            "allowed, 1 key",
            "allowed, 10k keys",
            "denied, 1 key",
            "denied, 10k keys",
            "2 limits",
            "4 limits",
            "2 limits, 10k keys",
            "4 limits, 10k keys",
            "64 in flight",
        ],
        columns: &["memory", "governor", "redis-rs", "fred"],
        rows_are_groups: true,
        unit: 1e3,
        axis: [0.01, 1e3],
    },
    Chart {
        name: "bench-algorithms",
        title: "Time of a decision in memory by algorithm",
        note: "Nanoseconds (ns) of an allowed call, by one thread.",
        rows: &[
            "governor",
            "GCRA",
            "fixed window",
            "anchored window",
            "sliding counter",
            "sliding buckets",
            "sliding log",
        ],
        columns: &["algorithm", "steady", "steady, 10k keys"],
        rows_are_groups: false,
        unit: 1.0,
        axis: [0.0, 100.0],
    },
];

impl Chart {
    /// Returns the table of what criterion estimated.
    pub(crate) fn table(&self, criterion: &Path) -> Result<String, Problem> {
        let mut table = format!(
            "| | {} |\n|---|{}\n",
            self.columns.join(" | "),
            "---:|".repeat(self.columns.len())
        );
        let mut found = false;
        for row in self.rows {
            table += &format!("| {row} |");
            for column in self.columns {
                let (group, function) = if self.rows_are_groups {
                    (row, column)
                } else {
                    (column, row)
                };
                let file = criterion
                    .join(group)
                    .join(function)
                    .join("new/estimates.json");
                let estimate = fs::read_to_string(file).ok().and_then(|text| median(&text));
                found |= estimate.is_some();
                let cell =
                    estimate.map_or_else(|| "–".to_owned(), |nanos| short(nanos / self.unit));
                table += &format!(" {cell} |");
            }
            table.push('\n');
        }
        let nothing = || {
            format!(
                "{} has no estimates: run `cargo bench` first",
                criterion.display()
            )
        };
        found.then_some(table).ok_or_else(|| nothing().into())
    }

    /// Draws the table of a page.
    pub(crate) fn draw(&self, page: &str) -> Result<String, Problem> {
        let table = &page[range(page, self.name)?];
        let mut canvas = Canvas::new(self.title.replace('`', ""), self.note);
        canvas.note(self.note);
        canvas.note("Shorter is better.");
        let marks = COLOURS.into_iter().zip(self.columns);
        let marks: Vec<_> = marks
            .map(|(colour, name)| (Mark::Bar, colour, *name))
            .collect();
        canvas.legend(&marks);
        let (top, mut y, mut bars) = (canvas.top(), canvas.top() + 4, Vec::new());
        for row in self.rows {
            let head = format!("| {row} | ");
            let cells = table
                .lines()
                .find_map(|line| line.strip_prefix(&*head))
                .unwrap_or_default();
            let values = COLOURS.into_iter().zip(cells.split(" | "));
            let values = values.filter_map(|(colour, cell)| {
                Some((colour, cell.trim_matches([' ', '|']).parse::<f64>().ok()?))
            });
            let begun = y;
            for (colour, value) in values {
                bars.push((colour, value, y));
                y += BAR;
            }
            canvas.text(LEFT - 10, begun.midpoint(y) + 5, "e ink", row);
            y += GAP;
        }
        if self.axis[0] > 0.0 {
            let mut decade = self.axis[0] * 10.0;
            while decade <= self.axis[1] * 1.01 {
                let at = f64::from(LEFT) + self.length(decade);
                canvas.path("edge thin dots", format!("M{at:.1} {top}V{y}"));
                canvas.text(format!("{at:.1}"), y + 14, "c soft", decade);
                decade = (decade * 1e4).round() / 1e3;
            }
            y += 20;
        }
        for (colour, value, y) in bars {
            let width = self.length(value);
            canvas.line(format!(
                r#"<rect class="{colour} fill" x="{LEFT}" y="{}" width="{width:.1}" height="{}" rx="2"/>"#,
                y + 1,
                BAR - 2
            ));
            let end = f64::from(LEFT) + width + 6.0;
            canvas.text(format!("{end:.1}"), y + BAR - 4, "ink", short(value));
        }
        Ok(canvas.finish(y + 8))
    }

    /// Returns how long the bar of a value is.
    fn length(&self, value: f64) -> f64 {
        let [least, most] = self.axis;
        let part = if least > 0.0 {
            (value / least).ln() / (most / least).ln()
        } else {
            value / most
        };
        f64::from(RIGHT - LEFT) * part.clamp(0.0, 1.0)
    }
}

/// Returns the median in criterion's `estimates.json`, in nanoseconds.
fn median(estimates: &str) -> Option<f64> {
    let estimates: Value = serde_json::from_str(estimates).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

/// Formats a number with about three digits.
fn short(number: f64) -> String {
    match number {
        _ if number >= 100.0 => format!("{number:.0}"),
        _ if number >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

/// Returns where the results of this name are on a page.
pub(crate) fn range(page: &str, name: &str) -> Result<std::ops::Range<usize>, Problem> {
    let mark = format!("<!-- results: {name} -->\n");
    let begin = page
        .find(&mark)
        .ok_or_else(|| format!("the page has no results {name}"))?
        + mark.len();
    let length = page[begin..]
        .find("<!-- end")
        .ok_or("the results have no end")?;
    Ok(begin..begin + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_become_a_table_and_bars() {
        let folder = std::env::temp_dir().join(format!("tollgate-report-{}", std::process::id()));
        let chart = &CHARTS[0];
        assert!(chart.table(&folder).is_err());
        for (store, nanos) in [("memory", "20.5"), ("fred", "100000.0")] {
            let new = folder.join("2 limits").join(store).join("new");
            fs::create_dir_all(&new).unwrap();
            let text = format!(
                r#"{{"mean":{{"point_estimate":1.0}},"median":{{"confidence_interval":{{}},"point_estimate":{nanos},"standard_error":1}}}}"#
            );
            fs::write(new.join("estimates.json"), text).unwrap();
        }
        let table = chart.table(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let table = table.unwrap();
        assert!(
            table.contains("| 2 limits | 0.021 | – | – | 100 |"),
            "{table}"
        );
        let page = format!("<!-- results: bench-stores -->\n\n{table}\n<!-- end -->\n");
        // Four of the five decades.
        let svg = chart.draw(&page).unwrap();
        assert!(svg.contains("width=\"286.4\""), "{svg}");
        // The card and its edge, four in the legend, two bars.
        assert_eq!(svg.matches("<rect").count(), 8);
        assert!(chart.draw("none").is_err());
    }
}

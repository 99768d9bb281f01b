//! The charts of the benchmarks: groups of horizontal bars, from the tables in `docs`.

use super::Problem;
use super::canvas::{Canvas, Mark};

const LEFT: u32 = 212;
const RIGHT: u32 = 540;
const BAR: u32 = 17;
const GAP: u32 = 12;
/// The calls whose times on servers are shown.
const CALLS: [&str; 10] = [
    "INCR",
    "gcra, allowed",
    "gcra in batches, allowed",
    "two gcra together, allowed",
    "four gcra together, allowed",
    "fixed window, allowed",
    "fixed window without scripts, allowed",
    "sliding counter, allowed",
    "10 sliding buckets, allowed",
    "sliding log of 100, allowed",
];
/// The colour of each series.
const COLOURS: [&str; 3] = ["blue", "orange", "green"];

/// A chart of bars, one for each series in each group.
#[derive(Debug)]
pub(crate) struct Bars {
    title: &'static str,
    /// What is shown, in which unit, and what is better.
    note: &'static str,
    series: Vec<String>,
    /// The name of each group, and the value of each series, if it has one.
    groups: Vec<(String, Vec<Option<f64>>)>,
    /// What the longest bar shows, and those of greater values.
    most: f64,
}

impl Bars {
    pub(crate) fn draw(&self) -> String {
        let mut canvas = Canvas::new(self.title, self.note);
        canvas.note(self.note);
        canvas.note(format!(
            "Shorter is better. Bars of more than {} end there.",
            self.most
        ));
        let marks = COLOURS.into_iter().zip(&self.series);
        let marks: Vec<_> = marks
            .map(|(colour, name)| (Mark::Bar, colour, &**name))
            .collect();
        canvas.legend(&marks);
        let mut y = canvas.top() + 4;
        for (name, values) in &self.groups {
            let values: Vec<_> = COLOURS
                .into_iter()
                .zip(values)
                .filter_map(|(colour, value)| Some((colour, (*value)?)))
                .collect();
            let height = BAR * u32::try_from(values.len()).unwrap_or(0);
            canvas.text(LEFT - 10, y + height / 2 + 5, "e ink", name);
            for (colour, value) in values {
                let width = f64::from(RIGHT - LEFT) * (value / self.most).min(1.0);
                canvas.line(format!(
                    r#"<rect class="{colour} fill" x="{LEFT}" y="{}" width="{width:.1}" height="{}" rx="2"/>"#,
                    y + 1,
                    BAR - 2
                ));
                let end = f64::from(LEFT) + width + 6.0;
                canvas.text(format!("{end:.1}"), y + BAR - 4, "ink", short(value));
                y += BAR;
            }
            y += GAP;
        }
        canvas.finish(y + 8)
    }
}

/// Formats a number with about three digits.
fn short(number: f64) -> String {
    match number {
        _ if number >= 100.0 => format!("{number:.0}"),
        _ if number >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Returns the nanoseconds of allowed calls on one thread, from the table of their ratios to governor.
pub(crate) fn in_memory(page: &str) -> Result<Bars, Problem> {
    let table = Table::of(results(page, "memory")?)?;
    let series = ["1 key", "10 k keys"];
    let rows = series.map(|keys| table.row(&format!("allowed, {keys}, 1 thread")));
    let limiters = table.columns.iter().enumerate().skip(1);
    let groups = limiters.map(|(column, limiter)| {
        let values = rows.iter().map(|row| {
            let number = |column: usize| row.as_ref()?.get(column)?.parse::<f64>().ok();
            let governor = number(1)?;
            // The first limiter is governor itself; the others are multiples of its time.
            let of = if column == 1 { 1.0 } else { number(column)? };
            Some(governor * of)
        });
        (limiter.replace(", ns", ""), values.collect())
    });
    Ok(Bars {
        title: "Time of a decision in memory",
        note: "Nanoseconds of an allowed call on one thread, by the number of keys that are called in turn.",
        groups: groups.collect(),
        series: series.map(str::to_owned).into(),
        most: 250.0,
    })
}

/// Returns the server's time for allowed calls, from one table for each server.
pub(crate) fn on_servers(page: &str) -> Result<Bars, Problem> {
    let mut tables = Vec::new();
    for section in results(page, "servers")?.split("\n### ").skip(1) {
        let name = section.lines().next().unwrap_or_default();
        tables.push((name.to_owned(), Table::of(section)?));
    }
    let (_, first) = tables.first().ok_or("the page has no table")?;
    let column = first
        .columns
        .iter()
        .position(|name| name.starts_with("server µs"));
    let column = column.ok_or("no column has the server's time")?;
    let measured = |call: &&&str| tables.iter().any(|(_, table)| table.row(call).is_some());
    let groups = CALLS.iter().filter(measured).map(|call| {
        let values = tables
            .iter()
            .map(|(_, table)| table.row(call)?.get(column)?.parse().ok());
        (call.replace(", allowed", ""), values.collect())
    });
    Ok(Bars {
        title: "What a decision costs the server",
        note: "Microseconds (µs) of the server's processor for an allowed call, with 256 in flight.",
        groups: groups.collect(),
        series: tables.iter().map(|(name, _)| name.clone()).collect(),
        most: 20.0,
    })
}

/// Returns the results of this name on a page.
fn results<'p>(page: &'p str, name: &str) -> Result<&'p str, Problem> {
    let begin = page.split_once(&format!("<!-- results: {name} -->"));
    let (_, results) = begin.ok_or_else(|| format!("no page has results {name}"))?;
    Ok(results.split("<!-- end").next().unwrap_or_default())
}

/// A table in Markdown.
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the first table in a text.
    fn of(text: &str) -> Result<Self, Problem> {
        let lines = text.lines().skip_while(|line| !line.starts_with('|'));
        let lines = lines.take_while(|line| line.starts_with('|'));
        let mut rows = lines.map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        });
        let columns = rows.next().ok_or("there is no table")?;
        Ok(Self {
            columns,
            rows: rows.skip(1).collect(),
        })
    }

    /// Returns the row with this name.
    fn row(&self, name: &str) -> Option<&Vec<String>> {
        self.rows.iter().find(|row| row[0] == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_memory_are_multiples_of_that_of_governor() {
        let page = "<!-- results: memory -->\n\n| calls | governor, ns | gcra |\n|---|---:|---:|\n\
                    | allowed, 1 key, 1 thread | 30.0 | 0.50 |\n\
                    | denied, 1 key, 1 thread | 20.0 | 9.00 |\n\n<!-- end -->\n";
        let bars = in_memory(page).unwrap();
        assert_eq!(
            bars.groups,
            [
                ("governor".to_owned(), vec![Some(30.0), None]),
                ("gcra".to_owned(), vec![Some(15.0), None])
            ]
        );
        // The card and its edge, two in the legend, two bars, one of them twice as long.
        let svg = bars.draw();
        assert_eq!(svg.matches("<rect").count(), 6);
        let holds = svg.contains("width=\"39.4\"") && svg.contains("width=\"19.7\"");
        assert!(holds, "{svg}");
        assert!(in_memory("none").is_err());
    }

    #[test]
    fn each_server_is_a_series() {
        let table = |time: &str| {
            format!(
                "| call | thousands | server µs, 256 |\n|---|---:|---:|\n| INCR | 1 | {time} |\n| a, denied | 1 | 9 |\n"
            )
        };
        let page = format!(
            "<!-- results: servers -->\n\n### One\n\n{}\n### Two\n\n{}",
            table("0.5"),
            table("–")
        );
        let bars = on_servers(&page).unwrap();
        assert_eq!(bars.series, ["One", "Two"]);
        assert_eq!(bars.groups, [("INCR".to_owned(), vec![Some(0.5), None])]);
    }
}

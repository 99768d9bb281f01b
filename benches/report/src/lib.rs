//! What the benchmarks measured last: the numbers in `benches/results`, and the charts and tables in
//! `docs` that show them.

mod bars;
mod canvas;
mod charts;
mod lines;
mod machine;
mod numbers;
mod page;
mod tables;
mod targets;

use std::error::Error;

use xshell::Shell;

pub use self::canvas::{COLOURS, Canvas, Mark, PLAIN, WIDTH, cross, width};
pub use self::charts::drawn;
pub use self::machine::save as save_machine;
pub use self::page::pages;

/// The folder of the CSV files.
pub const FOLDER: &str = "benches/results";

/// The rows of a CSV file.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row of a CSV file.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    of: &'r Rows,
    cells: &'r [String],
}

impl Rows {
    /// Reads the file of this name, without its extension.
    ///
    /// # Errors
    ///
    /// That there is no such file, or that it is no CSV file.
    pub fn read(shell: &Shell, name: &str) -> Result<Self, Box<dyn Error>> {
        let text = shell.read_file(format!("{FOLDER}/{name}.csv"))?;
        Self::parse(&text)
    }

    /// Reads the rows from a text, whose first line names the columns.
    ///
    /// # Errors
    ///
    /// That it is no CSV file.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let all = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
        let columns = all(reader.headers()?);
        let rows = reader.records().map(|record| Ok(all(&record?)));
        let rows = rows.collect::<Result<_, csv::Error>>()?;
        Ok(Self { columns, rows })
    }

    fn all(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { of: self, cells })
    }

    /// Returns the rows that have these texts in these columns.
    pub fn with<'r>(&'r self, wanted: &[(&str, &str)]) -> Vec<Row<'r>> {
        let has = |row: &Row<'_>| {
            wanted
                .iter()
                .all(|(column, text)| row.text(column) == *text)
        };
        self.all().filter(has).collect()
    }

    /// Returns the number in `column` of the first row with these texts.
    fn number(&self, column: &str, wanted: &[(&str, &str)]) -> Option<f64> {
        self.with(wanted).first()?.number(column)
    }

    /// Returns the text of a column in the first row.
    fn first(&self, column: &str) -> &str {
        self.all().next().map_or("", |row| row.text(column))
    }

    /// Returns the different texts of a column, in order.
    pub fn different(&self, column: &str) -> Vec<&str> {
        different(self.all(), column)
    }
}

impl<'r> Row<'r> {
    /// Returns the text in `column`, which is empty if there is no such column.
    pub fn text(&self, column: &str) -> &'r str {
        let at = self.of.columns.iter().position(|name| name == column);
        at.map_or("", |at| &self.cells[at])
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok()
    }
}

/// Returns the different texts of a column, in the order of the rows.
fn different<'r>(rows: impl IntoIterator<Item = Row<'r>>, column: &str) -> Vec<&'r str> {
    let mut texts = Vec::new();
    for row in rows {
        let text = row.text(column);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// What a chart is called, and how it is read.
#[derive(Clone, Copy, Debug)]
struct Heading {
    title: &'static str,
    /// What is shown, in which unit, and what is better.
    note: &'static str,
}

impl Heading {
    /// Begins a chart.
    fn canvas(self) -> Canvas {
        let mut canvas = Canvas::new(self.title, self.note);
        canvas.note(self.note);
        canvas
    }
}

/// Formats a number with about two digits that matter, so that `1,234` is as long as `0.12`.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1_000_000.0 => format!("{:.1} M", number / 1e6),
        _ if number >= 10_000.0 => format!("{:.0} k", number / 1e3),
        _ if number >= 100.0 => format!("{number:.0}"),
        _ if number >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_texts() {
        let rows =
            Rows::parse("store,calls,ns\nmemory,1,30.5\n\"a, b\",1,7\nmemory,2,31\n").unwrap();
        assert_eq!(rows.different("store"), ["memory", "a, b"]);
        assert_eq!(rows.with(&[("calls", "1")]).len(), 2);
        let found = rows.number("ns", &[("store", "memory"), ("calls", "2")]);
        assert_eq!(found, Some(31.0));
        assert_eq!(rows.number("ns", &[("store", "none")]), None);
        assert_eq!(rows.number("none", &[("store", "memory")]), None);
        assert!(Rows::parse("a,b\n1\n").is_err());
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.123, "0.12"),
            (12.34, "12.3"),
            (123.4, "123"),
            (9_999.0, "9999"),
            (12_345.0, "12 k"),
            (1_234_567.0, "1.2 M"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}

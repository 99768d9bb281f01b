//! `Table`: rows of cells in columns.

use std::fmt;

use super::shown::printable;

/// The longest cell that makes its column wider. A longer one moves the rest of its own row to the
/// right, so that one long key does not fill every row with spaces.
const WIDEST: usize = 200;

/// Rows of cells in columns: the first is left-aligned, the others right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from this one on are left-aligned again.
    remarks: usize,
}

impl Table {
    /// Returns a table with `header`, whose columns from `remarks` on contain text.
    pub(crate) fn new(header: &[impl AsRef<str>], remarks: usize) -> Self {
        Self {
            rows: vec![header.iter().map(|cell| cell.as_ref().to_owned()).collect()],
            remarks,
        }
    }

    /// Adds a row. What could manipulate a terminal, or end a line, is escaped.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into().into_iter();
        let cells = cells.map(|cell| printable(cell.as_bytes()));
        self.rows.push(cells.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let length = |cell: &String| cell.chars().count();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let lengths = cells.map(length).filter(|&length| length <= WIDEST);
            lengths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width.saturating_sub(length(cell)));
                let [before, after] = if column == 0 || column >= self.remarks {
                    ["", &padding]
                } else {
                    [&*padding, ""]
                };
                line.extend([before, cell, after, "  "]);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

//! The CSV file that a benchmark writes its numbers to, if one is wanted.

use std::fs::File;
use std::path::Path;

use csv::Writer;

use crate::Problem;

/// A CSV file, or none.
#[derive(Debug)]
pub struct Saved(Option<Writer<File>>);

impl Saved {
    /// Begins the file at `path`, if there is one, with the names of its columns.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn to(path: Option<&Path>, columns: &[&str]) -> Result<Self, Problem> {
        let mut saved = Self(path.map(Writer::from_path).transpose()?);
        saved.row(columns)?;
        Ok(saved)
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or if the row has another number of cells than the first one.
    pub fn row<T: AsRef<[u8]>>(
        &mut self,
        cells: impl IntoIterator<Item = T>,
    ) -> Result<(), Problem> {
        if let Some(writer) = &mut self.0 {
            writer.write_record(cells)?;
            writer.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_names_of_their_columns() {
        let path = std::env::temp_dir().join(format!("tollgate-{}.csv", std::process::id()));
        let mut saved = Saved::to(Some(&path), &["key", "bytes"]).unwrap();
        saved.row(["one, two", "3"]).unwrap();
        assert!(saved.row(["three"]).is_err());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(text, "key,bytes\n\"one, two\",3\n");
        let mut nothing = Saved::to(None, &["key"]).unwrap();
        nothing.row(["one"]).unwrap();
    }
}

//! The pages of `docs` with tables of the benchmarks.

use std::error::Error;

use xshell::Shell;

use super::{Rows, tables, targets};

const PAGES: [&str; 3] = [
    "docs/benchmarks.md",
    "docs/benchmarks-servers.md",
    "docs/batches.md",
];
/// What is between a begin, with the name of a table, and an end is written by a program.
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

/// Returns each page with the tables that follow from the numbers.
///
/// # Errors
///
/// That a page or a CSV file cannot be read, or that a page names a table that there is not.
pub fn pages(shell: &Shell) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut pages = Vec::new();
    for path in PAGES {
        let text = shell.read_file(path)?;
        let filled = filled(&text, |name| table(shell, name));
        let filled = filled.map_err(|error| format!("{path}: {error}"))?;
        pages.push((path.to_owned(), filled));
    }
    Ok(pages)
}

/// Returns the table of this name.
fn table(shell: &Shell, name: &str) -> Result<String, Box<dyn Error>> {
    if name == "targets-on-server" {
        let [servers, peers] = ["servers", "peers-on-server"].map(|file| Rows::read(shell, file));
        return Ok(targets::on_server_targets(&servers?, &peers?));
    }
    let (file, table): (_, fn(&Rows) -> String) = match name {
        "machine" => ("machine", tables::machine),
        "memory" => ("memory", tables::memory),
        "instructions" => ("instructions", tables::instructions),
        "admitted" => ("peers", tables::admitted),
        "targets-in-memory" => ("memory", targets::in_memory_targets),
        "targets-in-batches" => ("batches", targets::in_batches_targets),
        "cost" => ("servers", tables::cost),
        "targets" => ("servers", tables::targets),
        "clients" => ("servers", tables::clients),
        "throughput" => ("servers", tables::throughput),
        "peers-on-server" => ("peers-on-server", tables::peers_on_server),
        "published" => ("servers", tables::published),
        "batches" => ("batches", tables::batches),
        _ => return Err(format!("there are no results {name:?}").into()),
    };
    Ok(table(&Rows::read(shell, file)?))
}

/// Returns the text with the tables that are named in it.
fn filled(
    text: &str,
    table: impl Fn(&str) -> Result<String, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").ok_or("a comment has no end")?;
        let (_, after) = after
            .split_once(END)
            .ok_or_else(|| format!("the results {name} have no end"))?;
        let table = table(name)?;
        filled += &format!("{before}{BEGIN}{name} -->\n\n{table}\n{END}");
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_replace_what_was_in_their_places() {
        let table = |name: &str| Ok(format!("| {name} |\n"));
        let text = format!("One.\n{BEGIN}a -->\nold\n{END}\nTwo.\n{BEGIN}b -->{END}\n");
        let expected =
            format!("One.\n{BEGIN}a -->\n\n| a |\n\n{END}\nTwo.\n{BEGIN}b -->\n\n| b |\n\n{END}\n");
        assert_eq!(filled(&text, table).unwrap(), expected);
        assert_eq!(filled(&expected, table).unwrap(), expected);
        let error = filled(&format!("{BEGIN}a -->\n"), table).unwrap_err();
        assert_eq!(error.to_string(), "the results a have no end");
    }
}

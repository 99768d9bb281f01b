//! What was measured last: the tables in `docs` that commands write; `cargo xtask charts`, which writes and draws what
//! `cargo bench` measured; and `cargo xtask pictures`, which draws that and what the algorithms decide.

use std::error::Error;

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;
use crate::servers;

/// The page with instructions.
pub(crate) const PAGE: &str = "docs/internals/benchmarks-servers.md";

/// What is between a begin, with the name of a table, and an end is written by a program.
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

/// Whether to draw or to compare.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Writes nothing, and fails if a picture would change.
    #[arg(long)]
    check: bool,
}

pub(crate) fn draw(shell: &Shell, arguments: &Arguments) -> Outcome {
    let check = arguments.check.then_some("--check");
    Ok(cmd!(
        shell,
        "cargo run --quiet --package tollgate-report -- {check...}"
    )
    .run()?)
}

/// Writes the tables of what `cargo bench` measured, and draws their charts.
pub(crate) fn charts(shell: &Shell) -> Outcome {
    let folder = servers::target(shell).join("criterion");
    Ok(cmd!(
        shell,
        "cargo run --quiet --package tollgate-report -- --measured {folder}"
    )
    .run()?)
}

/// Returns the results of this name on a page.
pub(crate) fn read(shell: &Shell, page: &str, name: &str) -> Result<String, Box<dyn Error>> {
    let text = shell.read_file(page)?;
    let (_, results, _) = parts(&text, name).ok_or_else(|| missing(page, name))?;
    Ok(results.trim().to_owned())
}

/// Replaces the results of this name on a page.
pub(crate) fn write(shell: &Shell, page: &str, name: &str, results: &str) -> Outcome {
    let text = shell.read_file(page)?;
    let (before, _, after) = parts(&text, name).ok_or_else(|| missing(page, name))?;
    shell.write_file(page, format!("{before}\n\n{}\n\n{after}", results.trim()))?;
    Ok(())
}

/// Returns what is before, within and behind the results of this name, with their marks outside.
fn parts<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let mark = format!("{BEGIN}{name} -->");
    let begin = text.find(&mark)? + mark.len();
    let end = begin + text[begin..].find(END)?;
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

fn missing(page: &str, name: &str) -> String {
    format!("{page} has no results {name:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_replace_those_of_the_same_name() {
        let shell = Shell::new().unwrap();
        let folder = shell.create_temp_dir().unwrap();
        shell.change_dir(folder.path());
        let page = |old: &str| {
            format!("One.\n{BEGIN}a -->\n\n{old}\n\n{END}\nTwo.\n{BEGIN}b -->\n\n2\n\n{END}\n")
        };
        shell.write_file("page.md", page("| old |")).unwrap();
        assert_eq!(read(&shell, "page.md", "a").unwrap(), "| old |");
        write(&shell, "page.md", "a", "| new |\n").unwrap();
        assert_eq!(shell.read_file("page.md").unwrap(), page("| new |"));
        assert_eq!(read(&shell, "page.md", "b").unwrap(), "2");
        assert!(read(&shell, "page.md", "c").is_err());
    }
}

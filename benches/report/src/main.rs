//! Draws what each algorithm decides about the same calls, and charts of what the benchmarks measured:
//! `cargo xtask pictures` runs this in the project's root folder.

mod algorithms;
mod canvas;
mod charts;

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};

type Problem = Box<dyn Error>;

/// Draws every picture; with `--check`, it writes nothing, and fails if one would change.
fn main() -> Result<(), Problem> {
    let changed = changed(".")?;
    if env::args().any(|argument| argument == "--check") {
        let names: Vec<_> = changed.iter().map(|(path, _)| &**path).collect();
        return match &*names {
            [] => Ok(()),
            names => Err(format!("not up to date: {}", names.join(", ")).into()),
        };
    }
    for (path, text) in changed {
        fs::write(&path, text)?;
        writeln!(io::stdout(), "wrote {path}")?;
    }
    Ok(())
}

/// Returns the path and text of each picture that is not in the folder of the project, or differs.
fn changed(root: &str) -> Result<Vec<(String, String)>, Problem> {
    let page = |name| fs::read_to_string(format!("{root}/docs/{name}.md"));
    let mut all = algorithms::drawn()?;
    all.push((
        "bench-memory",
        charts::in_memory(&page("benchmarks")?)?.draw(),
    ));
    all.push((
        "bench-servers",
        charts::on_servers(&page("benchmarks-servers")?)?.draw(),
    ));
    let all = all
        .into_iter()
        .map(|(name, svg)| (format!("docs/pictures/{name}.svg"), svg));
    Ok(all
        .filter(|(path, svg)| {
            fs::read_to_string(format!("{root}/{path}")).ok().as_ref() != Some(svg)
        })
        .collect())
}

#[test]
fn the_committed_pictures_are_up_to_date() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let changed = changed(root).expect("the pages have their tables");
    let names: Vec<_> = changed.iter().map(|(path, _)| path).collect();
    assert!(names.is_empty(), "run `cargo xtask pictures`: {names:?}");
}

//! Draws what each algorithm decides about the same calls, and charts of what the benchmarks measured:
//! `cargo xtask pictures` and `cargo xtask charts` run this in the project's root folder.

mod algorithms;
mod canvas;
mod charts;

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use self::charts::CHARTS;

type Problem = Box<dyn Error>;

const PAGE: &str = "docs/benchmarks.md";

/// Draws every picture; with `--check`, it writes nothing, and fails if one would change. With `--measured FOLDER`, it
/// writes the tables of what criterion left in the folder first.
fn main() -> Result<(), Problem> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [option, folder] = &arguments[..]
        && option == "--measured"
    {
        let mut page = fs::read_to_string(PAGE)?;
        for chart in CHARTS {
            let table = format!("\n{}\n", chart.table(Path::new(folder))?);
            page.replace_range(charts::range(&page, chart.name)?, &table);
        }
        fs::write(PAGE, page)?;
    }
    let changed = changed(".")?;
    if arguments == ["--check"] {
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
    let page = fs::read_to_string(format!("{root}/{PAGE}"))?;
    let mut all = algorithms::drawn()?;
    for chart in CHARTS {
        all.push((chart.name, chart.draw(&page)?));
    }
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

//! Finds the files to mutate.

use std::collections::BTreeSet;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};

use syn::Item;

use super::mutant::Mutant;
use super::point::Point;
use super::{lua, rust};
use xtask::project::Files;

/// The crates to mutate.
pub(super) const CRATES: [&str; 10] = [
    "tollgate-core",
    "tollgate-wire",
    "tollgate-memory",
    "tollgate-mock",
    "tollgate-redis",
    "tollgate-fred",
    "tollgate-tokio",
    "tollgate-layers",
    "tollgate-http",
    "tollgate-cli",
];

/// A Rust file of a crate, with its points and mutants.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) points: Vec<Point>,
    pub(super) mutants: Vec<Mutant>,
}

/// Returns the Rust files of the crates with their mutants.
pub(super) fn rust(
    files: &Files,
    constant: &BTreeSet<String>,
) -> Result<Vec<Source>, Box<dyn Error>> {
    let mut sources = Vec::new();
    for name in CRATES {
        let roots = ["lib", "main"].map(|root| format!("crates/{name}/src/{root}.rs"));
        let root = roots.into_iter().find(|root| files.text(root).is_some());
        let root = root.ok_or_else(|| format!("{name} has neither a lib.rs nor a main.rs"))?;
        let mut modules = vec![root];
        while let Some(path) = modules.pop() {
            let text = files.text(&path).ok_or_else(|| format!("no {path}"))?;
            modules.extend(submodules(files, &path, text)?);
            let generated = rust::generate(&path, text, constant)
                .map_err(|error| format!("{path}: {error}"))?;
            sources.push(Source {
                text: text.to_owned(),
                path,
                points: generated.points,
                mutants: generated.mutants,
            });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Returns the Lua files of the crates with their mutants.
pub(super) fn lua(files: &Files) -> Vec<(String, Vec<Mutant>)> {
    let scripts = files.ending("lua");
    let of_crates = scripts.filter(|(path, _)| {
        let mut folders = path.split('/');
        folders.next() == Some("crates") && folders.any(|folder| folder == "src")
    });
    of_crates
        .map(|(path, text)| (path.to_owned(), lua::generate(path, text)))
        .collect()
}

/// Returns the id that is recorded when the text of a script is used.
pub(super) fn script_id(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Returns the files of the modules that the file `path` declares, except for tests.
fn submodules(files: &Files, path: &str, text: &str) -> syn::Result<Vec<String>> {
    let stem = path
        .strip_suffix("/mod.rs")
        .or_else(|| path.strip_suffix("/lib.rs"))
        .or_else(|| path.strip_suffix("/main.rs"))
        .unwrap_or_else(|| path.trim_end_matches(".rs"));
    let modules = syn::parse_file(text)?.items.into_iter().filter_map(|item| {
        let Item::Mod(module) = item else {
            return None;
        };
        if module.content.is_some() || rust::is_left_out(&module.attrs) {
            return None;
        }
        let name = module.ident;
        let paths = [format!("{stem}/{name}.rs"), format!("{stem}/{name}/mod.rs")];
        paths.into_iter().find(|path| files.text(path).is_some())
    });
    Ok(modules.collect())
}

/// Returns whether only stores on servers need the file.
pub(super) fn is_for_servers(path: &str) -> bool {
    let ends = [".lua", "/twin.rs", "/twins.rs", "/plan.rs"];
    path.starts_with("crates/tollgate-wire/")
        || path.starts_with("crates/tollgate-core/") && ends.iter().any(|end| path.ends_with(end))
}

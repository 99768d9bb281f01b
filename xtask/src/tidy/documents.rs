//! Checks that documents omit no crate, algorithm or picture.

use std::collections::HashSet;

use crate::project::Files;

use super::links::{links, resolve};

/// The document that shows every algorithm.
const ALGORITHMS: &str = "docs/algorithms.md";
/// The documents that list every crate.
const LISTS_OF_CRATES: [&str; 2] = ["README.md", "docs/architecture.md"];

/// Returns the crates, algorithms and pictures that a document omits.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    // Which document links to what.
    let mut linked = HashSet::new();
    for (path, text) in files.ending("md") {
        for target in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            linked.insert((path, resolve(path, file)));
        }
    }
    for list in LISTS_OF_CRATES {
        let text = files.text(list).unwrap_or_default();
        for name in files.folders_in("crates/") {
            if !text.contains(name) {
                findings.push(format!("{list} does not name {name}"));
            }
        }
    }
    for (path, _) in files.iter() {
        let is_picture = path.starts_with("docs/pictures/");
        if is_picture && !linked.iter().any(|(_, target)| target == path) {
            findings.push(format!("no document shows {path}"));
        }
        let is_definition = path.starts_with(super::folders::ALGORITHMS) && path.ends_with(".md");
        if is_definition && !linked.contains(&(ALGORITHMS, path.to_owned())) {
            findings.push(format!("{ALGORITHMS} does not link to {path}"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_not_listed_is_found() {
        let manifest = ("crates/tollgate-x/Cargo.toml", "");
        let listed = [
            manifest,
            ("README.md", "`tollgate-x`"),
            ("docs/architecture.md", "`tollgate-x`"),
        ];
        assert_eq!(findings(&Files::of(&listed)), [""; 0]);
        assert_eq!(findings(&Files::of(&listed[..2])).len(), 1);
        assert_eq!(findings(&Files::of(&listed[..1])).len(), 2);
    }

    #[test]
    fn an_algorithm_or_picture_that_is_not_shown_is_found() {
        let definition = "crates/tollgate-core/src/algorithm/gcra/README.md";
        let listed = [
            (definition, "#"),
            ("docs/pictures/gcra.svg", "<svg/>"),
            ("docs/algorithms.md", "# Algorithms"),
            ("README.md", "tollgate-core"),
            ("docs/architecture.md", "tollgate-core"),
        ];
        assert_eq!(
            findings(&Files::of(&listed)),
            [
                format!("docs/algorithms.md does not link to {definition}"),
                "no document shows docs/pictures/gcra.svg".to_owned(),
            ]
        );
        let text = format!("[G](../{definition}) ![G](pictures/gcra.svg)");
        let mut all = listed;
        all[2].1 = &text;
        assert_eq!(findings(&Files::of(&all)), [""; 0]);
    }
}

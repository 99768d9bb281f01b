//! Checks that links in documents work, and that no crate, algorithm or picture is missing.

use std::collections::HashSet;

use crate::project::Files;

/// The document that shows every algorithm.
const ALGORITHMS: &str = "docs/algorithms.md";
/// The documents that list every crate.
const LISTS_OF_CRATES: [&str; 2] = ["README.md", "docs/architecture.md"];

/// Returns the broken links, and the crates, algorithms and pictures that a document omits.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    // Which document links to what.
    let mut linked = HashSet::new();
    for (path, text) in files.ending("md") {
        for target in links(text) {
            let resolved = resolve(path, target);
            if !exists(files, &resolved) {
                findings.push(format!("{path} links to {target}, which is not there"));
            }
            linked.insert((path, resolved));
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

/// Returns the targets of the links in `markdown` to other files of the project.
fn links(markdown: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            // A target without a dot or slash is an item of the crate, whose link rustdoc checks.
            let is_path = target.contains(['.', '/']) && !target.contains("::");
            if is_path && !target.contains("://") {
                targets.push(target);
            }
        }
    }
    targets
}

/// Resolves `target`, which is relative to the folder of `path`, to a path from the root.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns whether a file or folder exists at `path`.
fn exists(files: &Files, path: &str) -> bool {
    let folder = format!("{path}/");
    files.text(path).is_some() || files.iter().any(|(other, _)| other.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let documents = |link: &str| {
            let text = format!("See [here]({link}).\n\n```\nfn f() [0](no/code)\n```\n");
            findings(&Files::of(&[("docs/a.md", &text), ("docs/b.md", "B\n")]))
        };
        for good in [
            "b.md",
            "b.md#part",
            "../docs/b.md",
            "../docs/",
            "https://example.org/c.md",
            "crate::Thing",
        ] {
            assert_eq!(documents(good), [""; 0], "{good}");
        }
        for bad in ["c.md", "../b.md", "docs/b.md"] {
            assert_eq!(documents(bad).len(), 1, "{bad}");
        }
    }

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

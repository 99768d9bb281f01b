//! `cargo xtask layers`: checks which crates depend on which, and which modules in a crate.

mod rooms;

use std::collections::BTreeSet;
use std::error::Error;

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::Files;

/// The document, and the heading in it, with a row for each package that depends on others.
const DOCUMENT: &str = "docs/architecture.md";
const HEADING: &str = "\n## Dependencies\n";
/// The package whose dependencies are all listed; of others, only those on packages of the workspace are.
const CORE: &str = "tollgate-core";
/// The dependencies that core may add to a program; procedural macros stay in the compiler.
const CORE_MAY_LINK: [&str; 2] = ["smallvec", "thiserror"];

const FORMAT: &str = " {p}";

pub(crate) fn run(shell: &Shell) -> Outcome {
    let named = cmd!(
        shell,
        "cargo tree --workspace --all-features --edges normal,build --depth 1 --prefix depth --no-dedupe --target all --format {FORMAT}"
    );
    let linked = cmd!(
        shell,
        "cargo tree --package {CORE} --features __twins --edges normal,no-proc-macro --prefix depth --no-dedupe --target all --format {FORMAT}"
    );
    let files = Files::read(shell)?;
    let mut findings = unlisted(&named.quiet().read()?, &files)?;
    for (package, depth) in packages(&linked.quiet().read()?)? {
        if depth > 0 && !CORE_MAY_LINK.contains(&&*package) {
            findings.push(format!("{CORE} brings {package} into every program"));
        }
    }
    findings.extend(rooms::findings(&files));
    report("layers", &findings)
}

/// Returns the packages in the output of `cargo tree`, each with its depth.
fn packages(tree: &str) -> Result<Vec<(String, usize)>, Box<dyn Error>> {
    let lines = tree.lines().filter(|line| !line.trim().is_empty());
    let packages = lines.map(|line| {
        let mut words = line.split_whitespace();
        let (Some(depth), Some(name)) = (words.next(), words.next()) else {
            return Err(format!("cargo tree printed {line:?}").into());
        };
        Ok((name.to_owned(), depth.parse()?))
    });
    packages.collect()
}

/// Returns the rows that the document lacks, or has and should not have.
fn unlisted(tree: &str, files: &Files) -> Result<Vec<String>, Box<dyn Error>> {
    let packages = packages(tree)?;
    let members = packages.iter().filter(|(_, depth)| *depth == 0);
    let members: BTreeSet<&str> = members.map(|(name, _)| name.as_str()).collect();
    if !members.contains(CORE) {
        return Err(format!("cargo tree does not show {CORE}").into());
    }
    let mut rows = BTreeSet::new();
    for part in packages.chunk_by(|_, (_, depth)| *depth > 0) {
        let (package, _) = &part[0];
        let named = part[1..].iter().map(|(name, _)| name.as_str());
        let named = named.filter(|name| package == CORE || members.contains(name));
        let named: BTreeSet<String> = named.map(|name| format!("`{name}`")).collect();
        if !named.is_empty() {
            let named = named.into_iter().collect::<Vec<_>>().join(", ");
            rows.insert(format!("| `{package}` | {named} |"));
        }
    }
    let text = files.text(DOCUMENT).unwrap_or_default();
    let (_, section) = text.split_once(HEADING).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let listed = section.lines().filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    let missing = rows.difference(&listed);
    let missing = missing.map(|row| format!("{DOCUMENT} lacks the dependencies {row}"));
    let wrong = listed.difference(&rows);
    let wrong = wrong.map(|row| format!("{DOCUMENT} has the row {row}, which is not so"));
    Ok(missing.chain(wrong).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0 tollgate-core v0.1.0 (a)\n1 smallvec v1.0.0\n\n0 b v0.1.0\n1 serde v1.0.0\n\
                        1 tollgate-core v0.1.0 (a)\n\n0 c v0.1.0\n";

    #[test]
    fn packages_and_document_name_the_same_dependencies() {
        let found = |rows: &str| {
            let text = format!("# A\n## Dependencies\n\n{rows}\n## Other\n| `d` | `e` |\n");
            unlisted(TREE, &Files::of(&[(DOCUMENT, &text)])).unwrap()
        };
        let core = "| `tollgate-core` | `smallvec` |\n";
        let rows = format!("{core}| `b` | `tollgate-core` |\n");
        assert_eq!(found(&rows), [""; 0]);
        assert_eq!(found(core).len(), 1);
        assert_eq!(
            found(&rows.replace("`smallvec`", "`serde`, `smallvec`")).len(),
            2
        );
        assert_eq!(found(&format!("{rows}| `c` | `b` |\n")).len(), 1);
        assert!(unlisted("", &Files::of(&[])).is_err());
        assert!(packages("no depth").is_err());
    }
}

//! `cargo xtask names`: compares the public names of the published crates with a list, so that a name
//! is added or dropped on purpose.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::Files;

const LIST: &str = "docs/public-names.txt";
const CORE: &str = "tollgate-core";

/// Whether to compare or to write.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Writes the list, instead of comparing it.
    #[arg(long)]
    write: bool,
}

impl Arguments {
    /// Returns the arguments that compare.
    pub(crate) fn compare() -> Self {
        Self { write: false }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let found = list(shell)?;
    if arguments.write {
        return Ok(shell.write_file(LIST, found)?);
    }
    let listed = shell.read_file(LIST).unwrap_or_default();
    report("names", &differences(&listed, &found))
}

/// Returns the names of the published libraries, as rustdoc shows them: those of core, and what each
/// other crate adds to them. The names of the conformance suite are its promises, which are listed in
/// its own documentation.
fn list(shell: &Shell) -> Result<String, Box<dyn Error>> {
    let files = Files::read(shell)?;
    let libraries = files.libraries();
    let mut crates = files.published();
    crates.retain(|name| libraries.contains(name) && *name != "tollgate-conformance");
    // All packages, so that features are those that the tests use.
    cmd!(shell, "cargo doc --quiet --workspace --no-deps --lib").run()?;
    let target = crate::servers::target(shell);
    let names = |name: &str| -> Result<BTreeSet<String>, Box<dyn Error>> {
        let page = target
            .join("doc")
            .join(name.replace('-', "_"))
            .join("all.html");
        Ok(items(&shell.read_file(page)?))
    };
    let core = names(CORE)?;
    let mut list = String::new();
    for name in crates {
        let all = names(name)?;
        let own: Vec<&String> = all
            .iter()
            .filter(|item| name == CORE || !core.contains(*item))
            .collect();
        let others = if all.is_superset(&core) && name != CORE {
            ", beside those of tollgate-core"
        } else {
            ""
        };
        writeln!(list, "# {name}: {} names{others}", own.len())?;
        for item in own {
            writeln!(list, "{item}")?;
        }
        list.push('\n');
    }
    Ok(list.trim_end().to_owned() + "\n")
}

/// Returns the items on rustdoc's page of all items, each with its kind: `struct call::Call`.
fn items(page: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    for entry in page.split("<li><a href=\"").skip(1) {
        let Some((target, rest)) = entry.split_once("\">") else {
            continue;
        };
        let file = target.rsplit('/').next().unwrap_or_default();
        if let (Some((kind, _)), Some((name, _))) = (file.split_once('.'), rest.split_once('<')) {
            items.insert(format!("{kind} {name}"));
        }
    }
    items
}

/// Returns the lines that only one of both has.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let lines = |text: &str| -> Vec<(String, String)> {
        let mut section = String::new();
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("# ") {
                Some(head) => head
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut section),
                None => lines.push((section.clone(), line.to_owned())),
            }
        }
        lines
    };
    let (listed, found) = (lines(listed), lines(found));
    let added = found.iter().filter(|line| !listed.contains(line));
    let dropped = listed.iter().filter(|line| !found.contains(line));
    let told = |(section, name): &(String, String), what: &str| {
        format!("{section}: {what} `{name}`; if that is meant, run `cargo xtask names --write`")
    };
    added
        .map(|line| told(line, "new is"))
        .chain(dropped.map(|line| told(line, "gone is")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_from_a_page() {
        let page = "<h3>Structs</h3><ul><li><a href=\"struct.Key.html\">Key</a></li>\
                    <li><a href=\"call/trait.Kind.html\">call::Kind</a></li></ul>";
        let expected = ["struct Key", "trait call::Kind"].map(str::to_owned);
        assert_eq!(items(page), BTreeSet::from(expected));
        assert_eq!(items("<p>no list</p>"), BTreeSet::new());
    }

    #[test]
    fn added_and_dropped_names_are_found() {
        let listed = "# a: 2 names\nstruct One\nstruct Two\n\n# b: 1 names\nstruct One\n";
        assert_eq!(differences(listed, listed), [""; 0]);
        let found = "# a: 2 names\nstruct One\nstruct Three\n\n# b: 1 names\nstruct One\n";
        let differences = differences(listed, found);
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(
            differences[0].starts_with("a: new is `struct Three`"),
            "{differences:?}"
        );
        assert!(
            differences[1].starts_with("a: gone is `struct Two`"),
            "{differences:?}"
        );
    }
}

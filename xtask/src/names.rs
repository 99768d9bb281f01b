//! `cargo xtask names`: compares the public names of the published crates with a list, so that a name
//! is added or dropped on purpose.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, Record, report};
use crate::project::Files;

const LIST: &str = "docs/public-names.txt";
const CORE: &str = "tollgate-core";

pub(crate) fn run(shell: &Shell, record: &Record) -> Outcome {
    let found = list(shell)?;
    if record.write {
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
        let page = target.join("doc").join(name.replace('-', "_"));
        let page = page.join("all.html");
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

/// Returns the names, each with its crate, that only one of both lists has.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let names = |list: &str| -> BTreeSet<String> {
        let crates = list.split("# ").skip(1);
        let names = crates.flat_map(|part| {
            let name = part.split(':').next().unwrap_or_default();
            let items = part.lines().skip(1).filter(|item| !item.is_empty());
            items.map(move |item| format!("{name}: {item}"))
        });
        names.collect()
    };
    let (listed, found) = (names(listed), names(found));
    let added = found
        .difference(&listed)
        .map(|name| format!("{name} is new"));
    let dropped = listed
        .difference(&found)
        .map(|name| format!("{name} is gone"));
    let meant = "; if that is meant, run `cargo xtask names --write`";
    added.chain(dropped).map(|text| text + meant).collect()
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
    }

    #[test]
    fn added_and_dropped_names_are_found() {
        let listed = "# a: 2 names\nstruct One\nstruct Two\n\n# b: 1 names\nstruct One\n";
        assert_eq!(differences(listed, listed), [""; 0]);
        let differences = differences(listed, &listed.replacen("Two", "Three", 1));
        let said = "a: struct Three is new; ";
        assert!(differences[0].starts_with(said), "{differences:?}");
        let said = "a: struct Two is gone; ";
        assert!(differences[1].starts_with(said), "{differences:?}");
    }
}

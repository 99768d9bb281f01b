//! The mutants that no test can notice, because they change nothing that a caller sees.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Outcome;

/// A reason begins a line, and the mutants that it explains are indented below it.
const FILE: &str = "xtask/mutants/equivalents.txt";

/// Returns the names of the mutants that the file lists, and drops from it those that are not in `all`: their
/// code has changed.
pub(crate) fn read(root: &Path, all: &BTreeSet<&str>) -> Outcome<BTreeSet<String>> {
    let path = root.join(FILE);
    let text = fs::read_to_string(&path)?;
    let kept = without_unknown(&text, all);
    if kept != text {
        println!("mutants: dropped lines from {FILE} that are not in the scripts any more");
        fs::write(path, &kept)?;
    }
    let names = kept.lines().filter_map(|line| line.strip_prefix("  "));
    Ok(names.map(str::to_owned).collect())
}

/// Returns the list without the mutants that are not in `all`, and without the reasons that explain no other.
fn without_unknown(list: &str, all: &BTreeSet<&str>) -> String {
    let mut kept = String::new();
    let mut reason = None;
    for line in list.lines() {
        match line.strip_prefix("  ") {
            None if line.starts_with('#') => kept += &format!("{line}\n"),
            None => reason = Some(line),
            Some(name) if all.contains(name) => {
                kept.extend(reason.take().map(|reason| format!("{reason}\n")));
                kept += &format!("{line}\n");
            }
            Some(_) => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts;

    #[test]
    fn unknown_mutants_and_their_reasons_are_dropped() {
        let list = "# Head.\none\n  a\n  b\ntwo\n  c\nthree\n  d\n";
        let kept = without_unknown(list, &BTreeSet::from(["b", "d"]));
        assert_eq!(kept, "# Head.\none\n  b\nthree\n  d\n");
    }
    #[test]
    fn every_mutant_of_the_list_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = scripts::all(&root).unwrap();
        let names = all.iter().flat_map(|(_, mutants)| mutants);
        let names = names.map(|mutant| mutant.name.as_str()).collect();
        let list = fs::read_to_string(root.join(FILE)).unwrap();
        let kept = without_unknown(&list, &names);
        let kept: BTreeSet<&str> = kept.lines().collect();
        let stale: Vec<&str> = list.lines().filter(|line| !kept.contains(line)).collect();
        assert!(stale.is_empty(), "{stale:#?}");
    }
}

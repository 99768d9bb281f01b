//! Checks that the cases named by the `Store` trait's promises exist, and that the suite covers
//! every algorithm.

use std::collections::BTreeSet;

use crate::project::Files;

const PROMISED_IN: &str = "crates/tollgate-core/src/";
const CHECKED_IN: &str = "crates/tollgate-conformance/src/";
/// What precedes the names of cases at the end of a promise.
const MARK: &str = "(checked by";

/// Returns the names of cases, and of families of limits, that are not defined.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let cases: BTreeSet<&str> = files
        .ending("rs")
        .filter(|(path, _)| path.starts_with(CHECKED_IN))
        .flat_map(|(_, text)| functions(text))
        .collect();
    let mut findings = Vec::new();
    let mut promised = 0;
    for (path, text) in files
        .iter()
        .filter(|(path, _)| path.starts_with(PROMISED_IN))
    {
        for name in named(text) {
            promised += 1;
            let function = name.rsplit("::").next().unwrap_or(&name);
            if !cases.contains(function) {
                findings.push(format!("{path} names `{name}`, which {CHECKED_IN} lacks"));
            }
        }
    }
    if promised == 0 {
        findings.push(format!("{PROMISED_IN} names no case"));
    }
    for algorithm in files.folders_in(super::folders::ALGORITHMS) {
        if !cases.contains(algorithm) {
            findings.push(format!("{CHECKED_IN} defines no family `{algorithm}`"));
        }
    }
    findings
}

/// Returns the names of the functions that `code` defines.
pub(super) fn functions(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let (before, after) = line.split_once("fn ")?;
        let defines = before.split_whitespace().all(|word| {
            matches!(
                word,
                "async" | "const" | "pub" | "pub(crate)" | "pub(super)"
            )
        });
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        defines.then_some(&after[..end])
    })
}

/// Returns the names in backquotes between each mark and its closing parenthesis.
fn named(text: &str) -> Vec<String> {
    text.split(MARK)
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .flat_map(|(list, _)| {
            let quoted = list.split('`').skip(1).step_by(2);
            quoted.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: &str = "/// - It MUST hold (checked by `holds` and\n///   `gcra::holds_too`).\n";

    #[test]
    fn a_promise_without_a_case_is_found() {
        let store = ("crates/tollgate-core/src/store.rs", PROMISE);
        let both = (
            "crates/tollgate-conformance/src/cases.rs",
            "pub async fn holds(harness: &impl Harness) {}\n    pub(crate) fn holds_too() {}\n",
        );
        let one = (
            "crates/tollgate-conformance/src/cases.rs",
            "// A comment on fn holds_too() defines nothing.\npub async fn holds<H>() {}\n",
        );
        assert_eq!(findings(&Files::of(&[store, both])), [""; 0]);
        assert_eq!(
            findings(&Files::of(&[store, one])),
            [
                "crates/tollgate-core/src/store.rs names `gcra::holds_too`, which crates/tollgate-conformance/src/ lacks"
            ]
        );
    }

    #[test]
    fn a_case_elsewhere_does_not_count() {
        let store = ("crates/tollgate-core/src/store.rs", PROMISE);
        let elsewhere = (
            "crates/other/src/lib.rs",
            "fn holds() {}\nfn holds_too() {}\n",
        );
        assert_eq!(findings(&Files::of(&[store, elsewhere])).len(), 2);
    }

    #[test]
    fn an_algorithm_that_the_suite_leaves_out_is_found() {
        let store = ("crates/tollgate-core/src/store.rs", PROMISE);
        let machine = ("crates/tollgate-core/src/algorithm/gcra/mod.rs", "");
        let cases = (
            "crates/tollgate-conformance/src/cases.rs",
            "fn holds() {}\nfn holds_too() {}\n",
        );
        let family = (
            "crates/tollgate-conformance/src/families.rs",
            "pub fn gcra() -> Vec<Limit> {}\n",
        );
        assert_eq!(
            findings(&Files::of(&[store, machine, cases, family])),
            [""; 0]
        );
        assert_eq!(findings(&Files::of(&[store, machine, cases])).len(), 1);
    }

    #[test]
    fn no_promise_at_all_is_found() {
        assert_eq!(findings(&Files::of(&[])).len(), 1);
    }
}

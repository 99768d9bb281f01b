//! Checks that the cases named by the promises in core exist, both in its code and in its documents.

use std::collections::BTreeSet;

use crate::project::Files;

const PROMISED_IN: &str = "crates/tollgate-core/src/";
const CHECKED_IN: &str = "crates/tollgate-conformance/src/";
/// What precedes the names of cases at the end of a promise.
const MARK: &str = "(checked by";

/// Returns the names of cases that are not defined.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let suite = files.ending("rs");
    let suite = suite.filter(|(path, _)| path.starts_with(CHECKED_IN));
    let cases: BTreeSet<&str> = suite.flat_map(|(_, text)| functions(text)).collect();
    let promises = files
        .iter()
        .filter(|(path, _)| path.starts_with(PROMISED_IN));
    let named = promises.flat_map(|(path, text)| named(text).map(move |name| (path, name)));
    let mut named = named.peekable();
    if named.peek().is_none() {
        return vec![format!("{PROMISED_IN} names no case")];
    }
    let lost = named.filter(|(_, name)| !cases.contains(name.rsplit("::").next().unwrap_or(name)));
    lost.map(|(path, name)| format!("{path} names `{name}`, which {CHECKED_IN} lacks"))
        .collect()
}

/// Returns the names of the functions that `code` defines.
pub(super) fn functions(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let (before, after) = line.split_once("fn ")?;
        let words = ["async", "const", "pub", "pub(crate)", "pub(super)"];
        let defines = before.split_whitespace().all(|word| words.contains(&word));
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        defines.then_some(&after[..end])
    })
}

/// Returns the names in backquotes between each mark and its closing parenthesis.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let lists = text
        .split(MARK)
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    lists.flat_map(|(list, _)| list.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_a_case_is_found() {
        let promise = "/// - It MUST hold (checked by `holds` and\n///   `gcra::holds_too`).\n";
        let found = |path: &str, code: &str| {
            let store = ("crates/tollgate-core/src/store/README.md", promise);
            findings(&Files::of(&[store, (path, code)])).len()
        };
        let cases =
            "pub async fn holds(harness: &impl Harness) {}\n    pub(crate) fn holds_too() {}\n";
        assert_eq!(found("crates/tollgate-conformance/src/cases.rs", cases), 0);
        assert_eq!(found("crates/other/src/cases.rs", cases), 2);
        let commented = cases.replace("pub(crate)", "//");
        assert_eq!(
            found("crates/tollgate-conformance/src/cases.rs", &commented),
            1
        );
        assert_eq!(findings(&Files::of(&[])).len(), 1);
    }
}

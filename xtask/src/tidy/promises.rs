//! Checks that each promise of a trait names the cases that check it, and that these exist.

use std::collections::BTreeSet;

use crate::project::Files;

const PROMISED_IN: [&str; 2] = ["crates/tollgate-core/src/", "crates/tollgate-wire/src/"];
const CHECKED_IN: [&str; 2] = [
    "crates/tollgate-conformance/src/",
    "crates/tollgate-scenarios/src/",
];
/// What precedes the names of cases at the end of a promise.
const MARK: &str = "(checked by";

/// Returns the promises without a case, and the names of cases that are not defined.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let is_in = |path: &str, folders: [&str; 2]| folders.iter().any(|at| path.starts_with(at));
    let suites = files.ending("rs");
    let suites = suites.filter(|(path, _)| is_in(path, CHECKED_IN));
    let cases: BTreeSet<&str> = suites.flat_map(|(_, text)| functions(text)).collect();
    let promises = files.iter().filter(|(path, _)| is_in(path, PROMISED_IN));
    let mut findings = Vec::new();
    let mut names_any = false;
    for (path, text) in promises {
        for promise in promises_in(text) {
            if !promise.contains(MARK) {
                findings.push(format!("{path} names no case of: {promise}"));
            }
        }
        for name in named(text) {
            names_any = true;
            if !cases.contains(name.rsplit("::").next().unwrap_or(name)) {
                findings.push(format!("{path} names `{name}`, which no suite has"));
            }
        }
    }
    if !names_any {
        findings.push(format!("{} names no case", PROMISED_IN[0]));
    }
    findings
}

/// Returns the points under each heading `# Behavior` that say what an implementation must do.
fn promises_in(text: &str) -> Vec<String> {
    let mut promises = Vec::new();
    for section in text.split("/// # Behavior").skip(1) {
        let lines = section.lines().skip(1).map(str::trim_start);
        let lines = lines.map_while(|line| line.strip_prefix("///"));
        let lines = lines.take_while(|line| !line.starts_with(" # "));
        let points = lines.collect::<Vec<_>>().join("");
        let points = points.split(" - ").map(str::to_owned);
        promises.extend(points.filter(|point| point.contains(" MUST ")));
    }
    promises
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
        let promise = "/// # Behavior\n///\n/// - It MUST hold (checked by `holds` and\n///   `gcra::holds_too`).\n";
        let found = |promise: &str, path: &str, code: &str| {
            let store = ("crates/tollgate-core/src/store/mod.rs", promise);
            findings(&Files::of(&[store, (path, code)])).len()
        };
        let suite = "crates/tollgate-conformance/src/cases.rs";
        let cases =
            "pub async fn holds(harness: &impl Harness) {}\n    pub(crate) fn holds_too() {}\n";
        assert_eq!(found(promise, suite, cases), 0);
        assert_eq!(found(promise, "crates/other/src/cases.rs", cases), 2);
        let commented = cases.replace("pub(crate)", "//");
        assert_eq!(found(promise, suite, &commented), 1);
        let more = |point: &str| format!("{promise}/// - {point}\n///\n/// # Errors\n/// - MUST\n");
        assert_eq!(found(&more("It MAY fail."), suite, cases), 0);
        assert_eq!(found(&more("It MUST be fast."), suite, cases), 1);
        assert_eq!(findings(&Files::of(&[])).len(), 1);
    }
}

//! Checks that every algorithm's folder is complete, and that core names algorithms only in its
//! lists.

use crate::project::Files;

/// The folder with a folder for each algorithm.
pub(super) const ALGORITHMS: &str = "crates/tollgate-core/src/algorithm/";
const COMPLETE: [&str; 6] = [
    "README.md",
    "mod.rs",
    "script.lua",
    "tests.rs",
    "text.rs",
    "twin.rs",
];
const CORE: &str = "crates/tollgate-core/src/";
/// The files that may name an algorithm outside of its folder: the list of algorithms, and the list
/// of operations, one of which has an algorithm's name.
const NAMED: [&str; 2] = ["algorithm/mod.rs", "store/operation.rs"];

/// Returns missing or empty files, and code in core that names a single algorithm.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let folders = files.folders_in(ALGORITHMS);
    if folders.is_empty() {
        return vec![format!("{ALGORITHMS} holds no algorithm")];
    }
    let mut findings = Vec::new();
    for folder in folders {
        for name in COMPLETE {
            let path = format!("{ALGORITHMS}{folder}/{name}");
            match files.text(&path) {
                Some(text) if !text.trim().is_empty() => {}
                Some(_) => findings.push(format!("{path} is empty")),
                None => findings.push(format!("{path} is missing")),
            }
        }
        let own = format!("{ALGORITHMS}{folder}/");
        let name = camel_case(folder);
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
            let is_code = path.starts_with(CORE) && !path.ends_with("tests.rs");
            if !is_code || path.starts_with(&own) || NAMED.iter().any(|end| path.ends_with(end)) {
                continue;
            }
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            // An operation may be called as an algorithm is.
            let operation = format!("Operation::{name}");
            let code = code.map(|line| line.replace(&operation, ""));
            let code = code.collect::<Vec<_>>().join("\n");
            let words = code.split(|c: char| !c.is_alphanumeric());
            if words.into_iter().any(|word| word == name) {
                findings.push(format!(
                    "{path} names {name}: what is of one algorithm is in {own}"
                ));
            }
        }
    }
    findings
}

/// Returns the type name for a folder name in `snake_case`.
fn camel_case(snake_case: &str) -> String {
    let words = snake_case.split('_').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_uppercase() + rest
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Vec<(String, &'static str)> {
        let path = |name| format!("{ALGORITHMS}sliding_log/{name}");
        COMPLETE.map(|name| (path(name), "//!")).to_vec()
    }

    fn found(files: &[(String, &str)]) -> usize {
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        findings(&Files::of(&files)).len()
    }

    #[test]
    fn a_folder_that_lacks_a_file_is_found() {
        assert_eq!(found(&complete()), 0);
        assert_eq!(found(&complete()[1..]), 1);
        assert_eq!(found(&complete()[..4]), 2);
    }

    #[test]
    fn an_empty_file_is_found() {
        let mut files = complete();
        files[0].1 = "\n";
        assert_eq!(found(&files), 1);
    }

    #[test]
    fn no_folder_at_all_is_found() {
        assert_eq!(found(&[]), 1);
    }

    #[test]
    fn an_algorithm_that_is_named_elsewhere_is_found() {
        let with = |path: &str, text| {
            let mut files = complete();
            files.push((format!("{CORE}{path}"), text));
            found(&files)
        };
        assert_eq!(with("evaluation.rs", "match it { SlidingLog(_) => 1 }"), 1);
        assert_eq!(with("evaluation.rs", "  /// Such as `SlidingLog`."), 0);
        assert_eq!(with("evaluation.rs", "SlidingLogs"), 0);
        assert_eq!(with("algorithm/mod.rs", "SlidingLog(sliding_log),"), 0);
        assert_eq!(with("algorithm/sliding_log/plan.rs", "SlidingLog"), 0);
    }
}

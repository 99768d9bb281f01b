//! Checks that core names algorithms only in its lists, and that each promise in an algorithm's README names the
//! test that checks it.

use crate::project::Files;

use super::promises::functions;

/// The folder with a folder for each algorithm.
const ALGORITHMS: &str = "crates/tollgate-core/src/algorithm/";
const CORE: &str = "crates/tollgate-core/src/";
/// The files that may name an algorithm outside of its folder: the list of algorithms, and the list
/// of operations, one of which has an algorithm's name.
const NAMED: [&str; 2] = ["algorithm/mod.rs", "store/operation.rs"];
/// The folders of tests that are not in an algorithm's folder.
const TESTS: [&str; 4] = [
    "crates/tollgate-conformance/src/",
    "crates/tollgate-core/tests/",
    "crates/tollgate-interop/tests/",
    "crates/tollgate-wire/tests/",
];
/// What a promise says if it has the same test as the promise above.
const SAME: &str = "(the same test)";

/// Returns code that names a single algorithm, and promises that name no test.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for folder in files.folders_in(ALGORITHMS) {
        let own = format!("{ALGORITHMS}{folder}/");
        let name = camel_case(folder);
        for (path, text) in files.ending("rs") {
            let is_code = path.starts_with(CORE) && !path.ends_with("tests.rs");
            let may_name = path.starts_with(&own) || NAMED.iter().any(|end| path.ends_with(end));
            if is_code && !may_name && names(text, &name) {
                findings.push(format!(
                    "{path} names {name}: what is of one algorithm is in {own}"
                ));
            }
        }
        let readme = format!("{own}README.md");
        let lines = files.text(&readme).unwrap_or_default().lines();
        let promises: Vec<&str> = lines.filter(|line| line.starts_with("- P")).collect();
        if promises.is_empty() {
            findings.push(format!("{readme} promises nothing"));
        }
        for promise in promises {
            let quoted = promise.split('`').skip(1).step_by(2);
            let tests: Vec<&str> = quoted.filter(|name| name.contains("::")).collect();
            let is_checked = promise.contains(SAME) || !tests.is_empty();
            if !is_checked || !tests.iter().all(|test| is_test(files, &own, test)) {
                findings.push(format!("{readme} names no test that is there: {promise}"));
            }
        }
    }
    findings
}

/// Returns whether the code, without its comments, contains the type `name`.
fn names(code: &str, name: &str) -> bool {
    // An operation may be called as an algorithm is.
    let operation = format!("Operation::{name}");
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.replace(&operation, "")).any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == name)
    })
}

/// Returns whether a test file that `name` can refer to defines it.
fn is_test(files: &Files, own: &str, name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or_default();
    files.ending("rs").any(|(path, text)| {
        let is_meant = match module {
            "tests" => path.strip_prefix(own) == Some("tests.rs"),
            _ => TESTS.iter().any(|folder| path.starts_with(folder)),
        };
        is_meant && functions(text).any(|defined| defined == function)
    })
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

    fn found(readme: &str, (path, code): (&str, &str)) -> usize {
        let files = [
            (
                "crates/tollgate-core/src/algorithm/sliding_log/README.md",
                readme,
            ),
            (
                "crates/tollgate-core/src/algorithm/sliding_log/tests.rs",
                "fn near() {}\n",
            ),
            ("crates/tollgate-core/tests/bounds.rs", "fn far() {}\n"),
            (path, code),
        ];
        findings(&Files::of(&files)).len()
    }

    #[test]
    fn promises_name_their_tests() {
        let good = "# G\n- P1: at most `B` (`bounds::far`).\n- P2: (the same test)\n- P3: (`tests::near`)\n";
        assert_eq!(found(good, ("a.rs", "")), 0);
        for bad in [
            "- P1: at most `B`.\n",
            "- P1: (`tests::far`)\n",
            "- P1: (`bounds::near`)\n",
            "- P1: (`bounds::none`)\n",
            "# No promise\n",
        ] {
            assert_eq!(found(bad, ("a.rs", "")), 1, "{bad}");
        }
    }

    #[test]
    fn an_algorithm_that_is_named_elsewhere_is_found() {
        for (path, code, wrong) in [
            ("evaluation.rs", "match it { SlidingLog(_) => 1 }", 1),
            ("evaluation.rs", "  /// Such as `SlidingLog`.", 0),
            ("evaluation.rs", "SlidingLogs, Operation::SlidingLog", 0),
            ("algorithm/mod.rs", "SlidingLog(sliding_log),", 0),
            ("algorithm/sliding_log/plan.rs", "SlidingLog", 0),
        ] {
            let readme = "- P1: (`tests::near`)\n";
            let seen = found(readme, (&format!("{CORE}{path}"), code));
            assert_eq!(seen, wrong, "{code}");
        }
    }
}

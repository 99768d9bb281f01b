//! Checks that every promise in an algorithm's README names the test that checks it.

use crate::project::Files;

use super::folders::ALGORITHMS;
use super::promises::functions;

/// The folders of tests that are not in an algorithm's folder.
const TESTS: [&str; 2] = ["crates/tollgate-core/tests/", "crates/tollgate-wire/tests/"];
/// What a promise says if it has the same test as the promise above.
const SAME: &str = "(the same test)";

/// Returns the promises that name no test, or a test that does not exist.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for folder in files.folders_in(ALGORITHMS) {
        let path = format!("{ALGORITHMS}{folder}/README.md");
        let promises: Vec<&str> = files
            .text(&path)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with("- P"))
            .collect();
        if promises.is_empty() {
            findings.push(format!("{path} promises nothing"));
        }
        for promise in promises {
            let names = names(promise);
            if names.is_empty() && !promise.contains(SAME) {
                findings.push(format!("{path} names no test: {promise}"));
            }
            for name in names {
                if !is_test(files, folder, name) {
                    findings.push(format!("{path} names `{name}`, which is not there"));
                }
            }
        }
    }
    findings
}

/// Returns the test paths in backquotes.
fn names(promise: &str) -> Vec<&str> {
    let quoted = promise.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains("::")).collect()
}

/// Returns whether a test file that `name` can refer to defines it.
fn is_test(files: &Files, folder: &str, name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or_default();
    let own = format!("{ALGORITHMS}{folder}/tests.rs");
    files.ending("rs").any(|(path, text)| {
        let meant = if module == "tests" {
            path == own
        } else {
            TESTS.iter().any(|folder| path.starts_with(folder))
        };
        meant && functions(text).any(|defined| defined == function)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(readme: &str) -> Vec<String> {
        findings(&Files::of(&[
            ("crates/tollgate-core/src/algorithm/gcra/README.md", readme),
            (
                "crates/tollgate-core/src/algorithm/gcra/tests.rs",
                "fn near() {}\n",
            ),
            ("crates/tollgate-core/tests/bounds.rs", "fn far() {}\n"),
        ]))
    }

    #[test]
    fn a_promise_that_names_its_test_is_in_order() {
        let readme = "# G\n- P1: at most `B` (`bounds::far`).\n- P2: (the same test)\n- P3: (`tests::near`)\n";
        assert_eq!(found(readme), [""; 0]);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        for bad in [
            "- P1: at most `B`.\n",
            "- P1: (`tests::far`)\n",
            "- P1: (`bounds::near`)\n",
            "- P1: (`bounds::none`)\n",
            "# No promise\n",
        ] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
    }
}

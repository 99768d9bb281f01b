//! Every algorithm is complete in its folder.

use crate::project::Files;

/// Where the folders of the algorithms are.
pub(super) const ALGORITHMS: &str = "crates/tollgate-core/src/algorithm/";
const COMPLETE: [&str; 3] = ["README.md", "mod.rs", "tests.rs"];

/// Returns what the folders of the algorithms lack.
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
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: [(&str, &str); 3] = [
        ("crates/tollgate-core/src/algorithm/gcra/README.md", "#"),
        ("crates/tollgate-core/src/algorithm/gcra/mod.rs", "//!"),
        ("crates/tollgate-core/src/algorithm/gcra/tests.rs", "//!"),
    ];

    #[test]
    fn a_folder_that_lacks_a_file_is_found() {
        assert_eq!(findings(&Files::of(&COMPLETE)), [""; 0]);
        assert_eq!(findings(&Files::of(&COMPLETE[1..])).len(), 1);
        assert_eq!(findings(&Files::of(&COMPLETE[..1])).len(), 2);
    }

    #[test]
    fn an_empty_file_is_found() {
        let mut files = COMPLETE;
        files[0].1 = "\n";
        assert_eq!(findings(&Files::of(&files)).len(), 1);
    }

    #[test]
    fn no_folder_at_all_is_found() {
        assert_eq!(findings(&Files::of(&[])).len(), 1);
    }
}

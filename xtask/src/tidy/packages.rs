//! Checks that the code of published crates, also that of tests, includes no file from outside of its package.

use crate::project::Files;

use super::links::resolve;

/// What precedes the path of a file that is included.
const MARKS: [&str; 3] = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];

/// Returns the paths in code that lead out of the package.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for name in files.published() {
        let source = format!("crates/{name}/src/");
        let readme = format!("crates/{name}/README.md");
        for (path, text) in files.ending("rs") {
            let included = MARKS.iter().flat_map(|mark| text.split(mark).skip(1));
            for rest in included.filter(|_| path.starts_with(&source)) {
                let target = rest.split('"').next().unwrap_or_default();
                let file = resolve(path, target);
                if !file.starts_with(&source) && file != readme {
                    findings.push(format!("{path} includes {target}, which is not packaged"));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packaged_files_are_included() {
        let found = |manifest: &str, target: &str| {
            let code = format!("#[doc = include_str!(\"{target}\")]\nmod a {{}}\n");
            findings(&Files::of(&[
                ("crates/a/Cargo.toml", manifest),
                ("crates/a/src/lib.rs", &code),
                ("crates/a/tests/b.rs", &code),
            ]))
            .len()
        };
        for good in ["../README.md", "a.lua", "a/../b.md"] {
            assert_eq!(found("", good), 0, "{good}");
        }
        for bad in ["../../../docs/a.md", "../tests/a.txt", "../../b/src/a.rs"] {
            assert_eq!(found("", bad), 1, "{bad}");
            assert_eq!(found("publish = false", bad), 0, "{bad}");
        }
    }
}

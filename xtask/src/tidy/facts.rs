//! Checks that the README names the oldest compiler, and that the map of the code names files that are there.

use crate::project::Files;

const README: &str = "README.md";
const MAP: &str = "docs/architecture.md";

/// Returns that the README names another compiler than the manifest, if it does, and the files and folders
/// that the map names and that are not there.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let oldest = files.rust_version().unwrap_or("unknown");
    let oldest = format!("Rust {oldest} or later");
    let is_said = files
        .text(README)
        .is_some_and(|text| text.contains(&oldest));
    let finding = format!("{README} does not say `{oldest}`, as Cargo.toml does");
    let mut findings: Vec<_> = (!is_said).then_some(finding).into_iter().collect();
    for paragraph in files.text(MAP).unwrap_or_default().split("\n\n") {
        let mut names = paragraph.split('`').skip(1).step_by(2);
        let is_about = paragraph.starts_with("Inside `");
        let folder = is_about.then(|| names.next()).flatten().unwrap_or_default();
        let is_file = |name: &str| {
            [".rs", ".lua", "/"].iter().any(|end| name.ends_with(end)) && !name.contains('*')
        };
        for name in names.filter(|name| is_file(name)) {
            let part = format!("/{}/", name.trim_end_matches('/'));
            let is_it =
                |path: &str| path.starts_with(folder) && format!("/{path}/").contains(&part);
            if !files.iter().any(|(path, _)| is_it(path)) {
                findings.push(format!("{MAP} names `{name}`, which is not there"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_than_the_manifest_has_is_found() {
        for (readme, wrong) in [("Rust 1.99 or later", 0), ("Rust 1.98 or later", 1)] {
            let manifest = ("Cargo.toml", "rust-version = \"1.99\"\n");
            let files = Files::of(&[manifest, (README, readme)]);
            assert_eq!(findings(&files).len(), wrong, "{readme}");
        }
    }

    #[test]
    fn a_file_that_the_map_names_and_is_not_there_is_found() {
        for (map, wrong) in [
            ("Inside `a/src`, `b.rs`, `c/`.\n\n`c/d.rs`, `a/*/`", 0),
            ("Inside `a/src`, `d.rs` and `b/` are two.", 1),
            ("Inside `a/src/c`, `b.rs` is one.", 1),
            ("| `e.rs` | |", 1),
        ] {
            let code = [("a/src/b.rs", ""), ("a/src/c/d.rs", "")];
            let files = Files::of(&[&code[..], &[(MAP, map)]].concat());
            assert_eq!(findings(&files).len(), 1 + wrong, "{map}");
        }
    }
}

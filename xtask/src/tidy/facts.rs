//! Checks that the README names the oldest compiler.

use crate::project::Files;

const README: &str = "README.md";

/// Returns that the README names another compiler than the manifest, if it does.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let oldest = files.rust_version().unwrap_or("unknown");
    let oldest = format!("Rust {oldest} or later");
    let is_said = files
        .text(README)
        .is_some_and(|text| text.contains(&oldest));
    let finding = format!("{README} does not say `{oldest}`, as Cargo.toml does");
    (!is_said).then_some(finding).into_iter().collect()
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
}

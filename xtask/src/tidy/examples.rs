//! Checks that every example is run by a test of its crate and named in its README, or run by a
//! command of the project.

use crate::project::Files;

/// Returns the examples that nobody runs, or that no reader hears of.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, _) in files.ending("rs") {
        let Some((folder, file)) = path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/examples/"))
        else {
            continue;
        };
        let name = file.strip_suffix(".rs").unwrap_or(file);
        let command = format!("--package {folder} --example {name}\"");
        if any_contains(files, "xtask/src/", &command) {
            continue;
        }
        let tests = format!("crates/{folder}/tests/");
        let module = format!("/examples/{name}.rs\"]");
        if !any_contains(files, &tests, &module) {
            findings.push(format!(
                "{path} is run by nobody: include it in a test in {tests} with \
                 #[path = \"…/examples/{name}.rs\"], and call it"
            ));
        }
        let readme = format!("crates/{folder}/README.md");
        let text = files.text(&readme).unwrap_or_default();
        if !text.contains(&format!("`{name}`")) {
            findings.push(format!("{readme} does not name the example `{name}`"));
        }
    }
    findings
}

/// Returns whether a Rust file in `folder` contains `text`.
fn any_contains(files: &Files, folder: &str, text: &str) -> bool {
    let mut rust = files.ending("rs");
    rust.any(|(path, content)| path.starts_with(folder) && content.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_nobody_runs_is_found() {
        let example = ("crates/a/examples/shop.rs", "fn main() {}");
        let readme = ("crates/a/README.md", "The example `shop`.");
        let found =
            |path: &str, text: &str| findings(&Files::of(&[example, readme, (path, text)])).len();
        let module = "#[path = \"../../examples/shop.rs\"]\nmod shop;\n";
        let command = "cmd!(shell, \"cargo run --package a --example shop\")";
        assert_eq!(found("crates/a/tests/shop/main.rs", module), 0);
        assert_eq!(found("xtask/src/instructions.rs", command), 0);
        assert_eq!(found("crates/b/tests/shop.rs", module), 1);
        assert_eq!(found("crates/a/tests/shop.rs", "mod shop;\n"), 1);
        let other = command.replace("shop\"", "shops\"");
        assert_eq!(found("xtask/src/instructions.rs", &other), 1);
        assert_eq!(found("README.md", command), 1);
        assert_eq!(found("crates/a/README.md", module), 2);
    }
}

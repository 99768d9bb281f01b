//! Checks that every example is run: by a test of its crate, or by a command of the project.

use crate::project::Files;

/// Returns the examples that nobody runs.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let examples = files.ending("rs").filter_map(|(path, _)| {
        let (folder, file) = path.strip_prefix("crates/")?.split_once("/examples/")?;
        let name = file.strip_suffix(".rs").unwrap_or(file);
        Some((path, folder, name.split('/').next().unwrap_or(name)))
    });
    let is_run = |folder: &str, name: &str| {
        let tests = format!("crates/{folder}/tests/");
        let module = format!("/examples/{name}.rs\"]");
        let command = format!("--package {folder} --example {name}\"");
        files.ending("rs").any(|(path, text)| {
            path.starts_with(&tests) && text.contains(&module)
                || path.starts_with("xtask/src/") && text.contains(&command)
        })
    };
    examples
        .filter(|(_, folder, name)| !is_run(folder, name))
        .map(|(path, folder, name)| {
            format!(
                "{path} is run by nobody: a test in crates/{folder}/tests must include it as a module, \
                 with #[path = \"…/examples/{name}.rs\"], and call it"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_nobody_runs_is_found() {
        let example = ("crates/a/examples/shop.rs", "fn main() {}");
        let found = |path: &str, text: &str| findings(&Files::of(&[example, (path, text)])).len();
        let module = "#[path = \"../../examples/shop.rs\"]\nmod shop;\n";
        let command = "cmd!(shell, \"cargo run --package a --example shop\")";
        assert_eq!(found("crates/a/tests/shop/main.rs", module), 0);
        assert_eq!(found("xtask/src/instructions.rs", command), 0);
        assert_eq!(found("crates/b/tests/shop.rs", module), 1);
        assert_eq!(found("crates/a/tests/shop.rs", "mod shop;\n"), 1);
        let other = command.replace("shop\"", "shops\"");
        assert_eq!(found("xtask/src/instructions.rs", &other), 1);
        assert_eq!(found("README.md", command), 1);
    }
}

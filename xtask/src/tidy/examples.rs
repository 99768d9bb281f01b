//! Checks that every example is run by a test of its crate and named in its README, or run by a
//! command of the project, and that its first lines say which features to run it with.

use crate::project::Files;

const ALL_FEATURES: &str = "cargo run --all-features";

/// Returns the examples that nobody runs, that no reader hears of, or that do not run as they say.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, code) in files.ending("rs") {
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
        let manifest = files.text(&format!("crates/{folder}/Cargo.toml"));
        if needs_features(manifest.unwrap_or_default(), name) && !code.contains(ALL_FEATURES) {
            findings.push(format!(
                "{path} runs with features only: write `{ALL_FEATURES}` into its command"
            ));
        }
    }
    findings
}

/// Returns whether this example requires features.
fn needs_features(manifest: &str, name: &str) -> bool {
    let mut examples = manifest.split("[[example]]").skip(1);
    examples.any(|example| {
        let own = example.split("\n[").next().unwrap_or_default();
        own.contains(&format!("name = \"{name}\"\n")) && own.contains("required-features")
    })
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

    #[test]
    fn an_example_says_that_it_needs_features() {
        let manifest = "[[example]]\nname = \"shop\"\nrequired-features = [\"b\"]\n\n[[example]]\nname = \"bar\"\n";
        assert!(needs_features(manifest, "shop"));
        assert!(!needs_features(manifest, "bar") && !needs_features("", "shop"));
        let found = |code: &str| {
            findings(&Files::of(&[
                ("crates/a/Cargo.toml", manifest),
                ("crates/a/examples/shop.rs", code),
                ("crates/a/README.md", "The example `shop`."),
                (
                    "crates/a/tests/shop.rs",
                    "#[path = \"../examples/shop.rs\"]\nmod shop;\n",
                ),
            ]))
            .len()
        };
        assert_eq!(found("//! cargo run -p a --example shop\n"), 1);
        assert_eq!(
            found("//! cargo run --all-features -p a --example shop\n"),
            0
        );
    }
}

//! `cargo xtask ci readme`: builds each program of README.md in a project of its own, with each store, and runs it.

use std::error::Error;

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::{Files, MANIFEST};
use crate::servers;

/// How README.md writes the folder of the checkout, in the manifest of a project beside it.
const CHECKOUT: &str = "\"../tollgate/";
/// What each project has besides the lines of README.md and the profiles of the workspace.
const REST: &str = "
[workspace]

[lints.rust]
warnings = \"deny\"

";

/// A program, and the lines of README.md that its project depends on.
#[derive(Debug, Eq, PartialEq)]
struct Program<'a> {
    dependencies: &'a str,
    code: String,
    /// Where README.md has it.
    line: usize,
    runs: bool,
}

/// Builds each program with the dependencies above it, and no others. Those that need no server run.
pub(crate) fn run(shell: &Shell) -> Outcome {
    let files = Files::read(shell)?;
    let programs = programs(files.text("README.md").unwrap_or_default())?;
    let profiles = profiles(files.text(MANIFEST).unwrap_or_default());
    let target = servers::target(shell);
    let root = shell.current_dir();
    let mut findings = Vec::new();
    for program in &programs {
        let folder = target.join(format!("readme/{}", program.line));
        shell.remove_path(&folder)?;
        let here = format!("\"{}/", root.display());
        let dependencies = program.dependencies.replace(CHECKOUT, &here);
        let manifest = format!(
            "[package]\nname = \"readme\"\nedition = \"2024\"\n\n{dependencies}{REST}{profiles}"
        );
        shell.write_file(folder.join(MANIFEST), manifest)?;
        // The versions that everything else is tested with.
        shell.copy_file("Cargo.lock", folder.join("Cargo.lock"))?;
        if program.is_test() {
            shell.write_file(folder.join("src/lib.rs"), "")?;
        }
        shell.write_file(folder.join(program.path()), &program.code)?;
        let _folder = shell.push_dir(&folder);
        let command = program.command();
        if cmd!(shell, "cargo {command} --target-dir {target}")
            .run()
            .is_err()
        {
            findings.push(format!(
                "the program at line {} fails: `cargo {command}` in {}",
                program.line,
                folder.display()
            ));
        }
    }
    report("readme", &findings)
}

impl Program<'_> {
    /// Returns the file of the project that it is.
    fn path(&self) -> &'static str {
        // Only tests see the dependencies of tests.
        if self.is_test() {
            "tests/readme.rs"
        } else {
            "src/main.rs"
        }
    }

    fn command(&self) -> &'static str {
        match (self.is_test(), self.runs) {
            (true, _) => "test",
            (false, true) => "run",
            (false, false) => "build",
        }
    }

    fn is_test(&self) -> bool {
        self.code.contains("test]\n")
    }
}

/// Returns the profiles for development in `manifest`: with the same ones, what the workspace has built serves the
/// programs, too.
fn profiles(manifest: &str) -> String {
    let mut is_profile = false;
    let lines = manifest.split_inclusive('\n').filter(|line| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.dev");
        }
        is_profile
    });
    lines.collect()
}

/// The beginning of the one line in which programs differ that use different stores.
const STORE: &str = "    let store = ";

/// Returns the programs in `markdown`, each with the last dependencies before it.
///
/// A block that is marked `ignore` has other stores for the program before it: each of its lines makes a program.
fn programs(markdown: &str) -> Result<Vec<Program<'_>>, Box<dyn Error>> {
    let mut programs: Vec<Program<'_>> = Vec::new();
    let mut dependencies = None;
    let mut line = 1;
    // Text and blocks take turns.
    for (index, part) in markdown.split("```").enumerate() {
        let (language, code) = part.split_once('\n').unwrap_or((part, ""));
        let found = match language {
            "rust" | "rust,no_run" if index % 2 == 1 => vec![(line, code.to_owned())],
            "rust,ignore" if index % 2 == 1 => {
                let before = programs.last().map_or("", |program| &program.code);
                let (start, end) = before
                    .split_once(STORE)
                    .and_then(|(start, rest)| Some((start, rest.split_once('\n')?.1)))
                    .ok_or_else(|| format!("line {line}: no `{STORE}` comes before it"))?;
                let programs = code.lines().map(|store| format!("{start}{store}\n{end}"));
                (line + 1..).zip(programs).collect()
            }
            _ => {
                if index % 2 == 1 && language == "toml" {
                    dependencies = Some(code);
                }
                Vec::new()
            }
        };
        for (line, code) in found {
            let program = Program {
                dependencies: dependencies
                    .ok_or_else(|| format!("line {line}: no dependencies come before it"))?,
                code,
                line,
                runs: language == "rust",
            };
            if !program.is_test() && !program.code.contains("fn main()") {
                return Err(format!("line {line}: the program has no `main`").into());
            }
            programs.push(program);
        }
        line += part.matches('\n').count();
    }
    if programs.is_empty() {
        return Err("README.md has no program".into());
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_dependencies_above_it() {
        let main = "fn main() {}\n";
        let test = "#[test]\nfn f() {}\n";
        let text = format!(
            "A\n```toml\na\n```\nB\n```rust\n{main}```\n```toml\nb\n```\n```rust,no_run\n{main}```\n\n```rust\n{test}```\n"
        );
        let found = programs(&text).unwrap();
        let expected = [("a\n", 6, "run"), ("b\n", 12, "build"), ("b\n", 16, "test")];
        let found = found
            .iter()
            .map(|program| (program.dependencies, program.line, program.command()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_other_store_makes_a_program() {
        let code = |store| format!("fn main() {{\n    let store = {store};\n}}\n");
        let text = format!(
            "```toml\na\n```\n```rust\n{}```\n```rust,ignore\n    let store = b;\n    let store = c;\n```\n",
            code("a")
        );
        let found = programs(&text).unwrap();
        let found = found
            .iter()
            .map(|program| (program.code.clone(), program.line, program.command()));
        let expected = [
            (code("a"), 4, "run"),
            (code("b"), 10, "build"),
            (code("c"), 11, "build"),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn profiles_are_those_for_development() {
        let profiles_of_dev = "[profile.dev.package]\na = 1\n\n[profile.dev]\nb = 2\n";
        let manifest = format!("[package]\nc = 3\n{profiles_of_dev}[profile.bench]\nd = 4\n");
        assert_eq!(profiles(&manifest), profiles_of_dev);
    }

    #[test]
    fn incomplete_programs_are_found() {
        for bad in [
            "",
            "```rust\nfn main() {}\n```\n",
            "```toml\na\n```\n```rust\nfn f() {}\n```\n",
            "```toml\na\n```\n```rust\nfn main() {}\n```\n```rust,ignore\n    let store = b;\n```\n",
        ] {
            assert!(programs(bad).is_err(), "{bad}");
        }
    }
}

//! `cargo xtask layers`: checks which crates depend on which, and which modules in a crate.

mod rooms;

use std::error::Error;

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::Files;

/// The dependencies that core's manifest may name. Serde and time zones are optional.
const CORE_MAY_NAME: [&str; 5] = [
    "async-trait",
    // For quotas per local day.
    "jiff",
    "serde",
    "smallvec",
    "thiserror",
];
/// The dependencies that core may add to a program; procedural macros stay in the compiler.
const CORE_MAY_LINK: [&str; 2] = ["smallvec", "thiserror"];
/// Crates that no crate may depend on, not even in tests.
const TOPMOST: [&str; 3] = ["tollgate-benches", "tollgate-cli", "xtask"];

pub(crate) fn run(shell: &Shell) -> Outcome {
    let normal = cmd!(
        shell,
        "cargo tree --workspace --edges normal,build --depth 1 --prefix depth --no-dedupe --target all --format {FORMAT}"
    );
    let dev = cmd!(
        shell,
        "cargo tree --workspace --edges dev --depth 1 --prefix depth --no-dedupe --target all --format {FORMAT}"
    );
    let linked = cmd!(
        shell,
        "cargo tree --package tollgate-core --features __twins --edges normal,no-proc-macro --prefix depth --no-dedupe --target all --format {FORMAT}"
    );
    let mut findings = Layers {
        normal: edges(&normal.quiet().read()?)?,
        dev: edges(&dev.quiet().read()?)?,
        linked_by_core: edges(&linked.quiet().read()?)?,
    }
    .findings();
    let files = Files::read(shell)?;
    findings.extend(misnamed_folders(&files));
    findings.extend(rooms::findings(&files));
    report("layers", &findings)
}

const FORMAT: &str = " {p}";

/// The first package's manifest names the second.
type Edge = (String, String);

/// The dependencies between packages.
#[derive(Debug, Default)]
struct Layers {
    normal: Vec<Edge>,
    dev: Vec<Edge>,
    linked_by_core: Vec<Edge>,
}

impl Layers {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if !self.normal.iter().any(|(from, _)| from == "tollgate-core") {
            findings.push("tollgate-core was not seen: nothing was checked".to_owned());
        }
        for (from, to) in &self.normal {
            if let Some(reason) = refusal(from, to) {
                findings.push(format!("{from} depends on {to}: {reason}"));
            }
        }
        for (from, to) in self.normal.iter().chain(&self.dev) {
            if TOPMOST.contains(&to.as_str()) {
                findings.push(format!("{from} depends on {to}: nothing may"));
            }
        }
        for (_, to) in &self.linked_by_core {
            if !CORE_MAY_LINK.contains(&to.as_str()) {
                findings.push(format!("tollgate-core brings {to} into every program"));
            }
        }
        findings
    }
}

/// Returns why `from` must not depend on `to` outside of tests, or `None` if it may.
fn refusal(from: &str, to: &str) -> Option<&'static str> {
    if from == "tollgate-core" && !CORE_MAY_NAME.contains(&to) {
        return Some("core does no I/O and names no runtime, client or store");
    }
    if to == "tollgate-conformance" && from != "tollgate-scenarios" {
        return Some("the suite is for tests: name it under dev-dependencies");
    }
    let for_tests = ["tollgate-scenarios", "tollgate-testkit"];
    if for_tests.contains(&to) && from != "tollgate-benches" && !for_tests.contains(&from) {
        return Some("real servers are for tests and benches: name it under dev-dependencies");
    }
    if to == "mockall" && from != "tollgate-mock" {
        return Some("mockall is tollgate-mock's alone");
    }
    let is_store = from.starts_with("tollgate-") && !TOPMOST.contains(&from);
    // The layer for HTTP clients waits for permits, clients of servers share an encoding, and what
    // decides while a store fails is a store in memory.
    let is_layer = match to {
        "tollgate-memory" => from == "tollgate-layers",
        "tollgate-tokio" => from == "tollgate-http",
        "tollgate-wire" => ["tollgate-redis", "tollgate-fred"].contains(&from),
        _ => false,
    };
    if is_store
        && !is_layer
        && !for_tests.contains(&from)
        && to.starts_with("tollgate-")
        && to != "tollgate-core"
    {
        return Some("of this workspace, a library may depend on tollgate-core only");
    }
    None
}

/// Parses the packages and their direct dependencies from the output of `cargo tree`.
fn edges(tree: &str) -> Result<Vec<Edge>, Box<dyn Error>> {
    let mut edges = Vec::new();
    // The path of packages from the root of the tree to the current line.
    let mut path: Vec<&str> = Vec::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(depth), Some(name)) = (words.next(), words.next()) else {
            return Err(format!("cargo tree printed {line:?}").into());
        };
        path.truncate(depth.parse()?);
        if let Some(parent) = path.last() {
            edges.push(((*parent).to_owned(), name.to_owned()));
        }
        path.push(name);
    }
    Ok(edges)
}

/// Returns the folders whose crates have other names.
fn misnamed_folders(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for folder in files.folders_in("crates/") {
        let manifest = files.text(&format!("crates/{folder}/Cargo.toml"));
        let name = format!("name = \"{folder}\"");
        if !manifest.is_some_and(|text| text.lines().any(|line| line == name)) {
            findings.push(format!("crates/{folder} holds no package of that name"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for a workspace with these edges in addition to core's.
    fn found(normal: &[(&str, &str)], dev: &[(&str, &str)]) -> Vec<String> {
        let owned = |&(from, to): &(&str, &str)| (from.to_owned(), to.to_owned());
        let mut layers = Layers {
            normal: normal.iter().map(owned).collect(),
            dev: dev.iter().map(owned).collect(),
            linked_by_core: Vec::new(),
        };
        layers
            .normal
            .push(("tollgate-core".to_owned(), "smallvec".to_owned()));
        layers.findings()
    }

    #[test]
    fn allowed_layers_have_no_findings() {
        let normal = [
            ("tollgate-core", "async-trait"),
            ("tollgate-memory", "tollgate-core"),
            ("tollgate-http", "tollgate-tokio"),
            ("tollgate-mock", "mockall"),
            ("tollgate-cli", "tollgate-memory"),
            ("tollgate-benches", "tollgate-testkit"),
            ("tollgate-benches", "tollgate-scenarios"),
            ("tollgate-scenarios", "tollgate-conformance"),
            ("tollgate-scenarios", "tollgate-testkit"),
            ("xtask", "tollgate-core"),
        ];
        let dev = [
            ("tollgate-memory", "tollgate-conformance"),
            ("tollgate-memory", "tollgate-testkit"),
            ("tollgate-mock", "tollgate-memory"),
        ];
        assert_eq!(found(&normal, &dev), [""; 0]);
    }

    #[test]
    fn each_forbidden_edge_is_found() {
        for edge in [
            ("tollgate-core", "tokio"),
            ("tollgate-core", "tollgate-memory"),
            ("tollgate-memory", "tollgate-mock"),
            ("tollgate-memory", "tollgate-tokio"),
            ("tollgate-http", "tollgate-memory"),
            ("tollgate-memory", "tollgate-conformance"),
            ("tollgate-memory", "tollgate-testkit"),
            ("tollgate-memory", "tollgate-scenarios"),
            ("tollgate-cli", "tollgate-conformance"),
            ("tollgate-cli", "tollgate-testkit"),
            ("tollgate-conformance", "tollgate-memory"),
            ("tollgate-memory", "mockall"),
            ("xtask", "tollgate-benches"),
        ] {
            assert_eq!(found(&[edge], &[]).len(), 1, "{edge:?}");
        }
        assert_eq!(found(&[], &[("tollgate-memory", "xtask")]).len(), 1);
    }

    #[test]
    fn dependencies_of_core_are_found_at_any_depth() {
        let tree = "0 tollgate-core v0.1.0 (crates/tollgate-core)\n1 smallvec v1.0.0\n2 libc v0.2.0\n1 thiserror v2.0.0\n";
        let layers = Layers {
            normal: edges(tree).unwrap(),
            linked_by_core: edges(tree).unwrap(),
            dev: Vec::new(),
        };
        assert_eq!(
            layers.findings(),
            ["tollgate-core brings libc into every program"]
        );
    }

    #[test]
    fn an_empty_tree_is_found() {
        assert_eq!(Layers::default().findings().len(), 1);
        assert!(edges("no depth here").is_err());
    }

    #[test]
    fn a_misnamed_folder_is_found() {
        let good = ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n");
        let bad = ("crates/b/Cargo.toml", "[package]\nname = \"c\"\n");
        assert_eq!(misnamed_folders(&Files::of(&[good])), [""; 0]);
        assert_eq!(misnamed_folders(&Files::of(&[good, bad])).len(), 1);
    }
}

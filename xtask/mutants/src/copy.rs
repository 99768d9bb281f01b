//! `Copy`: a copy of the project with all mutants built in.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xshell::Shell;

use super::mutant::Mutant;
use super::point::{Region, Rendered, Shape, render};
use super::sources::{self, Source};
use xtask::Outcome;
use xtask::project::Files;

/// The module that selects the active mutant, in the copy of `tollgate-core`.
const SWITCH: &str = include_str!("switch.rs.in");
/// Changes to tests in the copy: failing histories are neither saved for the next mutant nor
/// shrunk.
const IN_TESTS: [(&str, &str); 2] = [
    (
        "FileFailurePersistence::Direct(path)",
        "FileFailurePersistence::Off",
    ),
    ("max_shrink_iters: 10_000,", "max_shrink_iters: 0,"),
];

/// A copy of the project that contains every mutant that compiles.
pub(super) struct Copy<'a> {
    shell: &'a Shell,
    files: &'a Files,
    folder: PathBuf,
    /// The folder with the files.
    tree: PathBuf,
    /// The functions that must stay `const`.
    constant: BTreeSet<String>,
    /// The mutants that do not compile.
    dropped: BTreeSet<u64>,
    pub(super) sources: Vec<Source>,
    rendered: BTreeMap<String, Rendered>,
}

/// A test program.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
}

impl<'a> Copy<'a> {
    pub(super) fn of(shell: &'a Shell, files: &'a Files) -> Result<Self, Box<dyn Error>> {
        let mut copy = Self::in_tree("tree", shell, files);
        copy.recall();
        copy.sources = sources::rust(files, &copy.constant)?;
        Ok(copy)
    }

    /// Returns a copy of `files` without mutants, in a tree of its own that is built in the same
    /// place.
    pub(super) fn plain(shell: &'a Shell, files: &'a Files) -> Self {
        Self::in_tree("plain", shell, files)
    }

    fn in_tree(name: &str, shell: &'a Shell, files: &'a Files) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let folder = shell.current_dir().join(target).join("mutants");
        Self {
            shell,
            files,
            tree: folder.join(name),
            folder,
            constant: BTreeSet::new(),
            dropped: BTreeSet::new(),
            sources: Vec::new(),
            rendered: BTreeMap::new(),
        }
    }

    /// Returns the folder with the copy, its build and the files of its tests.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the mutants of Rust files that compile.
    pub(super) fn mutants(&self) -> impl Iterator<Item = &Mutant> {
        let all = self.sources.iter().flat_map(|source| &source.mutants);
        all.filter(|mutant| !self.dropped.contains(&mutant.id))
    }

    /// Returns all mutants, including those that do not compile.
    pub(super) fn all_mutants(&self, files: &Files) -> Vec<Mutant> {
        let rust = self
            .sources
            .iter()
            .flat_map(|source| source.mutants.clone());
        let lua = sources::lua(files)
            .into_iter()
            .flat_map(|(_, mutants)| mutants);
        rust.chain(lua).collect()
    }

    /// Returns the number of mutants that do not compile.
    pub(super) fn dropped(&self) -> usize {
        let all = self.sources.iter().flat_map(|source| &source.mutants);
        all.filter(|mutant| self.dropped.contains(&mutant.id))
            .count()
    }

    /// Builds the tests of `packages`, without the mutants that do not compile.
    pub(super) fn build(&mut self, packages: &[&str]) -> Result<Vec<Binary>, Box<dyn Error>> {
        self.write_others()?;
        loop {
            self.write_sources()?;
            let (binaries, errors) = self.try_to_build(packages)?;
            if errors.is_empty() {
                return Ok(binaries);
            }
            let before = (self.dropped.len(), self.constant.len());
            for error in &errors {
                self.drop_mutants_of(error);
            }
            eprintln!(
                "mutants: {} errors: left out {} mutants that do not compile",
                errors.len(),
                self.dropped.len() - before.0
            );
            if before.1 < self.constant.len() {
                self.sources = sources::rust(self.files, &self.constant)?;
            } else if before.0 == self.dropped.len() {
                let first = errors[0]["rendered"].as_str().unwrap_or_default();
                return Err(format!("the copy does not compile:\n{first}").into());
            }
            self.remember()?;
        }
    }

    /// Writes all files without mutants.
    fn write_others(&self) -> Outcome {
        let tree = &self.tree;
        let changed: BTreeSet<_> = self.sources.iter().map(|source| &*source.path).collect();
        let mut expected = BTreeSet::new();
        for (path, text) in self.files.iter() {
            expected.insert(tree.join(path));
            if changed.contains(path) {
                continue;
            }
            let mut text = text.to_owned();
            for (before, after) in IN_TESTS {
                text = text.replace(before, after);
            }
            self.write(&tree.join(path), &text)?;
        }
        let switch = tree.join("crates/tollgate-core/src/__mutants.rs");
        self.write(&switch, &SWITCH.replace("@texts", &self.texts()))?;
        expected.insert(switch);
        // Otherwise, files deleted since the last run would still be built.
        for crates in self.files.folders_in("crates/") {
            let folder = tree.join("crates").join(crates);
            remove_others(self.shell, &folder, &expected)?;
        }
        Ok(())
    }

    /// Returns the table of the scripts, as Rust code.
    fn texts(&self) -> String {
        let scripts = sources::lua(self.files);
        let entries = scripts.iter().map(|(path, _)| {
            let (id, path) = (sources::script_id(path), self.tree.join(path));
            format!("({id}, include_str!({path:?}))")
        });
        entries.collect::<Vec<_>>().join(", ")
    }

    fn write_sources(&mut self) -> Outcome {
        for source in &self.sources {
            let switch = if source.path.starts_with("crates/tollgate-core/") {
                "crate::__mutants::on"
            } else {
                "::tollgate_core::__mutants::on"
            };
            let mut rendered = render(&source.text, &source.points, switch, &self.dropped);
            if source.path == "crates/tollgate-core/src/lib.rs" {
                rendered
                    .text
                    .push_str("\n#[doc(hidden)]\npub mod __mutants;\n");
            }
            self.write(&self.tree.join(&source.path), &rendered.text)?;
            self.rendered.insert(source.path.clone(), rendered);
        }
        Ok(())
    }

    /// Writes a file unless it is unchanged, so that it is not built again.
    fn write(&self, path: &Path, text: &str) -> Outcome {
        if !self.shell.read_file(path).is_ok_and(|held| held == text) {
            self.shell.write_file(path, text)?;
        }
        Ok(())
    }

    fn try_to_build(&self, packages: &[&str]) -> Result<(Vec<Binary>, Vec<Value>), Box<dyn Error>> {
        let mut features = "tollgate-core/__twins".to_owned();
        if packages.contains(&"tollgate-http") {
            features += ",tollgate-http/axum,tollgate-http/outbound,tollgate-http/tonic";
        }
        let mut command = Command::new("cargo");
        command
            .args(["test", "--locked", "--no-run", "--tests"])
            .args(["--message-format=json", "--features", &features])
            .args(
                packages
                    .iter()
                    .map(|package| format!("--package={package}")),
            )
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", self.folder.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // Optimized enough that the switches cost little; overflows still panic.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("RUSTFLAGS", "--cap-lints=allow")
            .stdout(Stdio::piped());
        let output = command.spawn()?.wait_with_output()?;
        let (mut binaries, mut errors) = (Vec::new(), Vec::new());
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            match message["reason"].as_str() {
                Some("compiler-artifact") => binaries.extend(binary(&message)),
                Some("compiler-message") if message["message"]["level"] == "error" => {
                    errors.push(message["message"].clone());
                }
                _ => {}
            }
        }
        // The last error only counts the others.
        errors.retain(|error| {
            error["spans"]
                .as_array()
                .is_some_and(|spans| !spans.is_empty())
        });
        if errors.is_empty() && !output.status.success() {
            return Err("the copy cannot be built".into());
        }
        Ok((binaries, errors))
    }

    /// Drops the mutants that cause `error`.
    fn drop_mutants_of(&mut self, error: &Value) {
        if error["code"]["code"] == "E0015" {
            let message = error["message"].as_str().unwrap_or_default();
            let name = message.split('`').nth(1).unwrap_or_default();
            self.constant.insert(last_name(name).to_owned());
            return;
        }
        let mut spans: Vec<&Value> = error["spans"].as_array().into_iter().flatten().collect();
        spans.sort_by_key(|span| span["is_primary"] != true);
        let places: Vec<_> = spans.into_iter().filter_map(place).collect();
        let found = places
            .iter()
            .find_map(|(path, range)| self.mutants_at(path, range))
            .or_else(|| {
                let (path, range) = places.first()?;
                self.mutants_around(path, range)
            });
        self.dropped.extend(found.into_iter().flatten());
    }

    /// Returns the mutants of the innermost point that contains a range of a rendered file.
    fn mutants_at(&self, path: &str, range: &Range<usize>) -> Option<Vec<u64>> {
        let source = self.sources.iter().find(|source| source.path == path)?;
        let regions = self.rendered.get(path)?.regions.iter();
        let around = regions.filter(|(region, of)| {
            let is_point = match of {
                Region::Alternative(_) => true,
                Region::Point(index) => {
                    let alternatives = &source.points[*index].alternatives;
                    let mut ids = alternatives.iter().map(|alternative| alternative.id);
                    ids.any(|id| !self.dropped.contains(&id))
                }
            };
            is_point && region.start <= range.start && range.end <= region.end
        });
        let (_, innermost) = around.min_by_key(|(region, _)| region.len())?;
        Some(match innermost {
            Region::Alternative(id) => vec![*id],
            Region::Point(index) => {
                let alternatives = source.points[*index].alternatives.iter();
                alternatives.map(|alternative| alternative.id).collect()
            }
        })
    }

    /// Returns the mutants of the function around a range that is in no point. If some of them
    /// delete statements, returns only those, because later code may depend on the statements.
    fn mutants_around(&self, path: &str, range: &Range<usize>) -> Option<Vec<u64>> {
        let source = self.sources.iter().find(|source| source.path == path)?;
        let mut functions = Vec::new();
        for (region, of) in &self.rendered.get(path)?.regions {
            if let Region::Point(index) = of
                && matches!(source.points[*index].shape, Shape::Function)
                && region.contains(&range.start)
            {
                functions.push((region.len(), &source.points[*index].range));
            }
        }
        let (_, function) = functions.into_iter().min_by_key(|(length, _)| *length)?;
        let living = |only_statements: bool| {
            let inside = source.points.iter().filter(|point| {
                let is_statement = matches!(
                    point.shape,
                    Shape::Switch {
                        is_statement: true,
                        ..
                    }
                );
                (is_statement || !only_statements)
                    && function.start <= point.range.start
                    && point.range.end <= function.end
            });
            let ids = inside.flat_map(|point| point.alternatives.iter().map(|of| of.id));
            let ids: Vec<u64> = ids.filter(|id| !self.dropped.contains(id)).collect();
            (!ids.is_empty()).then_some(ids)
        };
        living(true).or_else(|| living(false))
    }

    /// Reads what earlier runs found out, if available.
    fn recall(&mut self) {
        let text = self.shell.read_file(self.folder.join("dropped"));
        for line in text.unwrap_or_default().lines() {
            match line.parse() {
                Ok(id) => self.dropped.insert(id),
                Err(_) => self.constant.insert(line.to_owned()),
            };
        }
    }

    fn remember(&self) -> Outcome {
        let ids = self.dropped.iter().map(u64::to_string);
        let lines: Vec<_> = ids.chain(self.constant.iter().cloned()).collect();
        let path = self.folder.join("dropped");
        Ok(self.shell.write_file(path, lines.join("\n"))?)
    }
}

fn binary(message: &Value) -> Option<Binary> {
    let path = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let is_library = message["target"]["kind"] == serde_json::json!(["lib"]);
    let target = message["target"]["name"].as_str()?;
    Some(Binary {
        package: folder.file_name()?.to_str()?.to_owned(),
        target: if is_library { "lib" } else { target }.to_owned(),
        path: path.into(),
        folder: folder.into(),
    })
}

/// Returns the last name in `path`, without generic arguments.
pub(super) fn last_name(path: &str) -> &str {
    let names = path.rsplit("::").filter_map(|name| name.split('<').next());
    let mut names = names.filter(|name| !name.is_empty());
    names.next().unwrap_or_default()
}

/// Returns the file and byte range of an error's span; for a macro, the place of its call.
fn place(span: &Value) -> Option<(String, Range<usize>)> {
    if let Some(call) = span["expansion"].get("span")
        && !span["file_name"].as_str()?.starts_with("crates/")
    {
        return place(call);
    }
    let byte = |name: &str| usize::try_from(span[name].as_u64()?).ok();
    let path = span["file_name"].as_str()?.to_owned();
    Some((path, byte("byte_start")?..byte("byte_end")?))
}

/// Removes all files in `folder` that are not `expected`.
fn remove_others(shell: &Shell, folder: &Path, expected: &BTreeSet<PathBuf>) -> Outcome {
    for path in shell.read_dir(folder)? {
        if path.is_dir() {
            remove_others(shell, &path, expected)?;
        } else if !expected.contains(&path) {
            shell.remove_path(path)?;
        }
    }
    Ok(())
}

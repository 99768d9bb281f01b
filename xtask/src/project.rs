//! The project's root folder, and the texts of its files.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use xshell::{Shell, cmd};

/// The manifest of the workspace, and the name of those of the packages.
pub(crate) const MANIFEST: &str = "Cargo.toml";
/// The folder of the workspace of the peers.
pub(crate) const PEERS: &str = "benches/peers";
/// The folders of all workspaces, from the project's root. Each has a lock file of its own.
pub(crate) const WORKSPACES: [&str; 2] = [".", PEERS];
/// The packages whose tests the ordinary run leaves out: the project's tools, tests with frameworks and programs of
/// others, and databases, which have dependencies of their own. They are tested together, and so are built once. None
/// has to compile with the oldest compiler.
const TOOLS: [&str; 9] = [
    "tollgate-benches",
    "tollgate-interop",
    "tollgate-measure",
    "tollgate-report",
    "tollgate-scenarios",
    "tollgate-sql",
    "tollgate-testkit",
    "xtask",
    "xtask-fuzz",
];
/// Returns the arguments that give each of [`TOOLS`] to `option`.
pub(crate) fn tools(option: &'static str) -> Vec<&'static str> {
    TOOLS.map(|name| [option, name]).concat()
}

/// Parts of the names of tests that need more than the system's Redis server: another version of it, or
/// other programs that run only with `--every-server`.
pub(crate) const OTHER_SERVERS: [&str; 3] = ["redis_6_2", "valkey_9_1", "every_server"];

/// Returns a shell in the project's root folder.
///
/// # Errors
///
/// That the folder is not there.
pub(crate) fn shell() -> Result<Shell, Box<dyn Error>> {
    let shell = Shell::new()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("xtask has no parent folder")?;
    shell.change_dir(root);
    Ok(shell)
}

/// The texts of the project's files, by their paths from its root.
///
/// Contains the files that are or could be committed: no ignored files, and only text. Checks take
/// it as an argument, so that tests can pass other files.
#[derive(Clone, Debug)]
pub(crate) struct Files(BTreeMap<String, String>);

impl Files {
    /// Reads the files of the project.
    ///
    /// # Errors
    ///
    /// That git cannot list them, or that one cannot be read.
    pub(crate) fn read(shell: &Shell) -> Result<Self, Box<dyn Error>> {
        let listed = cmd!(
            shell,
            "git ls-files -z --cached --others --exclude-standard"
        )
        .quiet()
        .read()?;
        let mut files = BTreeMap::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // Deleted, but the deletion is not committed yet.
            if !shell.path_exists(path) {
                continue;
            }
            if let Ok(text) = String::from_utf8(shell.read_binary_file(path)?) {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self(files))
    }

    /// Returns files with these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        Self(files.iter().map(owned).collect())
    }

    /// Returns every path and text, sorted by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the paths and texts of the files with this extension.
    pub(crate) fn ending(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| {
            path.strip_suffix(extension)
                .is_some_and(|stem| stem.ends_with('.'))
        })
    }

    /// Returns the text of the file at `path`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns the names of the folders directly in `folder`, which must end in `/`.
    pub(crate) fn folders_in<'a>(&'a self, folder: &'a str) -> Vec<&'a str> {
        let mut names: Vec<&str> = self
            .0
            .keys()
            .filter_map(|path| path.strip_prefix(folder)?.split_once('/'))
            .map(|(name, _)| name)
            .collect();
        names.dedup();
        names
    }

    /// Returns the names of the library packages in `crates/`.
    pub(crate) fn libraries(&self) -> Vec<&str> {
        let mut names = self.folders_in("crates/");
        names.retain(|name| self.text(&format!("crates/{name}/src/lib.rs")).is_some());
        names
    }

    /// Returns the names of the crates that are published.
    pub(crate) fn published(&self) -> Vec<&str> {
        let mut names = self.folders_in("crates/");
        names.retain(|name| {
            let manifest = self.text(&format!("crates/{name}/{MANIFEST}"));
            manifest.is_some_and(|text| !text.contains("publish = false"))
        });
        names
    }

    /// Returns the published crates on which the others do not depend by exactly the version that they
    /// have: they call hidden functions of each other.
    pub(crate) fn unpinned(&self) -> Vec<String> {
        let manifest = self.text(MANIFEST).unwrap_or_default();
        let version = self.version().unwrap_or_default();
        let pin = format!("version = \"={version}\"");
        let of_name = |name: &&str| {
            let dependency = format!("{name} = {{ ");
            let mut lines = manifest.lines();
            lines
                .find(|line| line.starts_with(&dependency))
                .is_some_and(|line| !line.contains(&pin))
        };
        let mut unpinned = self.published();
        unpinned.retain(of_name);
        let finding = |name| format!("{MANIFEST} depends on {name} without `{pin}`");
        unpinned.into_iter().map(finding).collect()
    }

    /// Returns the repository's public address.
    pub(crate) fn repository(&self) -> Option<&str> {
        self.shared("repository")
    }

    /// Returns the version of all crates.
    pub(crate) fn version(&self) -> Option<&str> {
        self.shared("version")
    }

    /// Returns the oldest compiler that builds all crates.
    pub(crate) fn rust_version(&self) -> Option<&str> {
        self.shared("rust-version")
    }

    /// Returns a text that the packages inherit from the workspace.
    fn shared(&self, field: &str) -> Option<&str> {
        let mut lines = self.text(MANIFEST)?.lines();
        lines.find_map(|line| {
            line.strip_prefix(field)?
                .strip_prefix(" = \"")?
                .strip_suffix('"')
        })
    }
}

/// Returns the names of the features in `manifest`.
pub(crate) fn features(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with('#') && *name != "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"a\"\n\n[features]\ndefault = [\"tls\"]\n# As in a = b.\n\
                        tls = []\nlong = [\n    \"dep:b\",\n]\n\n[dependencies]\nb = \"1\"\n";
        assert_eq!(features(manifest).collect::<Vec<_>>(), ["tls", "long"]);
        assert_eq!(features("[package]\n").count(), 0);
    }

    #[test]
    fn crates_depend_on_each_other_by_exactly_one_version() {
        let unpinned = |version: &str| {
            let line = format!("a = {{ path = \"crates/a\", version = \"{version}\" }}");
            let manifest = format!("version = \"1.2.3\"\n[workspace.dependencies]\n{line}\n");
            let files = [
                (MANIFEST, &*manifest),
                ("crates/a/Cargo.toml", ""),
                ("crates/program/Cargo.toml", ""),
            ];
            Files::of(&files).unpinned().len()
        };
        assert_eq!(unpinned("=1.2.3"), 0);
        assert_eq!(unpinned("1.2.3"), 1);
        assert_eq!(unpinned("=1.2.2"), 1);
    }
}

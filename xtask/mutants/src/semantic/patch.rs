//! `Patch`: a change of one crate, as `git diff` writes it, under one sentence about what it breaks.

use crate::sources;
use xtask::project::Files;

/// The folder with a folder of patches for each crate.
pub(super) const FOLDER: &str = "xtask/mutants/semantic/";

/// A change of one crate that a test must notice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Patch {
    /// The crate without `tollgate-`, and the name, such as `memory/lost_wake_up`.
    pub(super) name: String,
    /// What is broken, in one sentence.
    pub(super) broken: String,
    hunks: Vec<Hunk>,
}

/// Successive lines of a file, and what replaces them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Hunk {
    file: String,
    before: String,
    after: String,
}

impl Patch {
    /// Returns all patches of the project, sorted by name.
    ///
    /// # Errors
    ///
    /// The path of the first one that is malformed, and what is wrong with it.
    pub(super) fn all(files: &Files) -> Result<Vec<Self>, String> {
        let patches = files.ending("patch").filter_map(|(path, text)| {
            let name = path.strip_prefix(FOLDER)?.strip_suffix(".patch")?;
            Some(Self::parse(name, text).map_err(|error| format!("{path}: {error}")))
        });
        patches.collect()
    }

    /// Reads the patch `name` from its `text`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to do.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let broken = lines.next().and_then(|line| line.strip_prefix("# "));
        let broken = broken.ok_or("the first line must be `# `, and a sentence: what is broken")?;
        let (room, _) = name.split_once('/').unwrap_or_default();
        let own = format!("crates/tollgate-{room}/src/");
        let (mut file, mut hunks) = (String::new(), Vec::new());
        while let Some(line) = lines.next() {
            if let Some(path) = line.strip_prefix("+++ b/") {
                if !path.starts_with(&own) {
                    return Err(format!("changes {path}, which is not in {own}"));
                }
                path.clone_into(&mut file);
            } else if line.starts_with("@@ ") {
                let mut hunk = Hunk::read(line, &mut lines)?;
                file.clone_into(&mut hunk.file);
                hunks.push(hunk);
            }
        }
        if hunks.is_empty() {
            return Err("changes nothing: make it with `git diff`".to_owned());
        }
        let (name, broken) = (name.to_owned(), broken.to_owned());
        Ok(Self {
            name,
            broken,
            hunks,
        })
    }

    /// Returns the path of the first changed file.
    pub(super) fn file(&self) -> &str {
        &self.hunks[0].file
    }

    /// Returns whether only stores on servers notice the change.
    pub(super) fn is_for_servers(&self) -> bool {
        let mut files = self.hunks.iter().map(|hunk| &hunk.file);
        files.any(|file| sources::is_for_servers(file))
    }

    /// Returns the files of the project with this change.
    ///
    /// Lines are searched for, wherever they have moved to.
    ///
    /// # Errors
    ///
    /// That lines are no longer there, or are there more than once.
    pub(super) fn apply(&self, files: &Files) -> Result<Files, String> {
        let mut changed = files.clone();
        for Hunk {
            file,
            before,
            after,
        } in &self.hunks
        {
            let text = changed.text(file).unwrap_or_default();
            let places = text.match_indices(before.as_str());
            let mut places = places.filter(|&(at, _)| at == 0 || text[..at].ends_with('\n'));
            let refused = |what: &str| format!("{}: {file} {what}:\n{before}", self.name);
            let (at, _) = places
                .next()
                .ok_or_else(|| refused("no longer contains these lines; make the patch again"))?;
            if places.next().is_some() {
                return Err(refused(
                    "contains these lines twice; make the patch with `git diff -U10`",
                ));
            }
            let text = [&text[..at], after, &text[at + before.len()..]].concat();
            changed.set(file, text);
        }
        Ok(changed)
    }
}

impl Hunk {
    /// Reads the lines after `head`, as many as it says.
    fn read<'t>(head: &str, lines: &mut impl Iterator<Item = &'t str>) -> Result<Self, String> {
        let count = |sign: char| {
            let range = head.split(' ').find_map(|part| part.strip_prefix(sign))?;
            range
                .split(',')
                .nth(1)
                .map_or(Some(1), |count| count.parse().ok())
        };
        let counts: Option<(usize, usize)> = count('-').zip(count('+'));
        let (mut removed, mut added) = counts.ok_or_else(|| format!("cannot read `{head}`"))?;
        let mut hunk = Self::default();
        let uneven = || format!("fewer or more lines than `{head}` says: make it with `git diff`");
        while removed + added > 0 {
            let line = lines.next().ok_or_else(uneven)?;
            let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            if matches!(sign, " " | "-") {
                removed = removed.checked_sub(1).ok_or_else(uneven)?;
                hunk.before += &format!("{text}\n");
            }
            if matches!(sign, " " | "+") {
                added = added.checked_sub(1).ok_or_else(uneven)?;
                hunk.after += &format!("{text}\n");
            }
            if !matches!(sign, " " | "-" | "+") {
                return Err(uneven());
            }
        }
        Ok(hunk)
    }
}

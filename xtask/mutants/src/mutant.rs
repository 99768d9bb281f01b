//! `Mutant`: one change of one file.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One change of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mutant {
    /// A hash of the following fields without the line, so that it does not change when code moves.
    pub(super) id: u64,
    pub(super) file: String,
    pub(super) line: usize,
    /// The changed function, or the section of a script.
    pub(super) place: String,
    pub(super) before: String,
    pub(super) after: String,
    /// How many mutants with the same place, before and after come earlier in the file.
    pub(super) nth: usize,
    /// The whole changed file, if it is a script.
    pub(super) text: Option<String>,
}

impl Mutant {
    /// Returns the mutant as the list of equivalent ones names it.
    pub(super) fn name(&self) -> String {
        match self.place.as_str() {
            "" => format!("{}: {}", self.short_file(), self.change()),
            place => format!("{} {place}: {}", self.short_file(), self.change()),
        }
    }

    /// Returns the name of the file's crate.
    pub(super) fn package(&self) -> &str {
        let file = self.short_file();
        file.split('/').next().unwrap_or(file)
    }

    /// Returns the file's path without `crates/`.
    fn short_file(&self) -> &str {
        self.file.strip_prefix("crates/").unwrap_or(&self.file)
    }

    /// Returns a description of the change, such as ``` `a < b` → `a <= b` ```.
    pub(super) fn change(&self) -> String {
        let nth = match self.nth {
            0 => String::new(),
            nth => format!(" (no. {})", nth + 1),
        };
        match self.after.as_str() {
            "" | "left out" => format!("`{}` left out{nth}", self.before),
            after => format!("`{}` → `{after}`{nth}", self.before),
        }
    }
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (file, line, place) = (&self.file, self.line, &self.place);
        write!(f, "{file}:{line} {place}: {}", self.change())
    }
}

/// Collects the mutants of one file.
#[derive(Debug)]
pub(super) struct Mutants {
    file: String,
    /// The byte offset of the end of each line.
    ends: Vec<usize>,
    known: HashMap<(String, String, String), usize>,
    mutants: Vec<Mutant>,
}

impl Mutants {
    pub(super) fn of(file: &str, source: &str) -> Self {
        Self {
            file: file.to_owned(),
            ends: source.match_indices('\n').map(|(at, _)| at).collect(),
            known: HashMap::new(),
            mutants: Vec::new(),
        }
    }

    /// Adds a change at the byte `at` of the file, and returns its id.
    pub(super) fn add(&mut self, at: usize, place: &str, before: &str, after: &str) -> u64 {
        let key = (place.to_owned(), squeezed(before), squeezed(after));
        let count = self.known.entry(key.clone()).or_default();
        let nth = *count;
        *count += 1;
        let mut hasher = DefaultHasher::new();
        (&self.file, &key, nth).hash(&mut hasher);
        let id = hasher.finish();
        let (place, before, after) = key;
        self.mutants.push(Mutant {
            id,
            file: self.file.clone(),
            line: 1 + self.ends.partition_point(|&end| end < at),
            place,
            before,
            after,
            nth,
            text: None,
        });
        id
    }

    /// Adds a change to a script that turns it into `text`.
    pub(super) fn add_text(&mut self, at: usize, place: &str, change: [&str; 2], text: String) {
        self.add(at, place, change[0], change[1]);
        if let Some(mutant) = self.mutants.last_mut() {
            mutant.text = Some(text);
        }
    }

    pub(super) fn into_vec(self) -> Vec<Mutant> {
        self.mutants
    }
}

/// Joins `text` into one line.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! One mutant: what is changed, and where.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One change of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mutant {
    /// A number that stays the same as long as what follows does, save for the line.
    pub(super) id: u64,
    pub(super) file: String,
    pub(super) line: usize,
    /// The function that is changed, or the section of a script.
    pub(super) place: String,
    pub(super) before: String,
    pub(super) after: String,
    /// How many mutants of this place, before and after come first in the file.
    pub(super) nth: usize,
    /// The changed file, if it is a script.
    pub(super) text: Option<String>,
}

impl Mutant {
    /// Returns the file as documents name it.
    pub(super) fn shown_file(&self) -> &str {
        self.file.strip_prefix("crates/").unwrap_or(&self.file)
    }

    /// Returns the crate that the file is in.
    pub(super) fn package(&self) -> &str {
        let file = self.shown_file();
        file.split('/').next().unwrap_or(file)
    }

    /// Returns the change, such as ``` `a < b` → `a <= b` ```.
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

/// The mutants of one file, while they are being found.
#[derive(Debug)]
pub(super) struct Mutants {
    file: String,
    /// Where each line ends.
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

    /// Adds a change at the byte `at` of the file, and returns its number.
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

    /// Adds a change of a script, which makes `text` of it.
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

/// Returns `text` in one line.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

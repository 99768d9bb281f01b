//! The contract of a script: what ties each pure machine to its twin on a server.
//!
//! A `script.lua` is sections, each under a line `--@ NAME`. They are put together to whole scripts,
//! in which every section sees what those before it have left in local variables, and, of what it
//! was sent, `now` (microseconds), `slack` (milliseconds that a key is kept longer than needed),
//! `key`, `cost`, `counted` (1 where denied calls count), and its parameters under the names of
//! [`Paired::PARAMETERS`].
//!
//! | section | what it is | also receives | must leave |
//! |---|---|---|---|
//! | `read` | statements | | the state as it counts at `now`, and `raw`, what [`Paired::decode`] is told, unless `answer` leaves it |
//! | `fits` | an expression | | whether `cost`, which is not 0, is admitted |
//! | `remaining` | an expression | | the largest cost that is admitted |
//! | `answer` | statements, or none | `fits` | `raw` |
//! | `commit` | statements | `amount`, to count, not 0 | the state on the server, with a TTL |
//! | `locate` | statements, or none | `amount`, to give back, and `since`, when it was counted | what `refund` needs; it writes nothing, and fails where `refund` would |
//! | `refund` | statements | as `locate` | the state on the server, with a TTL, unless nothing is given back |
//! | `search` | functions, or none | | they are put wherever another section says `@search` |
//!
//! A section may name anything else as it likes: in a request about several limits each has a scope
//! of its own.

use smallvec::SmallVec;

use super::{Machine, State};
use crate::time::MAX_EXACT;

/// A script's numbers, few but for a ring of many buckets.
pub(crate) type Words = SmallVec<[u64; 8]>;

/// The most parameters that a script may have: the places that a request about many limits holds.
pub(crate) const MOST_PARAMETERS: usize = 4;

/// What was asked of a state, which says what its script has told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The instant it was decided at.
    pub(crate) now: u64,
    /// The cost that it was asked to admit.
    pub(crate) cost: u64,
}

/// A machine that has a script.
pub(crate) trait Paired: Machine {
    /// The sections of the script.
    const SCRIPT: &'static str;
    /// The names of the parameters, in the order of [`parameters`](Self::parameters).
    const PARAMETERS: &'static [&'static str];
    /// Whether a state is a list on the server, and not a string.
    const IS_LIST: bool = false;

    /// Returns the parameters of the script.
    fn parameters(&self) -> Words;

    /// Returns the state that the script told, or `None` if no script tells such a state.
    ///
    /// It is the state as it was before the request, or as much of it as deciding depends on.
    fn decode(&self, told: &[u64], asked: Asked) -> Option<State>;

    /// Returns the numbers in a [shape](Machine::shape), of which `shape` is what follows the name.
    fn numbers(shape: &str) -> Option<Words> {
        shape.is_empty().then(Words::new)
    }

    /// Returns the latest instant that a state has seen, or `None` if no limit writes such a state.
    ///
    /// `shape` holds the [numbers](Self::numbers) in the key; `values` is the one value of a string,
    /// or the first and the last element of a list.
    fn latest(shape: &[u64], values: &[Vec<u8>]) -> Option<u64>;
}

/// A script, and how to read what it writes.
#[derive(Debug)]
pub(crate) struct Twin {
    /// What the algorithm is called.
    pub(crate) name: &'static str,
    /// The names of the parameters, in the order in which they are sent.
    pub(crate) parameters: &'static [&'static str],
    /// See [`Paired::IS_LIST`].
    pub(crate) is_list: bool,
    /// See [`Paired::latest`].
    pub(crate) latest: fn(&[u64], &[Vec<u8>]) -> Option<u64>,
    numbers: fn(&str) -> Option<Words>,
    script: &'static str,
}

impl Twin {
    /// Returns the twin of `M`.
    pub(super) const fn of<M: Paired>() -> Self {
        const { assert!(M::PARAMETERS.len() <= MOST_PARAMETERS) };
        Self {
            name: M::NAME,
            parameters: M::PARAMETERS,
            is_list: M::IS_LIST,
            latest: M::latest,
            numbers: M::numbers,
            script: M::SCRIPT,
        }
    }

    /// Returns the name in scripts.
    pub(crate) fn function(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the numbers in a [shape](Machine::shape), if it is one of this algorithm.
    pub(crate) fn numbers(&self, shape: &str) -> Option<Words> {
        (self.numbers)(shape.strip_prefix(self.name)?)
    }

    /// Returns the lines under `--@ name`, without comments, and with those under `--@ search`
    /// wherever they say `@search`.
    pub(crate) fn section(&self, name: &str) -> String {
        let is_code = |line: &&str| !line.trim_start().starts_with("--");
        let lines = |name: &str| {
            let lines = self.lines(name).lines().filter(is_code);
            lines.collect::<Vec<_>>().join("\n")
        };
        lines(name).replace("@search", &lines("search"))
    }

    /// Returns the lines under `--@ name`, up to the next such line.
    fn lines(&self, name: &str) -> &'static str {
        let heading = format!("--@ {name}\n");
        let start = self.script.find(&heading).map(|at| at + heading.len());
        let rest = start.map_or("", |start| &self.script[start..]);
        rest.split("--@ ").next().unwrap_or(rest).trim()
    }
}

/// Returns the integers that `raw` holds as doubles, if it holds nothing else.
pub(crate) fn words(raw: &[u8]) -> Option<Words> {
    let (words, rest) = raw.as_chunks();
    if !rest.is_empty() {
        return None;
    }
    words.iter().map(|&word| integer(word)).collect()
}

/// Returns the integer that a double holds, if it holds one from zero to 2^53 - 1.
pub(crate) fn integer(word: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(word);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is not such an integer does not come back as it was"
    )]
    let integer = number as u64;
    (integer <= MAX_EXACT && double(integer) == word).then_some(integer)
}

/// Returns the double that holds an integer, at most 2^53.
pub(crate) fn double(number: u64) -> [u8; 8] {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a double holds every integer up to 2^53"
    )]
    let number = number.min(MAX_EXACT + 1) as f64;
    number.to_le_bytes()
}

//! What ties each pure machine to its twin on a server.

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, State, with_machine};

/// A script's numbers, few but for a ring of many buckets.
pub(crate) type Words = SmallVec<[u64; 8]>;

/// A twin's name and its script.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) name: &'static str,
    script: &'static str,
}

/// The twins, by their codes.
pub(super) const TWINS: [Twin; 5] = [
    Twin {
        name: "fixed_window",
        script: include_str!("../algorithm/fixed_window/script.lua"),
    },
    Twin {
        name: "gcra",
        script: include_str!("../algorithm/gcra/script.lua"),
    },
    Twin {
        name: "sliding_buckets",
        script: include_str!("../algorithm/sliding_buckets/script.lua"),
    },
    Twin {
        name: "sliding_counter",
        script: include_str!("../algorithm/sliding_counter/script.lua"),
    },
    Twin {
        name: "sliding_log",
        script: include_str!("../algorithm/sliding_log/script.lua"),
    },
];

impl Twin {
    /// Returns the lines under `--@ name`, with those under `--@ search` wherever they say `@search`.
    pub(super) fn section(&self, name: &str) -> String {
        self.lines(name).replace("@search", self.lines("search"))
    }

    /// Returns the lines under `--@ name`, up to the next such line.
    fn lines(&self, name: &str) -> &'static str {
        let heading = format!("--@ {name}\n");
        let start = self.script.find(&heading).map(|at| at + heading.len());
        let rest = start.map_or("", |start| &self.script[start..]);
        rest.split("--@ ").next().unwrap_or(rest).trim()
    }

    /// Returns the names of the parameters, in the order in which they are sent.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.lines("parameters").split(',').map(str::trim)
    }
}

/// The most parameters that a twin has.
pub(super) const MOST_PARAMETERS: usize = 4;

/// What was asked of a state, which says what its script has told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The instant it was decided at.
    pub(crate) now: u64,
    /// The cost that it was asked to admit.
    pub(crate) cost: u64,
}

/// What a machine shares with its twin.
pub(crate) trait Paired {
    /// Returns the parameters of the script, in its order.
    fn parameters(&self) -> Words;

    /// Returns the state that the script told, or `None` if no script tells such a state.
    ///
    /// It is the state as it was before the request, or as much of it as deciding depends on.
    fn decode(&self, told: &[u64], asked: Asked) -> Option<State>;

    /// Returns the latest instant that a state has seen, or `None` if no limit writes such a state.
    ///
    /// `shape` holds the numbers in the shape that the key names; `values` is the one value of a
    /// string, or the first and the last element of a list.
    fn latest(shape: &[u64], values: &[Vec<u8>]) -> Option<u64>;
}

impl Algorithm {
    /// Returns the place of this algorithm's twin in [`TWINS`].
    pub(super) const fn code(&self) -> usize {
        match self {
            Self::FixedWindow(_) => 0,
            Self::Gcra(_) => 1,
            Self::SlidingBuckets(_) => 2,
            Self::SlidingCounter(_) => 3,
            Self::SlidingLog(_) => 4,
        }
    }

    pub(super) fn parameters(&self) -> Words {
        with_machine!(self, machine => machine.parameters())
    }

    pub(super) fn decode(&self, told: &[u64], asked: Asked) -> Option<State> {
        with_machine!(self, machine => machine.decode(told, asked))
    }
}

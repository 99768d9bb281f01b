//! `Paired` and `Twin`: connect each pure machine to its script on a server.
//!
//! A `script.lua` consists of sections, each under a line `--@ NAME`, from which whole scripts are
//! assembled. A section can use the local variables of the sections before it, and these inputs:
//! `now` (microseconds), `slack` (milliseconds that a key is kept longer than needed), `key`,
//! `cost`, `counted` (1 if denied calls count), and the parameters, under the names in
//! [`Paired::PARAMETERS`].
//!
//! If a state is a string, the script around the sections reads and writes it: `read` also receives
//! `raw`, the value, which is empty if there is none, and a section that writes sets `state` to the new
//! value and `ttl` to the milliseconds that it is kept, or sets neither. Sections for a
//! [list](Paired::IS_LIST) call the commands themselves.
//!
//! | section | what it is | also receives | must leave or return |
//! |---|---|---|---|
//! | `cover` | an expression (optional) | | whether a period that the call brings holds `now`: if not, the script replies `2` and `now`, and does nothing else |
//! | `read` | statements | | the state as of `now`; for a list also `raw`, the bytes for [`Paired::decode`], unless `answer` leaves them |
//! | `fits` | an expression | | whether `cost`, which is not 0, is admitted |
//! | `remaining` | an expression | | the largest cost that is admitted |
//! | `left` | an expression (optional) | `within` | how many units fit that are used until `within` microseconds later, if not as many as `remaining` |
//! | `ahead` | statements (optional) | `within`, and as `commit`; `cost` of the units are used now | what `commit` needs to record units that are used until then |
//! | `answer` | statements (optional) | `fits` | `raw` |
//! | `commit` | statements | `amount`, the cost to count, not 0; it may be more than fits | the new state, with a TTL |
//! | `block` | statements (optional) | `mode`, 0 for the usual time, 1 until an instant, 2 for a time; `span`, the instant or the time | `free`, whether the key is not blocked afterwards, and the new state, with a TTL, if it changes |
//! | `delay` | statements (optional) | | `own`, how long this limit alone delays a call of `cost`; writes nothing |
//! | `reserve` | statements (optional) | `amount`, and `delay`, at least `own` | the new state, with a TTL |
//! | `locate` | statements (optional) | `amount`, the cost to give back, and `since`, when it was counted | what `refund` needs; writes nothing, and fails if `refund` would |
//! | `refund` | statements | as `locate`, but `amount` is not 0; for a reservation, `taken`, `before` and `starts_before`, from [`Paired::reserved`] | the new state, with a TTL, unless nothing is given back |
//! | `give` | statements (optional) | `cost` | the new state, with a TTL, after the newest units are given back, if there are any |
//! | `search` | functions (optional) | | inserted wherever another section says `@search`; so are `commit` and `lower` |
//!
//! An algorithm without `delay` has no reservations, and one without `block` blocks no key.
//!
//! All other local names are free, except those of the frame of a batch (a test of `tollgate-wire`
//! lists them): if a request has several limits, each has a scope of its own.

use smallvec::SmallVec;

use super::{Machine, Reserved, State};
use crate::time::MAX_EXACT;

/// Numbers sent to or by a script: few, except for a ring of many buckets.
pub type Words = SmallVec<[u64; 8]>;

/// The most parameters that a script may have: the argument of `unit.lua` has this many per limit.
pub const MOST_PARAMETERS: usize = 4;

/// The instant and cost of a call, which a machine needs to decode the reply.
#[expect(
    clippy::exhaustive_structs,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug)]
pub struct CallContext {
    /// The instant of the decision.
    pub now: u64,
    /// The cost of the call.
    pub cost: u64,
}

/// A machine that has a script.
pub(super) trait Paired: Machine {
    /// The sections of the script.
    const SCRIPT: &'static str;
    /// The names of the parameters, in the order of [`parameters`](Self::parameters).
    const PARAMETERS: &'static [&'static str];
    /// Whether a state is a list on the server, instead of a string.
    const IS_LIST: bool = false;

    /// Returns the parameters of the script. If it counts by a calendar, the three boundaries of the
    /// [periods](Machine::periods) that the call brings follow them.
    fn parameters(&self) -> Words;

    /// Decodes the state in a script's reply, or returns `None` if no script replies with such a
    /// state.
    ///
    /// It is the state before the request (after it, for a refund), or the part of it that the
    /// decision depends on.
    fn decode(&self, reply: &[u64], call: CallContext) -> Option<State>;

    /// Returns the numbers that the script needs to cancel a reservation: `taken`, when it was
    /// recorded; `before`, what was counted then; and `starts_before`, the latest start then. Called only
    /// if there is a [longest delay](Machine::longest_delay).
    fn reserved(&self, _reserved: &Reserved) -> [u64; 3] {
        Default::default()
    }

    /// Returns the numbers in a [shape](Machine::shape); `shape` is the part after the name.
    fn numbers(shape: &str) -> Option<Words> {
        shape.is_empty().then(Words::new)
    }

    /// Returns what a state tells without its limit, or `None` if no limit writes such a state, or if it
    /// is a list. `shape` holds the [numbers](Self::numbers) in the key.
    fn told(_shape: &[u64], _state: &[u64]) -> Option<Told> {
        None
    }

    /// Returns the latest instant recorded in a state, or `None` if no limit writes such a state.
    ///
    /// `shape` holds the [numbers](Self::numbers) in the key. `values` holds the value of a string,
    /// or the first and the last element of a list.
    fn latest(shape: &[u64], values: &[Vec<u8>]) -> Option<u64>;
}

/// What a state tells without its limit, as of the last write; instants in microseconds.
#[expect(
    clippy::exhaustive_structs,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// The units that it holds: under GCRA, the debt; of two windows, those of the newer.
    pub consumed: Option<u64>,
    /// The units of the earlier of two windows.
    pub previous: Option<u64>,
    /// When the window or the block began.
    pub since: Option<u64>,
    /// When something was counted last.
    pub last: Option<u64>,
    /// When nothing of it counts any more.
    pub ends: Option<u64>,
}

/// A script, and the functions that read the states it writes.
#[derive(Debug)]
pub struct Twin {
    /// The algorithm's name.
    pub name: &'static str,
    /// The names of the parameters, in the order in which they are sent.
    pub parameters: &'static [&'static str],
    /// Whether a state is a list on the server, instead of a string.
    pub is_list: bool,
    /// Returns what a state tells without its limit: see `Paired::told`.
    pub told: fn(&[u64], &[u64]) -> Option<Told>,
    /// Returns the latest instant recorded in a state: see `Paired::latest`.
    pub latest: fn(&[u64], &[Vec<u8>]) -> Option<u64>,
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
            told: M::told,
            latest: M::latest,
            numbers: M::numbers,
            script: M::SCRIPT,
        }
    }

    /// Returns the name of the algorithm's Lua function.
    pub fn function(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the numbers in a shape, such as `fixed-window-60000000`, or `None` if it is another
    /// algorithm's.
    pub fn numbers(&self, shape: &str) -> Option<Words> {
        (self.numbers)(shape.strip_prefix(self.name)?)
    }

    /// Returns the code under `--@ name`.
    pub fn section(&self, name: &str) -> String {
        let is_code = |line: &&str| !line.trim_start().starts_with("--");
        let lines = self.lines(name).lines().filter(is_code);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines under `--@ name`, up to the next section.
    fn lines(&self, name: &str) -> &'static str {
        let heading = format!("--@ {name}\n");
        let start = self.script.find(&heading).map(|at| at + heading.len());
        let rest = start.map_or("", |start| &self.script[start..]);
        rest.split("--@ ").next().unwrap_or(rest).trim()
    }
}

/// Decodes `raw` as integers in doubles, or returns `None` if it is anything else.
pub fn words(raw: &[u8]) -> Option<Words> {
    let (words, rest) = raw.as_chunks();
    if !rest.is_empty() {
        return None;
    }
    words.iter().map(|&word| integer(word)).collect()
}

/// Decodes a double as an integer, or returns `None` if it is not one from zero to 2^53 - 1.
pub fn integer(word: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(word);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is not such an integer does not come back as it was"
    )]
    let integer = number as u64;
    (integer <= MAX_EXACT && double(integer) == word).then_some(integer)
}

/// Encodes an integer as a double, capped at 2^53.
pub fn double(number: u64) -> [u8; 8] {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a double holds every integer up to 2^53"
    )]
    let number = number.min(MAX_EXACT + 1) as f64;
    number.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, TWINS};
    use crate::time::Timestamp;

    #[test]
    fn an_algorithm_sends_its_parameters_and_reads_its_states() {
        let call = CallContext { now: 7, cost: 1 };
        for written in [
            "fixed-window:4/1m",
            "gcra:4/1m",
            "sliding-buckets:4/1m,buckets=12",
            "sliding-counter:4/1m",
            "sliding-log:4/1m",
            #[cfg(feature = "calendar")]
            "fixed-window:4/month@Europe/Berlin",
        ] {
            let algorithm: Algorithm = written.parse().unwrap();
            let twin = &TWINS[algorithm.code()];
            let periods = algorithm.periods(Timestamp::UNIX_EPOCH);
            let boundaries = periods.map_or(0, |periods| periods.len() + 1);
            let sent = algorithm.parameters().len() + boundaries;
            assert_eq!(sent, twin.parameters.len(), "{written}");
            assert!(algorithm.decode(&[1], call).is_none(), "{written}");
        }
        let gcra: Algorithm = "gcra:4/1m".parse().unwrap();
        let shown = |state: State| format!("{state:?}");
        let fresh = shown(State::default());
        assert_ne!(
            gcra.decode(&[5, 6, 7], call).map(shown),
            Some(fresh.clone())
        );
        assert_eq!(gcra.decode(&[], call).map(shown), Some(fresh));
        // No debt is counted in units of nothing, with a later start or without.
        for reply in [&[5, 6, 0][..], &[5, 6, 0, 7], &[5, 6, 7, 8, 9]] {
            assert!(gcra.decode(reply, call).is_none(), "{reply:?}");
        }
    }

    #[test]
    fn a_shape_without_numbers_is_only_a_name() {
        let mut twins = TWINS.iter();
        let gcra = twins.find(|twin| twin.name == "gcra").unwrap();
        assert_eq!(gcra.numbers("gcra"), Some(Words::new()));
        assert_eq!(gcra.numbers("gcra-7"), None);
        assert_eq!(gcra.numbers("sliding-log"), None);
    }
}

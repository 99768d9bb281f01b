//! `OtherState`: states of a key that the limits in question do not read.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tollgate_core::inside::encoding::{LEASES, SCHEDULE};
use tollgate_core::{ErrorKind, Key, Limit, Quota, StoreError};

use super::slot::slot_of;
use super::{Node, Nodes, Sender, accepted, command};
use crate::fault::Effect;
use crate::keyspace::Keyspace;
use crate::options::TimeSource;
use crate::store::WireStore;

/// How many keys are asked for in one round trip.
const ASKED: usize = 1_000;

/// Limits whose keys do not depend on the window, and what stands for their numbers.
const WITHOUT_WINDOW: [(&str, &str); 3] = [
    ("gcra:1/1s", "gcra:N/WINDOW"),
    ("sliding-log:1/1s", "sliding-log:N/WINDOW"),
    ("block:1s", "block:LENGTH"),
];

/// The algorithms whose keys depend on the window, and their options.
const WITH_WINDOW: [(&str, &str); 10] = [
    ("fixed-window", ""),
    ("fixed-window", ",anchored"),
    ("sliding-counter", ""),
    ("sliding-buckets", ",buckets=4"),
    ("sliding-buckets", ",buckets=6"),
    ("sliding-buckets", ",buckets=10"),
    ("sliding-buckets", ",buckets=12"),
    ("sliding-buckets", ",buckets=24"),
    ("sliding-buckets", ",buckets=30"),
    ("sliding-buckets", ",buckets=60"),
];

/// The windows, in seconds, that are looked for beside those of the limits in question.
const WINDOWS: [u64; 22] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600,
    43_200, 86_400, 604_800, 2_592_000,
];

/// A state that a server holds for a key and the name of a limit, but that this limit does not read.
///
/// [`Operate::other_states`](super::Operate::other_states) finds it. The name of the limit is part
/// of a key's text, and so are the algorithm, the window of some algorithms, and the clock; a limit
/// that is given with another algorithm than the service's reads a state that does not exist.
///
/// `Display` writes the limit with letters in place of the numbers that a key does not show, such as
/// `login=fixed-window:N/1h,anchored` or `login=gcra:N/WINDOW`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OtherState {
    /// The name of the limit; for another [`kind`](Self::kind), that of the schedule or the leases.
    pub name: String,
    /// What holds the state: a limit, such as `fixed-window:N/1h,anchored`; or `schedule`, or
    /// `leases`.
    pub kind: String,
    /// The clock at whose instants it was written.
    pub clock: TimeSource,
}

impl fmt::Display for OtherState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.as_str() {
            SCHEDULE | LEASES => write!(f, "the {} called {}", self.kind, self.name),
            kind => write!(f, "{}={kind}", self.name),
        }
    }
}

impl<E: Nodes> WireStore<E> {
    /// Like [`Operate::other_states`](super::Operate::other_states).
    ///
    /// Where a key names a window, these are the windows of `limits` and common ones, from a second
    /// to 30 days; likewise common numbers of buckets. A few hundred keys are asked for with
    /// `EXISTS`, in one round trip for each name.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn other_states(
        &self,
        limits: &[Limit],
        key: Key<'_>,
    ) -> Result<Vec<OtherState>, StoreError> {
        let sender = self.sender();
        let keyspace = Keyspace::new(self.options());
        let is_caller = self.options().time_source() == TimeSource::Caller;
        let own: BTreeSet<_> = limits
            .iter()
            .map(|limit| keyspace.one(limit.identity(), key, is_caller))
            .collect();
        let mut candidates = Vec::new();
        for limit in limits {
            for (identity, kind) in kinds(limit.name(), limits) {
                for (key, clock) in keyspace.both(&identity, key).into_iter().zip(CLOCKS) {
                    if !own.contains(&key) {
                        let name = limit.name().to_owned();
                        let kind = kind.clone();
                        candidates.push((key, OtherState { name, kind, clock }));
                    }
                }
            }
        }
        let keys: Vec<_> = candidates.iter().map(|(key, _)| key.as_slice()).collect();
        let exist = sender.exist(&keys).await?.into_iter();
        let found = exist.zip(candidates).filter(|(exists, _)| *exists);
        Ok(found.map(|(_, (_, state))| state).collect())
    }
}

impl<E: Nodes> Sender<'_, E> {
    /// Returns which of `keys`, which all have the same hash tag, exist.
    pub(super) async fn exist(&self, keys: &[&[u8]]) -> Result<Vec<bool>, StoreError> {
        let mut exist = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ASKED) {
            let node = node_of(self.engine, keys[0]);
            let commands: Vec<_> = keys.iter().map(|key| command([b"EXISTS", key])).collect();
            for reply in self.send(&node, &commands, Effect::Nothing).await? {
                let said = "the server's reply to EXISTS is not understood";
                let count = accepted(reply)?.number();
                let count = count.ok_or_else(|| StoreError::new(ErrorKind::Protocol, said))?;
                exist.push(count > 0);
            }
        }
        Ok(exist)
    }
}

/// Returns the server that has `key`.
pub(super) fn node_of(engine: &impl Nodes, key: &[u8]) -> Node {
    if engine.is_clustered() {
        Node::Serving(slot_of(key))
    } else {
        Node::Any
    }
}

/// The clocks, in the order of [`Keyspace::both`].
const CLOCKS: [TimeSource; 2] = [TimeSource::Server, TimeSource::Caller];

/// Returns the [kind](OtherState::kind) of states whose keys have this `shape`.
pub(super) fn kind_of(shape: &str) -> Option<String> {
    let letters = |(_, kind): &&(&str, &str)| kind.split(':').next() == Some(shape);
    if let Some((_, kind)) = WITHOUT_WINDOW.iter().find(letters) {
        return Some((*kind).to_owned());
    }
    if let Some(calendar) = shape.strip_prefix("calendar-window-") {
        let (unit, zone) = calendar.split_once('-')?;
        return Some(format!("fixed-window:N/{unit}@{zone}"));
    }
    let (algorithm, numbers, options) = [
        ("fixed-window", "fixed-window-aligned-", ""),
        ("fixed-window", "fixed-window-anchored-", ",anchored"),
        ("sliding-counter", "sliding-counter-", ""),
        ("sliding-buckets", "sliding-buckets-", ",buckets="),
    ]
    .iter()
    .find_map(|&(algorithm, start, options)| {
        Some((algorithm, shape.strip_prefix(start)?, options))
    })?;
    let (window, buckets) = numbers.split_once('-').unwrap_or((numbers, ""));
    let window = window_text(Duration::from_micros(window.parse().ok()?))?;
    Some(format!("{algorithm}:N/{window}{options}{buckets}"))
}

/// Returns `window` as the text of a limit has it.
fn window_text(window: Duration) -> Option<String> {
    let text = Quota::new(1, window).ok()?.to_string();
    Some(text.trim_start_matches("1/").to_owned())
}

/// Returns the identity and the [kind](OtherState::kind) of everything that could be called `name`.
fn kinds(name: &str, limits: &[Limit]) -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    let mut add = |algorithm: &str, kind: String| {
        // A combination that is not possible, such as a window of 1 µs in 12 buckets, has no states.
        if let Ok(limit) = format!("{name}={algorithm}").parse::<Limit>() {
            let identity = limit.identity().to_owned();
            if kinds.iter().all(|(other, _)| *other != identity) {
                kinds.push((identity, kind));
            }
        }
    };
    for (algorithm, kind) in WITHOUT_WINDOW {
        add(algorithm, kind.to_owned());
    }
    let windows_given = limits
        .iter()
        .map(|limit| limit.algorithm().quota().window());
    let windows = windows_given.chain(WINDOWS.map(Duration::from_secs));
    for window in windows.filter_map(window_text) {
        for (algorithm, options) in WITH_WINDOW {
            let said = format!("{algorithm}:1/{window}{options}");
            add(&said, format!("{algorithm}:N/{window}{options}"));
        }
    }
    let texts = limits.iter().map(|limit| limit.algorithm().to_string());
    let given: Vec<_> = texts.collect();
    let zones = given.iter().filter_map(|text| text.split_once('@'));
    for zone in zones.map(|(_, zone)| zone).chain(["UTC"]) {
        for unit in ["day", "week", "month", "year"] {
            let said = format!("fixed-window:1/{unit}@{zone}");
            add(&said, format!("fixed-window:N/{unit}@{zone}"));
        }
    }
    for text in given {
        // Its own number of buckets, for the case that only the clock is another one.
        add(&text, text.clone());
    }
    for shape in [SCHEDULE, LEASES] {
        kinds.push((format!("{name}:{shape}"), shape.to_owned()));
    }
    kinds
}

#[cfg(test)]
mod tests {
    use tollgate_core::inside::twins::TWINS;

    use super::*;

    #[test]
    fn every_algorithm_is_looked_for_and_has_a_kind() {
        let kinds = kinds("login", &[]);
        for twin in &TWINS {
            let (shape, kind) = kinds
                .iter()
                .filter_map(|(identity, kind)| Some((identity.strip_prefix("login:")?, kind)))
                .find(|(shape, _)| twin.numbers(shape).is_some())
                .unwrap_or_else(|| panic!("no {} is looked for", twin.name));
            assert_eq!(kind_of(shape).as_ref(), Some(kind));
        }
    }

    #[test]
    fn every_key_is_looked_for_once() {
        let limits: Vec<Limit> = [
            "login=sliding-buckets:5/7s,buckets=9",
            "b=gcra:5/1h",
            "c=fixed-window:5/day@Europe/Berlin",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let kinds = kinds("login", &limits);
        let identities: BTreeSet<_> = kinds.iter().map(|(identity, _)| identity).collect();
        assert_eq!(identities.len(), kinds.len());
        for (identity, kind) in [
            ("login:gcra", "gcra:N/WINDOW"),
            ("login:block", "block:LENGTH"),
            ("login:fixed-window-aligned-7000000", "fixed-window:N/7s"),
            (
                "login:fixed-window-anchored-3600000000",
                "fixed-window:N/1h,anchored",
            ),
            (
                "login:sliding-buckets-7000000-12",
                "sliding-buckets:N/7s,buckets=12",
            ),
            (
                "login:sliding-buckets-7000000-9",
                "sliding-buckets:5/7s,buckets=9",
            ),
            (
                "login:calendar-window-month-Europe/Berlin",
                "fixed-window:N/month@Europe/Berlin",
            ),
            ("login:calendar-window-day-UTC", "fixed-window:N/day@UTC"),
            ("login:schedule", "schedule"),
            ("login:leases", "leases"),
        ] {
            let pair = (identity.to_owned(), kind.to_owned());
            assert!(kinds.contains(&pair), "{identity} in {kinds:#?}");
        }
        // A key that is found shows the same, except for the numbers of the limits in question.
        for (identity, kind) in &kinds {
            let shape = identity.strip_prefix("login:").unwrap();
            if let Some(shown) = kind_of(shape).filter(|_| kind.contains('N')) {
                assert_eq!(shown, *kind, "{identity}");
            }
        }
        assert_eq!(
            kind_of("calendar-window-day-America/Port-au-Prince").as_deref(),
            Some("fixed-window:N/day@America/Port-au-Prince")
        );
        // Few enough for one round trip, for both clocks.
        assert!(2 * kinds.len() <= ASKED, "{}", kinds.len());
    }
}

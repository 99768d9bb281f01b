//! `Search` and `FoundState`: finds the states of a prefix, page by page, and peeks at them.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use tollgate_core::inside::encoding::{LEASES, SCHEDULE};
use tollgate_core::store::{Check, Operation, Request, Uncovered, Verdict};
use tollgate_core::{ErrorKind, Key, Limit, Quota, StoreError};

use super::clear::UNLINKED;
use super::facts::{self, Facts};
use super::names::{Held, Name, name, pattern, pattern_of};
use super::slot::slot_of;
use super::states::READ;
use super::{Node, Nodes, Reply, Sender, accepted, command, refusal};
use crate::codec::{self, Question};
use crate::fault::{self, Effect};
use crate::keyspace::{ANSWER, CALLER, Keyspace, unescaped};
use crate::options::TimeSource;
use crate::script::Script;
use crate::store::WireStore;

/// What a script answers about a state that no limit writes.
const FOREIGN: [&str; 2] = ["WRONGTYPE", "data string too short"];

/// How many keys are asked for in one round trip.
const ASKED: usize = 1_000;

/// Limits whose keys do not depend on the window, and what stands for their numbers.
const WITHOUT_WINDOW: [(&str, &str); 3] = [
    ("gcra", "gcra:N/WINDOW"),
    ("sliding-log", "sliding-log:N/WINDOW"),
    ("block", "block:LENGTH"),
];

/// Selects the states that [`Operate::find`](super::Operate::find) returns, and keeps its place
/// among them.
///
/// By default, all states of a store's prefix: of every limit, schedule and key, and all leases, by
/// the server's clock or a caller's, with or without scripts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Search {
    limits: Vec<String>,
    /// The partition and the rest of a key.
    key: Option<(Vec<u8>, Vec<u8>)>,
    /// Other rests that are known in plain text.
    rests: Vec<Vec<u8>>,
    /// The servers that are not searched to the end, and the cursor of each; `None` before the
    /// first page.
    left: Option<VecDeque<(Node, Vec<u8>)>>,
}

impl Search {
    /// Selects all states of the store's prefix.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only states of the limit, the schedule or the leases called `name`; call this again
    /// to add others.
    #[must_use]
    pub fn with_limit(mut self, name: impl Into<String>) -> Self {
        self.limits.push(name.into());
        self
    }

    /// Selects only states of the partition of `key`, whatever their rest.
    #[must_use]
    pub fn with_key(mut self, key: Key<'_>) -> Self {
        self.key = Some((key.partition().to_vec(), key.rest().to_vec()));
        self
    }

    /// Names a rest that states of [the key's](Self::with_key) partition may have; call this again to
    /// add others. It selects nothing: a state of that rest has it as its [`rest`](FoundState::rest),
    /// also if the service hashes its keys.
    #[must_use]
    pub fn with_rest(mut self, rest: impl Into<Vec<u8>>) -> Self {
        self.rests.push(rest.into());
        self
    }
}

/// Who wrote a state.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Encoding {
    /// A script of this release.
    Script,
    /// A store without scripts.
    Scriptless,
    /// Another release.
    Other,
}

/// A state on a server, as its key shows it.
///
/// `Display` writes the limit with letters in place of the numbers that a key does not show, such as
/// `login=fixed-window:N/1h,anchored` or `login=gcra:N/WINDOW`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FoundState {
    /// The name of the limit, the schedule or the leases.
    pub name: String,
    /// What holds the state: a limit, such as `fixed-window:N/1h,anchored`; or `schedule`, `leases`
    /// or `answer`, which is the answer to a call with an id.
    pub kind: String,
    /// The clock at whose instants it was written.
    pub clock: TimeSource,
    /// Who wrote it.
    pub encoding: Encoding,
    /// The partition of the key; a hashed one as the server has it, which begins with `#`.
    pub partition: Vec<u8>,
    /// The rest of the key; a hashed one as the server has it, unless the search or the question
    /// [named it](Search::with_rest).
    pub rest: Vec<u8>,
    /// Whether the rest, too, is that of the key that was searched for; true for other searches.
    pub is_exact: bool,
    identity: String,
    key: Vec<u8>,
    node: Node,
}

/// A rest in plain text, and as keys have it.
struct Known<'r> {
    rest: &'r [u8],
    written: Vec<u8>,
}

impl<'r> Known<'r> {
    fn new(keyspace: &Keyspace, rest: &'r [u8]) -> Self {
        let written = keyspace.rest(rest);
        Self { rest, written }
    }
}

impl FoundState {
    fn new(
        name: &Name<'_>,
        key: &[u8],
        node: &Node,
        user: Option<&[u8]>,
        known: &[Known<'_>],
    ) -> Self {
        let kind = match name.shape {
            SCHEDULE | LEASES | ANSWER => name.shape.to_owned(),
            shape => kind_of(shape).unwrap_or_else(|| shape.to_owned()),
        };
        let encoding = match name.held {
            Held::Otherwise => Encoding::Other,
            Held::CounterFor(_) | Held::CounterOf(_) => Encoding::Scriptless,
            _ => Encoding::Script,
        };
        let close = name.user.iter().position(|&byte| byte == b'}');
        let (partition, rest) = name.user.split_at(close.unwrap_or(name.user.len()));
        let mut rest = rest.strip_prefix(b"}:").unwrap_or_default();
        if name.shape == ANSWER {
            // The key ends in a hash of the call's id.
            let end = rest.iter().rposition(|&byte| byte == b':').unwrap_or(0);
            rest = &rest[..end];
        }
        let known = known.iter().find(|known| known.written == rest);
        let is_exact = match user {
            Some(user) if name.shape == ANSWER => {
                let after = name.user.strip_prefix(user);
                after.is_some_and(|hash| !hash.iter().skip(1).any(|&byte| byte == b':'))
            }
            Some(user) => name.user == user,
            None => true,
        };
        Self {
            name: name.limit.to_owned(),
            kind,
            clock: if name.version == CALLER {
                TimeSource::Caller
            } else {
                TimeSource::Server
            },
            encoding,
            partition: unescaped(partition.strip_prefix(b"{").unwrap_or(partition)),
            rest: known.map_or_else(|| unescaped(rest), |known| known.rest.to_vec()),
            is_exact,
            identity: format!("{}:{}", name.limit, name.shape),
            key: key.to_vec(),
            node: node.clone(),
        }
    }

    /// Returns whether it is the answer to a call with an id, which counts nothing.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.kind == ANSWER
    }

    /// Returns whether a store with scripts and this `clock` reads the state for `limit`.
    #[must_use]
    pub fn is_of(&self, limit: &Limit, clock: TimeSource) -> bool {
        self.encoding == Encoding::Script
            && self.clock == clock
            && self.identity == limit.identity()
    }
}

impl fmt::Display for FoundState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, .. } = self;
        match kind.as_str() {
            SCHEDULE | LEASES => write!(f, "the {kind} called {name}"),
            ANSWER => write!(f, "the answer to a call with an id, kept by {name}"),
            _ => write!(f, "{name}={kind}"),
        }?;
        match self.encoding {
            Encoding::Script => Ok(()),
            Encoding::Scriptless => f.write_str(" without scripts"),
            Encoding::Other => f.write_str(" of another release"),
        }
    }
}

impl<E: Nodes> WireStore<E> {
    /// Like [`Operate::find`](super::Operate::find).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn find(&self, search: &mut Search) -> Result<Option<Vec<FoundState>>, StoreError> {
        let sender = self.sender();
        let prefix = self.options().prefix();
        let users = search.key.as_ref().map(|(partition, rest)| {
            let keyspace = Keyspace::new(self.options());
            let key = Key::new(partition);
            [key, key.with_rest(rest)].map(|key| keyspace.user(key))
        });
        let left = match &mut search.left {
            Some(left) => left,
            None => {
                let nodes = match &users {
                    Some([user, _]) if self.engine().is_clustered() => {
                        vec![Node::Serving(slot_of(user))]
                    }
                    _ => {
                        let masters = sender.masters().await?.into_iter();
                        masters.map(|master| master.node).collect()
                    }
                };
                let start = |node| (node, b"0".to_vec());
                search.left.insert(nodes.into_iter().map(start).collect())
            }
        };
        let Some((node, cursor)) = left.front() else {
            return Ok(None);
        };
        let limit = match search.limits.as_slice() {
            [limit] => Some(limit.as_str()),
            _ => None,
        };
        let pattern = match &users {
            Some([partition, _]) => pattern_of(prefix, limit, partition),
            None => pattern(prefix, limit),
        };
        let scan = sender.scan(node, cursor, &pattern).await?;
        // Few pages have states of the key.
        let known = LazyCell::new(|| {
            let own = search.key.iter().map(|(_, rest)| rest);
            let keyspace = Keyspace::new(self.options());
            let rests = own.chain(&search.rests);
            rests
                .map(|rest| Known::new(&keyspace, rest))
                .collect::<Vec<_>>()
        });
        let mut states = Vec::with_capacity(scan.keys.len());
        for key in &scan.keys {
            let Some(name) = name(prefix, key) else {
                continue;
            };
            let is_named = || search.limits.iter().any(|limit| limit == name.limit);
            // The pattern may also match within another key's rest.
            let is_of_key = |[partition, _]: &[Vec<u8>; 2]| name.user.starts_with(partition);
            if (search.limits.is_empty() || is_named()) && users.as_ref().is_none_or(is_of_key) {
                let exact = users.as_ref().map(|[_, exact]| exact.as_slice());
                states.push(FoundState::new(&name, key, node, exact, &known));
            }
        }
        if let Some((node, _)) = left.pop_front()
            && let Some(next) = scan.next
        {
            left.push_back((node, next));
        }
        Ok(Some(states))
    }

    /// Like [`Operate::held`](super::Operate::held), in one round trip of `EXISTS`.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn held(
        &self,
        limits: &[Limit],
        key: Key<'_>,
    ) -> Result<Vec<FoundState>, StoreError> {
        let keyspace = Keyspace::new(self.options());
        let user = keyspace.user(key);
        let known = [Known::new(&keyspace, key.rest())];
        let mut keys: Vec<_> = limits
            .iter()
            .flat_map(|limit| keyspace.both(limit.identity(), key))
            .collect();
        // Several limits may read the same state.
        keys.sort_unstable();
        keys.dedup();
        let asked: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let exist = self.sender().exist(&asked).await?;
        let held = keys.iter().zip(exist).filter(|(_, exists)| *exists);
        let found = held.filter_map(|(key, _)| {
            let name = name(self.options().prefix(), key)?;
            let node = node_of(self.engine(), key);
            Some(FoundState::new(&name, key, &node, Some(&user), &known))
        });
        Ok(found.collect())
    }

    /// Like [`Operate::forget`](super::Operate::forget).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn forget_found(&self, states: &[FoundState]) -> Result<u64, StoreError> {
        let sender = self.sender();
        let mut deleted = 0;
        for of_node in states.chunk_by(|one, other| one.node == other.node) {
            for some in of_node.chunks(UNLINKED) {
                let keys: Vec<_> = some.iter().map(|state| state.key.clone()).collect();
                deleted += sender.unlink(&some[0].node, &keys).await?;
            }
        }
        Ok(deleted)
    }

    /// Like [`Operate::read`](super::Operate::read).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn read(&self, states: &[FoundState]) -> Result<Vec<Option<Facts>>, StoreError> {
        let (sender, prefix) = (self.sender(), self.options().prefix());
        let mut read = Vec::with_capacity(states.len());
        for page in pages(states) {
            let reads = page.iter().map(|at| facts::reads(prefix, &at.key));
            let reads: Vec<_> = reads.collect();
            let (replies, now) = sender.read_each(&page[0].node, &reads).await?;
            for (state, own) in page.iter().zip(&replies) {
                read.push(facts::of(prefix, &state.key, own, now));
            }
        }
        Ok(read)
    }

    /// Like [`Operate::peek_at`](super::Operate::peek_at).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn peek_at(
        &self,
        limit: &Limit,
        states: &[FoundState],
    ) -> Result<Vec<Option<Verdict>>, StoreError> {
        let sender = self.sender();
        // The script decides on the states whose names it gets, so the key does not matter.
        let request = Request::new(Operation::Peek, [Check::new(limit, "", 1)]);
        let script = Script::of(&request, false);
        let load = command([b"SCRIPT", b"LOAD", script.text().as_bytes()]);
        let instant = self.instant(None)?;
        let mut cover = self.cover(&request, instant);
        let mut verdicts = Vec::with_capacity(states.len());
        for page in pages(states) {
            let mut is_again = false;
            let replies = loop {
                let question = Question {
                    request: &request,
                    instant,
                    cover: cover.as_deref(),
                };
                let argument = codec::argument(&question, self.options().caller_slack);
                let run = |state: &FoundState| {
                    command([
                        b"EVALSHA",
                        script.sha1().as_bytes(),
                        b"1",
                        &state.key,
                        &argument,
                    ])
                };
                // A user who may not load scripts may still run those that are loaded.
                let mut commands = vec![load.clone()];
                commands.extend(page.iter().map(run));
                let replies = sender
                    .send(&page[0].node, &commands, Effect::Nothing)
                    .await?;
                let uncovered = replies.iter().find_map(|reply| match reply {
                    Reply::Bytes(bytes) => codec::uncovered(&question, bytes),
                    _ => None,
                });
                match uncovered {
                    Some(Uncovered(instant)) if !is_again => {
                        cover = Some(Box::new(request.cover(instant)));
                        is_again = true;
                    }
                    Some(_) => return Err(fault::still_uncovered()),
                    None => break replies,
                }
            };
            let question = Question {
                request: &request,
                instant,
                cover: None,
            };
            for reply in replies.into_iter().skip(1) {
                verdicts.push(match reply {
                    Reply::Bytes(bytes) => match codec::decision(&question, &bytes) {
                        Ok(decided) => Some(decided.into_one()?.1),
                        Err(error) if error.kind() == ErrorKind::Misconfigured => None,
                        Err(error) => return Err(error),
                    },
                    Reply::Error(line) => {
                        if !FOREIGN.iter().any(|part| line.contains(part)) {
                            return Err(refusal(&line));
                        }
                        None
                    }
                    _ => return Err(codec::not_understood()),
                });
            }
        }
        Ok(verdicts)
    }
}

/// Splits `states` into those that are read in one round trip.
fn pages(states: &[FoundState]) -> impl Iterator<Item = &[FoundState]> {
    let of_nodes = states.chunk_by(|one, other| one.node == other.node);
    of_nodes.flat_map(|states| states.chunks(READ))
}

impl<E: Nodes> Sender<'_, E> {
    /// Returns which of `keys`, which all have the same hash tag, exist.
    async fn exist(&self, keys: &[&[u8]]) -> Result<Vec<bool>, StoreError> {
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
fn node_of(engine: &impl Nodes, key: &[u8]) -> Node {
    if engine.is_clustered() {
        Node::Serving(slot_of(key))
    } else {
        Node::Any
    }
}

/// Returns the [kind](FoundState::kind) of states whose keys have this `shape`.
fn kind_of(shape: &str) -> Option<String> {
    if let Some((_, kind)) = WITHOUT_WINDOW.iter().find(|(name, _)| *name == shape) {
        return Some((*kind).to_owned());
    }
    if let Some(calendar) = shape.strip_prefix("calendar-window-") {
        let (unit, zone) = calendar.split_once('-')?;
        let (zone, options) = zone.split_at(zone.find(',').unwrap_or(zone.len()));
        let options = options.replace('.', ":");
        return Some(format!("fixed-window:N/{unit}@{zone}{options}"));
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

#[cfg(test)]
mod tests {
    use tollgate_core::inside::twins::TWINS;

    use super::*;

    #[test]
    fn every_algorithm_has_a_kind() {
        let mut shapes = Vec::new();
        for row in [
            "gcra:5/1h => gcra:N/WINDOW",
            "sliding-log:5/1h => sliding-log:N/WINDOW",
            "block:5m => block:LENGTH",
            "fixed-window:5/7s => fixed-window:N/7s",
            "fixed-window:5/1h,anchored => fixed-window:N/1h,anchored",
            "fixed-window:5/day@America/Port-au-Prince => fixed-window:N/day@America/Port-au-Prince",
            "fixed-window:5/month@Etc/GMT-14,day=15 => fixed-window:N/month@Etc/GMT-14,day=15",
            "fixed-window:5/week@UTC,start=sunday,at=04:00 => fixed-window:N/week@UTC,start=sunday,at=04:00",
            "sliding-counter:5/1h => sliding-counter:N/1h",
            "sliding-buckets:5/7s,buckets=9 => sliding-buckets:N/7s,buckets=9",
        ] {
            let (limit, kind) = row.split_once(" => ").unwrap();
            let limit: Limit = format!("login={limit}").parse().unwrap();
            let shape = limit.identity().strip_prefix("login:").unwrap();
            assert_eq!(kind_of(shape).as_deref(), Some(kind));
            shapes.push(shape.to_owned());
        }
        for twin in &TWINS {
            let is_here = shapes.iter().any(|shape| twin.numbers(shape).is_some());
            assert!(is_here, "no {} is tried", twin.name);
        }
    }
}

//! `Callers`: what programs call themselves, and what they ask for, of each key of a log.

use std::collections::HashMap;

use serde::Serialize;

use super::record::Record;
use crate::failure::Failure;
use crate::text::printable;
use crate::trace::{KeyId, Keys};

/// How much is kept of a user agent, and of a path.
const KEPT: usize = 200;

/// The user agents and paths of requests, in 12 bytes for each request.
#[derive(Default)]
pub(crate) struct Callers {
    agents: Keys,
    paths: Keys,
    /// By request, in the order of the logs.
    requests: Vec<[KeyId; 3]>,
}

/// The user agent and the path of the most requests of a key; empty if the log does not have them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Caller {
    #[serde(rename = "user_agent")]
    pub(crate) agent: String,
    pub(crate) path: String,
}

impl Callers {
    pub(super) fn push(&mut self, key: KeyId, record: &Seen) -> Result<(), Failure> {
        let agent = self.agents.intern(&record.agent)?;
        let path = self.paths.intern(&record.path)?;
        self.requests.push([key, agent, path]);
        Ok(())
    }

    /// Returns the callers behind keys.
    pub(crate) fn of(&self, keys: &[usize]) -> Vec<Caller> {
        let places: HashMap<_, _> = keys.iter().zip(0_usize..).collect();
        let mut counts = vec![<[HashMap<usize, u64>; 2]>::default(); keys.len()];
        for [key, agent, path] in &self.requests {
            if let Some(&place) = places.get(&key.index()) {
                let [agents, paths] = &mut counts[place];
                *agents.entry(agent.index()).or_default() += 1;
                *paths.entry(path.index()).or_default() += 1;
            }
        }
        // Of those that came as often, the first.
        let most = |counts: &HashMap<usize, u64>, texts: &Keys| {
            let most = counts
                .iter()
                .max_by_key(|&(&id, &count)| (count, std::cmp::Reverse(id)));
            match most.map_or(&b""[..], |(&id, _)| texts.bytes(id)) {
                b"-" => String::new(),
                text => printable(text),
            }
        };
        let callers = counts.iter().map(|[agents, paths]| Caller {
            agent: most(agents, &self.agents),
            path: most(paths, &self.paths),
        });
        callers.collect()
    }
}

/// What was seen of the caller of the request that was read last.
#[derive(Default)]
pub(super) struct Seen {
    agent: Vec<u8>,
    path: Vec<u8>,
}

impl Seen {
    pub(super) fn take(&mut self, record: &Record<'_>) {
        for (kept, text) in [
            (&mut self.agent, record.agent),
            (&mut self.path, record.path),
        ] {
            kept.clear();
            kept.extend_from_slice(&text[..text.len().min(KEPT)]);
        }
    }
}

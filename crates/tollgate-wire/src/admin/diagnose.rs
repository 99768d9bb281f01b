//! Checks the servers of a store for what endangers limits there.

use std::fmt;
use std::time::{Duration, SystemTime};

use tollgate_core::{StoreError, Timestamp};

use super::finding::{Diagnosis, Finding, Severity};
use super::names;
use super::probe;
use super::setup::{self, Setup};
use super::states::Ahead;
use super::{Master, Node, Nodes, Sender, command};
use crate::engine::Engine;
use crate::fault::Effect;
use crate::options::TimeSource;
use crate::store::WireStore;

/// The slots of a cluster.
const SLOTS: usize = 16_384;
/// How many round trips are timed.
const PINGS: usize = 5;
/// From `LONG` on, a round trip is worth a note; from `TOO_LONG` on, a warning.
const LONG: Duration = Duration::from_millis(10);
const TOO_LONG: Duration = Duration::from_millis(100);
/// How far apart healthy clocks may be.
const APART: Duration = Duration::from_secs(1);
/// Clocks that are further apart than this are worth a warning.
const FAR_APART: Duration = Duration::from_secs(60);
/// A server that has run for longer has states, if a service counts calls there.
const LONG_UP: Duration = Duration::from_secs(86_400);
/// About how many states to sample, in at most [`SCANS`] scans: a server may hold few of them among
/// many other keys.
const SAMPLED: usize = 1_000;
const SCANS: usize = 200;

impl<E: Nodes> WireStore<E> {
    /// Like [`Operate::diagnose`](super::Operate::diagnose).
    ///
    /// It checks each server's version, role, eviction, persistence and replicas, the user's
    /// permissions, clock skew and round-trip time, whether writes and decisions succeed, whether
    /// every slot of a cluster is served, and how many of a sample of states lie ahead of the
    /// server's clock. What a server does not say is [`Severity::Unknown`]. Each round trip has the
    /// store's deadline.
    pub async fn diagnose(&self) -> Diagnosis {
        let sender = self.sender();
        let masters = match sender.masters().await {
            Ok(masters) => masters,
            Err(error) => {
                let mut finding = Finding::lost(&error);
                finding.server = Node::Any.to_string();
                return Diagnosis {
                    findings: vec![finding],
                };
            }
        };
        let mut diagnosis = Diagnosis::default();
        if self.engine().is_clustered() {
            let finding = slots(&sender, &masters).await;
            diagnosis.add("cluster", [finding]);
        }
        for master in &masters {
            let mut findings = Vec::new();
            if let Err(error) = self.examine(&sender, master, &mut findings).await {
                findings.push(Finding::lost(&error));
            }
            diagnosis.add(&master.node.to_string(), findings);
        }
        diagnosis
    }

    /// Adds the findings about `master` to `findings`; fails if it does not answer.
    async fn examine(
        &self,
        sender: &Sender<'_, E>,
        master: &Master,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let node = &master.node;
        findings.push(round_trip(sender, node).await?);
        findings.push(clocks(sender, node, self.options().time_source()).await?);
        let questions = setup::questions();
        let replies = sender.send(node, &questions, Effect::Nothing).await?;
        let setup = Setup::new(&replies);
        if setup.is_cluster_node() && !self.engine().is_clustered() {
            findings.push(Finding::new(
                Severity::Serious,
                "cluster",
                "the server is a node of a cluster, and this store does not follow redirections",
                "connect to the cluster: `redis-cluster://HOST:PORT` here, \
                 `RedisStore::connect_cluster` or `redis-cluster://` in a program",
            ));
        }
        findings.extend(setup.findings());
        findings.extend(probe::probe(self, sender, master).await?);
        findings.push(sample(sender, node, self.options().prefix(), setup.uptime()).await?);
        Ok(())
    }
}

/// Checks whether every slot of a cluster is served.
async fn slots<E: Nodes>(sender: &Sender<'_, E>, masters: &[Master]) -> Finding {
    const CHECK: &str = "slots";
    const ADVICE: &str = "bring the missing masters back, or give their slots to others \
                          (`redis-cli --cluster fix`)";
    let slots = masters.iter().flat_map(|master| &master.slots);
    let served: usize = slots.map(ExactSizeIterator::len).sum();
    if served < SLOTS {
        let found = format!(
            "{} of {SLOTS} slots are served by no master",
            SLOTS - served
        );
        return Finding::new(Severity::Serious, CHECK, found, ADVICE);
    }
    let reply = sender
        .read(&Node::Any, command([b"CLUSTER", b"INFO"]))
        .await;
    let info = reply.ok().and_then(|reply| reply.text());
    let Some(info) = info else {
        return Finding::new(
            Severity::Unknown,
            CHECK,
            "every slot has a master, but the cluster does not say whether all of them are well",
            "allow `CLUSTER INFO`",
        );
    };
    let field = |name: &str| {
        info.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            (field == name).then_some(value.trim())
        })
    };
    let failing = ["cluster_slots_pfail", "cluster_slots_fail"]
        .iter()
        .filter_map(|name| field(name)?.parse::<u64>().ok())
        .sum::<u64>();
    match field("cluster_state") {
        Some("ok") if failing == 0 => Finding::ok(
            CHECK,
            format!(
                "all {SLOTS} are served by {}",
                counted(masters.len(), "master", "masters")
            ),
        ),
        Some("ok") => Finding::new(
            Severity::Serious,
            CHECK,
            format!(
                "the masters of {} do not answer the others",
                counted(failing, "slot", "slots")
            ),
            ADVICE,
        ),
        _ => Finding::new(
            Severity::Serious,
            CHECK,
            format!(
                "the cluster is down, or about to be; the masters of {} fail",
                counted(failing, "slot", "slots")
            ),
            ADVICE,
        ),
    }
}

/// Measures how long a round trip takes.
async fn round_trip<E: Nodes>(sender: &Sender<'_, E>, node: &Node) -> Result<Finding, StoreError> {
    const CHECK: &str = "round trip";
    let mut times = [Duration::ZERO; PINGS];
    for time in &mut times {
        let begun = sender.engine.now();
        // An error reply, too, takes one round trip.
        sender.read(node, command([b"PING"])).await?;
        *time = elapsed(sender.engine, begun);
    }
    times.sort_unstable();
    let median = times[PINGS / 2];
    let found = format!("{median:.1?}, the median of {PINGS}");
    let (severity, advice) = match median {
        median if median < LONG => (Severity::Ok, ""),
        median if median < TOO_LONG => (
            Severity::Note,
            "every decision takes as long: run programs nearer to the server if that is too much",
        ),
        _ => (
            Severity::Warning,
            "every decision takes as long: run programs nearer to the server, or see that their \
             deadline is several times as long",
        ),
    };
    Ok(Finding::new(severity, CHECK, found, advice))
}

/// Compares the server's clock with this machine's.
async fn clocks<E: Nodes>(
    sender: &Sender<'_, E>,
    node: &Node,
    clock: TimeSource,
) -> Result<Finding, StoreError> {
    const CHECK: &str = "clock";
    let before = sender.engine.now();
    let reply = sender.read(node, command([b"TIME"])).await?;
    let took = elapsed(sender.engine, before);
    let (Some(server), Ok(before)) = (reply.instant(), Timestamp::try_from(before)) else {
        return Ok(Finding::new(
            Severity::Unknown,
            CHECK,
            "the server does not say what time it is, or this machine's clock is out of range",
            "allow `TIME`, and set this machine's clock",
        ));
    };
    // The server read its clock at some instant of the round trip.
    let after = before.saturating_add(took);
    let (micros, side) = match server.checked_sub(after.as_micros()) {
        Some(ahead) => (ahead, "ahead of"),
        None => (before.as_micros().saturating_sub(server), "behind"),
    };
    Ok(match Duration::from_micros(micros) {
        apart if apart <= APART => Finding::ok(
            CHECK,
            format!("the server's clock and this machine's agree within {APART:?}"),
        ),
        apart => Finding::new(
            if apart <= FAR_APART && clock == TimeSource::Server {
                Severity::Note
            } else {
                Severity::Warning
            },
            CHECK,
            format!(
                "the server's clock is {} {side} this machine's",
                readable(apart)
            ),
            "set both by NTP. If the server's clock was ahead, states written then deny until time catches up: clear them with `tollgate reset --all --ahead`",
        ),
    })
}

/// Counts how many of a sample of states lie ahead of the server's clock, which has run for `uptime`.
async fn sample<E: Nodes>(
    sender: &Sender<'_, E>,
    node: &Node,
    prefix: &str,
    uptime: Duration,
) -> Result<Finding, StoreError> {
    const CHECK: &str = "states ahead";
    let unknown = |error: &StoreError| {
        Finding::new(
            Severity::Unknown,
            CHECK,
            format!("states could not be read ({error})"),
            "allow `SCAN`, `GET`, `LINDEX` and `HGET`",
        )
    };
    let pattern = names::pattern(prefix, None);
    let (mut sampled, mut unread, mut ahead, mut furthest) = (0_usize, 0_usize, 0, Duration::ZERO);
    let mut cursor = Some(b"0".to_vec());
    for _ in 0..SCANS {
        let Some(from) = cursor.take().filter(|_| sampled < SAMPLED) else {
            break;
        };
        let scan = match sender.scan(node, &from, &pattern).await {
            Ok(scan) => scan,
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => return Ok(unknown(&error)),
        };
        cursor = scan.next;
        let mut keys = scan.keys;
        // Skip keys that an earlier diagnosis left because the user may not run `UNLINK`.
        keys.retain(|key| names::name(prefix, key).is_some_and(|name| name.limit != probe::LIMIT));
        let states = match sender.ahead(node, prefix, &keys).await {
            Ok(states) => states,
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => return Ok(unknown(&error)),
        };
        for state in states {
            match state {
                Ahead::By(by) => {
                    sampled += 1;
                    ahead += usize::from(by > APART);
                    furthest = furthest.max(by);
                }
                Ahead::Gone => {}
                Ahead::Unknown => unread += 1,
            }
        }
    }
    let states = counted(sampled, "state", "states");
    Ok(match (ahead, unread) {
        (0, 0) if sampled == 0 && cursor.is_none() && uptime >= LONG_UP => Finding::new(
            Severity::Note,
            CHECK,
            format!(
                "no states, though the server has run for {}",
                readable(uptime)
            ),
            "if the service counts calls here, their states were deleted, or have another prefix or \
             database",
        ),
        (0, 0) => Finding::ok(CHECK, format!("none of {states}")),
        (0, _) => Finding::new(
            Severity::Unknown,
            CHECK,
            format!(
                "none of {states}, but {} could not be read",
                counted(unread, "key", "keys")
            ),
            "allow `GET`, `LINDEX` and `HGET`; keys of another release, or that another program wrote \
             under this prefix, cannot be read either",
        ),
        _ => Finding::new(
            Severity::Serious,
            CHECK,
            format!(
                "{ahead} of {states} {} ahead of the server's clock, the furthest by {}: they deny \
                 until then",
                if ahead == 1 { "lies" } else { "lie" },
                readable(furthest)
            ),
            "check the server's clock, and clear them: `tollgate reset --all --ahead`",
        ),
    })
}

fn elapsed(engine: &impl Engine, begun: SystemTime) -> Duration {
    engine.now().duration_since(begun).unwrap_or_default()
}

/// Returns a number with its singular or plural.
fn counted<N: fmt::Display + From<u8> + PartialEq>(count: N, one: &str, many: &str) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

/// Formats a duration in a unit that suits it, such as days.
fn readable(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 2 * 86_400 => format!("{} days", seconds / 86_400),
        seconds if seconds >= 2 * 3_600 => format!("{} hours", seconds / 3_600),
        seconds if seconds >= 120 => format!("{} minutes", seconds / 60),
        _ => format!("{time:.1?}"),
    }
}

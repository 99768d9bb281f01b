//! Tries commands and decisions on a server, with keys of its own.

use std::slice;
use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_core::lease::{self, Acquisition};
use tollgate_core::schedule::{self, Event};
use tollgate_core::store::{Check, Request};
use tollgate_core::{Key, Limit, StoreError, Timestamp};

use super::finding::{Finding, Severity};
use super::slot::slot_of;
use super::{Command, Master, Nodes, Reply, Sender, command, refusal};
use crate::fault::Effect;
use crate::keyspace::Keyspace;
use crate::options::SMALL_SCHEDULE;
use crate::script::Script;
use crate::store::WireStore;

/// The name of the limits to try, which no service is likely to use.
pub(super) const LIMIT: &str = "tollgate-doctor";
/// One limit of each algorithm, with short windows, so that their states expire soon. A calendar window
/// needs the same commands as a fixed window, and its state would stay for a day.
const ALGORITHMS: [&str; 5] = [
    "fixed-window:9/10s",
    "gcra:9/10s",
    "sliding-buckets:9/10s,buckets=2",
    "sliding-counter:9/10s",
    LOG,
];
/// The algorithm that needs other commands than the rest.
const LOG: &str = "sliding-log:9/10s";
/// How long the lease to try lasts if it is not released.
const TERM: Duration = Duration::from_secs(10);
/// The TTL of the key that commands are tried on, in milliseconds.
const LIFETIME: &[u8] = b"10000";
/// Commands that only sliding logs need, as written in an ACL.
const OF_LOGS: [&str; 8] = [
    "lindex", "llen", "lpush", "lrange", "lset", "ltrim", "pexpire", "rpush",
];
/// Commands that only schedules of many events need, as written in an ACL, and their arguments after
/// the key.
const OF_SCHEDULES: [(&str, &[&[u8]]); 5] = [
    ("hdel", &[b"probe"]),
    ("hget", &[b"probe"]),
    ("hmget", &[b"probe"]),
    (HSET, &[b"probe", b"1"]),
    ("pexpire", &[LIFETIME]),
];
const HSET: &str = "hset";
/// Commands that only operators need, as written in an ACL: to look at states.
const OF_OPERATORS: [&str; 2] = ["exists", "pttl"];
/// Commands needed only after a server lost its scripts, and for resets.
const AT_TIMES: [&str; 2] = ["script|load", "unlink"];
/// The number of keys to try in search of one in a slot of a master, which may have a single slot.
const CANDIDATES: u32 = 1 << 20;
/// A SHA-1 that no script has.
const NO_SCRIPT: &[u8; 40] = &[b'0'; 40];

/// The results of trying commands.
#[derive(Debug, Default)]
struct Tried {
    /// Commands that the user may not run or the server does not know, as written in an ACL.
    missing: Vec<&'static str>,
    /// Commands that were not tried.
    untried: Vec<&'static str>,
    /// Whether the user has no access to keys of the prefix.
    is_out_of_reach: bool,
    /// The error with which the server refused a write.
    refusal: Option<String>,
}

impl Tried {
    fn note(&mut self, name: &'static str, reply: &Reply) {
        let Reply::Error(line) = reply else {
            return;
        };
        let is_unknown = line.contains("unknown command") || line.contains("unknown subcommand");
        let is_denied = line.starts_with("NOPERM") && line.contains(" to run the ");
        if is_unknown || is_denied {
            self.missing.push(name);
        } else if line.starts_with("NOPERM") {
            self.is_out_of_reach = true;
        } else if name == "set" {
            self.refusal = Some(line.clone());
        }
        // Any other error comes from running the command, so the user may run it.
    }

    fn findings(&self, prefix: &str) -> Vec<Finding> {
        const CHECK: &str = "permissions";
        let mut findings = Vec::new();
        if self.is_out_of_reach {
            findings.push(Finding::new(
                Severity::Serious,
                CHECK,
                format!("the user may not touch keys that begin with `{prefix}:`"),
                format!("grant the keys: `ACL SETUSER user ~{prefix}:*`"),
            ));
        }
        let is_of_operators = |name: &&str| OF_OPERATORS.contains(name);
        let (of_operators, missing): (Vec<_>, Vec<_>) =
            self.missing.iter().copied().partition(is_of_operators);
        if !missing.is_empty() {
            let of = |names: &[&str]| missing.iter().all(|name| names.contains(name));
            let (severity, what) = match () {
                () if of(&OF_LOGS) => (Severity::Warning, "sliding logs fail"),
                () if of(&AT_TIMES) => (
                    Severity::Warning,
                    "calls fail once the server forgets its scripts, or keys cannot be reset",
                ),
                () if of(&[&OF_LOGS[..], &AT_TIMES[..]].concat()) => (
                    Severity::Warning,
                    "sliding logs fail, and some other calls will",
                ),
                () => (Severity::Serious, "calls fail"),
            };
            findings.push(Finding::new(
                severity,
                CHECK,
                format!("cannot run {}: {what}", listed(&missing)),
                format!(
                    "grant them: `ACL SETUSER user +{}`, and do not rename or disable them",
                    missing.join(" +")
                ),
            ));
        }
        if !self.untried.is_empty() {
            findings.push(Finding::new(
                Severity::Unknown,
                CHECK,
                format!("could not try {}", listed(&self.untried)),
                "see the other findings, and try again",
            ));
        }
        if findings.is_empty() {
            findings.push(Finding::ok(
                CHECK,
                "the user may run every command that limits need, on the keys of this prefix",
            ));
        }
        if !of_operators.is_empty() {
            findings.push(Finding::new(
                Severity::Note,
                "operators",
                format!(
                    "cannot run {}: limits do not need that, but who asks what the server holds does not \
                     see everything",
                    listed(&of_operators)
                ),
                format!(
                    "grant the operators' user `+{}`; the service's own may go without",
                    of_operators.join(" +")
                ),
            ));
        }
        findings.push(match &self.refusal {
            Some(line) => {
                let found = format!("a write was refused: {line}");
                Finding::new(Severity::Serious, "writes", found, explained(line))
            }
            None if self.missing.contains(&"set") || self.is_out_of_reach => Finding::new(
                Severity::Unknown,
                "writes",
                "could not try to write",
                "see the finding about permissions",
            ),
            None => Finding::ok("writes", "the server accepts writes"),
        });
        findings
    }
}

fn listed(names: &[&str]) -> String {
    format!("`{}`", names.join("`, `"))
}

/// Returns the advice for a server's error, without the error itself.
pub(super) fn explained(line: &str) -> String {
    let told = refusal(line).to_string();
    told.strip_suffix(&format!(" ({line})"))
        .unwrap_or(&told)
        .to_owned()
}

/// Tries commands and decisions on `master`, deletes what they wrote, and returns the findings.
pub(super) async fn probe<E: Nodes>(
    store: &WireStore<E>,
    sender: &Sender<'_, E>,
    master: &Master,
) -> Result<Vec<Finding>, StoreError> {
    let limits: Vec<Limit> = ALGORITHMS.iter().filter_map(|text| limit(text)).collect();
    let keyspace = Keyspace::new(store.options());
    let own = |limit| Some((limit, own_key(store, &keyspace, limit, master)?));
    let Some((limit, key)) = limits.first().and_then(own) else {
        return Ok(Vec::new());
    };
    let tried_on = Key::new(&key).with_rest("commands");
    let [on, _] = keyspace.both(limit.identity(), tried_on);
    let mut keys = vec![on.clone()];
    let mut tried = commands(
        sender,
        master,
        &on,
        Script::of(&Request::consume(Check::new(limit, tried_on, 1)), false),
    )
    .await?;

    let mut failed: Vec<(&Limit, StoreError)> = Vec::new();
    for limit in &limits {
        let check = Check::new(limit, key.as_str(), 1);
        keys.extend(keyspace.both(limit.identity(), check.key()));
        if let Err(error) = store.execute(&Request::consume(check)).await {
            failed.push((limit, error));
        }
    }

    let terms = schedule::Terms::new(LIMIT, ["9/10s"]).ok();
    let planned = match &terms {
        Some(terms) => {
            keys.extend(keyspace.both(terms.identity(), Key::from(&key)));
            // The first free time, so that it does not matter what time it is here.
            let event = Event::new("probe", Timestamp::UNIX_EPOCH);
            let reserve = schedule::Operation::ReserveNext(event);
            let request = schedule::Request::new(terms, &key, reserve);
            store.schedule(&request).await.map(drop)
        }
        None => Ok(()),
    };
    let schedules = schedules(sender, master, &on, &tried, planned).await?;
    let leases = match lease::Terms::new(LIMIT, 1, TERM) {
        Ok(terms) => {
            keys.extend(keyspace.both(terms.identity(), Key::from(&key)));
            leases(store, &terms, &key).await
        }
        Err(_) => Ok(()),
    };

    let unlink: Vec<Command> = keys.iter().map(|key| command([b"UNLINK", key])).collect();
    let replies = sender.send(&master.node, &unlink, Effect::Forgets).await?;
    if let Some(reply) = replies.first() {
        tried.note("unlink", reply);
    }
    let mut findings = tried.findings(store.options().prefix());
    findings.push(decided(&failed));
    findings.push(schedules);
    findings.push(match leases {
        Ok(()) => Finding::ok("leases", "a lease was acquired and released"),
        Err(error) => Finding::new(
            Severity::Note,
            "leases",
            "leases cannot be acquired and released",
            error.to_string(),
        ),
    });
    Ok(findings)
}

/// Acquires a lease for `key`, and releases it.
async fn leases<E: Nodes>(
    store: &WireStore<E>,
    terms: &lease::Terms,
    key: &str,
) -> Result<(), StoreError> {
    let id = b"probe";
    let acquire = lease::Operation::Acquire { id, weight: 1 };
    let answer = store
        .lease(&lease::Request::new(terms, key, acquire))
        .await?;
    if let lease::Answer::Acquired(Acquisition::Granted { lease, .. }) = answer {
        let release = lease::Operation::Release {
            id,
            token: lease.token(),
        };
        store
            .lease(&lease::Request::new(terms, key, release))
            .await?;
    }
    Ok(())
}

/// Tries the commands that only schedules need on the key `on`, which holds a string, and returns
/// the finding about those and about the event that was `planned`.
async fn schedules<E: Nodes>(
    sender: &Sender<'_, E>,
    master: &Master,
    on: &[u8],
    others: &Tried,
    planned: Result<(), StoreError>,
) -> Result<Finding, StoreError> {
    const CHECK: &str = "schedules";
    let is_set =
        others.refusal.is_none() && !others.is_out_of_reach && !others.missing.contains(&"set");
    // On a key without a value, it would create one without a TTL.
    let tries = |name: &str| is_set || name != HSET;
    let own = OF_SCHEDULES.iter().filter(|(name, _)| tries(name));
    let (names, commands): (Vec<_>, Vec<_>) = own
        .map(|(name, arguments)| {
            let words = [name.as_bytes(), on].into_iter();
            (*name, Command::new(words.chain(arguments.iter().copied())))
        })
        .unzip();
    let replies = sender.send(&master.node, &commands, Effect::Plans).await?;
    let mut tried = Tried::default();
    for (name, reply) in names.into_iter().zip(&replies) {
        tried.note(name, reply);
    }
    Ok(match planned {
        Err(error) => Finding::new(
            Severity::Note,
            CHECK,
            "an event cannot be planned",
            error.to_string(),
        ),
        Ok(()) if tried.missing.is_empty() => Finding::ok(CHECK, "an event was planned"),
        Ok(()) => Finding::new(
            Severity::Note,
            CHECK,
            format!(
                "cannot run {}: schedules of more than {SMALL_SCHEDULE} events for one key are slow, or fail",
                listed(&tried.missing)
            ),
            format!(
                "if this service plans so many, grant them: `ACL SETUSER user +{}`",
                tried.missing.join(" +")
            ),
        ),
    })
}

/// Tries the commands that limits need on the key `on`, one by one.
///
/// The key holds a string with a TTL. On it, list commands that the user may run fail with
/// `WRONGTYPE`, so none can create a key without a TTL.
async fn commands<E: Nodes>(
    sender: &Sender<'_, E>,
    master: &Master,
    on: &[u8],
    script: &Script,
) -> Result<Tried, StoreError> {
    let mut tried = Tried::default();
    let set = command([b"SET", on, b"probe", b"PX", LIFETIME]);
    let replies = sender.send(&master.node, slice::from_ref(&set), Effect::Counts);
    let replies = replies.await?;
    let is_set = replies.iter().all(|reply| reply.error().is_none());
    for reply in &replies {
        tried.note("set", reply);
    }
    let mut commands: Vec<(&'static str, Command)> = vec![
        ("evalsha", command([b"EVALSHA", NO_SCRIPT, b"1", on])),
        ("exists", command([b"EXISTS", on])),
        ("get", command([b"GET", on])),
        ("lindex", command([b"LINDEX", on, b"0"])),
        ("llen", command([b"LLEN", on])),
        ("lrange", command([b"LRANGE", on, b"0", b"0"])),
        ("lset", command([b"LSET", on, b"0", b"probe"])),
        ("ltrim", command([b"LTRIM", on, b"0", b"-1"])),
        ("pexpire", command([b"PEXPIRE", on, LIFETIME])),
        ("pttl", command([b"PTTL", on])),
        (
            "script|load",
            command([b"SCRIPT", b"LOAD", script.text().as_bytes()]),
        ),
        ("time", command([b"TIME"])),
    ];
    if is_set {
        commands.push(("lpush", command([b"LPUSH", on, b"probe"])));
        commands.push(("rpush", command([b"RPUSH", on, b"probe"])));
    } else {
        // They would create a key without a TTL.
        tried.untried.extend(["lpush", "rpush"]);
    }
    let (names, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
    let replies = sender.send(&master.node, &commands, Effect::Counts).await?;
    for (name, reply) in names.into_iter().zip(&replies) {
        tried.note(name, reply);
    }
    tried.missing.sort_unstable();
    Ok(tried)
}

/// Returns the finding about the limits that could not be decided.
fn decided(failed: &[(&Limit, StoreError)]) -> Finding {
    const CHECK: &str = "decisions";
    let Some((_, error)) = failed.first() else {
        return Finding::ok(CHECK, "a call was decided by every algorithm");
    };
    let name = |(limit, _): &(&Limit, StoreError)| {
        let text = limit.algorithm().to_string();
        let name = text.split(':').next().unwrap_or(&text);
        name.to_owned()
    };
    let names: Vec<String> = failed.iter().map(name).collect();
    let severity = match names.as_slice() {
        [name] if LOG.starts_with(name.as_str()) => Severity::Warning,
        _ => Severity::Serious,
    };
    Finding::new(
        severity,
        CHECK,
        format!("calls cannot be decided by {}", names.join(", ")),
        error.to_string(),
    )
}

fn limit(text: &str) -> Option<Limit> {
    let algorithm: Algorithm = text.parse().ok()?;
    Limit::new(LIMIT, algorithm).ok()
}

/// Returns a partition for keys of this probe, in a slot of `master`.
fn own_key<E: Nodes>(
    store: &WireStore<E>,
    keyspace: &Keyspace,
    limit: &Limit,
    master: &Master,
) -> Option<String> {
    let now = store.engine().now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default().as_micros();
    let mut candidates = (0..CANDIDATES).map(|number| format!("{since}-{number}"));
    candidates.find(|candidate| {
        let [key, _] = keyspace.both(limit.identity(), Key::from(candidate));
        let slot = slot_of(&key);
        master.slots.is_empty() || master.slots.iter().any(|range| range.contains(&slot))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnosis_tries_every_algorithm() {
        let limits: Vec<_> = ALGORITHMS.iter().filter_map(|text| limit(text)).collect();
        assert_eq!(limits.len(), ALGORITHMS.len());
    }
}

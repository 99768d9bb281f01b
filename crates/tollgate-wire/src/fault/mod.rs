//! Turns failures of servers and connections into errors that say what to do.

use std::time::Duration;

use tollgate_core::{ErrorKind, StoreError};

use super::failure::Failure;

/// What a command does if the server executes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    /// It only reads, or it was not sent.
    Nothing,
    /// It counts a call, or refunds one.
    Counts,
    /// It counts a call that has an id, which is safe to repeat.
    CountsOnce,
    /// It blocks keys, which is safe to repeat: a block never ends earlier than an earlier one.
    Blocks,
    /// It lowers what remains, which is safe to repeat.
    Lowers,
    /// It plans, moves or cancels events, which is safe to repeat: they have ids.
    Plans,
    /// It acquires, renews or releases a lease, which is safe to repeat: it has an id.
    Holds,
    /// It deletes states, which is safe to repeat.
    Forgets,
}

/// Returns the error of an operation that was defined after this crate.
#[cold]
pub(super) fn unknown_operation() -> StoreError {
    StoreError::new(
        ErrorKind::Unsupported,
        "this store does not know the operation: use crates of tollgate of the same version",
    )
}

/// An error code or a phrase, the kind of error that it means, and what to do.
type Meaning = (&'static str, ErrorKind, &'static str);

/// Error codes: the first word of an error. Before Redis 7.0, the error that a script ran into is
/// nested in the script's error.
const MEANINGS: [Meaning; 20] = [
    (
        "ASK",
        ErrorKind::Unavailable,
        "the key is migrating to another node: try again, through a cluster client",
    ),
    (
        "BUSY",
        ErrorKind::Unavailable,
        "the server is busy running another script: try again, and find that script with SLOWLOG",
    ),
    (
        "CLUSTERDOWN",
        ErrorKind::Unavailable,
        "the cluster does not serve this key's slot: try again when it has recovered",
    ),
    (
        "CROSSSLOT",
        ErrorKind::Misconfigured,
        "the keys of one request are in several hash slots: connect with a cluster client, and \
         give the keys the same partition",
    ),
    (
        "DENIED",
        ErrorKind::Misconfigured,
        "the server is in protected mode: bind it to an address, or set a password",
    ),
    (
        "EXECABORT",
        ErrorKind::Unsupported,
        "the server refuses a command of the transaction: the scriptless store needs Redis 7.0 or later, and a user who may run its commands",
    ),
    (
        "LOADING",
        ErrorKind::Unavailable,
        "the server is loading its data: try again when it is done",
    ),
    (
        "MASTERDOWN",
        ErrorKind::Unavailable,
        "this replica has lost its primary: connect to a primary",
    ),
    (
        "MISCONF",
        ErrorKind::Misconfigured,
        "the server cannot save to disk and so refuses writes: see its log",
    ),
    (
        "MOVED",
        ErrorKind::Unavailable,
        "the key is on another node: connect with a cluster client",
    ),
    (
        "NOAUTH",
        ErrorKind::Misconfigured,
        "the server requires a password: connect with one",
    ),
    ("NOPERM", ErrorKind::Misconfigured, MAY_NOT),
    (
        "NOREPLICAS",
        ErrorKind::Unavailable,
        "the server has too few replicas to accept writes: try again when they are back",
    ),
    (
        "NOSCRIPT",
        ErrorKind::Unavailable,
        "the server forgot a script that it had just loaded: try again",
    ),
    (
        "OOM",
        ErrorKind::Full,
        "the server has reached its `maxmemory`: give it more, or limit fewer keys",
    ),
    (
        "READONLY",
        ErrorKind::Unavailable,
        "this server is a replica: connect to the primary; Sentinel and cluster clients find it",
    ),
    (
        "TRYAGAIN",
        ErrorKind::Unavailable,
        "the keys are migrating to another node: try again",
    ),
    (
        "UNKILLABLE",
        ErrorKind::Unavailable,
        "the server is busy running another script: try again, and find that script with SLOWLOG",
    ),
    (
        "WRONGPASS",
        ErrorKind::Misconfigured,
        "the server refused the user or password: connect with the right ones",
    ),
    (
        "WRONGTYPE",
        ErrorKind::Misconfigured,
        "another program has written to a key of this prefix: choose another prefix, or delete \
         the key",
    ),
];

/// Phrases of errors that have no code of their own.
const PHRASES: [Meaning; 10] = [
    (
        "unknown command",
        ErrorKind::Unsupported,
        "the server does not know a command that this store needs: if it runs no scripts, use the scriptless store",
    ),
    ("ACL failure", ErrorKind::Misconfigured, MAY_NOT),
    ("can't run this command", ErrorKind::Misconfigured, MAY_NOT),
    ("No permission", ErrorKind::Misconfigured, MAY_NOT),
    (
        "max number of clients reached",
        ErrorKind::Unavailable,
        "the server accepts no more connections: raise its `maxclients`, or connect fewer",
    ),
    // A script that has written something cannot be killed.
    (
        "Script killed by user",
        ErrorKind::Unavailable,
        "someone ended the script with SCRIPT KILL before it wrote anything: try again",
    ),
    ("data string too short", ErrorKind::Misconfigured, FOREIGN),
    // A state that no limit has written gives TTLs that no limit gives.
    ("value is not an integer", ErrorKind::Misconfigured, FOREIGN),
    ("invalid expire time", ErrorKind::Misconfigured, FOREIGN),
    (
        "refund is too deep in the log",
        ErrorKind::Unsupported,
        "more than 2,000 calls in the sliding logs of the request would have to be rewritten, on both sides \
         of the one to refund, which would block the server: nothing was given back; the call counts until \
         it leaves the window",
    ),
];
pub(super) const FOREIGN: &str = "a key of this prefix holds a value that tollgate has not written: \
                                  choose another prefix, or delete the key";
const MAY_NOT: &str = "the server's user may not do this: grant what the server names; \
                       docs/operating.md lists what each command needs";
const ENDED: &str = "this store's connection has ended for good: the runtime on which it connected has ended, \
                     or someone called `quit` on its client; connect a new store, in a test one on each test's \
                     runtime";
/// How a script's error begins before Redis 7.0; it ends with the error that the script ran into.
const SCRIPT_ERROR: &str = "ERR Error running script";

/// Returns whether the failure is `NOSCRIPT`: the server does not have the script, and ran nothing.
pub(super) fn is_unknown_script(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { line, .. } if code(line) == "NOSCRIPT")
}

/// Returns whether the server refused to run a script on these keys together, but may run one on some
/// of them: the user may not use all of them, they are in several hash slots, or their slot moves.
pub(super) fn is_about_the_keys(failure: &Failure) -> bool {
    let codes = ["CROSSSLOT", "NOPERM", "TRYAGAIN"];
    matches!(failure, Failure::Refused { line, .. } if codes.contains(&code(line)))
}

/// Returns the error of a call that was made once more with the periods around the server's time, and
/// found the server at another time again.
#[cold]
pub(super) fn still_uncovered() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "the server's clock moved by days during the call, and nothing was counted: set it, and try again",
    )
}

/// Returns whether a server's error says that it is out of service: it is a replica, has lost its
/// primary, or is loading its data. It executed nothing, and its address may lead to another server
/// by now.
#[must_use]
pub fn is_out_of_service(line: &str) -> bool {
    is_of_replica(line) || names(line, "LOADING")
}

/// Returns whether a server's error says that it is a replica. Before Redis 7.0 that may be nested
/// inside a script's error.
#[must_use]
pub fn is_of_replica(line: &str) -> bool {
    names(line, "READONLY") || names(line, "MASTERDOWN")
}

fn names(line: &str, code: &str) -> bool {
    meaning_of(line).is_some_and(|(word, ..)| word == code)
}

/// Returns the error that a caller gets for `failure`.
pub(super) fn error(failure: Failure, effect: Effect) -> StoreError {
    match failure.redacted(&[]) {
        Failure::Crowded(source) => StoreError::new(
            ErrorKind::Unavailable,
            format!(
                "too many calls are in flight: {}, so try again, or make fewer at once",
                undone(effect)
            ),
        )
        .with_source(source),
        Failure::Ended(source) => {
            StoreError::new(ErrorKind::Misconfigured, ENDED).with_source(source)
        }
        Failure::NotSent(source) => StoreError::new(
            ErrorKind::Unavailable,
            format!("no connection to the server: {}", undone(effect)),
        )
        .with_source(source),
        Failure::Lost(source) => {
            lost("the connection was lost before the reply came", effect).with_source(source)
        }
        Failure::Refused { line, source } => refused(&line).with_source(source),
        Failure::Malformed(source) => StoreError::new(
            ErrorKind::Protocol,
            "the reply is not valid in the Redis protocol: check that the address is that of a Redis server, and that no proxy changes replies",
        )
        .with_source(source),
    }
}

/// Returns the error of a call that missed its deadline; `is_out` is whether the server may have run it.
pub(super) fn too_late(deadline: Duration, effect: Effect, is_out: bool) -> StoreError {
    if is_out {
        return lost(&format!("no reply within {deadline:?}"), effect);
    }
    let undone = undone(effect);
    StoreError::new(
        ErrorKind::Unavailable,
        format!("the call was not sent within {deadline:?}: {undone}, so try again"),
    )
}

/// Returns what a call has not done that the server has not run.
fn undone(effect: Effect) -> &'static str {
    match effect {
        Effect::Blocks => "nothing was blocked",
        Effect::Lowers => "nothing was lowered",
        Effect::Plans => "nothing was planned or changed",
        Effect::Holds => "no lease was changed",
        _ => "nothing was counted",
    }
}

fn lost(what: &str, effect: Effect) -> StoreError {
    let (kind, advice) = match effect {
        Effect::Nothing => (ErrorKind::Unavailable, "try again"),
        Effect::Counts => (
            ErrorKind::Unknown,
            "the call may have been counted, so do not send it again",
        ),
        Effect::CountsOnce => (
            ErrorKind::Unknown,
            "the call may have been counted: call again with the same id, which says what happened",
        ),
        Effect::Blocks => (
            ErrorKind::Unknown,
            "the key may not be blocked, so block it again, which is safe",
        ),
        Effect::Lowers => (
            ErrorKind::Unknown,
            "what remains may not have been lowered, so lower it again, which is safe",
        ),
        Effect::Plans => (
            ErrorKind::Unknown,
            "events may have been planned or changed: repeat the call with the same ids, which \
             changes nothing twice",
        ),
        Effect::Holds => (
            ErrorKind::Unknown,
            "a lease may have been acquired, renewed or released: repeat the call with the same \
             id, which changes nothing twice",
        ),
        Effect::Forgets => (
            ErrorKind::Unknown,
            "the state may not have been deleted, so reset it again",
        ),
    };
    StoreError::new(kind, format!("{what}: {advice}"))
}

fn refused(line: &str) -> StoreError {
    let (_, kind, advice) = meaning_of(line).unwrap_or((
        "",
        ErrorKind::Protocol,
        "the server replied with an error that this store does not know: look it up in the \
         server's documentation, and see the server's log",
    ));
    StoreError::new(kind, format!("{advice} ({line})"))
}

/// Returns the meaning of an error, if it is known.
fn meaning_of(line: &str) -> Option<Meaning> {
    let by_code = |text: &str| {
        let code = code(text);
        MEANINGS.iter().find(|(word, ..)| *word == code).copied()
    };
    // Look for codes only where the server writes them: the rest, such as the arguments of an
    // unknown command, may hold text from a caller.
    let met = line
        .strip_prefix(SCRIPT_ERROR)
        .and_then(|rest| rest.rsplit_once(": "))
        .and_then(|(_, met)| by_code(met));
    let phrase = || PHRASES.iter().find(|(phrase, ..)| line.contains(phrase));
    by_code(line).or(met).or_else(|| phrase().copied())
}

fn code(line: &str) -> &str {
    let line = line.strip_prefix('-').unwrap_or(line);
    line.split(' ').next().unwrap_or(line)
}

#[cfg(test)]
mod tests;

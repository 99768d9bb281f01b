//! Turns failures of servers and connections into errors that say what to do.

use std::time::Duration;

use tollgate_core::ErrorKind::{self, Misconfigured, Protocol, Unavailable, Unsupported};
use tollgate_core::StoreError;

use super::failure::Failure;

/// What a command does if the server executes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    /// It only reads, or it was not sent.
    Nothing,
    /// It counts a call.
    Counts,
    /// It gives back what a call consumed, or the newest units.
    GivesBack,
    /// It counts or gives back for a call that has an id, which is safe to repeat.
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
        Unsupported,
        "this store does not know the operation: use crates of tollgate of the same version",
    )
}

/// Returns what to do about an error with this code, which is the first word of an error, and its kind.
/// Before Redis 7.0, the error that a script ran into is nested in the script's error.
fn meaning_of_code(code: &str) -> Option<(ErrorKind, &'static str)> {
    let advice = match code {
        "ASK" => "the key is migrating to another node: try again, through a cluster client",
        "BUSY" | "UNKILLABLE" => {
            "the server is busy running another script: try again, and find that script with SLOWLOG"
        }
        "CLUSTERDOWN" => {
            "the cluster does not serve this key's slot: try again when it has recovered"
        }
        "CROSSSLOT" => {
            "the keys of one request are in several hash slots: connect with a cluster client, and \
             give the keys the same partition"
        }
        "DENIED" => "the server is in protected mode: bind it to an address, or set a password",
        "EXECABORT" => {
            "the server refuses a command of the transaction: the scriptless store needs Redis 7.0 or \
             later, and a user who may run its commands"
        }
        "LOADING" => "the server is loading its data: try again when it is done",
        "MASTERDOWN" => "this replica has lost its primary: connect to a primary",
        "MISCONF" => "the server cannot save to disk and so refuses writes: see its log",
        "MOVED" => "the key is on another node: connect with a cluster client",
        "NOAUTH" => "the server requires a password: connect with one",
        "NOPERM" => MAY_NOT,
        "NOREPLICAS" => {
            "the server has too few replicas to accept writes: try again when they are back"
        }
        "NOSCRIPT" => "the server forgot a script that it had just loaded: try again",
        "OOM" => "the server has reached its `maxmemory`: give it more, or limit fewer keys",
        "READONLY" => {
            "this server is a replica: connect to the primary; Sentinel and cluster clients find it"
        }
        "TRYAGAIN" => "the keys are migrating to another node: try again",
        "WRONGPASS" => "the server refused the user or password: connect with the right ones",
        "WRONGTYPE" => {
            "another program has written to a key of this prefix: choose another prefix, or delete the key"
        }
        _ => return None,
    };
    let kind = match code {
        "CROSSSLOT" | "DENIED" | "MISCONF" | "NOAUTH" | "NOPERM" | "WRONGPASS" | "WRONGTYPE" => {
            Misconfigured
        }
        "EXECABORT" => Unsupported,
        "OOM" => ErrorKind::Full,
        _ => Unavailable,
    };
    Some((kind, advice))
}

/// Phrases of errors that have no code of their own, the kind of error that they mean, and what to do.
const PHRASES: [(&str, ErrorKind, &str); 10] = [
    ("unknown command", Unsupported, UNKNOWN_COMMAND),
    ("ACL failure", Misconfigured, MAY_NOT),
    ("can't run this command", Misconfigured, MAY_NOT),
    ("No permission", Misconfigured, MAY_NOT),
    ("max number of clients reached", Unavailable, CROWDED),
    // A script that has written something cannot be killed.
    ("Script killed by user", Unavailable, KILLED),
    ("data string too short", Misconfigured, FOREIGN),
    // A state that no limit has written gives TTLs that no limit gives.
    ("value is not an integer", Misconfigured, FOREIGN),
    ("invalid expire time", Misconfigured, FOREIGN),
    ("refund is too deep in the log", Unsupported, TOO_DEEP),
];
const UNKNOWN_COMMAND: &str = "the server does not know a command that this store needs: if it runs no scripts, \
                               use the scriptless store";
const CROWDED: &str =
    "the server accepts no more connections: raise its `maxclients`, or connect fewer";
const KILLED: &str =
    "someone ended the script with SCRIPT KILL before it wrote anything: try again";
const TOO_DEEP: &str = "more than 2,000 calls in the sliding logs of the request would have to be rewritten, on \
                        both sides of the one to refund, which would block the server: nothing was given back; \
                        the call counts until it leaves the window";
pub(super) const FOREIGN: &str = "a key of this prefix holds a value that tollgate has not written: \
                                  choose another prefix, or delete the key";
const MAY_NOT: &str = "the server's user may not do this: grant what the server names; \
                       docs/internals/server.md lists what each command needs";
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
        Unavailable,
        "the server's clock moved by days during the call, and nothing was counted: set it, and try again",
    )
}

/// Returns whether a server's error says that it is out of service: it is a replica, has lost its
/// primary, or is loading its data. It executed nothing, and its address may lead to another server
/// by now.
#[must_use]
pub fn is_out_of_service(line: &str) -> bool {
    is_of_replica(line) || known_code(line) == Some("LOADING")
}

/// Returns whether a server's error says that it is a replica. Before Redis 7.0 that may be nested
/// inside a script's error.
#[must_use]
pub fn is_of_replica(line: &str) -> bool {
    matches!(known_code(line), Some("READONLY" | "MASTERDOWN"))
}

/// Returns the error that a caller gets for `failure`.
pub(super) fn error(failure: Failure, effect: Effect) -> StoreError {
    match failure.redacted(&[]) {
        Failure::Crowded(source) => StoreError::new(
            Unavailable,
            format!(
                "too many calls are in flight: {}, so try again, or make fewer at once",
                undone(effect)
            ),
        )
        .with_source(source),
        Failure::Ended(source) => {
            StoreError::new(Misconfigured, ENDED).with_source(source)
        }
        Failure::NotSent(source) => StoreError::new(
            Unavailable,
            format!("no connection to the server: {}", undone(effect)),
        )
        .with_source(source),
        Failure::Lost(source) => {
            lost("the connection was lost before the reply came", effect).with_source(source)
        }
        Failure::Refused { line, source } => refused(&line).with_source(source),
        Failure::Malformed(source) => StoreError::new(
            Protocol,
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
        Unavailable,
        format!("the call was not sent within {deadline:?}: {undone}, so try again"),
    )
}

/// Returns what a call has not done that the server has not run.
fn undone(effect: Effect) -> &'static str {
    match effect {
        Effect::GivesBack => "nothing was given back",
        Effect::Blocks => "nothing was blocked",
        Effect::Lowers => "nothing was lowered",
        Effect::Plans => "nothing was planned or changed",
        Effect::Holds => "no lease was changed",
        _ => "nothing was counted",
    }
}

fn lost(what: &str, effect: Effect) -> StoreError {
    let advice = match effect {
        Effect::Nothing => "try again",
        Effect::Counts => "the call may have been counted, so do not send it again",
        Effect::GivesBack => "units may have been given back, so do not give them back again",
        Effect::CountsOnce => {
            "the server may have done that: call again with the same id, which says what happened"
        }
        Effect::Blocks => "the key may not be blocked, so block it again, which is safe",
        Effect::Lowers => {
            "what remains may not have been lowered, so lower it again, which is safe"
        }
        Effect::Plans => {
            "events may have been planned or changed: repeat the call with the same ids, which \
             changes nothing twice"
        }
        Effect::Holds => {
            "a lease may have been acquired, renewed or released: repeat the call with the same \
             id, which changes nothing twice"
        }
        Effect::Forgets => "the state may not have been deleted, so reset it again",
    };
    let kind = match effect {
        Effect::Nothing => Unavailable,
        _ => ErrorKind::Unknown,
    };
    StoreError::new(kind, format!("{what}: {advice}"))
}

fn refused(line: &str) -> StoreError {
    let phrase = || PHRASES.iter().find(|(phrase, ..)| line.contains(phrase));
    let by_phrase = || phrase().map(|(_, kind, advice)| (*kind, *advice));
    let by_code = known_code(line).and_then(meaning_of_code);
    let (kind, advice) = by_code.or_else(by_phrase).unwrap_or((
        Protocol,
        "the server replied with an error that this store does not know: look it up in the \
         server's documentation, and see the server's log",
    ));
    StoreError::new(kind, format!("{advice} ({line})"))
}

/// Returns the code of an error, or of the one that a script ran into, if it is known.
fn known_code(line: &str) -> Option<&str> {
    // Look for codes only where the server writes them: the rest, such as the arguments of an
    // unknown command, may hold text from a caller.
    let within = line
        .strip_prefix(SCRIPT_ERROR)
        .and_then(|rest| rest.rsplit_once(": "));
    let codes = [Some(line), within.map(|(_, met)| met)].map(|text| text.map(code));
    let mut known = codes.into_iter().flatten();
    known.find(|code| meaning_of_code(code).is_some())
}

fn code(line: &str) -> &str {
    let line = line.strip_prefix('-').unwrap_or(line);
    line.split(' ').next().unwrap_or(line)
}

#[cfg(test)]
mod tests;

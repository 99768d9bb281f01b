//! `Engine`: the commands that a client crate sends for a store, and how they fail.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use foldhash::fast::FixedState;

use super::failure::Failure;
use super::script::Script;

/// Sends commands to a server that speaks the Redis protocol.
///
/// A client crate implements only this. [`WireStore`](super::WireStore) decides what to send and
/// what replies mean, so stores on different clients behave the same.
///
/// # Behavior
///
/// - A call MUST be one round trip. It MUST NOT be sent again unless the server said that it did
///   not execute it (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`). Switch off the client's own
///   retries after a timeout or a lost connection: they could count a call twice (checked by
///   `only_what_was_not_run_is_sent_again`, `replies_are_cut_off` and
///   `cluster_connections_are_cut`).
/// - A [`Failure`] MUST NOT say that nothing was sent unless that is certain (checked by
///   `connections_are_cut` and `calls_beyond_those_in_flight_are_known_not_to_be_sent`).
/// - Dropping a future MUST NOT disturb other calls (checked by
///   `callers_that_give_up_are_counted_or_not_and_change_nothing_for_others`).
///
/// Those checks are scenarios of `tollgate-scenarios`, in tollgate's own workspace. The suite in
/// `tollgate-conformance` checks the store that an engine makes.
pub trait Engine: Send + Sync + 'static {
    /// Runs a script: `EVALSHA sha1 numkeys key... argument`. Its reply is one bulk string.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says whether the server may have run it.
    fn run(&self, call: &ScriptCall<'_>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;

    /// Loads the script of a call, at least on the node that the call goes to: `SCRIPT LOAD text`. Servers evict
    /// what `EVAL` loads.
    ///
    /// # Errors
    ///
    /// A [`Failure`].
    fn load(&self, call: &ScriptCall<'_>) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Deletes keys of one hash slot: `UNLINK key...`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says whether the server may have run it.
    fn forget(&self, keys: &[Vec<u8>]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits for `work`, and returns `None` if it takes longer than `limit`.
    fn within<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future + Send,
        F::Output: Send;

    /// Waits until one more call may be in flight, and returns what holds its place: the call is
    /// over when that is dropped. Nothing of the call is sent before.
    ///
    /// A store waits for a place for at most half of the deadline. So it knows that a call which
    /// found none was not sent, and has time for the reply to one that did.
    fn place(&self) -> impl Future<Output = impl Send> + Send {
        async {}
    }

    /// Returns the time by this process's clock.
    fn now(&self) -> SystemTime;

    /// Returns whether all keys of a call must be in one hash slot, as in a cluster.
    fn is_clustered(&self) -> bool;

    /// Returns the runtime that polls the call. Calls of one runtime that wait for others are sent
    /// together. Without one, every call is sent by itself.
    fn runtime(&self) -> Option<Runtime> {
        None
    }
}

/// The async runtime of a call: a store starts tasks on it to send calls together.
///
/// A store uses it only during calls.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    pub(super) id: u64,
    pub(super) spawn: fn(Task),
    pub(super) now: fn() -> Instant,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Runtime {
    /// Returns the runtime that has this `id` in the process, starts tasks by `spawn`, and whose time
    /// is `now`.
    ///
    /// `spawn` must run the task even while the spawning task keeps its thread busy. `now` is also
    /// called on a thread outside of the runtime.
    #[must_use]
    pub fn new(id: impl Hash, spawn: fn(Task), now: fn() -> Instant) -> Self {
        Self {
            id: FixedState::default().hash_one(id),
            spawn,
            now,
        }
    }
}

/// A script with the keys and the argument to run it with.
#[derive(Clone, Copy)]
pub struct ScriptCall<'a> {
    pub(super) script: &'static Script,
    pub(super) keys: &'a [Vec<u8>],
    pub(super) argument: &'a [u8],
    /// The ids of events in the argument, which errors must not show.
    pub(super) ids: &'a [&'a [u8]],
}

impl<'a> ScriptCall<'a> {
    /// Returns the script; a program has only a few.
    #[must_use]
    pub fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns the keys: at least one, and all in one hash slot if the engine is clustered.
    #[must_use]
    pub fn keys(&self) -> &'a [Vec<u8>] {
        self.keys
    }

    /// Returns the argument, which is binary.
    #[must_use]
    pub fn argument(&self) -> &'a [u8] {
        self.argument
    }
}

/// Shows only counts and lengths, because keys may be addresses, names or secrets.
impl fmt::Debug for ScriptCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptCall")
            .field("script", &self.script.sha1())
            .field("keys", &self.keys.len())
            .field("argument_bytes", &self.argument.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{ErrorKind, StoreError};

    use super::*;

    #[test]
    fn each_call_gets_the_error_of_the_client_with_its_source() {
        let error = StoreError::new(ErrorKind::Unavailable, "the connection is closed");
        let error = error.with_source(fmt::Error);
        let shown = format!("{error} {error:?}");
        let shared = Failure::lost(error).share();
        for _ in 0..2 {
            let Failure::Lost(source) = shared.again() else {
                panic!("it was lost");
            };
            assert_eq!(format!("{source} {source:?}"), shown);
            let inner = source.source().map(ToString::to_string);
            assert_eq!(inner, Some(fmt::Error.to_string()));
        }
    }

    #[test]
    fn a_failure_shows_no_arguments() {
        let line = "ERR unknown command 'GET', with args beginning with: 'carol4711'";
        for (failure, expected) in [
            (Failure::not_sent("down"), r#"NotSent("down")"#),
            (Failure::lost(line), r#"Lost("ERR unknown command 'GET'")"#),
            (
                Failure::refused(line, "carol4711"),
                r#"Refused("ERR unknown command 'GET'")"#,
            ),
            (Failure::malformed("nil"), r#"Malformed("nil")"#),
        ] {
            assert_eq!(format!("{failure:?}"), expected);
        }
    }
}

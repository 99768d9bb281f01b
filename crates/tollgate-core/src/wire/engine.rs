//! What a client crate does for a store, and how that can fail.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::redact;
use super::script::Script;

/// Sends commands to a server that speaks the Redis protocol.
///
/// This is all that a client crate implements: it moves bytes. What they mean is decided in
/// [`WireStore`](super::WireStore), so that two clients cannot come to differ.
///
/// # Behavior
///
/// - One call MUST be one exchange, and MUST NOT be sent again unless the server said that it did
///   not execute it (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`): a client's own retries after a
///   timeout or a lost connection are to be switched off, or a call could be counted twice.
/// - A future that is dropped MUST NOT disturb the calls of others.
pub trait Engine: Send + Sync {
    /// Runs a script: `EVALSHA sha1 numkeys key... argument`. Its reply is one bulk string.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says whether the server may have run it.
    fn run(&self, call: &Call<'_>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;

    /// Loads the script of a call, at least where the call will be sent: `SCRIPT LOAD text`.
    ///
    /// # Errors
    ///
    /// A [`Failure`].
    fn load(&self, call: &Call<'_>) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Deletes keys of one hash slot: `UNLINK key...`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says whether the server may have run it.
    fn forget(&self, keys: &[Vec<u8>]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits for `work`, but no longer than `limit`; `None` if that was not long enough.
    fn within<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future + Send,
        F::Output: Send;

    /// Returns what this process's clock shows, for requests that are decided by it.
    fn now(&self) -> SystemTime;

    /// Returns whether all keys of a call must be in one hash slot, as in a cluster.
    fn is_clustered(&self) -> bool;
}

/// A script to run, on keys, with its argument.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(super) script: &'static Script,
    pub(super) keys: &'a [Vec<u8>],
    pub(super) argument: &'a [u8],
}

impl<'a> Call<'a> {
    /// Returns the script, one of a few that a program has.
    #[must_use]
    pub fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns the keys, at least one, all in one hash slot where the engine is clustered.
    #[must_use]
    pub fn keys(&self) -> &'a [Vec<u8>] {
        self.keys
    }

    /// Returns the one argument: any bytes.
    #[must_use]
    pub fn argument(&self) -> &'a [u8] {
        self.argument
    }
}

/// Shows counts and lengths: keys may be addresses, names or secrets.
impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("script", &self.script.sha1())
            .field("keys", &self.keys.len())
            .field("argument_bytes", &self.argument.len())
            .finish()
    }
}

pub(super) type Source = Box<dyn Error + Send + Sync>;

/// Why an exchange brought no reply that could be used.
///
/// A store shows no more of a line or a source than a server may be quoted with: where one of them
/// repeats a command's arguments or its keys, the text ends before those.
#[non_exhaustive]
pub enum Failure {
    /// Nothing was sent, so nothing was executed.
    NotSent(Source),
    /// The command was sent, or may have been, and no reply came: it may have been executed.
    Lost(Source),
    /// The server answered with an error.
    Refused {
        /// The error as the server wrote it, its code first: `NOSCRIPT No matching script.`
        line: String,
        /// The error of the client crate.
        source: Source,
    },
    /// The server answered something of another type than the command's reply has.
    Malformed(Source),
}

impl Failure {
    /// Returns that nothing was sent.
    pub fn not_sent(source: impl Into<Source>) -> Self {
        Self::NotSent(source.into())
    }

    /// Returns that the outcome is not known.
    pub fn lost(source: impl Into<Source>) -> Self {
        Self::Lost(source.into())
    }

    /// Returns that the server answered with the error `line`.
    pub fn refused(line: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Refused {
            line: line.into(),
            source: source.into(),
        }
    }

    /// Returns that the reply has the wrong type.
    pub fn malformed(source: impl Into<Source>) -> Self {
        Self::Malformed(source.into())
    }
}

/// Leaves out the arguments that a server has repeated.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::NotSent(source) => ("NotSent", source.to_string()),
            Self::Lost(source) => ("Lost", source.to_string()),
            Self::Refused { line, .. } => ("Refused", line.clone()),
            Self::Malformed(source) => ("Malformed", source.to_string()),
        };
        f.debug_tuple(name)
            .field(&redact::text(&text, &[]))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

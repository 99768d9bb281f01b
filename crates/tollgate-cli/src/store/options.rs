//! Which server, which key, and whose clock: options that several commands have.

use std::fmt;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use tollgate_core::Key;
use tollgate_wire::Options;

use super::hashing::hashing;
use super::remote::PATIENCE;
use super::server::{Location, Server, is_address};
use crate::failure::Failure;
use crate::text::readable;

/// The options for a live server and the output format.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerOptions {
    /// The server: redis://HOST:PORT/DB or redis-cluster://HOST:PORT,HOST:PORT; use fred in place
    /// of redis for the fred client, and rediss or freds for TLS
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) store: String,

    /// A PEM file with the certificate authorities to trust for TLS, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The prefix of the service's keys
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A key of the service, and how the service decides and stores it.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("whom").required(true)))]
pub(crate) struct KeyOptions {
    /// The key's partition: whom the service counts for
    #[arg(value_name = "KEY", group = "whom")]
    word: Option<String>,

    /// The same as KEY, also if it begins with a dash
    #[arg(
        long = "key",
        value_name = "KEY",
        group = "whom",
        allow_hyphen_values = true
    )]
    named: Option<String>,

    /// The rest of the key, if the service uses one
    #[arg(long)]
    pub(crate) rest: Option<String>,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long)]
    pub(crate) hashed_long_keys: bool,
}

/// Whom a command is about: a key.
pub(crate) struct Whom {
    pub(crate) partition: String,
    pub(crate) rest: String,
}

impl Whom {
    /// Returns the key.
    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }
}

/// Writes the key for people.
impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&readable(&self.partition, &self.rest))
    }
}

/// Where a command does all of its work under keys of its own.
#[derive(Args, Debug)]
pub(crate) struct LocationOptions {
    /// Where to run: memory, or a server as redis://HOST:PORT/DB or
    /// redis-cluster://HOST:PORT,HOST:PORT; use fred in place of redis for the fred client, and
    /// rediss or freds for TLS
    ///
    /// The answer is the same everywhere. A server decides by the times in the file, under keys of
    /// this run only, which are deleted at the end: the service's own keys are neither read nor
    /// changed.
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) store: String,

    /// A PEM file with the certificate authorities to trust for TLS, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The prefix of the keys on a server, to which this command adds its own part
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,
}

/// The clock by which a service decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimeSource {
    /// The server's clock, which services use by default
    Server,
    /// Each caller's own clock; this command uses the clock of this machine
    Caller,
}

impl TimeSource {
    /// Returns what to add to a state of this clock, for a command that uses the clock `asked`.
    pub(crate) fn beside(self, asked: Self) -> &'static str {
        match (self, asked) {
            (Self::Caller, Self::Server) => ", by the clocks of callers (--time-source caller)",
            (Self::Server, Self::Caller) => ", by the server's clock (--time-source server)",
            _ => "",
        }
    }
}

impl From<tollgate_wire::TimeSource> for TimeSource {
    fn from(clock: tollgate_wire::TimeSource) -> Self {
        match clock {
            tollgate_wire::TimeSource::Caller => Self::Caller,
            _ => Self::Server,
        }
    }
}

impl From<TimeSource> for tollgate_wire::TimeSource {
    fn from(source: TimeSource) -> Self {
        match source {
            TimeSource::Server => Self::Server,
            TimeSource::Caller => Self::Caller,
        }
    }
}

impl LocationOptions {
    /// Parses the address, and reads the file of authorities.
    pub(crate) fn location(&self) -> Result<Location, Failure> {
        Location::new(&self.store, self.tls_ca.as_deref())
    }
}

impl KeyOptions {
    /// Returns the key.
    pub(crate) fn whom(&self) -> Result<Whom, Failure> {
        if self.word.as_deref().is_some_and(is_address) {
            return Err(Failure::KeyIsAddress);
        }
        let partition = self.word.as_ref().or(self.named.as_ref());
        Ok(Whom {
            partition: partition.cloned().unwrap_or_default(),
            rest: self.rest.clone().unwrap_or_default(),
        })
    }

    /// Returns the options of a service on `server` that has this key.
    pub(crate) fn settings(&self, server: &ServerOptions) -> Result<Options, Failure> {
        hashing(server.settings(self.time_source)?, self.hashed_long_keys)
    }
}

impl ServerOptions {
    /// Parses the server's address, and reads its file of authorities.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        Server::new(&self.store, self.tls_ca.as_deref())
    }

    /// Returns the options for the service's key prefix and `source`.
    pub(crate) fn settings(&self, source: TimeSource) -> Result<Options, Failure> {
        let settings = Options::new().with_prefix(&self.prefix);
        let settings = settings.map_err(|source| Failure::Prefix {
            prefix: self.prefix.clone(),
            source,
        })?;
        Ok(settings
            .with_time_source(source.into())
            .with_deadline(PATIENCE))
    }
}

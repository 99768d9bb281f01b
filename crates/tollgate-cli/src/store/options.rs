//! `ServerOptions` and `Clock`: the options of every command for a live server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tollgate_wire::{Options, TimeSource};

use super::remote::PATIENCE;
use super::server::Server;
use crate::failure::Failure;

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

/// The clock by which a service decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Clock {
    /// The server's clock, which services use by default
    Server,
    /// Each caller's own clock; this command uses the clock of this machine
    Caller,
}

impl ServerOptions {
    /// Parses the server's address, and reads its file of authorities.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        Server::new(&self.store, self.tls_ca.as_deref())
    }

    /// Returns the options for the service's key prefix and `clock`.
    pub(crate) fn settings(&self, clock: Clock) -> Result<Options, Failure> {
        let clock = match clock {
            Clock::Server => TimeSource::Server,
            Clock::Caller => TimeSource::Caller,
        };
        let settings = Options::new().with_prefix(&self.prefix);
        let settings = settings.map_err(|source| Failure::Prefix {
            prefix: self.prefix.clone(),
            source,
        })?;
        Ok(settings.with_time_source(clock).with_deadline(PATIENCE))
    }
}

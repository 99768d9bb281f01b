//! The command line of `tollgate reset`, as clap parses it.

use clap::Args;

use crate::store::{KeyOptions, ServerOptions, TimeSource};
use crate::subject::SubjectOptions;

/// The options of `reset` for all keys; with them, `--key` is not required.
const ALL_KEYS: [&str; 3] = ["all", "ahead", "dry_run"];

/// The options of `reset`.
#[derive(Args, Debug)]
#[command(after_help = RESETS)]
pub(crate) struct ResetOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// A limit of the service, as NAME=ALGORITHM:N/WINDOW; with --all, only its NAME. Repeat for
    /// several limits
    #[arg(long = "limit", required_unless_present_any = ALL_KEYS, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// The key's partition: whom the service counts for
    #[arg(
        long,
        value_name = "PARTITION",
        required_unless_present_any = ALL_KEYS,
        conflicts_with = "all"
    )]
    pub(crate) key: Option<String>,

    /// The rest of the key, if the service uses one
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        conflicts_with = "all"
    )]
    pub(crate) rest: String,

    /// The clock that the service uses; a reset covers both clocks
    #[arg(long, value_enum, default_value_t = TimeSource::Server, hide = true)]
    pub(crate) time_source: TimeSource,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long, conflicts_with = "all")]
    pub(crate) hashed_long_keys: bool,

    /// Reset every key, for all limits or those given
    #[arg(long)]
    pub(crate) all: bool,

    /// Only states more than a second ahead of the server's clock
    // Must conflict with `--key` too: clap does not require an argument that conflicts with a given
    // one.
    #[arg(long, requires = "all", conflicts_with = "key")]
    pub(crate) ahead: bool,

    /// Only count the states that would be deleted
    #[arg(long, requires = "all", conflicts_with = "key")]
    pub(crate) dry_run: bool,
}

impl ResetOptions {
    /// Returns the key to reset, or `None` for all keys.
    pub(super) fn subject(&self) -> Option<SubjectOptions> {
        Some(SubjectOptions {
            server: self.server.clone(),
            limits: self.limits.clone(),
            key: KeyOptions {
                key: self.key.clone()?,
                rest: self.rest.clone(),
                time_source: self.time_source,
                hashed_long_keys: self.hashed_long_keys,
            },
        })
    }
}

const RESETS: &str = "\
What was counted is forgotten, whichever clock it was counted by.

With --all, these are the states of every key that begins with the prefix. They are looked for and
deleted in small steps, on every master of a cluster, and the service goes on meanwhile. Keys of
other programs and other prefixes are left alone.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits; --all needs
none.

Exit status: 0 if it is forgotten, 2 if not.

Examples:
  tollgate reset --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice
  tollgate reset --store redis://127.0.0.1:6379 --all --ahead --dry-run";

//! The command line of `tollgate explain`, as clap parses it.

use clap::Args;

use crate::store::{KeyOptions, ServerOptions, TimeSource};
use crate::time::ZoneOptions;

/// The options of `explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAINS)]
pub(crate) struct ExplainOptions {
    /// The key's partition: whom the service counts for
    #[arg(value_name = "KEY")]
    pub(crate) key: String,

    /// The rest of the key, for --limit; states of every rest are listed
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) rest: String,

    /// A limit to decide, as NAME=ALGORITHM:N/WINDOW, without counting a call; repeat for several
    #[arg(long = "limit", value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// The clock that the service uses, for --limit; states of both clocks are listed
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long)]
    pub(crate) hashed_long_keys: bool,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,
}

impl ExplainOptions {
    pub(super) fn key(&self) -> KeyOptions {
        KeyOptions {
            key: self.key.clone(),
            rest: self.rest.clone(),
            time_source: self.time_source,
            hashed_long_keys: self.hashed_long_keys,
        }
    }
}

const EXPLAINS: &str = "\
Lists every state that the server holds for the key: of every limit and algorithm, schedules and
leases, by the server's clock and by callers' clocks. They are found by a scan of all keys, in small
steps, which writes nothing.

A state does not hold the amount of its limit, so it does not tell how much is left: give --limit
for that. CONSUMED is as of the last write; of a sliding counter, the newer window and the earlier
one. If a limit that you give has no state, but its name has others, the answer says so: the service
may have another algorithm, window, clock or rest.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if it is answered, whatever the limits say; 2 if not.

Examples:
  tollgate explain alice --store redis://127.0.0.1:6379
  tollgate explain alice --store redis://127.0.0.1:6379 --limit login=gcra:5/1m --time-zone Europe/Berlin";

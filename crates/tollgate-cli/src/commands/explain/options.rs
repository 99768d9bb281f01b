//! The command line of `tollgate explain`, as clap parses it.

use clap::Args;

use crate::limits::LimitOptions;
use crate::store::{KeyOptions, ServerOptions};
use crate::time::ZoneOptions;

/// The options of `explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAINS)]
pub(crate) struct ExplainOptions {
    #[command(flatten)]
    pub(crate) key: KeyOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,
}

const EXPLAINS: &str = "\
Lists every state that the server holds for the key: of every limit and algorithm, schedules and
leases, by the server's clock and by callers' clocks. They are found by a scan of all keys, in small
steps, which writes nothing.

A state does not hold the amount of its limit, so it does not tell how much is left: give --limit
for that, or --limits for the limits of the service that read one of the states. CONSUMED is as of the
last write; of a sliding counter, the newer window and the earlier one. Limits decide by the states of
every rest, or of --rest only. If a limit that you give has no state, but its name has others, the
answer says so: the service may have another algorithm, window, clock or rest. For a state that no
limit of the file decides by, the answer says why.

--address and --api-key are for services that count by the layer of tollgate-http. REST shows `1|` or
`2|` at its beginning if the service counts by one thing or else another: give that as --or to commands
that decide. States of other networks of at least 48 bits that hold the address are listed, too.

key_hash is that of the events that the service logs of the key's denied calls.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if it is answered, whatever the limits say; 2 if not.

Examples:
  tollgate explain alice --store redis://127.0.0.1:6379
  tollgate explain --address 2001:db8:1:2::7 --store redis://127.0.0.1:6379
  tollgate explain alice --store redis://127.0.0.1:6379 --limits limits.toml
  tollgate explain alice --store redis://127.0.0.1:6379 --limit login=gcra:5/1m --time-zone Europe/Berlin";

//! The command line of `tollgate reset`, as clap parses it.

use clap::Args;

use crate::limits::LimitOptions;
use crate::store::{KeyOptions, ServerOptions};

#[derive(Args, Debug)]
#[command(after_help = RESETS)]
pub(crate) struct ResetOptions {
    #[command(flatten)]
    pub(crate) key: KeyOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// Reset every key, for all limits or those with the names of --limit
    #[arg(
        long,
        group = "whom",
        conflicts_with_all = ["rest", "hashed_long_keys", "limits_file"]
    )]
    pub(crate) all: bool,

    /// Only states more than a second ahead of the server's clock
    // Must conflict with a key, too: clap does not require an argument that conflicts with a given one.
    #[arg(long, requires = "all", conflicts_with_all = ["word", "named"])]
    pub(crate) ahead: bool,

    /// Only show what would be forgotten
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const RESETS: &str = "\
Forgets every state of the key that `tollgate explain` lists, leases and schedules, too; with --rest,
those of that rest. Of an address, states of other networks are left: --ipv6-prefix names one of them,
whose clients then keep theirs. --limit takes a name or a state as `explain` and `list` print it, for some of
them; or a limit as the service or its file defines it, for what it reads of just this key or of the client,
by either clock. If there is nothing to forget, the answer names the key's other states.

With --all, these are the states of every key that begins with the prefix. They are looked for and
deleted in small steps, on every master of a cluster, and the service goes on meanwhile. Keys of
other programs and other prefixes are left alone.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits; --all needs
none.

Exit status: 0 if something is forgotten, 1 if there was nothing, 2 if it failed; with --all, 0 also if
there was nothing, unless --limit gives a name that no state has.

Examples:
  tollgate reset alice --store redis://127.0.0.1:6379 --dry-run
  tollgate reset --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice
  tollgate reset --store redis://127.0.0.1:6379 --all --ahead --dry-run";

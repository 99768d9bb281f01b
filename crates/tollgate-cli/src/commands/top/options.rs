//! The command line of `tollgate top`, as clap parses it.

use clap::{ArgGroup, Args};

use crate::limits::LimitOptions;
use crate::store::{ServerOptions, TimeSource};
use crate::time::ZoneOptions;

/// The options of `top`.
#[derive(Args, Debug)]
#[command(after_help = TOPS)]
#[command(group(ArgGroup::new("asked").args(["limits", "limits_file"]).multiple(true).required(true)))]
pub(crate) struct TopOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    /// How many keys to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,

    /// Look only at this many keys, in the order in which the server has them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,

    /// Look again at this interval, such as 5s, until Ctrl-C
    #[arg(long, value_name = "LENGTH")]
    pub(crate) every: Option<String>,

    /// With --every: look only this many times
    #[arg(
        long,
        value_name = "N",
        requires = "every",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) count: Option<u64>,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,
}

const TOPS: &str = "\
Shows the keys with the smallest share left of a limit, those that are denied first. Each limit
decides by itself, as for a call of one unit, and nothing is counted. All keys are scanned, in small
steps, on every master of a cluster; --sample ends that early, with keys of all masters.

Plans whose limits share a name read the same states, which do not tell the plan of a key. With --limits,
or all of the limits, a key counts as denied if every limit denies it that may be its own.

Hashed keys are shown as the server has them: # and a hash.

With --every and --json, each look is one line.

Exit status: 0 if it is answered, 2 if not, 130 after Ctrl-C.

Examples:
  tollgate top --store redis://127.0.0.1:6379 --limits limits.toml
  tollgate top --store redis://127.0.0.1:6379 --limit login=gcra:5/1m
  tollgate top --store redis://127.0.0.1:6379 --limit login=gcra:5/1m --sample 10000 --every 5s";

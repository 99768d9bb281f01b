//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Exact rate limiting: what would a limit have done to yesterday's traffic?
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare every algorithm on a day of synthetic traffic with an abusive client
    Demo(DemoOptions),
    /// Replay access logs through limits and show who would have been refused
    Replay(ReplayOptions),
}

#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// The quota that every algorithm counts, as N/WINDOW
    #[arg(long, value_name = "N/WINDOW", default_value = "60/1m")]
    pub(crate) quota: String,

    /// Also write an HTML report with pictures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = LIMITS)]
pub(crate) struct ReplayOptions {
    /// Access logs, plain or gzip; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Whom to count for: ip, user, path, or several joined, such as ip+path
    ///
    /// A path is counted without its query string. Requests without a user are counted together,
    /// under `-`.
    #[arg(long, default_value = "ip", value_name = "KEY")]
    pub(crate) key: String,

    /// A limit, as ALGORITHM:N/WINDOW[,option=value...]; repeat it for several at once
    ///
    /// Several limits are one decision: a request is allowed only if each of them allows it, and a
    /// denied request consumes nothing, except of limits with count-denied.
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write an HTML report with pictures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// How many of the most denied keys to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,

    /// The format of the lines
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) fields: FieldNames,
}

/// What the fields of JSON lines are called; `a.b` is the field `b` of the object `a`.
#[derive(Args, Debug)]
#[command(next_help_heading = "JSON lines")]
pub(crate) struct FieldNames {
    /// The field with the time: RFC 3339, unix seconds (also with decimals or an exponent), or
    /// milliseconds
    #[arg(long, default_value = "time", value_name = "NAME")]
    pub(crate) time_field: String,

    /// The field with the client's address
    #[arg(long, default_value = "ip", value_name = "NAME")]
    pub(crate) ip_field: String,

    /// The field with the user
    #[arg(long, default_value = "user", value_name = "NAME")]
    pub(crate) user_field: String,

    /// The field with the path, or with the whole request line
    #[arg(long, default_value = "path", value_name = "NAME")]
    pub(crate) path_field: String,
}

/// How lines are to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// JSON for lines that start with `{`, otherwise common or combined
    Auto,
    /// Apache and nginx, also called `common`: both begin alike, and the rest is not needed
    #[value(name = "combined", alias = "common")]
    AccessLog,
    /// One JSON object on each line
    Json,
}

const LIMITS: &str = "\
Limits:
  fixed-window:20/1h     windows that follow each other  [,anchored] [,count-denied]
  sliding-log:5/1m       exact, remembers each call      [,count-denied]
  sliding-counter:20/1h  approximate, two counters
  sliding-buckets:20/1h,buckets=12   never over, in bounded memory
  gcra:10/1m             a token bucket                  [,burst=3]
  Windows are in us, ms, s, m, h or d.

Example:
  tollgate replay access.log --key ip --limit gcra:5/1m --limit fixed-window:30/1h";

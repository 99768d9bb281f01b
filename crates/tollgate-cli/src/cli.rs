//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Exact rate limiting: what would a limit have done to yesterday's traffic, and what does it say of a
/// key now?
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Decide a call on a live server and count it
    Check(CallOptions),
    /// Compare every algorithm on a day of synthetic traffic with an abusive client
    Demo(DemoOptions),
    /// Look at a live server for what endangers limits, and say what to do about it
    Doctor(DoctorOptions),
    /// Say what `check` would say on a live server, and count nothing
    Peek(CallOptions),
    /// Replay access logs through limits and show who would have been refused
    Replay(ReplayOptions),
    /// Forget on a live server what a key has consumed, or what all keys have
    Reset(ResetOptions),
}

/// What is asked of a live server.
#[derive(Args, Debug)]
#[command(after_help = CALLS)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// How much the call costs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,
}

/// A live server, and how to answer.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerOptions {
    /// The server, as redis://HOST:PORT/DB, redis-cluster://HOST:PORT,HOST:PORT, or with fred for
    /// redis, and rediss or freds for TLS
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) store: String,

    /// A PEM file with the authorities to trust over TLS, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// What the service's keys begin with
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which states on a live server are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct SubjectOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// A limit as the service has it, as NAME=ALGORITHM:N/WINDOW; repeat it for several at once
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// Whom the limit is counted for: the partition of the key
    #[arg(long, value_name = "PARTITION")]
    pub(crate) key: String,

    /// The rest of the key, where the service gives it one
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) rest: String,

    /// Whose clock the service counts by
    #[arg(long, value_enum, default_value_t = Clock::Server)]
    pub(crate) clock: Clock,

    /// With TOLLGATE_KEY_SECRET: the service hashes only parts of keys longer than 64 bytes
    #[arg(long)]
    pub(crate) hash_only_long: bool,
}

/// The options of `reset` that are about all keys, so that `--key` is not asked for beside them.
const ALL_KEYS: [&str; 3] = ["all", "ahead", "dry_run"];

/// What to forget on a live server.
#[derive(Args, Debug)]
#[command(after_help = RESETS)]
pub(crate) struct ResetOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// A limit as the service has it, as NAME=ALGORITHM:N/WINDOW; with --all, its NAME alone.
    /// Repeat it for several at once
    #[arg(long = "limit", required_unless_present_any = ALL_KEYS, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// Whom the limit is counted for: the partition of the key
    #[arg(
        long,
        value_name = "PARTITION",
        required_unless_present_any = ALL_KEYS,
        conflicts_with = "all"
    )]
    pub(crate) key: Option<String>,

    /// The rest of the key, where the service gives it one
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        conflicts_with = "all"
    )]
    pub(crate) rest: String,

    /// Whose clock the service counts by; what is forgotten is that of both
    #[arg(long, value_enum, default_value_t = Clock::Server, hide = true)]
    pub(crate) clock: Clock,

    /// With TOLLGATE_KEY_SECRET: the service hashes only parts of keys longer than 64 bytes
    #[arg(long, conflicts_with = "all")]
    pub(crate) hash_only_long: bool,

    /// Forget the states of every key, of all limits or of those that are named
    #[arg(long)]
    pub(crate) all: bool,

    /// Only states that lie more than a second ahead of the server's clock
    // Against `--key` too: clap asks for nothing that conflicts with what is given.
    #[arg(long, requires = "all", conflicts_with = "key")]
    pub(crate) ahead: bool,

    /// Only count what would be forgotten
    #[arg(long, requires = "all", conflicts_with = "key")]
    pub(crate) dry_run: bool,
}

/// What to look at.
#[derive(Args, Debug)]
#[command(after_help = DOCTOR)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// Whose clock the service counts by
    #[arg(long, value_enum, default_value_t = Clock::Server)]
    pub(crate) clock: Clock,
}

/// Whose clock decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Clock {
    /// The server's, as services do unless told otherwise
    Server,
    /// That of each machine; this command then uses this one's
    Caller,
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

    /// Where to decide: memory, or a server, as redis://HOST:PORT/DB,
    /// redis-cluster://HOST:PORT,HOST:PORT, or with fred for redis, and rediss or freds for TLS
    ///
    /// The decisions are the same everywhere. On a server they are at the requests' own instants,
    /// under keys of this replay's own, which are deleted in the end.
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) store: String,

    /// A PEM file with the authorities to trust over TLS, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// What the keys on a server begin with; a part of this replay's own follows
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,

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

const CALLS: &str = "\
The name of a limit is part of the text of its keys, and so are its algorithm and, of some
algorithms, its window: give each limit as the service has it, and all that it decides together.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if the call is allowed, 1 if it is denied, 2 if there is no answer.

Example:
  tollgate peek --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice";

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

const DOCTOR: &str = "\
A few keys of its own are written under the prefix, and deleted. What a server does not say is
reported as unknown.

Exit status: 0 if nothing is serious, 1 if something is, 2 if the server cannot be asked.

Example:
  tollgate doctor --store redis://127.0.0.1:6379";

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

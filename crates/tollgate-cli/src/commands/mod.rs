//! The command line, as clap parses it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::jobs;
use crate::schedule::ScheduleOptions;

/// Exact rate limiting: test limits on access logs, and inspect limits on live servers
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read access logs and propose limits that few keys would notice
    Advise(AdviseOptions),
    /// Deny every call of a key on a live server for some time
    Block(BlockOptions),
    /// Decide a call on a live server and count it
    Check(CheckOptions),
    /// Compare every algorithm on a day of synthetic traffic with an abusive client
    Demo(DemoOptions),
    /// Check a live server for problems that endanger limits, and say how to fix them
    Doctor(DoctorOptions),
    /// Show what `check` would answer on a live server, without counting the call
    Peek(CallOptions),
    /// Replay access logs through limits and show who would have been denied
    Replay(ReplayOptions),
    /// Reset one key or all keys on a live server
    Reset(ResetOptions),
    /// Plan events ahead, so that no window around any of them holds too many
    Schedule(ScheduleOptions),
}

/// The options of `check` and `peek`.
#[derive(Args, Debug)]
#[command(after_help = CALLS)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// The cost of the call
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,
}

/// The options of `check`.
#[derive(Args, Debug)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) call: CallOptions,

    /// Wait until the call is allowed, for at most this long, such as 5s; it is denied at once if
    /// it would take longer
    #[arg(long, value_name = "LENGTH")]
    pub(crate) within: Option<String>,

    /// An id of the call: repeated with the same id within 10 minutes, it gets the first answer and
    /// is not counted again
    #[arg(long, conflicts_with = "within")]
    pub(crate) id: Option<String>,
}

/// The options of `block`.
#[derive(Args, Debug)]
#[command(after_help = BLOCKS)]
pub(crate) struct BlockOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// How long to block the key from now on, such as 30m; without it, as long as the limit says
    #[arg(long, value_name = "LENGTH")]
    pub(crate) lasting: Option<String>,
}

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

/// The limits and the key of a command for a live server.
#[derive(Args, Clone, Debug)]
pub(crate) struct SubjectOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// A limit of the service, as NAME=ALGORITHM:N/WINDOW; repeat for several limits
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// The key's partition: whom the limit is counted for
    #[arg(long, value_name = "PARTITION")]
    pub(crate) key: String,

    /// The rest of the key, if the service uses one
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) rest: String,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = Clock::Server)]
    pub(crate) clock: Clock,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long)]
    pub(crate) hash_only_long: bool,
}

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

    /// The key's partition: whom the limit is counted for
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
    #[arg(long, value_enum, default_value_t = Clock::Server, hide = true)]
    pub(crate) clock: Clock,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long, conflicts_with = "all")]
    pub(crate) hash_only_long: bool,

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

/// The options of `doctor`.
#[derive(Args, Debug)]
#[command(after_help = DOCTOR)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = Clock::Server)]
    pub(crate) clock: Clock,
}

/// The clock by which a service decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Clock {
    /// The server's clock, which services use by default
    Server,
    /// Each caller's own clock; this command uses the clock of this machine
    Caller,
}

#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// The quota for every algorithm, as N/WINDOW
    #[arg(long, value_name = "N/WINDOW", default_value = "60/1m")]
    pub(crate) quota: String,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// What to read, and by what to count it.
#[derive(Args, Debug)]
pub(crate) struct LogOptions {
    /// Access logs, plain or gzip; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Whom to count for: ip, client, user, path, or several joined, such as ip+path
    ///
    /// An ip is an address, without its port; a client may also have the name of a host instead.
    /// Paths are counted without their query strings. Requests without a user are counted together,
    /// under `-`.
    #[arg(long, default_value = "ip", value_name = "KEY")]
    pub(crate) key: String,

    /// The format of the log lines
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,

    /// What the lines look like, with {ip}, {time}, {user} and {path} in them, and {} for anything
    /// else, such as '{ip} {} [{time}] "{path}"'
    ///
    /// A field ends where the text after it begins for the first time. A space is one or more spaces
    /// or tabs. {date} is for a date apart from its time, {{ and }} are braces.
    #[arg(long, value_name = "PATTERN", conflicts_with = "format")]
    pub(crate) pattern: Option<String>,

    /// The number of threads; as many as there are processors if it is not given
    ///
    /// The answer is the same with any number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(jobs::MOST)))]
    pub(crate) jobs: Option<u16>,

    #[command(flatten)]
    pub(crate) fields: FieldNames,
}

/// How `advise` and `replay` answer.
#[derive(Args, Debug)]
pub(crate) struct AnswerOptions {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The number of keys to show, those that are denied most
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

/// The options of `advise`.
#[derive(Args, Debug)]
#[command(after_help = ADVICE)]
pub(crate) struct AdviseOptions {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// A window to propose limits for, such as 10s, 1m or 1h; repeat for several windows
    #[arg(long = "window", default_value = "1m", value_name = "LENGTH")]
    pub(crate) windows: Vec<String>,

    #[command(flatten)]
    pub(crate) answer: AnswerOptions,
}

#[derive(Args, Debug)]
#[command(after_help = LIMITS)]
pub(crate) struct ReplayOptions {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// A limit, as ALGORITHM:N/WINDOW[,option=value...]; repeat for several limits
    ///
    /// Several limits decide together: a request is allowed only if each limit allows it, and a
    /// denied request consumes nothing, except from limits with count-denied.
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// Where to decide: memory, or a server as redis://HOST:PORT/DB or
    /// redis-cluster://HOST:PORT,HOST:PORT; use fred in place of redis for the fred client, and
    /// rediss or freds for TLS
    ///
    /// The decisions are the same everywhere. A server decides at the times of the requests, under
    /// keys of this replay only, which are deleted at the end.
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) store: String,

    /// A PEM file with the certificate authorities to trust for TLS, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The prefix of the keys on a server, to which the replay adds its own part
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,

    #[command(flatten)]
    pub(crate) answer: AnswerOptions,
}

/// The name of the field with the time, unless the user gives another.
pub(crate) const TIME_FIELD: &str = "time";

/// The names of the fields in JSON lines: `a.b` is the field `b` of the object `a`, and `a.0` the
/// first element of the list `a`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fields of JSON lines, columns of W3C logs")]
pub(crate) struct FieldNames {
    /// The field with the time: RFC 3339, Unix seconds (also with decimals or an exponent),
    /// milliseconds, microseconds or nanoseconds
    #[arg(long, default_value = TIME_FIELD, value_name = "NAME")]
    pub(crate) time_field: String,

    /// The field with the client's address; a.0 is the first element of the list a
    #[arg(long, default_value = "ip", value_name = "NAME")]
    pub(crate) ip_field: String,

    /// The field with the user
    #[arg(long, default_value = "user", value_name = "NAME")]
    pub(crate) user_field: String,

    /// The field with the path, or with the whole request line
    #[arg(long, default_value = "path", value_name = "NAME")]
    pub(crate) path_field: String,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// Recognized from the first lines; besides, lines that start with `{` are JSON
    Auto,
    /// Apache and nginx: common, combined or vhost_combined, which start alike; the rest is not needed
    #[value(name = "combined", aliases = ["common", "vhost_combined"])]
    AccessLog,
    /// HAProxy's HTTP log
    Haproxy,
    /// One JSON object per line
    Json,
    /// AWS load balancers, application (ALB) or classic (ELB)
    #[value(name = "elb", alias = "alb")]
    LoadBalancer,
    /// The W3C extended format of IIS and CloudFront
    #[value(aliases = ["iis", "cloudfront"])]
    W3c,
}

const ADVICE: &str = "\
For each key, the most requests within any window are counted. A limit of N is proposed for round
shares of keys that never have more than N, and where the curve bends: from there on, a larger N
spares few more requests. Counted as `sliding-log:N/WINDOW` decides: at most N in every window,
wherever it begins, and a refused request is not counted.

Example:
  tollgate advise access.log --key ip --window 1m --window 1h --report advice.html";

const BLOCKS: &str = "\
One of the limits must be a block, such as ban=block:15m; the others are left as they are. A block
never ends earlier than an earlier one of the same key; `tollgate reset` ends it.
";

const CALLS: &str = "\
The name of a limit is part of the text of its keys, and so are its algorithm and, of some
algorithms, its window: give each limit as the service has it, and all that it decides together.
`peek` also names states of the key that these limits do not read: the service may have another
algorithm, window or clock.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if the call is allowed, 1 if it is denied, 2 if there is no answer.

Examples:
  tollgate peek --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice
  tollgate check --store redis://127.0.0.1:6379 --limit mail=gcra:1/1s --key alice --within 5s";

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

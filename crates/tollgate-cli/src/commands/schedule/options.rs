//! The command line of `tollgate schedule`, as clap parses it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::store::{LocationOptions, OneKeyOptions, ServerOptions};
use crate::time::ZoneOptions;

#[derive(Args, Debug)]
pub(crate) struct ScheduleOptions {
    #[command(subcommand)]
    pub(crate) command: ScheduleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Remove an event on a live server
    Cancel(CancelOptions),
    /// List the events of a key on a live server
    List(ListOptions),
    /// Turn the wanted times of many messages into permitted ones
    Plan(PlanOptions),
}

/// The quotas of a schedule.
#[derive(Args, Clone, Debug)]
pub(crate) struct QuotaOptions {
    /// A quota, as [NAME=]N/WINDOW or [NAME=]N/UNIT@ZONE, or closed times; repeat for several
    ///
    /// N/WINDOW, such as 5/1h: no window of that length ever holds more than N events, wherever it
    /// begins. N/UNIT@ZONE, such as 10/day@Europe/Berlin: no day, week, month or year of that time zone
    /// does. "closed 22:00-08:00@Europe/Berlin", "closed sat,sun@Europe/Berlin" or
    /// "closed 2026-12-24..2026-12-26@Europe/Berlin": nothing is planned at these local times. The
    /// zone `local` is that of --time-zone.
    #[arg(long = "quota", value_name = "QUOTA")]
    pub(crate) quotas: Vec<String>,

    /// Another quota: at most N events per day, from midnight to midnight in --time-zone
    #[arg(long, value_name = "N", requires = "time_zone")]
    pub(crate) per_day: Option<u64>,

    /// Another quota: at most N events per week, from Monday to Sunday in --time-zone
    #[arg(long, value_name = "N", requires = "time_zone")]
    pub(crate) per_week: Option<u64>,

    /// Another quota: at most N events per month in --time-zone
    #[arg(long, value_name = "N", requires = "time_zone")]
    pub(crate) per_month: Option<u64>,

    /// The time zone of --per-day, --per-week and --per-month, of quotas in the zone `local`, and of
    /// the times in the answer, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
}

/// The schedule and the key of a command for a live server.
#[derive(Args, Debug)]
pub(crate) struct SubjectOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// The name of the service's schedule
    #[arg(long, value_name = "NAME")]
    pub(crate) schedule: String,

    #[command(flatten)]
    pub(crate) one: OneKeyOptions,
}

#[derive(Args, Debug)]
#[command(after_help = CANCEL)]
pub(crate) struct CancelOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    #[command(flatten)]
    pub(crate) quotas: QuotaOptions,

    /// How far in the past the service still plans events, such as 5m [default: 1s]
    #[arg(long, value_name = "LENGTH")]
    pub(crate) tolerance: Option<String>,

    /// The event's id
    #[arg(long)]
    pub(crate) id: String,
}

#[derive(Args, Debug)]
#[command(after_help = LIST)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,

    /// Only events at this time or later, as RFC 3339 with an offset: 2026-03-01T08:00:00+01:00
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,

    /// Only events before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

/// Which messages are listed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Only {
    Moved,
    Refused,
}

#[derive(Args, Debug)]
#[command(after_help = PLAN)]
pub(crate) struct PlanOptions {
    /// The messages, as CSV with the heading key,id,time or as JSON lines with these fields, plain
    /// or gzip; `-` reads standard input
    ///
    /// A time is RFC 3339 with an offset, such as 2026-03-01T08:00:00+01:00. An id is unique for
    /// its key. A field `time_zone` may give the recipient's time zone, for quotas in the zone `local`;
    /// where it is empty or missing, --time-zone counts.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) quotas: QuotaOptions,

    /// How far after the earliest wanted time messages may be planned, such as 30d; none is planned
    /// later
    ///
    /// Without it, up to 366 days after the last wanted time. Where a key could then hold more than
    /// 100,000 messages, the quotas allow less, and standard error says how much.
    #[arg(long, value_name = "LENGTH")]
    pub(crate) horizon: Option<String>,

    #[command(flatten)]
    pub(crate) location: LocationOptions,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Print CSV instead of a table; in it, times are in UTC, and values as they are
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,

    /// List only the messages that are refused, or only those that are moved
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) only: Option<Only>,

    /// List keys instead of messages: a line with the numbers of each
    #[arg(long, conflicts_with = "json")]
    pub(crate) per_key: bool,

    /// Also write an HTML report with a chart to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

const CANCEL: &str = "\
Give the schedule's name, all its quotas and its tolerance as the service has them: they say how long
the server keeps the other events. A file of limits holds no schedules. If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret
as 32 hex digits.

Exit status: 0 if the event is removed, 1 if there was none, 2 if there is no answer.

Example:
  tollgate schedule cancel --store redis://127.0.0.1:6379 --schedule reminders --quota 1/1m \\
    --quota 5/1h --quota 10/1d --key alice --id msg-17";

const LIST: &str = "\
Lists all events that the server holds, by time, also those so long past that they affect no other.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if there is an answer, 2 if not.

Example:
  tollgate schedule list --store redis://127.0.0.1:6379 --schedule reminders --key alice";

const PLAN: &str = "\
In the order of the file, each message gets the earliest permitted time that is not before the
wanted one. The times may be past: the plan does not depend on today's date.

Exit status: 0 if every message is planned, 1 if some are refused, 2 if there is no plan.

Examples:
  tollgate schedule plan messages.csv --quota 1/1m --quota 5/1h --quota 10/1d
  tollgate schedule plan messages.csv --quota 1/1m --per-day 10 --time-zone Europe/Berlin \\
    --quota 'closed 22:00-08:00@local' --report plan.html";

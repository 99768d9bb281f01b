//! The command line of `tollgate replay`, as clap parses it.

use clap::Args;

use crate::input::LogOptions;
use crate::report::AnswerOptions;
use crate::store::LocationOptions;

/// The options of `replay`.
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

    #[command(flatten)]
    pub(crate) location: LocationOptions,

    #[command(flatten)]
    pub(crate) answer: AnswerOptions,
}

const LIMITS: &str = "\
Limits:
  fixed-window:20/1h     windows that follow each other  [,anchored] [,count-denied]
  sliding-log:5/1m       exact, remembers each call      [,count-denied]
  sliding-counter:20/1h  approximate, two counters
  sliding-buckets:20/1h,buckets=12   never over, in bounded memory
  gcra:10/1m             a token bucket                  [,burst=3]
  Windows are in us, ms, s, m, h or d, or a day, week, month or year of a
  time zone: fixed-window:N/month@Europe/Berlin.

Example:
  tollgate replay access.log --key ip --limit gcra:5/1m --limit fixed-window:30/1h";

//! The command line of `tollgate check` and `tollgate peek`, as clap parses it.

use clap::Args;

use crate::subject::SubjectOptions;

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
    pub(crate) wait_up_to: Option<String>,

    /// An id of the call: repeated with the same id within 10 minutes, it gets the first answer and
    /// is not counted again
    #[arg(long, conflicts_with = "wait_up_to")]
    pub(crate) id: Option<String>,
}

const CALLS: &str = "\
The name of a limit is part of the text of its keys, and so are its algorithm and, of some
algorithms, its window: give each limit as the service has it, and all that it decides together.
`peek` also names states of the key that these limits do not read: the service may have another
algorithm, window or clock.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if the call is allowed, 1 if it is denied, 2 if there is no answer.

Examples:
  tollgate peek --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice
  tollgate check --store redis://127.0.0.1:6379 --limit mail=gcra:1/1s --key alice --wait-up-to 5s";

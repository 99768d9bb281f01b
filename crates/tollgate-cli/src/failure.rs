//! What ends the program early, said in one line that tells what to do.

use std::io;
use std::path::PathBuf;

use tollgate_core::{LimitError, StoreError};

/// The exit status of every failure; clap uses the same for a bad command line.
pub(crate) const EXIT_STATUS: u8 = 2;

/// What ends the program early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "no request found in {files}{skipped}: give an access log in common, combined or JSON lines format, see --format"
    )]
    Empty { files: String, skipped: String },
    #[error("--key {key}: {reason}; join ip, user and path with +, such as ip+path")]
    Key { key: String, reason: String },
    #[error("--limit {limit}: {source}")]
    Limit { limit: String, source: LimitError },
    #[error("{0}")]
    Limits(LimitError),
    #[error(
        "--limit {limit} is given twice: remove one, for two equal limits refuse what one refuses"
    )]
    LimitTwice { limit: String },
    #[error("--quota {quota}: {source}")]
    Quota { quota: String, source: LimitError },
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    #[error("cannot read {}: {source}; give a readable log file", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the report {}: {source}; choose a writable place", path.display())]
    Report { path: PathBuf, source: io::Error },
    #[error("--report {}: that is the log {}; choose another file", report.display(), log.display())]
    ReportOverLog { report: PathBuf, log: PathBuf },
    #[error("- is given twice: standard input can be read only once; remove one")]
    StandardInputTwice,
    #[error("the store could not decide: {0}")]
    Store(#[from] StoreError),
    #[error("more than {most} different keys: replay a part of the log, or choose a coarser --key")]
    TooManyKeys { most: u32 },
}

impl Failure {
    /// Returns whether the reader of standard output has gone away.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

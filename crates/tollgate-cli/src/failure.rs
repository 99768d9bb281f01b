//! `Failure`: an error that ends the program, with a one-line message that says what to do.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use tollgate_core::{ErrorKind, LimitError, StoreError};

use crate::signals::Signal;
use crate::text::{Short, plural, printable};

/// The exit status of most failures; clap uses the same for a bad command line.
const EXIT_STATUS: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("--api-key: standard input holds no API key: give it on one line, and nothing else")]
    ApiKeyMissing,
    #[error(
        "--api-key reads standard input, which is a terminal: give a file or a pipe that holds the API key, such as --api-key < key.txt"
    )]
    ApiKeyTyped,
    #[error("--tls-ca {}: {source}; give a PEM file with the certificates of authorities", path.display())]
    Authorities { path: PathBuf, source: io::Error },
    #[error(
        "--tls-ca is for TLS, and --store {0} is not: give rediss://, rediss-cluster://, freds:// or freds-cluster://"
    )]
    AuthoritiesWithoutTls(String),
    #[error("cannot connect to --store {store} ({}): {}{}", source.kind(), WithCauses(source), advice(source.kind(), *is_tls))]
    Connect {
        store: String,
        is_tls: bool,
        source: StoreError,
    },
    #[error("cannot read {}: {source}", path.display())]
    Content { path: PathBuf, source: io::Error },
    #[error(
        "no request found in {files}{skipped}: give an access log in one of the formats of --format, or describe its lines with --pattern"
    )]
    Empty { files: String, skipped: String },
    #[error(
        "no message found in {file}: give CSV with the heading key,id,time, or JSON lines with these fields"
    )]
    NoMessages { file: String },
    #[error(
        "no quota is given: give at least one, such as --quota 5/1h or --per-day 10 --time-zone Europe/Berlin"
    )]
    NoQuota,
    #[error(
        "a quota is in the zone `local`, which is the recipient's: give it as --time-zone, such as \
         --time-zone Europe/Berlin, or in a field time_zone of each message, which the message {id} to {key} \
         lacks"
    )]
    NoZone { id: String, key: String },
    #[error(
        "no request of {files} is like --path, --method and --status say, but {left_out} others are: give another of these, or leave it out{skipped}"
    )]
    NothingLeft {
        files: String,
        left_out: u64,
        skipped: String,
    },
    #[error("interrupted")]
    Interrupted(Signal),
    #[error(
        "{failure}; {} forgotten before that: run the same command again for the rest",
        plural(*forgotten, "state was", "states were")
    )]
    HalfForgotten { forgotten: u64, failure: Box<Self> },
    #[error("{file}:{line}: {reason}")]
    Line {
        file: String,
        line: u64,
        reason: String,
    },
    #[error(
        "KEY: ... is the address of a server: give it with --store; if it is a key, give it with --key"
    )]
    KeyIsAddress,
    #[error("{0}")]
    Limits(LimitError),
    #[error("--limits {}: {reason}", path.display())]
    LimitsFile { path: PathBuf, reason: String },
    #[error(
        "the server holds no state of {}: without --limit, the list has all",
        printable(.0.as_bytes())
    )]
    LimitsNotHeld(String),
    #[error(
        "the limit {} counts in the zone `local`, which is that of the call: give it as --zone, such as --zone Europe/Berlin",
        Short(.0)
    )]
    LimitWithoutZone(String),
    #[error(
        "the limit {} counts from `day=local`, which is the day of the call: give it as --day, such as --day 15",
        Short(.0)
    )]
    LimitWithoutDay(String),
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    #[error("cannot read {}: {source}; give a readable file", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the report {}: {source}; choose a writable place", path.display())]
    Report { path: PathBuf, source: io::Error },
    #[error("--report {}: that file is the input {}; choose another", report.display(), log.display())]
    ReportOverLog { report: PathBuf, log: PathBuf },
    #[error("cannot wait for a server: {0}")]
    Runtime(io::Error),
    #[error(
        "TOLLGATE_KEY_SECRET: give the service's secret as 32 hex digits, or unset it if the service does not hash its keys"
    )]
    Secret,
    #[error("- is given twice: standard input can be read only once; remove one")]
    StandardInputTwice,
    #[error("the store failed ({}): {}", .0.kind(), WithCauses(.0))]
    Store(#[from] StoreError),
    #[error(
        "--store {store}: {reason}; give {places}redis://HOST:PORT/DB or redis-cluster://HOST:PORT,HOST:PORT, or fred in place of redis for the other client, and rediss or freds for TLS"
    )]
    StoreUrl {
        store: String,
        reason: &'static str,
        places: &'static str,
    },
    #[error("{option} {} is given twice: remove one", Short(text))]
    Twice { option: &'static str, text: String },
    #[error("more than {most} different keys: replay a part of the log, or choose a coarser --key")]
    TooManyKeys { most: u32 },
    #[error("{option} {}: {reason}", Short(text))]
    Wrong {
        option: &'static str,
        text: String,
        reason: String,
    },
}

impl Failure {
    /// Returns the failure of an option whose value `text` is not possible.
    pub(crate) fn wrong(option: &'static str, text: &str, reason: impl fmt::Display) -> Self {
        Self::Wrong {
            option,
            text: text.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Interrupted(signal) => signal.exit_status(),
            Self::HalfForgotten { failure, .. } => failure.exit_status(),
            _ => EXIT_STATUS,
        }
    }
}

/// A store's error with all its causes, on one line.
pub(crate) struct WithCauses<'a>(pub(crate) &'a StoreError);

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = text_of(error);
            // Some errors already include their cause.
            if !shown.contains(&text) {
                shown = format!("{shown}: {text}");
            }
            cause = error.source();
        }
        f.write_str(&printable(shown.as_bytes()))
    }
}

/// Returns the message of `error`. For system and TLS errors, fred's message is their `Debug`
/// output, from which this extracts the message.
fn text_of(error: &dyn Error) -> String {
    let text = error.to_string();
    let custom = text.split_once("Custom {").map(|(_, custom)| custom);
    let within = custom.and_then(|custom| custom.split_once("error: "));
    if let Some((_, within)) = within {
        return within.trim_end_matches([' ', '}']).to_owned();
    }
    let system = text.split_once("Os {").map(|(_, system)| system);
    let message = system.and_then(|system| system.split_once("message: \""));
    match message.and_then(|(_, message)| message.split_once('"')) {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

/// Returns what to add to the store's advice about a connection that failed.
fn advice(kind: ErrorKind, is_tls: bool) -> &'static str {
    match kind {
        ErrorKind::Misconfigured if is_tls => {
            "; give --tls-ca an authority that this system does not know"
        }
        _ => "",
    }
}

//! `Output`: answers go to standard output, everything else to standard error.
//!
//! Neither takes control characters to a terminal, whoever wrote the text: a server, a log, a user. In a file,
//! CSV has them as they are, since what reads it knows no escapes of ours.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde::Serialize;

use crate::failure::Failure;
use crate::secrets::without_secrets;
use crate::text::{json, printable, printable_lines};

/// Returns the exit status of a command that has an answer: 1 for a call that is denied, an event that is refused,
/// nothing to forget, or a finding that is too severe.
pub(crate) fn status(is_good: bool) -> ExitCode {
    ExitCode::from(u8::from(!is_good))
}

/// Both output streams; write errors are returned or ignored instead of panicking.
pub(crate) struct Output {
    stdout: io::Stdout,
    stderr: io::Stderr,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            stdout: io::stdout(),
            stderr: io::stderr(),
        }
    }

    /// Writes an answer to standard output, without characters that could manipulate a terminal.
    pub(crate) fn answer(&self, text: &str) -> Result<(), Failure> {
        self.write(&printable_lines(text))
    }

    /// Writes data to standard output as it is, unless that is a terminal.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        if self.stdout.is_terminal() {
            self.answer(text)
        } else {
            self.write(text)
        }
    }

    /// Writes an answer in place of the one before, if standard output is a terminal.
    pub(crate) fn answer_again(&self, text: &str) -> Result<(), Failure> {
        if self.stdout.is_terminal() {
            self.write("\u{1b}[H\u{1b}[2J")?;
        }
        self.answer(text)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = self.stdout.lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(Failure::Output)
    }

    /// Writes a remark to standard error, without secrets and control characters; errors are
    /// ignored.
    pub(crate) fn remark(&self, text: &str) {
        let _ = self.stderr.lock().write_all(harmless(text).as_bytes());
    }

    /// Writes the error that ends the program, on one line.
    pub(crate) fn complain(&self, failure: &impl Display) {
        let text = printable(failure.to_string().as_bytes());
        self.remark(&format!("tollgate: {text}\n"));
    }

    /// Writes what clap says about the command line, and returns the exit status: 0 for help.
    pub(crate) fn explain(&self, error: &clap::Error) -> u8 {
        if let Some(text) = negative(error, std::env::args()) {
            self.complain(&text);
            return u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
        }
        let text = error.render().to_string();
        if error.use_stderr() && harmless(&text) != text {
            self.remark(&text);
        } else {
            // In colours, if this is a terminal.
            let _ = error.print();
        }
        u8::try_from(error.exit_code()).unwrap_or(u8::MAX)
    }

    /// Returns whether standard error is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        self.stderr.is_terminal()
    }
}

/// Prints `answer` as JSON or as what `to_text` returns; a broken pipe is not an error.
pub(crate) fn say(
    as_json: bool,
    output: &Output,
    answer: &impl Serialize,
    to_text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let said = output.answer(&if as_json { json(answer) } else { to_text() });
    match said {
        Err(failure) if failure.is_broken_pipe() => Ok(()),
        said => said,
    }
}

/// Returns what to say if `error` is about a negative number, which clap takes for an option.
fn negative(error: &clap::Error, arguments: impl Iterator<Item = String>) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(&**text),
        _ => None,
    };
    let is_negative = |text: &&str| {
        let digits = text.strip_prefix('-');
        digits.is_some_and(|digits| digits.starts_with(|first: char| first.is_ascii_digit()))
    };
    const NUMBERS: &str = "a number or a length of time is never negative";
    if error.kind() == ErrorKind::ValueValidation {
        let value = of(ContextKind::InvalidValue).filter(is_negative)?;
        let option = of(ContextKind::InvalidArg)?.split(' ').next()?;
        return Some(format!("{option} {value}: {NUMBERS}"));
    }
    let start = of(ContextKind::InvalidArg).filter(is_negative)?;
    let arguments: Vec<_> = arguments.collect();
    let mut pairs = arguments.windows(2);
    let [option, value] = pairs.find(|pair| pair[1].starts_with(start))? else {
        return None;
    };
    Some(format!(
        "{option} {value}: {NUMBERS}; a text that begins with - is written {option}={value}"
    ))
}

/// Returns `text` without the secrets of the command line, and without characters that could
/// manipulate a terminal, except for line ends.
fn harmless(text: &str) -> String {
    printable_lines(&without_secrets(text))
}

//! `Output`: answers go to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

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

    /// Writes an answer to standard output.
    pub(crate) fn answer(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = self.stdout.lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(Failure::Output)
    }

    /// Writes a remark to standard error; errors are ignored.
    pub(crate) fn remark(&self, text: &str) {
        let _ = self.stderr.lock().write_all(text.as_bytes());
    }

    /// Writes the error that ends the program.
    pub(crate) fn complain(&self, failure: &impl Display) {
        self.remark(&format!("tollgate: {failure}\n"));
    }

    /// Returns whether standard error is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        self.stderr.is_terminal()
    }
}

//! Where the program writes: standard output for answers, standard error for everything else.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// The two streams, with errors handled instead of panicking.
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

    /// Writes a remark to standard error; if nobody reads that, there is nobody to tell.
    pub(crate) fn remark(&self, text: &str) {
        let _ = self.stderr.lock().write_all(text.as_bytes());
    }

    /// Writes why the program ends.
    pub(crate) fn complain(&self, failure: &impl Display) {
        self.remark(&format!("tollgate: {failure}\n"));
    }

    /// Returns whether a person watches standard error.
    pub(crate) fn is_watched(&self) -> bool {
        self.stderr.is_terminal()
    }
}

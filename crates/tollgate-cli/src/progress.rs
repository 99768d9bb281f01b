//! `Progress`: a line on the terminal that says what a long operation does, and how far it is.

use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How often the line is written, and how long nothing is.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    is_watched: bool,
    doing: Cell<&'static str>,
    done: Cell<u64>,
    said: Cell<Instant>,
    is_shown: Cell<bool>,
}

impl Progress {
    pub(crate) fn new(is_watched: bool) -> Self {
        Self {
            is_watched,
            doing: Cell::new(""),
            done: Cell::new(0),
            said: Cell::new(Instant::now()),
            is_shown: Cell::new(false),
        }
    }

    /// Says what the program does from now on.
    pub(crate) fn say(&self, doing: &'static str) {
        self.doing.set(doing);
        self.done.set(0);
        self.show();
    }

    /// Adds bytes read, or requests decided.
    #[inline]
    pub(crate) fn advance(&self, by: usize) {
        let by = u64::try_from(by).unwrap_or(u64::MAX);
        self.done.set(self.done.get().saturating_add(by));
        self.show();
    }

    fn show(&self) {
        if self.is_watched && self.said.get().elapsed() >= PAUSE {
            self.said.set(Instant::now());
            self.is_shown.set(true);
            let (doing, done) = (self.doing.get(), self.done.get());
            let _ = write!(io::stderr(), "\r{doing} {done}\u{1b}[K");
        }
    }

    /// Removes the line, so that other output can be written.
    pub(crate) fn finish(&self) {
        if self.is_shown.replace(false) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

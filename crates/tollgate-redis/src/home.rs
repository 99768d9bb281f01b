//! `Home`: the runtime whose tasks drive a connection.

use std::future;

use tokio::task::JoinHandle;

/// A task that does nothing, and ends with the runtime that it is on.
#[derive(Debug)]
pub(crate) struct Home(JoinHandle<()>);

impl Home {
    /// Returns the current runtime.
    pub(crate) fn here() -> Self {
        Self(tokio::spawn(future::pending()))
    }

    /// Returns whether the runtime has ended, and with it the tasks on it.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.0.abort();
    }
}

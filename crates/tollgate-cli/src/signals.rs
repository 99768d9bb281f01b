//! `Signal`: Ctrl-C and SIGTERM, after which the program gives back what it holds, and ends.

use std::future::pending;

use tokio::{select, signal};

/// A request to end the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, from `kill`, a supervisor or a shutdown.
    Terminate,
}

impl Signal {
    /// Waits for a signal. From the first poll on, signals no longer end the program by themselves.
    pub(crate) async fn received() -> Self {
        select! {
            Ok(()) = signal::ctrl_c() => Self::Interrupt,
            () = terminated() => Self::Terminate,
        }
    }

    /// Returns the exit status that shells expect after the signal: 128 and its number.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

#[cfg(unix)]
async fn terminated() {
    let received = match signal::unix::signal(signal::unix::SignalKind::terminate()) {
        Ok(mut signals) => signals.recv().await,
        Err(_) => None,
    };
    if received.is_none() {
        pending::<()>().await;
    }
}

#[cfg(not(unix))]
async fn terminated() {
    pending::<()>().await;
}

//! `WaitError` and `TooLong`: why a call was not admitted.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate_core::{Limit, StoreError, Wait};

/// The error of a call that waits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait would be longer than the time given. Nothing was consumed.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// As many calls as allowed wait for the key already. Nothing was consumed.
    #[error(
        "{most} calls wait for this key already: try again later, or let more of them wait with \
         `most_waiting`"
    )]
    TooManyWaiting {
        /// How many may wait.
        most: usize,
    },
    /// The store failed. Its [kind](StoreError::kind) says whether anything may have been consumed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A call was refused, because it would have waited for longer than the time given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TooLong {
    limit: Limit,
    wait: Wait,
    longest: Duration,
}

impl TooLong {
    /// `wait` is `None` if it never ends.
    pub(super) fn new(limit: &Limit, wait: Option<Duration>, longest: Duration) -> Self {
        let micros = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Self {
            limit: limit.clone(),
            wait: micros.map_or(Wait::NEVER, Wait::from_micros),
            longest,
        }
    }

    /// Returns the limit with the longest wait.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns how long the call would have waited since it was made, in all:
    /// [`Wait::NEVER`] if its cost exceeds a limit's capacity.
    ///
    /// It is exact if all calls for the key go through one limiter and its clones, and none of them
    /// is given back. Other processes make it longer.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Returns by how much that exceeds the time given.
    #[must_use]
    pub fn excess(&self) -> Wait {
        match self.wait.duration() {
            Some(wait) => {
                let excess = wait.saturating_sub(self.longest).as_micros();
                Wait::from_micros(u64::try_from(excess).unwrap_or(u64::MAX))
            }
            None => Wait::NEVER,
        }
    }
}

/// Writes ``limit `mail`: would wait 2.5s, but may wait 1s``.
impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.limit.name();
        match self.wait.duration() {
            Some(wait) => {
                let would = millis(wait);
                // What is shown is never as long.
                let may = millis(self.longest).min(would.saturating_sub(1));
                let [would, may] =
                    [would, may].map(|it| Wait::from_micros(it.saturating_mul(1_000)));
                write!(f, "limit `{name}`: would wait {would}, but may wait {may}")
            }
            None => write!(
                f,
                "limit `{name}`: never allowed, because the cost exceeds the capacity of {}",
                self.limit.algorithm().capacity()
            ),
        }
    }
}

impl Error for TooLong {}

/// Returns a time in milliseconds, rounded up.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_people() {
        let limit: Limit = "mail=gcra:1/1s".parse().unwrap();
        for (wait, longest, expected) in [
            (12_000_001_000, 9_999_997_786, "12.001s, but may wait 10s"),
            (5_001_000, 4_999, "6ms, but may wait 1ms"),
            (5_001_000, 5_000_999, "6ms, but may wait 5ms"),
            (1_000, 0, "1ms, but may wait 0s"),
        ] {
            let [wait, longest] = [wait, longest].map(Duration::from_nanos);
            let said = TooLong::new(&limit, Some(wait), longest).to_string();
            assert_eq!(said, format!("limit `mail`: would wait {expected}"));
        }
    }
}

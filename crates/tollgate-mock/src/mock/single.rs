//! What expectations of schedules and of leases share: a call is about one name and one key.

use tollgate_core::{ErrorKind, StoreError};

use super::expected::Expected;

/// Why no expectation answers a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    NotNamed,
    /// Expectations name the schedule or the leases and the key, and something else besides.
    Other,
    UsedUp,
}

impl Standing {
    /// Returns what messages say: `named` is what an expectation names, and `other` what it may be
    /// about besides.
    pub(super) fn told(self, named: &str, other: &str) -> String {
        match self {
            Self::NotNamed => format!("no expectation names {named} and key"),
            Self::Other => format!("expected for another {other} only"),
            Self::UsedUp => "every expectation that fits has had all its calls".to_owned(),
        }
    }
}

/// Counts a call, and returns the answer of the first expectation that matches it and has calls
/// left. `is_of` says whether an expectation names the same operation, name and key.
pub(super) fn answer<C, A: Clone + Send + 'static>(
    expected: &mut [Expected<C, A>],
    is_of: impl Fn(&C) -> bool,
    matches: impl Fn(&C) -> bool,
) -> Result<A, Standing> {
    let mut standing = Standing::NotNamed;
    for expected in expected {
        if !is_of(&expected.call) {
            continue;
        }
        if !matches(&expected.call) {
            if standing == Standing::NotNamed {
                standing = Standing::Other;
            }
        } else if expected.is_used_up() {
            standing = Standing::UsedUp;
        } else {
            return Ok(expected.answer());
        }
    }
    Err(standing)
}

/// Returns the error that a test asks for.
pub(super) fn failed(kind: ErrorKind) -> StoreError {
    StoreError::new(kind, format!("the test says to fail: {kind:?}"))
}

/// Returns the error for an operation that is newer than the mock.
pub(super) fn unsupported() -> StoreError {
    let message = "the mock does not know this operation: wrap another store";
    StoreError::new(ErrorKind::Unsupported, message)
}

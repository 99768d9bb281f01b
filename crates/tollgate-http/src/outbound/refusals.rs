//! `Refusals`: which responses refuse a request because of a limit.

use std::sync::Arc;

use http::StatusCode;

use crate::hints::Hints;
use crate::limit_hint::LimitHint;

/// The statuses that refuse a request if the response says when to try again.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    /// `None` means all errors.
    statuses: Option<Arc<[StatusCode]>>,
}

impl Refusals {
    pub(super) fn of(statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        Self {
            statuses: Some(statuses.into_iter().collect()),
        }
    }

    /// Returns whether a response with this status and these hints refuses its request.
    pub(super) fn include(&self, status: StatusCode, hints: &Hints) -> bool {
        let may_refuse = match &self.statuses {
            Some(statuses) => statuses.contains(&status),
            None => status.is_client_error() || status.is_server_error(),
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            // Some services say so if nothing is left of a limit.
            StatusCode::FORBIDDEN if hints.limits().iter().any(is_used_up) => true,
            _ => may_refuse && hints.retry_after().is_some(),
        }
    }
}

/// Returns whether nothing is left of a limit. `-1` says so only together with a time: those who did not
/// count the request have none.
fn is_used_up(limit: &LimitHint) -> bool {
    let may_be = limit.may_be_used_up && limit.reset_after.is_some();
    limit.remaining == Some(0) || may_be
}

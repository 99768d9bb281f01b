//! `Refusals`: which responses refuse a request because of a limit.

use std::sync::Arc;

use http::StatusCode;

use crate::Hints;

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
            StatusCode::FORBIDDEN => may_refuse && hints.wait().is_some(),
            _ => may_refuse && hints.retry_after().is_some(),
        }
    }
}

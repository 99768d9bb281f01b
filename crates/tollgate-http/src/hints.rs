//! `Hints`: what a response says about the limits of its service.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::limit_hint::LimitHint;
use crate::{spelled, standard, times};

/// What a response says about the limits of its service: for clients of every kind, so no feature is
/// needed to read it.
///
/// An [`OutboundLayer`](crate::outbound::OutboundLayer) reads it for clients that are tower services.
/// With the feature `outbound`, other clients share it with all processes by [`report`](Self::report).
/// A server writes what it says with [`Fields`](crate::inbound::Fields).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hints {
    retry_after: Option<Duration>,
    limits: Vec<LimitHint>,
}

impl Hints {
    /// Reads the headers of a response that was received at `received`, which matters only for
    /// instants in a response without a `Date`.
    ///
    /// Headers that are missing or malformed are ignored. If a header comes more than once, or has
    /// several values, the strictest counts; see [this crate](crate).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::Hints;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit-policy", r#""burst";q=100;w=60"#.parse()?);
    /// headers.insert("ratelimit", r#""burst";r=0;t=30"#.parse()?);
    /// let hints = Hints::read(&headers, SystemTime::now());
    /// assert_eq!(hints.limits()[0].name(), Some("burst"));
    /// assert_eq!(hints.wait(), Some(Duration::from_secs(30)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read(headers: &HeaderMap, received: SystemTime) -> Self {
        let lines = |name: &str| {
            let lines = headers.get_all(name).into_iter();
            lines.filter_map(|line| line.to_str().ok())
        };
        let dates =
            lines(DATE.as_str()).filter_map(|date| httpdate::parse_http_date(date.trim()).ok());
        let now = dates.min().unwrap_or(received);
        let in_millis = lines("retry-after-ms").flat_map(times::entries);
        let in_millis = in_millis.filter_map(times::millis).max();
        let retry_after = lines(RETRY_AFTER.as_str()).flat_map(times::entries);
        let retry_after = retry_after
            .filter_map(|entry| times::until(entry, now))
            .max();
        let retry_after = match (in_millis, retry_after) {
            (Some(exact), Some(rounded)) if rounded == times::up_to_seconds(exact) => Some(exact),
            (in_millis, retry_after) => in_millis.max(retry_after),
        };
        let mut limits = standard::limits(headers);
        limits.extend(spelled::limits(headers, now));
        Self {
            retry_after,
            limits,
        }
    }

    /// Returns the time of `Retry-After`, the longest if there are several, or of `Retry-After-Ms`
    /// if that is longer or the same in milliseconds.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the limits that the response describes. A service that describes a limit in several
    /// spellings describes it several times.
    #[must_use]
    pub fn limits(&self) -> &[LimitHint] {
        &self.limits
    }

    /// Returns how long to wait before the next call, or `None` if the response does not ask for
    /// that: the time of `Retry-After` if there is one, and otherwise the longest of the limits of
    /// which nothing remains.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let used_up = self
            .limits
            .iter()
            .filter(|limit| limit.remaining == Some(0) || limit.may_be_used_up);
        let longest = used_up.filter_map(|limit| limit.reset_after).max();
        self.retry_after.or(longest)
    }
}

//! `WaitUpTo`: makes a check wait.

use std::time::Duration;

use tollgate_core::call::{Call, Check};

use super::Waiting;

/// Makes a [check](tollgate_core::RateLimiter::check) wait until it is admitted.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tollgate_tokio::WaitUpTo;
/// use tollgate_tokio::wait::WaitError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = RateLimiter::new(MemoryStore::new(), ["mail=sliding-log:2/100ms"])?;
/// for _ in 0..6 {
///     limiter.check("alice").wait_up_to(Duration::from_secs(5)).await?;
///     // Send a mail.
/// }
///
/// // It would have to wait for longer than this, so it is refused at once.
/// let refused = limiter.check("alice").wait_up_to(Duration::from_millis(1)).await;
/// assert!(matches!(refused, Err(WaitError::TooLong(_))));
/// # Ok(())
/// # }
/// ```
///
/// Limits that count different things can have [costs of their own](Call::cost_of), and a call
/// [in a time zone](tollgate_core::RateLimiter::in_zone) waits for the limits in that zone:
///
/// ```
/// use std::time::Duration;
///
/// use jiff::tz::TimeZone;
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tollgate_tokio::WaitUpTo;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = ["requests=gcra:60/1m", "tokens=fixed-window:2000000/month@local"];
/// let limiter = RateLimiter::new(MemoryStore::new(), limits)?;
/// let patience = Duration::from_secs(5);
/// let limiter = limiter.in_zone(&TimeZone::get("Europe/Berlin")?)?;
/// let admitted = limiter.check("tenant").cost_of("tokens", 500).wait_up_to(patience).await?;
/// let tokens = admitted.decision().verdict("tokens").map(|verdict| verdict.remaining());
/// assert_eq!(tokens, Some(1_999_500));
/// # Ok(())
/// # }
/// ```
///
/// Only a check waits, at the store's clock and without an id. What could not wait does not
/// compile:
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use tollgate_memory::{MemoryStore, RateLimiter};
/// # use tollgate_tokio::WaitUpTo;
/// # fn waits(limiter: &RateLimiter<MemoryStore>) {
/// let call = limiter.peek("alice").wait_up_to(Duration::from_secs(5));
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use tollgate_memory::{MemoryStore, RateLimiter, Timestamp};
/// # use tollgate_tokio::WaitUpTo;
/// # fn waits(limiter: &RateLimiter<MemoryStore>, now: Timestamp) {
/// let call = limiter.check("alice").at(now).wait_up_to(Duration::from_secs(5));
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use tollgate_memory::{MemoryStore, RateLimiter};
/// # use tollgate_tokio::WaitUpTo;
/// # fn waits(limiter: &RateLimiter<MemoryStore>) {
/// let call = limiter.check("alice").id("request-1").wait_up_to(Duration::from_secs(5));
/// # }
/// ```
pub trait WaitUpTo {
    /// The pending call.
    type Waiting;

    /// Waits until the call is admitted, for at most `longest`.
    ///
    /// If it is clear that it would take longer, the call is refused at once and consumes nothing.
    fn wait_up_to(self, longest: Duration) -> Self::Waiting;
}

impl<'l, S> WaitUpTo for Call<'l, '_, S, Check> {
    type Waiting = Waiting<'l, S>;

    fn wait_up_to(self, longest: Duration) -> Waiting<'l, S> {
        let limiter = self.limiter();
        let request = self.into_request();
        // Without the zone that a limit needs, nobody is asked.
        let request = request.and_then(|request| request.validate_checks().map(|()| request));
        Waiting::new(limiter, request, longest)
    }
}

//! `OutboundService`: sends requests when their permits come, and again when the service asks for
//! that.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate_core::{Key, Store, StoreError, Wait};
use tollgate_tokio::{Outbound, Permit, WaitError};
use tower_service::Service;

use super::{OutboundRequestError, Repetition, Settings, Shared};
use crate::Hints;

/// An HTTP client whose requests wait for a permit, made by
/// [`OutboundLayer`](crate::OutboundLayer).
pub struct OutboundService<T, S, F, R> {
    inner: T,
    shared: Shared<S, F, R>,
}

impl<T, S, F, R> OutboundService<T, S, F, R> {
    pub(super) fn new(inner: T, shared: Shared<S, F, R>) -> Self {
        Self { inner, shared }
    }

    /// Returns the client.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T, S, F, R, K, B, D> Service<Request<B>> for OutboundService<T, S, F, R>
where
    T: Service<Request<B>, Response = Response<D>> + Clone + Send + 'static,
    T::Future: Send,
    T::Error: Send,
    S: Store + 'static,
    F: Fn(&Request<B>) -> K,
    K: AsRef<[u8]>,
    R: Repetition<B>,
    B: Send + 'static,
    D: Send + 'static,
{
    type Response = Response<D>;
    type Error = OutboundRequestError<T::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = self.inner.poll_ready(context);
        ready.map_err(OutboundRequestError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone may not be ready; this one is.
        let clone = self.inner.clone();
        let client = mem::replace(&mut self.inner, clone);
        let key = (self.shared.key)(&request).as_ref().to_vec();
        let sending = Sending {
            outbound: self.shared.outbound.clone(),
            settings: self.shared.settings,
            key,
            made: Instant::now(),
        };
        Box::pin(sending.send::<T, R, B, D>(client, request))
    }
}

/// A request on its way.
struct Sending<S> {
    outbound: Outbound<S>,
    settings: Settings,
    key: Vec<u8>,
    made: Instant,
}

impl<S: Store + 'static> Sending<S> {
    /// Sends `request` with a `client` that is ready, and again if it is refused.
    async fn send<T, R, B, D>(
        self,
        mut client: T,
        mut request: Request<B>,
    ) -> Result<Response<D>, OutboundRequestError<T::Error>>
    where
        T: Service<Request<B>, Response = Response<D>>,
        R: Repetition<B>,
    {
        let mut refused = None;
        let mut retries = self.settings.retries;
        loop {
            let permit = match (self.permit().await, refused) {
                (Ok(permit), _) => permit,
                (Err(_), Some(response)) => return Ok(response),
                (Err(error), None) => return Err(error.into()),
            };
            let copy = if retries > 0 { R::copy(&request) } else { None };
            let is_idempotent = request.method().is_idempotent();
            let sent = client.call(request);
            let response = sent.await.map_err(OutboundRequestError::Client)?;
            let hints = Hints::read(response.headers(), SystemTime::now());
            let may_repeat = match response.status() {
                StatusCode::TOO_MANY_REQUESTS => true,
                StatusCode::SERVICE_UNAVAILABLE if hints.retry_after().is_some() => is_idempotent,
                _ => {
                    // The caller has a response, and that matters more.
                    let _ = hints.report(&permit, self.settings.longest_pause).await;
                    return Ok(response);
                }
            };
            // What nothing remains of is left to the pause.
            let _ = hints
                .report_left(&permit, self.settings.longest_pause)
                .await;
            // Without a pause, the next request could follow at once.
            let is_paused = self.pause(&hints).await.is_ok();
            request = match copy {
                Some(copy) if may_repeat && is_paused => copy,
                _ => return Ok(response),
            };
            refused = Some(response);
            retries -= 1;
            let ready = poll_fn(|context| client.poll_ready(context)).await;
            ready.map_err(OutboundRequestError::Client)?;
        }
    }

    /// Waits for a permit.
    async fn permit(&self) -> Result<Permit<S>, WaitError> {
        let left = self.settings.longest.saturating_sub(self.made.elapsed());
        let call = self.outbound.call(self.key()).within(left);
        if self.settings.is_background {
            call.background().await
        } else {
            call.await
        }
    }

    /// Pauses the key for as long as `hints` say, or as the block says.
    async fn pause(&self, hints: &Hints) -> Result<Wait, StoreError> {
        match hints.wait() {
            Some(wait) if wait > Duration::ZERO => {
                let wait = wait.min(self.settings.longest_pause);
                self.outbound.penalize(self.key(), wait).await
            }
            _ => self.outbound.back_off(self.key()).await,
        }
    }

    fn key(&self) -> Key<'_> {
        Key::new(&self.key)
    }
}

impl<T: Clone, S, F: Clone, R> Clone for OutboundService<T, S, F, R> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.shared.clone())
    }
}

impl<T: fmt::Debug, S, F, R> fmt::Debug for OutboundService<T, S, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundService")
            .field("inner", &self.inner)
            .field("outbound", &self.shared.outbound)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

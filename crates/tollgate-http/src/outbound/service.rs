//! `OutboundService`: sends requests when their permits come, and again when the service asks for
//! that.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate_core::{Key, Store, StoreError, Wait};
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::Permit;
use tollgate_tokio::wait::WaitError;
use tower_service::Service;

use super::costs::Estimate;
use super::unsent::Unsent;
use super::{OutboundRequestError, Repetition, Settings, Shared};
use crate::Hints;

/// An HTTP client whose requests wait for a permit, made by
/// [`OutboundLayer`](super::OutboundLayer).
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

    /// Is always ready: each request makes the client ready once it has its permit.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let key = (self.shared.key)(&request).as_ref().to_vec();
        let (estimate, request) = self.shared.settings.costs.estimate(request);
        let sending = Sending {
            outbound: self.shared.outbound.clone(),
            settings: self.shared.settings.clone(),
            key,
            estimate,
            made: Instant::now(),
        };
        Box::pin(sending.send::<T, R, B, D>(self.inner.clone(), request))
    }
}

/// A request on its way.
struct Sending<S> {
    outbound: Outbound<S>,
    settings: Settings,
    key: Vec<u8>,
    estimate: Estimate,
    made: Instant,
}

impl<S: Store + 'static> Sending<S> {
    /// Sends `request` with clones of `client`, and again if it is refused.
    async fn send<T, R, B, D>(
        self,
        client: T,
        mut request: Request<B>,
    ) -> Result<Response<D>, OutboundRequestError<T::Error>>
    where
        T: Service<Request<B>, Response = Response<D>> + Clone,
        R: Repetition<B>,
    {
        let longest_pause = self.settings.longest_pause;
        let mut refused = None;
        let mut retries = self.settings.retries;
        loop {
            let (permit, mut ready) = match (self.prepare(client.clone()).await, refused) {
                (Ok(prepared), _) => prepared,
                // Nothing was sent since the last response, so that is how the request went.
                (Err(_), Some(response)) => return Ok(response),
                (Err(error), None) => return Err(error),
            };
            let copy = if retries > 0 { R::copy(&request) } else { None };
            let is_idempotent = request.method().is_idempotent();
            let sent = ready.call(request);
            let response = sent.await.map_err(OutboundRequestError::Client)?;
            let hints = Hints::read(response.headers(), SystemTime::now());
            // Before the report, which lowers what is left after that.
            let settle = self.settings.costs.settle(&self.estimate, permit, response);
            let (left, response) = settle.await;
            let report =
                |least| hints.report_from(least, &self.outbound, self.key(), &left, longest_pause);
            if !self.settings.refusals.include(response.status(), &hints) {
                // The caller has a response, and that matters more.
                let _ = report(0).await;
                return Ok(response);
            }
            // What nothing remains of is left to the pause.
            let _ = report(1).await;
            // Without a pause, the next request could follow at once.
            let is_paused = self.pause(&hints).await.is_ok();
            // Other statuses do not say that nothing was done.
            let may_repeat = is_idempotent || response.status() == StatusCode::TOO_MANY_REQUESTS;
            request = match copy {
                Some(copy) if may_repeat && is_paused => copy,
                _ => return Ok(response),
            };
            refused = Some(response);
            retries -= 1;
        }
    }

    /// Waits for a permit, and then until a clone of `client` is ready: before that, a request holds
    /// none of the client's slots.
    ///
    /// A permit that is older than the margin by then is given back. The first time, the client
    /// stays ready only if there is another permit at once. After that, it stays ready until there
    /// is one: otherwise requests that get ready slowly could take each other's permits for ever.
    async fn prepare<T, B>(
        &self,
        client: T,
    ) -> Result<(Permit<S>, T), OutboundRequestError<T::Error>>
    where
        T: Service<Request<B>> + Clone,
    {
        let mut is_first = true;
        loop {
            let unsent = Unsent::new(self.permit(self.left()).await?);
            let mut ready = client.clone();
            let is_ready = poll_fn(|context| ready.poll_ready(context)).await;
            is_ready.map_err(OutboundRequestError::Client)?;
            if let Some(permit) = unsent.into_fresh().await {
                return Ok((permit, ready));
            }
            let left = self.left();
            let longest = if is_first { Duration::ZERO } else { left };
            match self.permit(longest).await {
                Ok(permit) => return Ok((permit, ready)),
                Err(_) if is_first && !left.is_zero() => is_first = false,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns how long the request may still wait for permits.
    fn left(&self) -> Duration {
        self.settings.longest.saturating_sub(self.made.elapsed())
    }

    /// Waits for a permit, for at most `longest`.
    async fn permit(&self, longest: Duration) -> Result<Permit<S>, WaitError> {
        let call = self.outbound.call(self.key()).wait_up_to(longest);
        let call = self.settings.costs.charge(&self.estimate, call);
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

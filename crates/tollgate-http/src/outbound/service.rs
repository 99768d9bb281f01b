//! `OutboundService`: sends requests when their permits come, and again when the service asks for
//! that.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode, response};
use tokio::time::Instant;
use tollgate_core::store::Verdict;
use tollgate_core::{Key, Store, StoreError, Wait};
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::Permit;
use tollgate_tokio::wait::WaitError;
use tower_service::Service;

use super::costs::Estimate;
use super::unsent::Unsent;
use super::{OutboundRequestError, Repetition, Settings, Shared};
use crate::hints::Hints;

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
        let mut refused = None;
        let mut retries = self.settings.retries;
        loop {
            let (permit, mut ready) = match (self.prepare(client.clone()).await, refused) {
                (Ok(prepared), _) => prepared,
                // Nothing was sent since the last response, so that is how the request went.
                (Err(_), Some(response)) => return Ok(response),
                (Err(error), None) => return Err(error),
            };
            // What costs nothing would not wait until a pause is over.
            let mut consumed = permit.verdicts().as_slice().iter().map(Verdict::consumed);
            let waits = consumed.any(|units| units > 0);
            let copy = (retries > 0 && waits).then(|| R::copy(&request)).flatten();
            let is_idempotent = request.method().is_idempotent();
            let sent = ready.call(request);
            let response = sent.await.map_err(OutboundRequestError::Client)?;
            let (head, body) = response.into_parts();
            let hints = Hints::read(&head.headers, SystemTime::now());
            let is_refused = self.settings.refusals.include(head.status, &hints);
            // First what stops all calls at once.
            let is_paused = is_refused && self.pause(&hints).await.is_ok();
            // Whether or not that fails, the caller has a response, and that matters more.
            let is_told = self.tell(permit, &head, &hints, is_refused).await.is_ok();
            // Other statuses do not say that nothing was done.
            let may_repeat = is_idempotent || head.status == StatusCode::TOO_MANY_REQUESTS;
            let may_repeat = may_repeat && is_paused && is_told && !self.left().is_zero();
            let response = Response::from_parts(head, body);
            request = match copy {
                Some(copy) if may_repeat => copy,
                _ => return Ok(response),
            };
            refused = Some(response);
            retries -= 1;
        }
    }

    /// Settles the call of `permit` at what `response` says, and shares what it says about limits with all
    /// processes.
    async fn tell(
        &self,
        permit: Permit<S>,
        response: &response::Parts,
        hints: &Hints,
        is_refused: bool,
    ) -> Result<(), StoreError> {
        let Settings {
            costs,
            longest_pause,
            ..
        } = &self.settings;
        // Before the report, which lowers what is left after that.
        let permit = costs.settle(&self.estimate, permit, response).await?;
        // After a refusal, what nothing remains of is left to the pause.
        hints
            .report_from(is_refused.into(), &permit, *longest_pause)
            .await
    }

    /// Waits for a permit, and then until a clone of `client` is ready: before that, a request holds
    /// none of the client's slots.
    ///
    /// A permit that is too old by then is given back, and another one is taken: after the longest wait,
    /// only one that is free. The first time, the client stays ready only if there is another permit at
    /// once. After that, it stays ready until there is one: otherwise requests that get ready slowly could
    /// take each other's permits for ever.
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

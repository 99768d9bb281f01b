//! `InboundService`: lets a request through if the limits allow it.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tollgate_core::Store;
use tower_service::Service;

use super::body::{InboundBody, drain};
use super::passing::Passing;
use super::shared::Shared;

/// A service whose requests are limited, made by [`InboundLayer`](super::InboundLayer).
pub struct InboundService<T, S> {
    inner: T,
    shared: Arc<Shared<S>>,
}

impl<T, S> InboundService<T, S> {
    pub(super) fn new(inner: T, shared: Arc<Shared<S>>) -> Self {
        Self { inner, shared }
    }

    /// Returns the inner service.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Returns the inner service that was made ready, and leaves one that was not.
    fn take_inner(&mut self) -> T
    where
        T: Clone,
    {
        let next = self.inner.clone();
        mem::replace(&mut self.inner, next)
    }

    /// Answers a request without the inner service, which then keeps nothing of what it reserved
    /// when it became ready.
    fn refuse<B>(
        &mut self,
        response: Response<Bytes>,
        parts: &Parts,
        body: B,
    ) -> InboundFuture<T, S, B>
    where
        T: Service<Request<B>> + Clone,
        S: Store + 'static,
        B: Body + Send + 'static,
    {
        drop(self.take_inner());
        drain(parts, body);
        InboundFuture::new(Stage::Refused {
            response: Some(response),
        })
    }
}

impl<T, S, B, R> Service<Request<B>> for InboundService<T, S>
where
    T: Service<Request<B>, Response = Response<R>> + Clone,
    S: Store + 'static,
    R: Body,
    R::Data: From<Bytes>,
    B: Body + Send + 'static,
{
    type Response = Response<InboundBody<R>>;
    type Error = T::Error;
    type Future = InboundFuture<T, S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let mut passing = Passing::new(Arc::clone(&self.shared));
        let admitted = match self.shared.question(&mut parts, &mut passing.question) {
            Ok(true) => passing.decide_now(&mut parts),
            Ok(false) => {
                // Nobody settles by it, but the handler may expect it.
                drop(self.shared.charge(&mut parts));
                Some(Ok(()))
            }
            Err(response) => Some(Err(response)),
        };
        match admitted {
            None => InboundFuture::new(Stage::Asking {
                asking: Box::pin(passing.decide(parts)),
                // The service that was made ready is the one that is called.
                waiting: Some((self.take_inner(), body)),
            }),
            Some(Ok(())) => {
                let calling = self.inner.call(Request::from_parts(parts, body));
                InboundFuture::new(Stage::Calling {
                    calling,
                    passing: Some(passing),
                })
            }
            Some(Err(response)) => self.refuse(response, &parts, body),
        }
    }
}

pin_project! {
    /// The future of a request to an [`InboundService`].
    #[must_use = "futures do nothing unless polled"]
    pub struct InboundFuture<T, S, B>
    where
        T: Service<Request<B>>,
        S: Store,
        S: 'static,
    {
        #[pin]
        stage: Stage<T, S, B, T::Future>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<T, S, B, F>
    where
        S: Store,
        S: 'static,
    {
        // The store is being asked.
        Asking {
            asking: Pin<Box<dyn Future<Output = (Parts, Result<Passing<S>, Response<Bytes>>)> + Send>>,
            // What the request goes on with: the inner service, and the body.
            waiting: Option<(T, B)>,
        },
        // The inner service is being called.
        Calling {
            #[pin]
            calling: F,
            passing: Option<Passing<S>>,
        },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<T, S, B> InboundFuture<T, S, B>
where
    T: Service<Request<B>>,
    S: Store + 'static,
{
    fn new(stage: Stage<T, S, B, T::Future>) -> Self {
        Self { stage }
    }
}

impl<T, S, B, R> Future for InboundFuture<T, S, B>
where
    T: Service<Request<B>, Response = Response<R>>,
    S: Store + 'static,
    R: Body,
    B: Body + Send + 'static,
{
    type Output = Result<Response<InboundBody<R>>, T::Error>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProjection::Asking { asking, waiting } => {
                    let (parts, admitted) = ready!(asking.as_mut().poll(context));
                    let (mut inner, body) = waiting.take().expect(POLLED_AGAIN);
                    match admitted {
                        Ok(passing) => Stage::Calling {
                            calling: inner.call(Request::from_parts(parts, body)),
                            passing: Some(passing),
                        },
                        Err(response) => {
                            drain(&parts, body);
                            Stage::Refused {
                                response: Some(response),
                            }
                        }
                    }
                }
                StageProjection::Calling { calling, passing } => {
                    let response = ready!(calling.poll(context));
                    let response = response.map(|response| {
                        let (mut head, body) = response.into_parts();
                        let passing = passing.as_mut();
                        let until_end = passing.and_then(|passing| passing.respond(&mut head));
                        Response::from_parts(head, InboundBody::passed(body, until_end))
                    });
                    // What the request held is given back now, not when the future is dropped.
                    *passing = None;
                    return Poll::Ready(response);
                }
                StageProjection::Refused { response } => {
                    let response = response.take().expect(POLLED_AGAIN);
                    return Poll::Ready(Ok(response.map(InboundBody::refused)));
                }
            };
            stage.set(next);
        }
    }
}

const POLLED_AGAIN: &str = "the future of a request was polled after it had completed";

impl<T: Clone, S> Clone for InboundService<T, S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.shared))
    }
}

impl<T: fmt::Debug, S> fmt::Debug for InboundService<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundService")
            .field("inner", &self.inner)
            .field("rules", &self.shared.rules)
            .finish_non_exhaustive()
    }
}

impl<T, S, B> fmt::Debug for InboundFuture<T, S, B>
where
    T: Service<Request<B>>,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundFuture").finish_non_exhaustive()
    }
}

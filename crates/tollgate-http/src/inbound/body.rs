//! `InboundBody`: the body of a response, and what ends with it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tollgate_tokio::LeaseGuard;

pin_project! {
    /// The body of a response: the inner service's, unchanged, or that of a refusal.
    pub struct InboundBody<B> {
        #[pin]
        body: Kind<B>,
        // Let go of once the body has ended, however it ends.
        until_end: Option<Box<UntilEnd>>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Passed { #[pin] body: B },
        Refused { bytes: Option<Bytes> },
    }
}

/// What lasts until a body ends.
#[derive(Default)]
pub(super) struct UntilEnd {
    #[expect(dead_code, reason = "it is released when this is dropped")]
    pub(super) lease: Option<Arc<LeaseGuard>>,
    /// Is called with the bytes that passed.
    pub(super) count: Option<Box<dyn FnOnce(u64) + Send + Sync>>,
    pub(super) bytes: u64,
}

impl Drop for UntilEnd {
    fn drop(&mut self) {
        if let Some(count) = self.count.take() {
            count(self.bytes);
        }
    }
}

impl<B> InboundBody<B> {
    pub(super) fn passed(body: B, until_end: Option<Box<UntilEnd>>) -> Self
    where
        B: Body,
    {
        // A server need not poll a body that is over from the start.
        let until_end = until_end.filter(|_| !body.is_end_stream());
        Self {
            body: Kind::Passed { body },
            until_end,
        }
    }

    pub(super) fn refused(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self {
            body: Kind::Refused { bytes },
            until_end: None,
        }
    }
}

impl<B> Body for InboundBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = match this.body.as_mut().project() {
            KindProjection::Passed { body } => ready!(body.poll_frame(context)),
            KindProjection::Refused { bytes } => {
                let data = bytes.take().map(|bytes| Frame::data(bytes.into()));
                return Poll::Ready(data.map(Ok));
            }
        };
        if let Some(until_end) = this.until_end {
            if let Some(Ok(frame)) = &frame
                && let Some(data) = frame.data_ref()
            {
                let bytes = u64::try_from(data.remaining()).unwrap_or(u64::MAX);
                until_end.bytes = until_end.bytes.saturating_add(bytes);
            }
            // A consumer that sees the end of the stream may stop polling.
            let is_over = !matches!(frame, Some(Ok(_))) || this.body.is_end_stream();
            if is_over {
                *this.until_end = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Kind::Passed { body } => body.size_hint(),
            Kind::Refused { bytes } => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
        }
    }
}

impl<B: Body> Kind<B> {
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Passed { body } => body.is_end_stream(),
            Self::Refused { bytes } => bytes.is_none(),
        }
    }
}

/// An empty body.
impl<B> Default for InboundBody<B> {
    fn default() -> Self {
        Self::refused(Bytes::new())
    }
}

impl<B: fmt::Debug> fmt::Debug for InboundBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Kind::Passed { body } => f.debug_tuple("Passed").field(body).finish(),
            Kind::Refused { bytes } => f.debug_tuple("Refused").field(bytes).finish(),
        }
    }
}

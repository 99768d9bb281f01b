//! `InboundBody`: the body of a response, and what ends with it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Version;
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_tokio::LeaseGuard;

/// How many bytes of the body of a refused request are read, and for how long. A connection whose
/// client sends more is closed.
const MOST_DRAINED: usize = 64 << 20;
const LONGEST_DRAIN: Duration = Duration::from_secs(30);

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

/// Reads what a client still sends of a request that is refused, in the background.
///
/// Otherwise a server of HTTP/1.1 closes the connection while the client sends, which resets it: the
/// client may lose the response, and a proxy answers with the status 502.
pub(super) fn drain<B: Body + Send + 'static>(parts: &Parts, body: B) {
    let resets_streams = parts.version > Version::HTTP_11;
    // A client that waits for the status 100 sends nothing, unless somebody reads.
    let waits = parts.headers.contains_key(EXPECT);
    if resets_streams || waits || body.is_end_stream() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let reading = async move {
        let mut body = pin!(body);
        let mut left = MOST_DRAINED;
        while let Some(Ok(frame)) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
            let bytes = frame.data_ref().map_or(0, Buf::remaining);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // In the task: without a time driver, only that panics, not the call.
    drop(runtime.spawn(async move { timeout(LONGEST_DRAIN, reading).await }));
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

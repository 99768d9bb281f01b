//! Streams whose items wait until a limiter admits them.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tollgate_core::store::Verdicts;
use tollgate_core::{Key, RateLimiter, Store};

use crate::key::{OwnedKey, OwnedKeys};
use crate::queue::Class;
use crate::wait::{Caller, Patience, WaitError, wait};

/// Slows a stream down to what a limiter admits.
pub trait Pace: Stream + Sized {
    /// Returns a stream of the same items, each of which is yielded when `limiter` has admitted a
    /// check of cost 1 for `key`.
    ///
    /// An item is checked after the stream has yielded it, so an idle stream consumes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::pace::Pace;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["mail=gcra:1/10ms,burst=1"])?;
    /// let mut mails = stream::iter(["first", "second", "third"]).pace(&limiter, "alice");
    /// while let Some(mail) = mails.next().await {
    ///     let _mail = mail?;
    ///     // Send it. Mails are 10 ms apart.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn pace<'k, S: Store + 'static>(
        self,
        limiter: &RateLimiter<S>,
        key: impl Into<Key<'k>>,
    ) -> Paced<Self, S> {
        Paced {
            stream: self,
            limiter: limiter.clone(),
            key: OwnedKey::from(key.into()),
            own: Vec::new(),
            longest: Duration::MAX,
            waiting: None,
        }
    }
}

impl<St: Stream> Pace for St {}

type Admission = Pin<Box<dyn Future<Output = Result<Verdicts, WaitError>> + Send>>;

pin_project! {
    /// A stream that yields an item when a limiter has admitted it, made by [`Pace::pace`].
    ///
    /// If it is dropped, the item that waits is lost, and what it consumed is given back as that of
    /// a [`Waiting`](crate::wait::Waiting) call is.
    #[must_use = "a stream does nothing until it is polled"]
    pub struct Paced<St: Stream, S> {
        #[pin]
        stream: St,
        limiter: RateLimiter<S>,
        key: OwnedKey,
        own: Vec<(Box<str>, OwnedKey)>,
        longest: Duration,
        waiting: Option<(St::Item, Admission)>,
    }
}

impl<St: Stream, S> Paced<St, S> {
    /// Sets the key that the limit called `name` is counted for: see
    /// [`Call::key_of`](tollgate_core::call::Call::key_of). If no limit has this name, no item is admitted.
    pub fn key_of<'k>(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        self.own.push((name.into(), OwnedKey::from(key.into())));
        self
    }

    /// Sets how long an item may wait. By default, that is for ever.
    pub fn wait_up_to(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }
}

impl<St: Stream, S: Store + 'static> Stream for Paced<St, S> {
    type Item = Result<St::Item, NotAdmitted<St::Item>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        if this.waiting.is_none() {
            let Some(item) = ready!(this.stream.as_mut().poll_next(context)) else {
                return Poll::Ready(None);
            };
            let call = this.limiter.check(this.key.as_key());
            let call = this
                .own
                .iter()
                .fold(call, |call, (name, key)| call.key_of(name, key.as_key()));
            let keys = call.into_request();
            let keys = keys.map(|request| OwnedKeys::of_checks(request.checks()));
            let (limiter, longest) = (this.limiter.clone(), *this.longest);
            let admission = async move {
                let caller = Caller::new(limiter, keys?, 1, Class::default());
                wait(caller, Patience::new(longest, None)).await
            };
            *this.waiting = Some((item, Box::pin(admission)));
        }
        let answer = match this.waiting {
            Some((_, admission)) => ready!(admission.as_mut().poll(context)),
            None => return Poll::Pending,
        };
        let item = this.waiting.take().map(|(item, _)| match answer {
            Ok(_) => Ok(item),
            Err(error) => Err(NotAdmitted { item, error }),
        });
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = usize::from(self.waiting.is_some());
        let (least, most) = self.stream.size_hint();
        let most = most.and_then(|most| most.checked_add(waiting));
        (least.saturating_add(waiting), most)
    }
}

impl<St: FusedStream, S: Store + 'static> FusedStream for Paced<St, S> {
    fn is_terminated(&self) -> bool {
        self.waiting.is_none() && self.stream.is_terminated()
    }
}

impl<St: Stream + fmt::Debug, S> fmt::Debug for Paced<St, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced")
            .field("stream", &self.stream)
            .field("limiter", &self.limiter)
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

/// An item of a [`Paced`] stream that was not admitted, and why.
#[derive(Debug)]
pub struct NotAdmitted<T> {
    item: T,
    error: WaitError,
}

impl<T> NotAdmitted<T> {
    /// Returns the item.
    pub fn into_item(self) -> T {
        self.item
    }

    /// Returns why the item was not admitted.
    #[must_use]
    pub fn error(&self) -> &WaitError {
        &self.error
    }
}

impl<T> fmt::Display for NotAdmitted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> Error for NotAdmitted<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl<T> From<NotAdmitted<T>> for WaitError {
    fn from(not_admitted: NotAdmitted<T>) -> Self {
        not_admitted.error
    }
}

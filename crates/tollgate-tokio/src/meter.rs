//! `Metered`: a stream whose size is counted while it passes, and settled when it ends.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_core::{ErrorKind, Key, RateLimiter, Receipt, SettleError, Store, StoreError};

use crate::key::OwnedKey;

/// Counts what a stream yields, and settles a call at that cost when the stream ends.
///
/// Check an estimate, then pass the decision's receipt to [`metered`](Self::metered), which counts
/// bytes, or to [`metered_by`](Self::metered_by), which counts anything else. Both yield the items
/// unchanged, and [settle](RateLimiter::settle) the receipt once: when the stream has ended, or when
/// it is dropped before that, at what was yielded until then.
pub trait Meter: Stream + Sized {
    /// Counts the bytes of a stream of `Result`s, as most bodies of requests and responses are.
    ///
    /// An error in the stream counts as nothing, and does not end the count. The cost is one for
    /// each byte, or for each started [so many](Metered::per).
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use futures_util::{StreamExt, stream};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::Meter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["bytes=sliding-log:1000/1h"])?;
    /// let decision = limiter.check("alice").cost(500).await?;
    /// let receipt = decision.into_receipt().ok_or("denied")?;
    ///
    /// let body = stream::iter(["Hello, ", "world"].map(Ok::<_, io::Error>));
    /// let mut body = body.metered(&limiter, "alice", receipt);
    /// while let Some(chunk) = body.next().await {
    ///     let _chunk = chunk?; // Send it.
    /// }
    ///
    /// // Dropping the stream settles, too. This waits for the result.
    /// let settled = body.finish().await?;
    /// assert_eq!((settled.cost(), settled.remaining()), (12, 988));
    /// # Ok(())
    /// # }
    /// ```
    fn metered<'k, S, T, E>(
        self,
        limiter: &RateLimiter<S>,
        key: impl Into<Key<'k>>,
        receipt: Receipt,
    ) -> Metered<Self, S>
    where
        Self: Stream<Item = Result<T, E>>,
        S: Store + 'static,
        T: AsRef<[u8]>,
    {
        self.metered_by(limiter, key, receipt, |item| {
            let bytes = item.as_ref().map_or(0, |chunk| chunk.as_ref().len());
            u64::try_from(bytes).unwrap_or(u64::MAX)
        })
    }

    /// Counts what `measure` returns for each item, such as the tokens of an answer that arrives in
    /// parts.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::Meter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["rows=sliding-log:100/1h"])?;
    /// let receipt = limiter.check("alice").cost(50).await?.into_receipt().ok_or("denied")?;
    /// let pages = stream::iter([vec!["a", "b"], vec!["c"]]);
    /// let count = |page: &Vec<&str>| u64::try_from(page.len()).unwrap_or(u64::MAX);
    /// let mut pages = pages.metered_by(&limiter, "alice", receipt, count);
    /// while let Some(_page) = pages.next().await {}
    /// assert_eq!(pages.finish().await?.remaining(), 97);
    /// # Ok(())
    /// # }
    /// ```
    fn metered_by<'k, S: Store + 'static>(
        self,
        limiter: &RateLimiter<S>,
        key: impl Into<Key<'k>>,
        receipt: Receipt,
        measure: fn(&Self::Item) -> u64,
    ) -> Metered<Self, S> {
        Metered {
            stream: self,
            measure,
            ended: false,
            bill: Bill {
                limiter: limiter.clone(),
                key: OwnedKey::from(key.into()),
                runtime: Handle::current(),
                receipt: Some(receipt),
                passed: 0,
                per: NonZeroU64::MIN,
                settling: None,
            },
        }
    }
}

impl<St: Stream> Meter for St {}

pin_project! {
    /// A stream whose items are counted as it yields them, made by [`Meter`].
    ///
    /// It settles once: when the stream ends, when it is dropped, or when [`finish`](Self::finish)
    /// is called, whichever comes first. A task in the background does so, one for each stream, and
    /// the end of the stream does not wait for it. If it fails, the call stays counted at its
    /// estimate, and only `finish` reports that.
    #[must_use = "a stream does nothing until it is polled"]
    pub struct Metered<St: Stream, S>
    where
        S: Store,
        S: 'static,
    {
        #[pin]
        stream: St,
        measure: fn(&St::Item) -> u64,
        ended: bool,
        bill: Bill<S>,
    }
}

impl<St: Stream, S: Store + 'static> Metered<St, S> {
    /// Makes the cost one for each `amount` that passes, rounded up: with 1,024, one for each
    /// started KiB. By default, `amount` is one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use futures_util::{StreamExt, stream};
    /// # use tollgate_memory::{MemoryStore, RateLimiter};
    /// # use tollgate_tokio::Meter;
    /// const KIB: NonZeroU64 = NonZeroU64::new(1_024).unwrap();
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limiter = RateLimiter::new(MemoryStore::new(), ["kib=sliding-log:100/1h"])?;
    /// # let receipt = limiter.check("alice").cost(50).await?.into_receipt().ok_or("denied")?;
    /// # let body = stream::iter([Ok::<_, std::io::Error>([0_u8; 1_025])]);
    ///
    /// // The body has 1,025 bytes.
    /// let mut body = body.metered(&limiter, "alice", receipt).per(KIB);
    /// # while let Some(chunk) = body.next().await { let _chunk = chunk?; }
    /// assert_eq!(body.finish().await?.cost(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn per(mut self, amount: NonZeroU64) -> Self {
        self.bill.per = amount;
        self
    }

    /// Returns the cost of what has passed so far.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.bill.cost()
    }

    /// Drops the stream, settles at what has passed unless that has begun already, and waits for the
    /// result.
    ///
    /// A stream that is not `Unpin` can be finished if it is boxed before it is metered:
    /// `Box::pin(stream).metered(..)`.
    ///
    /// # Errors
    ///
    /// [`NotSettled`], which holds the receipt if nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, the settlement goes on in the background.
    pub async fn finish(self) -> Result<Settled, NotSettled> {
        let Self {
            stream, mut bill, ..
        } = self;
        // It may hold a connection, which the settlement does not need.
        drop(stream);
        let cost = bill.cost();
        bill.settle();
        let outcome = match bill.settling.take() {
            Some(settling) => settling.await.ok(),
            None => None,
        };
        outcome.unwrap_or_else(|| {
            Err(NotSettled {
                cost,
                why: Why::Runtime(StoreError::new(
                    ErrorKind::Unknown,
                    "the runtime ended before the store answered: the call counts at its estimate, \
                     or is settled",
                )),
            })
        })
    }
}

impl<St: Stream, S: Store + 'static> Stream for Metered<St, S> {
    type Item = St::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        let item = ready!(this.stream.poll_next(context));
        match &item {
            Some(item) => this.bill.add((this.measure)(item)),
            None => {
                *this.ended = true;
                this.bill.settle();
            }
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.ended {
            return (0, Some(0));
        }
        self.stream.size_hint()
    }
}

impl<St: Stream, S: Store + 'static> FusedStream for Metered<St, S> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl<St: Stream + fmt::Debug, S: Store + 'static> fmt::Debug for Metered<St, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered")
            .field("stream", &self.stream)
            .field("limiter", &self.bill.limiter)
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}

/// What has passed, and the receipt to settle at it. If it is dropped, it settles.
struct Bill<S: Store + 'static> {
    limiter: RateLimiter<S>,
    key: OwnedKey,
    /// Where to settle, whichever thread drops the stream.
    runtime: Handle,
    /// `None` once the settlement has begun.
    receipt: Option<Receipt>,
    passed: u64,
    per: NonZeroU64,
    settling: Option<JoinHandle<Result<Settled, NotSettled>>>,
}

impl<S: Store + 'static> Bill<S> {
    fn add(&mut self, amount: u64) {
        self.passed = self.passed.saturating_add(amount);
    }

    fn cost(&self) -> u64 {
        self.passed.div_ceil(self.per.get())
    }

    /// Begins to settle in the background, the first time it is called.
    fn settle(&mut self) {
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let (limiter, key, cost) = (self.limiter.clone(), self.key.clone(), self.cost());
        self.settling = Some(self.runtime.spawn(async move {
            match limiter.settle(key.as_key(), receipt, cost).await {
                Ok(left) => Ok(Settled {
                    cost,
                    remaining: left.remaining(),
                }),
                Err(error) => Err(NotSettled {
                    cost,
                    why: Why::Store(error),
                }),
            }
        }));
    }
}

impl<S: Store + 'static> Drop for Bill<S> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// The result of a settlement by a [`Metered`] stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settled {
    cost: u64,
    remaining: u64,
}

impl Settled {
    /// Returns the cost at which the call was settled.
    #[must_use]
    pub fn cost(self) -> u64 {
        self.cost
    }

    /// Returns what remained afterwards, under the limit with the least.
    #[must_use]
    pub fn remaining(self) -> u64 {
        self.remaining
    }
}

/// A settlement by a [`Metered`] stream that failed: the call counts at its estimate, unless the
/// error's kind is [`Unknown`](ErrorKind::Unknown): then it may be settled.
#[derive(Debug)]
pub struct NotSettled {
    cost: u64,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Store(SettleError),
    Runtime(StoreError),
}

impl NotSettled {
    /// Returns the cost at which the call was to be settled.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the underlying error.
    #[must_use]
    pub fn error(&self) -> &StoreError {
        match &self.why {
            Why::Store(error) => error.error(),
            Why::Runtime(error) => error,
        }
    }

    /// Returns the receipt if nothing was changed, or `None` if something may have been.
    ///
    /// To try again, pass it to [`RateLimiter::settle`], with the [`cost`](Self::cost).
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        match self.why {
            Why::Store(error) => error.into_receipt(),
            Why::Runtime(_) => None,
        }
    }
}

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl Error for NotSettled {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().source()
    }
}

impl From<NotSettled> for StoreError {
    fn from(not_settled: NotSettled) -> Self {
        match not_settled.why {
            Why::Store(error) => error.into(),
            Why::Runtime(error) => error,
        }
    }
}

//! Streams that are charged for their size: [`Meter`] counts it while they pass, and settles when they end.

mod guard;
mod settled;

use std::fmt;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tollgate_core::{Key, RateLimiter, Receipt, Store};

pub use self::guard::SettleGuard;
pub use self::settled::{NotSettled, Settled};

/// Counts what a stream yields, and settles a call at that cost when the stream ends.
///
/// Check an estimate, then pass the decision's receipt to [`metered`](Self::metered), which counts
/// bytes, or to [`metered_by`](Self::metered_by), which counts anything else. Both yield the items
/// unchanged, and [settle](RateLimiter::settle) the receipt once: when the stream has ended, at what
/// was recorded, or when it is dropped before that, at the cost that [`OnDrop`] says.
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
    /// use tollgate_tokio::meter::Meter;
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
        SettleGuard::new(limiter, key, receipt).meter(self)
    }

    /// Counts what `measure` records for each item, such as the tokens of an answer that arrives in
    /// parts.
    ///
    /// `measure` gets each item and the guard, on which it calls [`add`](SettleGuard::add) for what
    /// the item costs, or [`at_least`](SettleGuard::at_least) for a total that the item reports. What
    /// a request cost before its answer is the [`base`](Metered::base).
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    ///
    /// # Examples
    ///
    /// A model that reports how many tokens it used in all, in its last chunk. If the client goes away
    /// before that, the call costs what its chunks have reported.
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::meter::Meter;
    ///
    /// struct Chunk {
    ///     tokens: u64,
    ///     total_tokens: Option<u64>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:10000/1m"];
    /// let limiter = RateLimiter::new(MemoryStore::new(), limits)?;
    /// let decision = limiter.check("alice").cost_of("tokens", 300 + 500).await?;
    /// let receipt = decision.into_receipt().ok_or("denied")?;
    ///
    /// let answer = stream::iter([
    ///     Ok(Chunk { tokens: 20, total_tokens: None }),
    ///     Ok(Chunk { tokens: 12, total_tokens: Some(335) }),
    /// ]);
    /// let answer = answer.metered_by(&limiter, "alice", receipt, |chunk, used| match chunk {
    ///     // The whole call has cost at least this, the base included. It never lowers what was recorded.
    ///     Ok(Chunk { total_tokens: Some(total), .. }) => used.at_least(*total),
    ///     Ok(chunk) => used.add(chunk.tokens),
    ///     // The rest of the answer is lost, but was paid for.
    ///     Err(_) => used.at_least(used.estimate()),
    /// });
    /// // The prompt has cost 300 already. The limit of requests keeps what it consumed; to settle one more
    /// // limit, such as the tokens of a month, call `only` again with its name.
    /// let mut answer = answer.base(300).only("tokens");
    /// while let Some(chunk) = answer.next().await {
    ///     let _chunk: Chunk = chunk.map_err(|()| "the model failed")?; // Send it.
    /// }
    /// answer.finish().await?;
    /// let left = limiter.peek("alice").await?;
    /// let remaining = |name| left.verdict(name).map(|verdict| verdict.remaining());
    /// assert_eq!((remaining("requests"), remaining("tokens")), (Some(59), Some(9_665)));
    /// # Ok(())
    /// # }
    /// ```
    fn metered_by<'k, S, M>(
        self,
        limiter: &RateLimiter<S>,
        key: impl Into<Key<'k>>,
        receipt: Receipt,
        measure: M,
    ) -> Metered<Self, S, M>
    where
        S: Store + 'static,
        M: FnMut(&Self::Item, &mut SettleGuard<S>),
    {
        SettleGuard::new(limiter, key, receipt).meter_by(self, measure)
    }
}

impl<St: Stream> Meter for St {}

/// At which cost a [`SettleGuard`] or a [`Metered`] stream settles that is dropped before its end,
/// such as when a client goes away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnDrop {
    /// Keeps the estimate, or settles at what was recorded if that is more.
    ///
    /// For costs that become known only at the end.
    KeepEstimate,
    /// Settles at what was recorded. The default for [bytes](Meter::metered), all of which are
    /// recorded when they pass.
    Settle,
    /// Settles at what was recorded, or keeps the estimate if nothing was recorded but the base. The
    /// default for everything else: as long as nothing is recorded, nobody knows the cost.
    SettleIfRecorded,
}

impl<S: Store + 'static> SettleGuard<S> {
    /// Returns `stream`, whose bytes are recorded as they pass. See [`Meter::metered`].
    ///
    /// For handlers that hold a guard before they have a stream to send.
    pub fn meter<St, T, E>(mut self, stream: St) -> Metered<St, S>
    where
        St: Stream<Item = Result<T, E>>,
        T: AsRef<[u8]>,
    {
        self.is_up_to_date = true;
        self.meter_by(stream, |item, used| {
            let bytes = item.as_ref().map_or(0, |chunk| chunk.as_ref().len());
            used.add(u64::try_from(bytes).unwrap_or(u64::MAX));
        })
    }

    /// Returns `stream`, for each of whose items `measure` records what it costs. See
    /// [`Meter::metered_by`].
    pub fn meter_by<St, M>(self, stream: St, measure: M) -> Metered<St, S, M>
    where
        St: Stream,
        M: FnMut(&St::Item, &mut Self),
    {
        Metered {
            stream,
            measure,
            ended: false,
            guard: self,
        }
    }
}

pin_project! {
    /// A stream whose items are counted as it yields them, made by [`Meter`].
    ///
    /// It settles once: when the stream ends, when it is dropped, or when [`finish`](Self::finish)
    /// is called, whichever comes first. A task in the background does so, one for each stream, and
    /// the end of the stream does not wait for it. If it fails, the call stays counted at its
    /// estimate, and only `finish` reports that.
    #[must_use = "a stream does nothing until it is polled"]
    pub struct Metered<St: Stream, S, M = fn(&<St as Stream>::Item, &mut SettleGuard<S>)>
    where
        S: Store,
        S: 'static,
    {
        #[pin]
        stream: St,
        measure: M,
        ended: bool,
        guard: SettleGuard<S>,
    }
}

impl<St: Stream, S: Store + 'static, M> Metered<St, S, M> {
    /// Sets what the call has cost already, such as the tokens of the prompt. The default is zero.
    pub fn base(mut self, base: u64) -> Self {
        self.guard = self.guard.base(base);
        self
    }

    /// Settles only the limit called `name`, as [`SettleGuard::only`] does. Each other limit keeps
    /// what the call consumed from it.
    pub fn only(mut self, name: &str) -> Self {
        self.guard = self.guard.only(name);
        self
    }

    /// Sets the key that the limit called `name` was counted for: see [`SettleGuard::key_of`].
    pub fn key_of<'k>(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        self.guard = self.guard.key_of(name, key);
        self
    }

    /// Sets at which cost to settle if the stream is dropped before its end.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.guard = self.guard.on_drop(on_drop);
        self
    }

    /// Makes the cost one for each `amount` that passes, rounded up: with 1,024, one for each
    /// started KiB. By default, `amount` is one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use futures_util::{StreamExt, stream};
    /// # use tollgate_memory::{MemoryStore, RateLimiter};
    /// # use tollgate_tokio::meter::Meter;
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
        self.guard = self.guard.per(amount);
        self
    }

    /// Returns the cost that was recorded so far, the base included.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.guard.cost()
    }

    /// Drops the stream, settles at what was recorded unless that has begun already, and waits for
    /// the result. It has begun if the stream has ended: then at the estimate if nothing was
    /// recorded but the base, unless that is to be [settled](OnDrop::Settle), too.
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
        let Self { stream, guard, .. } = self;
        // It may hold a connection, which the settlement does not need.
        drop(stream);
        guard.finish().await
    }
}

impl<St, S, M> Stream for Metered<St, S, M>
where
    St: Stream,
    S: Store + 'static,
    M: FnMut(&St::Item, &mut SettleGuard<S>),
{
    type Item = St::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        let item = ready!(this.stream.poll_next(context));
        match &item {
            Some(item) => (this.measure)(item, this.guard),
            None => {
                *this.ended = true;
                this.guard.end();
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

impl<St, S, M> FusedStream for Metered<St, S, M>
where
    St: Stream,
    S: Store + 'static,
    M: FnMut(&St::Item, &mut SettleGuard<S>),
{
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl<St: Stream + fmt::Debug, S: Store + 'static, M> fmt::Debug for Metered<St, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered")
            .field("stream", &self.stream)
            .field("limiter", &self.guard.limiter)
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}

//! `OutboundLayer`: an HTTP client that stays under the limits of the service it calls.

mod costs;
mod error;
mod host;
mod refusals;
mod report;
mod service;
mod unsent;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, request, response};
use tollgate_core::Limit;
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::OutboundError;
use tower_layer::Layer;

use self::costs::{CostBy, Costs};
pub use self::error::OutboundRequestError;
pub use self::host::host;
use self::refusals::Refusals;
pub use self::service::OutboundService;

/// How often a request is sent again, by default.
const RETRIES: u32 = 3;
/// The longest pause that a response can ask for, by default.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// A layer for HTTP clients that are tower services: each request waits for a permit of an
/// [`Outbound`], and what the response says about limits is shared with all processes.
///
/// - A request waits until the limits admit it. Then a clone of the client gets ready for it, and
///   it is sent. So a request that waits for its permit holds none of the client's slots or
///   connections.
/// - It costs 1, or what [`cost`](Self::cost) and [`cost_of`](Self::cost_of) say. What its response says
///   that it did cost is [settled](Self::settle).
/// - A permit that is [too old](tollgate_tokio::outbound::OutboundBuilder::permit_age) when the client is
///   ready is given back, and the request takes another. The permit of a request that is not sent,
///   because it was dropped or the client failed before, is given back, too.
/// - After a response, its [`Hints`](crate::Hints) are [reported](crate::Hints::report) to the
///   store if the service has less left than the store knows.
/// - A response refuses the request if its status is 429, or another error from 400 to 599 with
///   `Retry-After` ([settable](Self::refusals)), or 403 and nothing is left of a limit. Then the key
///   is paused for all processes: as long as the response says, or, if it does not say, for as long
///   as [`Outbound::back_off`] does. Then the request is sent again, with a permit of its own, at
///   most [`retries`](Self::retries) times. After other statuses than 429, only requests with an
///   idempotent method are sent again, because something may have been done. A request that costs
///   nothing is not sent again: it would not wait until the pause is over.
/// - If there may be no retry, if its permit would come too late, or if the client does not get
///   ready for it, the caller gets the last response. Until then, the layer keeps it, and so perhaps
///   its connection.
/// - If the client fails after it was ready, the caller gets that error, also if an earlier response
///   had refused the request: this time, something may have been done.
///
/// `Retry-After` of a redirect is the least time before the redirected request (RFC 9110), and that
/// of a success is the least time before the next poll. They concern one request, not the key: the
/// caller gets them in the response, and whoever sends that request must wait.
///
/// The caller gets a response when the store has what it says: the pause, the settlement and the reports,
/// each in one round trip. If one of these fails, the caller gets the response nevertheless, and the
/// request is not sent again.
///
/// A client that follows redirects or repeats requests by itself takes no permit for those: switch that
/// off, and do it around the layer.
///
/// The layer keeps no queue: a request waits in its own future, and the service is always ready. To
/// bound how many wait, put a concurrency limit around it.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use http::{Request, Response};
/// use tollgate_http::outbound::OutboundLayer;
/// use tollgate_memory::MemoryStore;
/// use tollgate_tokio::Outbound;
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outbound = Outbound::builder(MemoryStore::new(), ["api=sliding-log:100/1s"])
///     .margin(Duration::from_millis(30))
///     .build()?;
/// // A client, such as that of hyper-util. All requests count for one key.
/// let client = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new("hello")) });
/// let key = |_: &Request<()>| "api.example.com";
/// let mut client = OutboundLayer::new(outbound, key, Duration::from_secs(5)).layer(client);
///
/// let response = client.ready().await?.call(Request::new(())).await?;
/// assert_eq!(*response.body(), "hello");
/// # Ok(())
/// # }
/// ```
pub struct OutboundLayer<S, F, R = Repeat> {
    shared: Shared<S, F, R>,
}

/// What a layer and its services share.
struct Shared<S, F, R> {
    outbound: Outbound<S>,
    key: F,
    settings: Settings,
    repetition: PhantomData<fn() -> R>,
}

#[derive(Clone, Debug)]
struct Settings {
    longest: Duration,
    retries: u32,
    longest_pause: Duration,
    refusals: Refusals,
    is_background: bool,
    costs: Arc<Costs>,
}

impl<S, F> OutboundLayer<S, F> {
    /// Returns a layer that waits for the permits of `outbound`.
    ///
    /// `key` returns the key of a request, such as its [`host()`], or the name of your account there. A request
    /// waits for its permits, also those of its retries, until `longest` after it was made at most, and is not
    /// sent again after that.
    ///
    /// If requests are [settled](Self::settle), let `longest` be more than the limit's window, its margin
    /// and one bucket, or estimate low: until a request is settled, it counts at its estimate, and others
    /// are refused at once if they would wait longer than `longest` for that.
    pub fn new(outbound: Outbound<S>, key: F, longest: Duration) -> Self {
        let settings = Settings {
            longest,
            retries: RETRIES,
            longest_pause: LONGEST_PAUSE,
            refusals: Refusals::default(),
            is_background: false,
            costs: Arc::default(),
        };
        let shared = Shared::new(outbound, key, settings);
        Self { shared }
    }

    /// Sets how often a request that the service refuses is sent again. The default is 3.
    pub fn retries(mut self, most: u32) -> Self {
        self.shared.settings.retries = most;
        self
    }

    /// Returns a layer that sends no request again, for requests whose bodies cannot be cloned.
    pub fn without_retries(self) -> OutboundLayer<S, F, Once> {
        let shared = self.shared;
        let shared = Shared::new(shared.outbound, shared.key, shared.settings);
        OutboundLayer { shared }
    }
}

impl<S, F, R> OutboundLayer<S, F, R> {
    /// Sets the longest pause that a response can ask for. The default is one hour.
    ///
    /// A service that means a longer one refuses the next request, too. A pause without a time from
    /// the service lasts as [`Outbound::back_off`] says.
    pub fn longest_pause(mut self, longest: Duration) -> Self {
        self.shared.settings.longest_pause = longest;
        self
    }

    /// Sets which statuses refuse a request if the response has `Retry-After`. By default, all errors
    /// do: those from 400 to 599. The status 429 always refuses, also without `Retry-After`, and so does
    /// 403 if nothing is left of a limit.
    ///
    /// Set this if the service uses `Retry-After` for something else than its limits, such as with
    /// 409 for one resource that is busy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::{Request, StatusCode};
    /// use tollgate_http::outbound::OutboundLayer;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    /// use tollgate_tokio::outbound::OutboundError;
    ///
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=sliding-log:100/1s"]).build()?;
    /// let key = |_: &Request<()>| "api.example.com";
    /// let layer = OutboundLayer::new(outbound, key, Duration::from_secs(5))
    ///     .refusals([StatusCode::FORBIDDEN, StatusCode::SERVICE_UNAVAILABLE]);
    /// assert!(format!("{layer:?}").contains("403"));
    /// # Ok::<(), OutboundError>(())
    /// ```
    pub fn refusals(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.shared.settings.refusals = Refusals::of(statuses);
        self
    }

    /// Gives all requests a low priority: they leave to urgent calls what is
    /// [kept](tollgate_tokio::outbound::OutboundBuilder::keep_for_urgent) for these.
    ///
    /// `layer.clone().background()` is the layer of a second client, for background requests: both share
    /// the `Outbound`.
    pub fn background(mut self) -> Self {
        self.shared.settings.is_background = true;
        self
    }

    /// Sets what a request costs, from its head. The default is 1.
    ///
    /// If the layer [settles](Self::settle) what a request turns out to cost, it is admitted at 1 at least:
    /// what costs nothing is always admitted, and never settled.
    pub fn cost(mut self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.costs().all.request = Some(Arc::new(cost));
        self
    }

    /// Sets what a request costs from the limit called `name`. All other limits keep the
    /// [`cost`](Self::cost).
    ///
    /// For limits that count different things, such as requests and tokens of a language model. What only
    /// the body tells, whoever makes the request can put into its extensions.
    ///
    /// # Errors
    ///
    /// [`OutboundError::UnknownLimit`] if no limit of this name counts calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    ///
    /// use http::{Request, Response};
    /// use tollgate_http::outbound::OutboundLayer;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// /// The most tokens that a request can take.
    /// #[derive(Clone)]
    /// struct MostTokens(u64);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:40000/1m"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits).build()?;
    /// let layer = OutboundLayer::new(outbound.clone(), |_: &Request<()>| "model", Duration::ZERO)
    ///     .cost_of("tokens", |request| {
    ///         request.extensions.get().map_or(1_000, |MostTokens(most)| *most)
    ///     })?
    ///     .settle_of("tokens", |response| {
    ///         response.headers.get("x-tokens-used")?.to_str().ok()?.parse().ok()
    ///     })?;
    ///
    /// // The prompt had 300 tokens, and the answer 120 instead of 500.
    /// let client = service_fn(|_: Request<()>| async {
    ///     let response = Response::builder().header("x-tokens-used", 420).body(());
    ///     Ok::<_, Infallible>(response.unwrap())
    /// });
    /// let request = Request::builder().extension(MostTokens(300 + 500)).body(())?;
    /// layer.layer(client).oneshot(request).await?;
    ///
    /// let permit = outbound.call("model").cost_of("tokens", 0).await?;
    /// let left = |name| permit.verdict(name).map(|verdict| verdict.remaining());
    /// assert_eq!((left("requests"), left("tokens")), (Some(58), Some(39_580)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cost_of(
        mut self,
        name: &str,
        cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static,
    ) -> Result<Self, OutboundError> {
        self.costs_of(name)?.request = Some(Arc::new(cost));
        Ok(self)
    }

    /// Sets the key that the limit called `name` is counted for, from the head of a request; all other limits, and
    /// pauses, are counted for the key of the layer. See
    /// [`OutboundCall::key_of`](tollgate_tokio::outbound::OutboundCall::key_of), and use that on a cluster: keys of
    /// the layer have no rest, so a cluster cannot decide different ones together.
    ///
    /// # Errors
    ///
    /// [`OutboundError::UnknownLimit`] if no limit of this name counts calls.
    pub fn key_of<K: AsRef<[u8]>>(
        mut self,
        name: &str,
        key: impl Fn(&request::Parts) -> K + Send + Sync + 'static,
    ) -> Result<Self, OutboundError> {
        self.counting(name)?;
        let key = Arc::new(move |parts: &request::Parts| key(parts).as_ref().to_vec());
        self.costs().set_key_of(name, key);
        Ok(self)
    }

    /// Settles what a request costs when the head of its response is known: what `cost` returns, or what
    /// it was admitted at if that is `None`.
    ///
    /// Each response settles its own request, also one that refuses it: return `Some(0)` for a 429 if the
    /// service does not count what it refuses. Limits with
    /// [a cost of their own](Self::cost_of) keep that, unless they are [settled](Self::settle_of), too. A
    /// request without a response, or whose settlement fails, counts at what it was admitted at. What only
    /// the body tells, a service between this layer and the client can read and put into the response's
    /// extensions.
    ///
    /// Return no more than a request can cost, whatever the response says: a limit may
    /// [remember](tollgate_core::RateLimiter::settle) all of it.
    pub fn settle(
        mut self,
        cost: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.costs().all.response = Some(Arc::new(cost));
        self
    }

    /// Settles what a request costs from the limit called `name`, in the same way as
    /// [`settle`](Self::settle) does for all others. See [`cost_of`](Self::cost_of) for an example.
    ///
    /// # Errors
    ///
    /// [`OutboundError::UnknownLimit`] if no limit of this name counts calls.
    pub fn settle_of(
        mut self,
        name: &str,
        cost: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Result<Self, OutboundError> {
        self.costs_of(name)?.response = Some(Arc::new(cost));
        Ok(self)
    }

    fn costs(&mut self) -> &mut Costs {
        Arc::make_mut(&mut self.shared.settings.costs)
    }

    fn costs_of(&mut self, name: &str) -> Result<&mut CostBy, OutboundError> {
        self.counting(name)?;
        Ok(self.costs().of(name))
    }

    /// Returns an error unless a limit of this name counts calls.
    fn counting(&self, name: &str) -> Result<(), OutboundError> {
        let is_it = |(_, limit): (usize, &Limit)| limit.name() == name;
        if self.shared.outbound.counting().any(is_it) {
            return Ok(());
        }
        Err(OutboundError::UnknownLimit { limit: name.into() })
    }
}

impl<T, S, F: Clone, R> Layer<T> for OutboundLayer<S, F, R> {
    type Service = OutboundService<T, S, F, R>;

    fn layer(&self, inner: T) -> Self::Service {
        OutboundService::new(inner, self.shared.clone())
    }
}

impl<S, F: Clone, R> Clone for OutboundLayer<S, F, R> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<S, F, R> fmt::Debug for OutboundLayer<S, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundLayer")
            .field("outbound", &self.shared.outbound)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl<S, F, R> Shared<S, F, R> {
    fn new(outbound: Outbound<S>, key: F, settings: Settings) -> Self {
        Self {
            outbound,
            key,
            settings,
            repetition: PhantomData,
        }
    }
}

impl<S, F: Clone, R> Clone for Shared<S, F, R> {
    fn clone(&self) -> Self {
        let (outbound, key) = (self.outbound.clone(), self.key.clone());
        Self::new(outbound, key, self.settings.clone())
    }
}

/// How an [`OutboundLayer`] makes the copy of a request that it may have to send again: [`Repeat`] or
/// [`Once`].
pub trait Repetition<B>: 'static {
    /// Returns a copy of `request`, or `None` if it is not sent again.
    fn copy(request: &Request<B>) -> Option<Request<B>>;
}

/// Clones requests, so that they can be sent again.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Repeat;

/// Sends every request once.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Once;

impl<B: Clone> Repetition<B> for Repeat {
    fn copy(request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

impl<B> Repetition<B> for Once {
    fn copy(_: &Request<B>) -> Option<Request<B>> {
        None
    }
}

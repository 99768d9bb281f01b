//! `OutboundLayer`: an HTTP client that stays under the limits of the service it calls.

mod error;
mod report;
mod service;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use http::Request;
use tollgate_tokio::Outbound;
use tower_layer::Layer;

pub use self::error::OutboundRequestError;
pub use self::service::OutboundService;

/// How often a request is sent again, by default.
const RETRIES: u32 = 3;
/// The longest pause that a response can ask for, by default.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// A layer for HTTP clients that are tower services: each request waits for a permit of an
/// [`Outbound`], and what the response says about limits is shared with all processes.
///
/// - A request waits until the limits admit it, and then is sent at once. Before that, the client
///   must be ready, so that no permit grows old while the client waits for a connection.
/// - After a response, its [`Hints`](crate::Hints) are [reported](crate::Hints::report) to the
///   store if the service has less left than the store knows.
/// - After a 429, and after a 503 with `Retry-After`, the key is paused for all processes: as long
///   as the response says, or, if it does not say, for as long as [`Outbound::back_off`] does. Then
///   the request is sent again, with a permit of its own, at most [`retries`](Self::retries) times.
///   After a 503, only requests with an idempotent method are sent again.
/// - If there may be no retry, or if its permit would come too late, the caller gets the last
///   response.
///
/// If the store fails after the service has answered, the caller gets the response, and the request
/// is not sent again.
///
/// The layer keeps no queue: a request waits in its own future. To bound how many do, put a
/// concurrency limit around it.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use http::{Request, Response};
/// use tollgate_http::OutboundLayer;
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

#[derive(Clone, Copy, Debug)]
struct Settings {
    longest: Duration,
    retries: u32,
    longest_pause: Duration,
    is_background: bool,
}

impl<S, F> OutboundLayer<S, F> {
    /// Returns a layer that waits for the permits of `outbound`.
    ///
    /// `key` returns the key of a request, such as the name of the service or of your account
    /// there. A request and its retries are given no permit later than `longest` after it was made.
    pub fn new(outbound: Outbound<S>, key: F, longest: Duration) -> Self {
        let settings = Settings {
            longest,
            retries: RETRIES,
            longest_pause: LONGEST_PAUSE,
            is_background: false,
        };
        Self {
            shared: Shared {
                outbound,
                key,
                settings,
                repetition: PhantomData,
            },
        }
    }

    /// Sets how often a request that the service refuses is sent again. The default is 3.
    pub fn retries(mut self, most: u32) -> Self {
        self.shared.settings.retries = most;
        self
    }

    /// Returns a layer that sends no request again, for requests whose bodies cannot be cloned.
    pub fn without_retries(self) -> OutboundLayer<S, F, Once> {
        let Shared {
            outbound,
            key,
            settings,
            ..
        } = self.shared;
        OutboundLayer {
            shared: Shared {
                outbound,
                key,
                settings,
                repetition: PhantomData,
            },
        }
    }
}

impl<S, F, R> OutboundLayer<S, F, R> {
    /// Sets the longest pause that a response can ask for. The default is one hour.
    ///
    /// A service that means a longer one refuses the next request, too.
    pub fn longest_pause(mut self, longest: Duration) -> Self {
        self.shared.settings.longest_pause = longest;
        self
    }

    /// Gives all requests a low priority: they leave the
    /// [reserve](tollgate_tokio::OutboundBuilder::reserve) to others.
    pub fn background(mut self) -> Self {
        self.shared.settings.is_background = true;
        self
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

impl<S, F: Clone, R> Clone for Shared<S, F, R> {
    fn clone(&self) -> Self {
        Self {
            outbound: self.outbound.clone(),
            key: self.key.clone(),
            settings: self.settings,
            repetition: PhantomData,
        }
    }
}

/// How an [`OutboundLayer`] makes the copy of a request that it may have to send again: [`Repeat`],
/// [`Once`], or a type of your own.
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

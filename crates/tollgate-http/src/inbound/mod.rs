//! `InboundLayer`: a service that limits its requests.

mod body;
mod client_ip;
mod client_key;
mod extensions;
mod fields;
mod forwarded;
mod grpc;
mod key_by;
mod outage;
mod passing;
mod policy;
mod prefix;
mod refusal;
mod service;
mod shared;
mod text;
mod warning;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, response};
use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::store::MAX_CHECKS;
use tollgate_core::{Limit, LimitError, RateLimiter};
use tollgate_tokio::LeaseGuard;
use tower_layer::Layer;

pub use body::InboundBody;
pub use client_ip::{ClientIp, Peer};
pub use client_key::ClientKey;
pub use extensions::{Charge, Decided, Place};
pub use fields::{Draft, Fields, Reset};
pub use key_by::KeyBy;
pub use prefix::PrefixError;
pub use refusal::{Cause, Refusal};
pub use service::{InboundFuture, InboundService};
pub use shared::OnStoreFailure;

use self::policy::{Choice, Limits, Policy, SettleBy};
use self::shared::{Shared, StoreOf};
use self::warning::Told;

/// A layer for servers that are tower services, such as those of axum, hyper and tonic: each request
/// is checked against limits, and let through or answered with the status 429.
///
/// - A request is counted for what [`KeyBy`] says, usually the [`ClientIp`]. All policies are decided
///   together: what one denies consumes nothing from any.
/// - A response says by its [`Fields`] what is left. A refusal has problem details (RFC 9457) as its
///   body, or is a status of gRPC if the request is one of gRPC. It is always a response, never an
///   error: errors of the inner service pass unchanged, and bodies too. What the client still sends of
///   a refused request is read in the background, on a Tokio runtime with its time driver, so that an
///   HTTP/1.1 client gets the response.
/// - If the store fails, requests are answered with the status 503, or let through:
///   [`on_store_failure`](Self::on_store_failure).
/// - The layer warns once, through `tracing`, of each mistake in its setup that it sees, such as a
///   proxy that nobody trusts.
///
/// Make the layer once, and clone it: clones share everything. Put it inside of a layer for CORS,
/// so that browsers can read its refusals.
///
/// The inner service that became ready is the one that is called. While a store that has to wait is
/// asked, the request holds what the inner service reserved when it became ready.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
/// use std::net::IpAddr;
///
/// use http::{Request, Response, StatusCode};
/// use tollgate_http::inbound::{ClientIp, InboundLayer, Peer};
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = RateLimiter::new(MemoryStore::new(), ["login=sliding-log:1/1m"])?;
/// let layer = InboundLayer::new(limiter, ClientIp::peer());
///
/// let login = service_fn(|_| async { Ok::<_, Infallible>(Response::new(String::new())) });
/// let mut login = layer.layer(login);
/// let mut request = Request::new(String::new());
/// request.extensions_mut().insert(Peer(IpAddr::from([203, 0, 113, 7])));
/// let response = login.ready().await?.call(request.clone()).await?;
/// assert_eq!(response.status(), StatusCode::OK);
/// assert_eq!(response.headers()["ratelimit"], r#""login";r=0;t=60"#);
/// let response = login.ready().await?.call(request).await?;
/// assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(response.headers()["retry-after"], "60");
/// # Ok(())
/// # }
/// ```
pub struct InboundLayer<S> {
    shared: Arc<Shared<S>>,
}

impl<S> InboundLayer<S> {
    /// Returns a layer that checks each request against the limits of `limiter`, for the key that
    /// `key` finds, at a cost of 1.
    pub fn new(limiter: RateLimiter<S>, key: impl Into<KeyBy>) -> Self {
        let fields = Fields::new();
        let limits = Limits::new(limiter.limits(), &fields);
        let policy = Policy::new(key.into(), Choice::Always(Arc::new(limits)));
        Self::of(StoreOf::Limiter(limiter), policy, fields)
    }

    /// Returns a layer that checks each request against one of several limiters: that of its plan,
    /// whose name `plan` finds, such as that of the user's contract, the route or the method.
    ///
    /// All limiters must be on one store; that of the first is asked. Limits of two plans that have
    /// the same name and window share their states: whoever changes the plan keeps what was counted.
    /// A request without a plan, or with one that has no limiter, is answered with the status 500.
    ///
    /// # Errors
    ///
    /// [`LimitError::NoLimits`] if there is no limiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_http::inbound::{InboundLayer, KeyBy};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// #[derive(Clone)]
    /// struct User {
    ///     plan: String,
    /// }
    /// let store = std::sync::Arc::new(MemoryStore::new());
    /// let plans = [
    ///     ("free", RateLimiter::new(store.clone(), ["requests=gcra:10/1m"])?),
    ///     ("pro", RateLimiter::new(store, ["requests=gcra:1000/1m"])?),
    /// ];
    /// let key = KeyBy::header(HeaderName::from_static("x-api-key"));
    /// // A layer before this one knows the user.
    /// let layer = InboundLayer::by_plan(plans, key, |parts| {
    ///     parts.extensions.get::<User>().map(|user| &*user.plan)
    /// })?;
    /// # let _ = layer;
    /// # Ok::<(), tollgate_memory::LimitError>(())
    /// ```
    pub fn by_plan<N: Into<Box<str>>>(
        plans: impl IntoIterator<Item = (N, RateLimiter<S>)>,
        key: impl Into<KeyBy>,
        plan: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static,
    ) -> Result<Self, LimitError> {
        let fields = Fields::new();
        let mut first = None;
        let plans = plans.into_iter().map(|(name, limiter)| {
            let limits = Limits::new(limiter.limits(), &fields);
            let _ = first.get_or_insert(limiter);
            (name.into(), Arc::new(limits))
        });
        let choice = Choice::ByPlan(Arc::new(plan), plans.collect());
        let limiter = first.ok_or(LimitError::NoLimits)?;
        Ok(Self::of(
            StoreOf::Limiter(limiter),
            Policy::new(key.into(), choice),
            fields,
        ))
    }

    /// Returns a layer that checks each request against the limits of the limiter that `limiter`
    /// returns for it, such as one that changes while the program runs; `None` lets it through without
    /// counting it.
    ///
    /// It is `store` that is asked, not the limiter's own. A request for which `limiter` fails is
    /// answered with the status 500, and the first error is in the log. So is one for which the limits
    /// of all policies have one name twice, or are more than [`MAX_CHECKS`]: leave room for those that
    /// [`also`](Self::also) adds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_http::inbound::{ClientIp, InboundLayer};
    /// use tollgate_layers::limits::{LimitSet, Limits};
    /// use tollgate_memory::MemoryStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Or `Limits::watch`, for those in a file.
    /// let limits = Limits::new(LimitSet::new().with("login", ["sliding-log:5/1m"])?);
    /// limits.require(["login"])?;
    /// let store = Arc::new(MemoryStore::new());
    /// let limiters = limits.on(store.clone());
    /// let layer = InboundLayer::by_limiter(store, ClientIp::peer(), move |_| limiters.get("login"));
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_limiter<T, E: fmt::Display>(
        store: S,
        key: impl Into<KeyBy>,
        limiter: impl Fn(&Parts) -> Result<Option<RateLimiter<T>>, E> + Send + Sync + 'static,
    ) -> Self {
        let choice = Choice::ByRequest(Arc::new(move |parts| match limiter(parts) {
            Ok(Some(limiter)) => Ok(limiter.limits().into()),
            Ok(None) => Ok(Box::default()),
            Err(error) => Err(error.to_string()),
        }));
        let policy = Policy::new(key.into(), choice);
        Self::of(StoreOf::Alone(Arc::new(store)), policy, Fields::new())
    }

    fn of(store: StoreOf<S>, policy: Policy, fields: Fields) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                policies: vec![policy],
                fields,
                on_failure: OnStoreFailure::Refuse,
                skips_preflight: false,
                skips: None,
                responds: None,
                acquires: None,
                inserts_decision: false,
                told: Arc::new(Told::new()),
                outage: Arc::default(),
                examined: AtomicU32::new(0),
            }),
        }
    }

    /// Returns what the layer shares with its services, to change it.
    fn shared(&mut self) -> &mut Shared<S> {
        Arc::make_mut(&mut self.shared)
    }

    /// Adds limits for another key, decided together with those before, on the same store. In a
    /// cluster, the keys of all must have the same partition, such as one address with several
    /// prefixes of 48 bits or more.
    ///
    /// # Errors
    ///
    /// - [`LimitError::DuplicateLimit`] if the layer has a limit of the same name.
    /// - [`LimitError::TooManyLimits`] if a request would have more than [`MAX_CHECKS`].
    /// - The parse error if a limit's text is not valid.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::inbound::{ClientIp, InboundLayer};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["login=gcra:5/1m"])?;
    /// let layer = InboundLayer::new(limiter, ClientIp::peer())
    ///     .also(["network=gcra:50/1m"], ClientIp::peer().ipv6_prefix(48))?;
    /// # let _ = layer;
    /// # Ok::<(), tollgate_memory::LimitError>(())
    /// ```
    pub fn also<L>(
        mut self,
        limits: impl IntoIterator<Item = L>,
        key: impl Into<KeyBy>,
    ) -> Result<Self, LimitError>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let limits: Result<Vec<Limit>, _> = limits.into_iter().map(TryInto::try_into).collect();
        let limits = limits?;
        let before = self.shared.policies.iter().map(Policy::most_limits);
        let count = limits.len() + before.sum::<usize>();
        if count > MAX_CHECKS {
            return Err(LimitError::TooManyLimits {
                count,
                most: MAX_CHECKS,
            });
        }
        for (index, limit) in limits.iter().enumerate() {
            let before = self.shared.policies.iter().flat_map(Policy::limits);
            let mut others = before.chain(&limits[..index]);
            if others.any(|other| other.name() == limit.name()) {
                return Err(LimitError::DuplicateLimit {
                    name: limit.name().to_owned(),
                });
            }
        }
        let limits = Limits::new(limits, &self.shared.fields);
        let policy = Policy::new(key.into(), Choice::Always(Arc::new(limits)));
        self.shared().policies.push(policy);
        Ok(self)
    }

    /// Sets what a request costs under the policy added last, from its head.
    ///
    /// If the policy settles what a request turns out to cost, it is checked at 1 at least: what costs
    /// nothing is always allowed, and never settled.
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.last().cost = Some(Arc::new(cost));
        self
    }

    /// Settles what a request costs under the policy added last when the head of its response is
    /// known: what `cost` returns, or what it was checked at if that is `None`. A response does not
    /// wait for that.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate_http::inbound::{ClientIp, InboundLayer};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// // Only logins that fail count.
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["login=sliding-log:5/1m"])?;
    /// let layer = InboundLayer::new(limiter, ClientIp::peer())
    ///     .settle(|response| Some(u64::from(response.status == StatusCode::UNAUTHORIZED)));
    /// # let _ = layer;
    /// # Ok::<(), tollgate_memory::LimitError>(())
    /// ```
    pub fn settle(
        mut self,
        cost: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.last().settle = Some(SettleBy::Response(Arc::new(cost)));
        self
    }

    /// Settles what a request costs under the policy added last by the bytes of its response's body
    /// that passed: one for each `per` bytes, rounded up, once the body has ended, however it ends.
    pub fn settle_by_bytes(mut self, per: NonZeroU64) -> Self {
        self.last().settle = Some(SettleBy::Bytes(per));
        self
    }

    /// Settles what a request costs under the policy added last by what its handler says: see
    /// [`Charge`].
    pub fn settle_by_handler(mut self) -> Self {
        self.last().settle = Some(SettleBy::Handler);
        self
    }

    /// Lets requests through that are skipped, without counting them, beside those that are skipped
    /// already.
    pub fn skip(mut self, skips: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        let before = self.shared.skips.clone();
        self.shared().skips = Some(Arc::new(move |parts| {
            before.as_ref().is_some_and(|before| before(parts)) || skips(parts)
        }));
        self
    }

    /// Lets preflight requests of CORS through without counting them: those with the method `OPTIONS`
    /// and `Access-Control-Request-Method`. A layer for CORS that is around this one answers them
    /// before, so only one inside needs this.
    ///
    /// Any client can send such a request. So only set it if the inner service does no work for the
    /// method `OPTIONS`: tonic, for example, serves calls whatever their method is.
    pub fn skip_preflight(mut self) -> Self {
        self.shared().skips_preflight = true;
        self
    }

    /// Lets each key have only as many requests at once as `leases` have places: from before the
    /// limits are asked until the body of the response has ended, however it ends. The key is that
    /// of the first policy.
    ///
    /// For what goes on after the response, such as a WebSocket, see [`Place`].
    pub fn hold<L: lease::Store + 'static>(mut self, leases: ConcurrencyLimiter<L>) -> Self {
        self.shared().acquires = Some(Arc::new(move |key| {
            let leases = leases.clone();
            Box::pin(async move { LeaseGuard::acquire(&leases, key.as_key()).await })
        }));
        self
    }

    /// Sets what responses say about limits.
    pub fn fields(mut self, fields: Fields) -> Self {
        let shared = self.shared();
        for policy in &mut shared.policies {
            policy.set_fields(&fields);
        }
        shared.fields = fields;
        self
    }

    /// Sets what is done with requests that the store cannot decide. By default, they are refused
    /// with the status 503.
    pub fn on_store_failure(mut self, does: OnStoreFailure) -> Self {
        self.shared().on_failure = does;
        self
    }

    /// Sets the response to requests that are refused. The fields are added to it.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Response;
    /// use tollgate_http::inbound::{ClientIp, InboundLayer};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["login=gcra:5/1m"])?;
    /// let layer = InboundLayer::new(limiter, ClientIp::peer()).respond(|refusal| {
    ///     let mut response = Response::new(format!("Sorry. {}", refusal.detail()).into());
    ///     *response.status_mut() = refusal.status();
    ///     response
    /// });
    /// # let _ = layer;
    /// # Ok::<(), tollgate_memory::LimitError>(())
    /// ```
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.shared().responds = Some(Arc::new(respond));
        self
    }

    /// Puts what the limits said, a [`Decided`], into the extensions of requests and responses.
    pub fn insert_decision(mut self) -> Self {
        self.shared().inserts_decision = true;
        self
    }

    /// Returns the policy that was added last.
    fn last(&mut self) -> &mut Policy {
        let policies = &mut self.shared().policies;
        let last = policies.len() - 1;
        &mut policies[last]
    }
}

impl<T, S> Layer<T> for InboundLayer<S> {
    type Service = InboundService<T, S>;

    fn layer(&self, inner: T) -> Self::Service {
        InboundService::new(inner, Arc::clone(&self.shared))
    }
}

impl<S> Clone for InboundLayer<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> fmt::Debug for InboundLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundLayer")
            .field("policies", &self.shared.policies)
            .field("fields", &self.shared.fields)
            .finish_non_exhaustive()
    }
}

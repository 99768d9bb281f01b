//! `InboundLayer`: a service that limits its requests.
//!
//! What one request meets on its way, in this order; names without a link are private:
//!
//! | name | what it is |
//! |---|---|
//! | [`Policy`] | what requests are counted by, what each costs, and how that is settled |
//! | `Rule` | limits, always the same ones or by a `Choice`, and the policy that they are checked under |
//! | `Question` | what the store is asked: of each rule, what is `Asked` for this request |
//! | [`Place`] | one of the requests that a client may have at once, if the layer holds any |
//! | [`Decided`] | what the limits said, for handlers and outer layers |
//! | [`Refusal`] | a request that gets no further, and why |
//! | `Passing` | a request that is let through, or is about to be, until the head of its response |
//! | [`Charge`] | what the handler says that the request cost |
//! | `Settlement` | what a request turned out to cost, to be settled |
//! | `UntilEnd` | what lasts until the body of the response has ended: the place, and the count of bytes |

mod body;
mod client_ip;
mod client_key;
mod diagnosis;
mod error;
mod extensions;
mod fields;
mod forwarded;
mod grpc;
mod key_by;
mod outage;
mod passing;
mod policy;
mod prefix;
mod question;
mod refusal;
mod rule;
mod service;
mod shared;
mod text;
mod warning;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::store::MAX_CHECKS;
use tollgate_core::{Limit, LimitError, LimitErrorKind, RateLimiter, Store, StoreError};
use tollgate_tokio::LeaseGuard;
use tower_layer::Layer;

pub use body::InboundBody;
pub use client_ip::{ClientIp, Peer};
pub use client_key::ClientKey;
pub use error::LayerError;
pub use extensions::{Charge, Decided, Place};
pub use fields::{Draft, Fields, Reset};
pub use key_by::KeyBy;
pub use policy::Policy;
pub use prefix::PrefixError;
pub use refusal::{Cause, Refusal};
pub use service::{InboundFuture, InboundService};
pub use shared::OnStoreFailure;

use self::error::Reason;
use self::question::Described;
use self::rule::{Choice, Rule};
use self::shared::{Shared, StoreOf};

/// A layer for servers that are tower services, such as those of axum, hyper and tonic: each request
/// is checked against limits, and let through or answered with the status 429.
///
/// - A request is counted by a [`KeyBy`], usually the [`ClientIp`], and costs 1, unless a [`Policy`]
///   says otherwise. The limits of all policies are decided together: what one denies consumes nothing
///   from any.
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
/// asked, the request keeps the slot, such as one of a concurrency limit, that the inner service
/// reserved for it in `poll_ready`.
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
    /// Returns a layer that checks each request against the limits of `limiter`, under this policy:
    /// a [`ClientIp`] or a [`KeyBy`], or a [`Policy`], which also says what a request costs.
    pub fn new(limiter: RateLimiter<S>, policy: impl Into<Policy>) -> Self {
        let policy = policy.into();
        let limits = Described::new(limiter.limits(), &policy, &Fields::new());
        Self::of(StoreOf::Limiter(limiter), Choice::Always(limits), policy)
    }

    /// Returns a layer that checks each request against the limits of its plan, whose name `plan`
    /// finds, such as that of the user's contract, the route or the method. A plan of `["off"]` has no
    /// limits: its requests are not counted.
    ///
    /// Limits of two plans that have the same name and window share their states: whoever changes the
    /// plan keeps what was counted. A request without a plan, or with one that is not there, is
    /// answered with the status 500.
    ///
    /// # Errors
    ///
    /// [`LayerError`] if there is no plan, if two have the same name, or if no limiter could have the
    /// limits of one of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_http::inbound::{InboundLayer, KeyBy, LayerError};
    /// use tollgate_memory::MemoryStore;
    ///
    /// #[derive(Clone)]
    /// struct User {
    ///     plan: String,
    /// }
    /// let plans = [("free", ["requests=gcra:10/1m"]), ("pro", ["requests=gcra:1000/1m"])];
    /// let key = KeyBy::header(HeaderName::from_static("x-api-key"));
    /// // A layer before this one knows the user.
    /// let layer = InboundLayer::by_plan(MemoryStore::new(), plans, key, |parts| {
    ///     parts.extensions.get::<User>().map(|user| &*user.plan)
    /// })?;
    /// # let _ = layer;
    /// # Ok::<(), LayerError>(())
    /// ```
    pub fn by_plan<N, L>(
        store: S,
        plans: impl IntoIterator<Item = (N, impl IntoIterator<Item = L>)>,
        policy: impl Into<Policy>,
        plan: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static,
    ) -> Result<Self, LayerError>
    where
        N: Into<Box<str>>,
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let (policy, fields) = (policy.into(), Fields::new());
        let mut described = HashMap::new();
        for (name, limits) in plans {
            let name = name.into();
            let (mut on, mut is_empty) = (Vec::new(), true);
            for limit in limits {
                is_empty = false;
                match limit.try_into().map_err(LimitError::from) {
                    Ok(limit) => on.push(limit),
                    Err(error) if error.kind() == LimitErrorKind::Off => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if is_empty {
                let problem = format!(
                    "the plan {name:?} needs at least one limit, such as `requests=gcra:10/1m`, or `off`"
                );
                return Err(LimitError::new(LimitErrorKind::Count, problem).into());
            }
            let limits = Described::new(on, &policy, &fields);
            if !limits.limits.is_empty() {
                check_together(&limits.limits)?;
            }
            if described.contains_key(&name) {
                return Err(LayerError(Reason::DuplicatePlan(name)));
            }
            let _ = described.insert(name, limits);
        }
        if described.is_empty() {
            let problem = "a layer needs at least one plan, with its limits";
            return Err(LimitError::new(LimitErrorKind::Count, problem).into());
        }
        let choice = Choice::ByPlan(Arc::new(plan), described);
        Ok(Self::of(StoreOf::Alone(Arc::new(store)), choice, policy))
    }

    /// Returns a layer that checks each request against the limits of the limiter that `limiter`
    /// returns for it, such as one that changes while the program runs; `None` lets it through without
    /// counting it.
    ///
    /// It is `store` that is asked, not the limiter's own. A request for which `limiter` fails is
    /// answered with the status 500, and the first error is in the log. So is one for which the limits
    /// of all policies have one name twice, or are more than [`MAX_CHECKS`], with those that
    /// [`also`](Self::also) adds: [`supported_with`](Self::supported_with) tells it before.
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
        policy: impl Into<Policy>,
        limiter: impl Fn(&Parts) -> Result<Option<RateLimiter<T>>, E> + Send + Sync + 'static,
    ) -> Self {
        let choice = Choice::ByRequest(Arc::new(move |parts| match limiter(parts) {
            Ok(Some(limiter)) => Ok(limiter.limits().into()),
            Ok(None) => Ok(Box::default()),
            Err(error) => Err(error.to_string()),
        }));
        Self::of(StoreOf::Alone(Arc::new(store)), choice, policy.into())
    }

    fn of(store: StoreOf<S>, choice: Choice, policy: Policy) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                rules: vec![Rule { choice, policy }],
                fields: Fields::new(),
                on_failure: OnStoreFailure::Refuse,
                skips_preflight: false,
                skips: None,
                responds: None,
                acquires: None,
                inserts_decision: false,
                warnings: Arc::default(),
                outage: Arc::default(),
                examined: AtomicU32::new(0),
            }),
        }
    }

    /// Returns what the layer shares with its services, to change it.
    fn shared(&mut self) -> &mut Shared<S> {
        Arc::make_mut(&mut self.shared)
    }

    /// Adds limits under another policy, decided together with those before, on the same store. In a
    /// cluster, the keys of all must have the same partition, such as one address with several
    /// prefixes of 48 bits or more.
    ///
    /// # Errors
    ///
    /// - [`Name`](LimitErrorKind::Name) if the layer has a limit of the same name.
    /// - [`Count`](LimitErrorKind::Count) if there is none, or if a request would have more than
    ///   [`MAX_CHECKS`].
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
        policy: impl Into<Policy>,
    ) -> Result<Self, LimitError>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let limits: Result<Vec<Limit>, _> = limits.into_iter().map(TryInto::try_into).collect();
        let policy = policy.into();
        let limits = Described::new(limits?, &policy, &self.shared.fields);
        check_together(&limits.limits)?;
        let before = self.shared.rules.iter().map(Rule::most_limits);
        let count = limits.limits.len() + before.sum::<usize>();
        if count > MAX_CHECKS {
            return Err(LimitError::new(
                LimitErrorKind::Count,
                format!(
                    "{count} limits for one request are too many: use at most {MAX_CHECKS}, which \
                     are decided together"
                ),
            ));
        }
        for limit in &limits.limits {
            if self.limits().any(|other| other.name() == limit.name()) {
                return Err(LimitError::new(
                    LimitErrorKind::Name,
                    format!(
                        "two limits of one layer are called {:?}: give each a name of its own",
                        limit.name()
                    ),
                ));
            }
        }
        let rule = Rule {
            choice: Choice::Always(limits),
            policy,
        };
        self.shared().rules.push(rule);
        Ok(self)
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
    /// of the first policy. A layer holds places of one limiter: the last that is set.
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
    ///
    /// # Errors
    ///
    /// [`LayerError`] if the fields [hide](Fields::hide) a limit that the layer does not have: add all
    /// limits first. A layer whose limits are chosen for each request may get it later.
    pub fn fields(mut self, fields: Fields) -> Result<Self, LayerError> {
        if !self.shared.rules.iter().any(Rule::is_by_request) {
            let is_missing = |name: &&str| !self.limits().any(|limit| limit.name() == *name);
            if let Some(name) = fields.hidden().find(is_missing) {
                return Err(LayerError(Reason::NothingToHide(name.into())));
            }
        }
        let shared = self.shared();
        for rule in &mut shared.rules {
            rule.set_fields(&fields);
        }
        shared.fields = fields;
        Ok(self)
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

    /// Returns all limits that are known before a request comes.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.shared.rules.iter().flat_map(Rule::limits)
    }
}

impl<S: Store> InboundLayer<S> {
    /// Returns the error for which the layer answers every request, or every request of some plan,
    /// with the status 500, if there is one. The store is not asked.
    ///
    /// For when a program starts, so that what this store can never decide is found before a request
    /// comes:
    ///
    /// - the limits, or to settle what a request turns out to cost,
    /// - limits `@local` under a policy without [a time zone](Policy),
    /// - in a cluster, several policies whose keys never have one partition, such as an address and an
    ///   API key: [`KeyBy::and`] gives them one.
    ///
    /// What functions return is not known before: keys, zones, and the limits that are
    /// [chosen for each request](Self::by_limiter), of which [`supported_with`](Self::supported_with)
    /// tells the same.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](tollgate_core::ErrorKind::Unsupported) or
    /// [`Malformed`](tollgate_core::ErrorKind::Malformed), with what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    ///
    /// use tollgate_http::inbound::{ClientIp, InboundLayer};
    /// use tollgate_layers::Share;
    /// use tollgate_memory::{ErrorKind, MemoryStore, RateLimiter};
    ///
    /// // No process of ten could ever let a request through.
    /// let store = Share::new(MemoryStore::new(), NonZeroU32::new(10).unwrap());
    /// let limiter = RateLimiter::new(store, ["login=sliding-log:5/1m"])?;
    /// let layer = InboundLayer::new(limiter, ClientIp::peer());
    /// assert_eq!(layer.supported().unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), tollgate_memory::LimitError>(())
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        let mut plans = self.shared.rules[0].plans().peekable();
        if plans.peek().is_none() {
            // They are chosen for each request.
            return self.shared.supported(&[]);
        }
        plans.try_for_each(|plan| self.shared.supported(&plan.limits))
    }

    /// Returns the error for which a layer [by limiter](Self::by_limiter) answers every request for which
    /// it chooses the limits of this limiter with the status 500, if there is one. The store is not asked.
    ///
    /// # Errors
    ///
    /// As [`supported`](Self::supported), and [`Malformed`](tollgate_core::ErrorKind::Malformed) if
    /// one of the limits has the name of another in the layer, or if they are too many together.
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
    /// let limits = Limits::new(LimitSet::new().with("login", ["minute=sliding-log:5/1m"])?);
    /// let store = Arc::new(MemoryStore::new());
    /// let limiters = limits.on(store.clone());
    /// let chosen = limiters.clone();
    /// let layer = InboundLayer::by_limiter(store, ClientIp::peer(), move |_| chosen.get("login"))
    ///     .also(["hour=sliding-log:20/1h"], ClientIp::peer())?;
    ///
    /// // Now, and whenever the limits change.
    /// limiters.require("login", move |login| layer.supported_with(login))?;
    /// let changed = LimitSet::new().with("login", ["hour=sliding-log:9/1h"])?;
    /// assert!(limits.replace(changed).unwrap_err().to_string().contains("hour"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn supported_with<T>(&self, limiter: &RateLimiter<T>) -> Result<(), StoreError> {
        self.shared.supported(limiter.limits())
    }
}

/// Checks that these limits can decide together.
fn check_together(limits: &[Limit]) -> Result<(), LimitError> {
    RateLimiter::new((), limits).map(drop)
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
            .field("rules", &self.shared.rules)
            .field("fields", &self.shared.fields)
            .finish_non_exhaustive()
    }
}

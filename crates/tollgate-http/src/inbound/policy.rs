//! `Policy`: what requests are counted by, what each costs, in which time zone, and how that is settled.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::request::Parts;
use http::response;
use tollgate_core::{Limit, LimitError, LimitErrorKind, Quota, SlidingLog};

use super::client_ip::ClientIp;
use super::key_by::KeyBy;
#[cfg(feature = "calendar")]
use jiff::tz::TimeZone;

/// What requests are counted by, what each of them costs, and how that is settled afterwards: one
/// value for each group of limits that [`InboundLayer::new`] or [`InboundLayer::also`] takes.
///
/// A [`KeyBy`] or a [`ClientIp`] alone is a policy, too: under it, a request costs 1, and nothing is
/// settled.
///
/// [`InboundLayer::new`]: super::InboundLayer::new
/// [`InboundLayer::also`]: super::InboundLayer::also
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU64;
///
/// use tollgate_http::inbound::{ClientIp, InboundLayer, Policy};
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// // Only logins that fail count; who tries three more is banned. Each address gets a mebibyte a minute.
/// let failures = Policy::new(ClientIp::peer())
///     .count_if(|head| head.status == 401)
///     .ban_after(3, "ban=block:10m")?;
/// let kibibytes = Policy::new(ClientIp::peer())
///     .cost(|_| 64)
///     .settle_by_bytes(NonZeroU64::new(1024).unwrap());
///
/// let limiter = RateLimiter::new(MemoryStore::new(), ["login=sliding-log:5/1m"])?;
/// let layer = InboundLayer::new(limiter, failures).also(["kibibytes=gcra:1024/1m"], kibibytes)?;
/// # let _ = layer;
/// # Ok::<(), tollgate_memory::LimitError>(())
/// ```
#[derive(Clone)]
pub struct Policy {
    pub(super) key: KeyBy,
    cost: Option<Arc<CostOf>>,
    #[cfg(feature = "calendar")]
    zone: Option<Arc<ZoneOf>>,
    #[cfg(feature = "calendar")]
    day: Option<Arc<DayOf>>,
    pub(super) settle: Option<SettleBy>,
    /// Whether requests are counted only once their responses are known.
    pub(super) looks: bool,
    pub(super) ban: Option<Arc<Ban>>,
}

/// Blocks a key that has been refused too often.
#[derive(Debug)]
pub(super) struct Ban {
    /// Counts the refusals: full when they are too many.
    pub(super) refusals: Limit,
    pub(super) block: Limit,
}

type CostOf = dyn Fn(&Parts) -> u64 + Send + Sync;
#[cfg(feature = "calendar")]
type ZoneOf = dyn Fn(&Parts) -> Option<TimeZone> + Send + Sync;
#[cfg(feature = "calendar")]
type DayOf = dyn Fn(&Parts) -> Option<u8> + Send + Sync;
type CostOfResponse = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

/// What a request turns out to cost.
#[derive(Clone)]
pub(super) enum SettleBy {
    /// What this returns for the response; the estimate if nothing.
    Response(Arc<CostOfResponse>),
    /// What the handler said by `Charge`.
    Handler,
    /// One for each started part of this number of bytes of the response's body.
    Bytes(NonZeroU64),
}

impl Policy {
    /// Returns a policy that counts requests by `key`, at a cost of 1.
    pub fn new(key: impl Into<KeyBy>) -> Self {
        Self {
            key: key.into(),
            cost: None,
            #[cfg(feature = "calendar")]
            zone: None,
            #[cfg(feature = "calendar")]
            day: None,
            settle: None,
            looks: false,
            ban: None,
        }
    }

    /// Sets what a request costs, from its head.
    ///
    /// If the policy settles what a request turns out to cost, it is checked at 1 at least: what costs
    /// nothing is always allowed, and never settled. If it [looks first](Self::look_first), a request is
    /// admitted as long as 1 is left, and this is what is counted afterwards.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Brings the time zone in which limits of the zone `@local` count, such as
    /// `fixed-window:10000/month@local`, for each request.
    ///
    /// A request without one, or whose zone has no name in the database of time zones, is answered with
    /// the status 500 if a limit is `@local`, and nothing is asked. In each zone, a key has the whole
    /// amount, so take the zone from what a layer before this one knows of the key, such as the tenant's
    /// contract, and not from the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::tz::TimeZone;
    /// use tollgate_http::inbound::{InboundLayer, KeyBy, Policy};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// #[derive(Clone)]
    /// struct Tenant {
    ///     name: String,
    ///     zone: TimeZone,
    /// }
    ///
    /// // A layer before this one knows the tenant.
    /// let policy = Policy::new(KeyBy::extension(|tenant: &Tenant| &tenant.name))
    ///     .zone(|parts| parts.extensions.get().map(|tenant: &Tenant| tenant.zone.clone()));
    /// let limits = ["calls=fixed-window:10000/month@local"];
    /// let layer = InboundLayer::new(RateLimiter::new(MemoryStore::new(), limits)?, policy);
    /// layer.supported()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn zone(
        mut self,
        zone: impl Fn(&Parts) -> Option<TimeZone> + Send + Sync + 'static,
    ) -> Self {
        self.zone = Some(Arc::new(zone));
        self
    }

    /// Brings the day of the month, 1 to 31, on which months begin that limits count from `day=local`, such as
    /// `fixed-window:10000/month@UTC,day=local`, for each request. As with [the zone](Self::zone), a request
    /// without one is answered with the status 500.
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn day(mut self, day: impl Fn(&Parts) -> Option<u8> + Send + Sync + 'static) -> Self {
        self.day = Some(Arc::new(day));
        self
    }

    /// Settles what a request costs when the head of its response is known: what `cost` returns, or
    /// what it was checked at if that is `None`. A response does not wait for that.
    ///
    /// A policy settles in one way: the last one that is set.
    #[must_use]
    pub fn settle(
        self,
        cost: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.settled(SettleBy::Response(Arc::new(cost)))
    }

    /// Settles what a request costs by the bytes of its response's body that passed: one for each
    /// `per` bytes, rounded up, once the body has ended, however it ends.
    #[must_use]
    pub fn settle_by_bytes(self, per: NonZeroU64) -> Self {
        self.settled(SettleBy::Bytes(per))
    }

    /// Settles what a request costs by what its handler says: see [`Charge`](super::Charge).
    #[must_use]
    pub fn settle_by_handler(self) -> Self {
        self.settled(SettleBy::Handler)
    }

    /// Counts a request, at its [cost](Self::cost) or 1, only if `counts` holds for the head of its response:
    /// only missing pages, or only failed logins. It [settles](Self::settle) so, and [looks](Self::look_first).
    #[must_use]
    pub fn count_if(
        self,
        counts: impl Fn(&response::Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.look_first()
            .settle(move |head| (!counts(head)).then_some(0))
    }

    /// Reserves nothing: a request is let through if 1 is left under each limit, and its cost is counted once the
    /// response tells it, whether it fits or not. So what costs nothing is refused only if nothing is left.
    ///
    /// Requests at once all look before one is counted: a limit's bound is exceeded by at most the costs of those
    /// that were in flight when it was reached. [`hold`](super::InboundLayer::hold) limits how many these are. A
    /// request without a response is not counted, nor is one that is denied, also by a limit with `count-denied`.
    #[must_use]
    pub fn look_first(mut self) -> Self {
        self.looks = true;
        self
    }

    /// Blocks a key after `refusals` by the limits of this policy within the time of `block`, a limit such as
    /// `ban=block:10m`, for that time.
    ///
    /// The block is one more limit of the policy, unless it has it already. A sliding log, called `ban-refusals`
    /// for the block `ban`, counts what the store refuses while the key is not blocked; a refusal waits for that.
    /// If the store fails then, the request is refused all the same.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if `block` blocks nobody, if there are no refusals, or if a sliding log cannot count them.
    /// That another limit has the block's name is an error of the layer, or of
    /// [`supported`](super::InboundLayer::supported).
    pub fn ban_after<L>(mut self, refusals: u64, block: L) -> Result<Self, LimitError>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let block = block.try_into()?;
        let wrong = |problem| Err(LimitError::new(LimitErrorKind::Amount, problem));
        if refusals == 0 {
            return wrong("a ban needs 1 refusal or more, not 0".to_owned());
        }
        if !block.algorithm().can_block() || block.is_shadow() {
            let problem = format!("a ban needs a block such as `ban=block:10m`, not `{block}`");
            return wrong(problem);
        }
        let quota = Quota::new(refusals, block.algorithm().longest_window())?;
        let name = format!("{}-refusals", block.name());
        let refusals = Limit::new(&name, SlidingLog::new(quota)?)?;
        self.ban = Some(Arc::new(Ban { refusals, block }));
        Ok(self)
    }

    fn settled(self, by: SettleBy) -> Self {
        Self {
            settle: Some(by),
            ..self
        }
    }

    /// Returns the time zone of a request, or any, if requests bring one, of no request.
    #[cfg(feature = "calendar")]
    pub(super) fn zone_of(&self, parts: Option<&Parts>) -> Option<TimeZone> {
        let zone_of = self.zone.as_ref()?;
        parts.map_or(Some(TimeZone::UTC), |parts| zone_of(parts))
    }

    /// Returns the day of a request, or any, if requests bring one, of no request.
    #[cfg(feature = "calendar")]
    pub(super) fn day_of(&self, parts: Option<&Parts>) -> Option<u8> {
        let day_of = self.day.as_ref()?;
        parts.map_or(Some(1), |parts| day_of(parts))
    }

    /// Returns the cost that a request is checked at.
    pub(super) fn cost_of(&self, parts: &Parts) -> u64 {
        let cost = self.cost.as_ref().map_or(1, |cost_of| cost_of(parts));
        // What costs nothing has no receipt, and so could never be settled.
        cost.max(u64::from(self.settle.is_some() && !self.looks))
    }
}

impl From<KeyBy> for Policy {
    fn from(key: KeyBy) -> Self {
        Self::new(key)
    }
}

impl From<ClientIp> for Policy {
    fn from(client: ClientIp) -> Self {
        Self::new(client)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

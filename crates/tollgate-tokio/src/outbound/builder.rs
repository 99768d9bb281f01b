//! `OutboundBuilder`: the settings of an `Outbound`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tollgate_core::{Block, Limit, LimitError, LimitErrorKind, RateLimiter};

use super::client::{Outbound, Shared};
use super::stricter::{self, counts};

/// How long a key is paused for the first time, if the service does not say how long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How many times such a pause doubles.
const DOUBLINGS: u64 = 6;

/// The settings of an [`Outbound`], made by [`Outbound::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct OutboundBuilder<S> {
    store: S,
    limits: Result<Vec<Limit>, LimitError>,
    margin: Duration,
    /// Of limits that have another margin: their names and that.
    margins: Vec<(String, Duration)>,
    permit_age: Option<Duration>,
    kept_for_urgent: u64,
    /// Of limits of which something else is kept: their names and that.
    kept: Vec<(String, u64)>,
}

impl<S> OutboundBuilder<S> {
    pub(super) fn new(store: S, limits: Result<Vec<Limit>, LimitError>) -> Self {
        Self {
            store,
            limits,
            margin: Duration::ZERO,
            margins: Vec::new(),
            permit_age: None,
            kept_for_urgent: 0,
            kept: Vec::new(),
        }
    }

    /// Sets the margin: the longest time from the store's decision to the service's count, less the
    /// shortest. The default is zero.
    ///
    /// The limits become stricter by this, rounded up to whole microseconds: see [`Outbound`].
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Sets another margin for the limit called `name`.
    ///
    /// A fixed window, also one of a calendar, can only have a margin of zero. Then calls that depart
    /// at the end of one window may arrive in the next, beside those that depart in that: as many as
    /// depart within the margin that it would need. The other limits bound these.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// let limits = ["second=sliding-log:10/1s", "day=fixed-window:1000/1d"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits)
    ///     .margin(Duration::from_millis(50))
    ///     .margin_of("day", Duration::ZERO)
    ///     .build()?;
    /// let stricter = outbound.stricter_limits();
    /// assert_eq!(stricter[0].to_string(), "second=sliding-log:10/1050ms");
    /// assert_eq!(stricter[1].to_string(), "day=fixed-window:1000/1d");
    /// # Ok::<(), tollgate_tokio::outbound::OutboundError>(())
    /// ```
    pub fn margin_of(mut self, name: &str, margin: Duration) -> Self {
        self.margins.push((name.to_owned(), margin));
        self
    }

    /// Sets how long the store may take to answer. The permit of a slower answer is given back, and
    /// the store is asked again. A permit that you have held for longer than this since the store was
    /// asked [is stale](super::Permit::is_stale).
    ///
    /// The default is the margin. With zero, a permit may have any age. If the way from this
    /// process to the service takes up to `V` longer at one time than at another, the limits are
    /// kept exactly with a margin of `V` plus this age.
    pub fn permit_age(mut self, longest: Duration) -> Self {
        self.permit_age = Some(longest);
        self
    }

    /// Sets how many units of each limit background calls leave to urgent ones. The default is zero.
    pub fn keep_for_urgent(mut self, units: u64) -> Self {
        self.kept_for_urgent = units;
        self
    }

    /// Sets how many units of the limit called `name` background calls leave to urgent ones, for limits that
    /// count different things, such as requests and tokens.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:40000/1m"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits)
    ///     .keep_for_urgent(5)
    ///     .keep_for_urgent_of("tokens", 10_000)
    ///     .build()?;
    /// let permit = outbound.call("model").background().cost_of("tokens", 800).await?;
    /// let left = |name| permit.verdict(name).map(|verdict| verdict.remaining());
    /// assert_eq!(left("requests-background"), Some(54));
    /// assert_eq!(left("tokens-background"), Some(29_200));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_for_urgent_of(mut self, name: &str, units: u64) -> Self {
        self.kept.push((name.to_owned(), units));
        self
    }

    /// Returns the [`Outbound`].
    ///
    /// # Errors
    ///
    /// - [`OutboundError::Limit`] for the errors of [`RateLimiter::new`], and if a stricter limit
    ///   cannot be counted exactly. The block for pauses and the limits of background calls count
    ///   as limits, and their names end in `-paused` and `-background`.
    /// - [`OutboundError::CountsDenied`] for a limit with `count-denied`.
    /// - [`OutboundError::InShadow`] for a limit in shadow.
    /// - [`OutboundError::NeedsZone`] for a limit of the zone `@local`, or with `day=local`.
    /// - [`OutboundError::FixedWindowWithMargin`] for a fixed window, if it has a margin.
    /// - [`OutboundError::UnknownLimit`] for a margin of a limit that is not there, or something kept of it,
    ///   and for those of a block.
    /// - [`OutboundError::OnlyBlocks`] if no limit counts calls.
    /// - [`OutboundError::NothingForBackground`] if what is kept for urgent calls leaves nothing of a
    ///   limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=gcra:100/1s,burst=20"])
    ///     .margin(Duration::from_millis(50))
    ///     .keep_for_urgent(5)
    ///     .build()?;
    /// // Five tokens come within the margin, so they are left out of the burst.
    /// assert_eq!(outbound.stricter_limits()[0].to_string(), "api=gcra:100/1s,burst=15");
    ///
    /// let all = Outbound::builder(MemoryStore::new(), ["api=gcra:100/1s"]).keep_for_urgent(100);
    /// assert_eq!(
    ///     all.build().unwrap_err().to_string(),
    ///     "keeping 100 for urgent calls leaves nothing of limit `api` to others: choose at most 99"
    /// );
    /// # Ok::<(), tollgate_tokio::outbound::OutboundError>(())
    /// ```
    pub fn build(self) -> Result<Outbound<S>, OutboundError> {
        let mut limits = self.limits?;
        if let Some(counting) = limits
            .iter()
            .find(|limit| limit.algorithm().counts_denied())
        {
            return Err(OutboundError::CountsDenied {
                limit: counting.name().to_owned(),
            });
        }
        if let Some(shadow) = limits.iter().find(|limit| limit.is_shadow()) {
            return Err(OutboundError::InShadow {
                limit: shadow.name().to_owned(),
            });
        }
        if let Some(local) = limits
            .iter()
            .find(|limit| limit.needs_zone() || limit.needs_day())
        {
            return Err(OutboundError::NeedsZone {
                limit: local.name().to_owned(),
            });
        }
        let first = limits.iter().find(|limit| counts(limit));
        let Some(first) = first.map(|first| first.name().to_owned()) else {
            return Err(match limits.first() {
                Some(block) => OutboundError::OnlyBlocks {
                    limit: block.name().to_owned(),
                },
                None => LimitError::new(
                    LimitErrorKind::Count,
                    "calls to a service need at least one limit, such as `api=gcra:10/1s`",
                )
                .into(),
            });
        };
        if limits.iter().all(counts) {
            let pause = Block::new(FIRST_PAUSE)?.doubling(DOUBLINGS)?;
            limits.push(Limit::new(&format!("{first}-paused"), pause)?);
        }
        let is_it = |limit: &Limit, name: &str| counts(limit) && limit.name() == name;
        let is_missing = |name: &str| !limits.iter().any(|limit| is_it(limit, name));
        let margins = self.margins.iter().map(|(name, _)| name);
        let mut named = margins.chain(self.kept.iter().map(|(name, _)| name));
        if let Some(name) = named.find(|name| is_missing(name)) {
            return Err(OutboundError::UnknownLimit {
                limit: name.clone(),
            });
        }
        let stricter: Vec<Limit> = limits
            .iter()
            .map(|limit| {
                // The last that was set.
                let mut own = self.margins.iter().rev();
                let own = own.find(|(name, _)| name == limit.name());
                let margin = own.map_or(self.margin, |(_, margin)| *margin);
                let micros = margin.as_nanos().div_ceil(1_000);
                stricter::on_arrival(limit, u64::try_from(micros).unwrap_or(u64::MAX))
            })
            .collect::<Result<_, _>>()?;
        let store = Arc::new(self.store);
        let urgent = RateLimiter::new(Arc::clone(&store), &stricter)?;
        let mut all = stricter.clone();
        for limit in &stricter {
            // The last that was set.
            let mut own = self.kept.iter().rev();
            let own = own.find(|(name, _)| name == limit.name());
            let kept = own.map_or(self.kept_for_urgent, |(_, kept)| *kept);
            if kept > 0 {
                all.extend(stricter::for_background(limit, kept)?);
            }
        }
        let background = if all.len() == stricter.len() {
            urgent.clone()
        } else {
            RateLimiter::new(store, all)?
        };
        let age = self.permit_age.or(Some(self.margin));
        Ok(Outbound {
            shared: Arc::new(Shared {
                limits,
                urgent,
                background,
                margin: self.margin,
                permit_age: age.filter(|age| !age.is_zero()),
                admitted: AtomicU64::new(0),
                stale: AtomicU64::new(0),
            }),
        })
    }
}

impl<S> fmt::Debug for OutboundBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundBuilder")
            .field("limits", &self.limits)
            .field("margin", &self.margin)
            .field("permit_age", &self.permit_age)
            .field("kept_for_urgent", &self.kept_for_urgent)
            .finish_non_exhaustive()
    }
}

/// An error for settings of an [`Outbound`] that are not possible.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutboundError {
    /// A limit counts denied calls. Calls that wait ask more than once, so they would count more
    /// than once.
    #[error(
        "limit `{limit}` counts denied calls, and calls that wait may be denied several \
         times: leave out `count-denied`"
    )]
    CountsDenied {
        /// The limit's name.
        limit: String,
    },
    /// A limit is in [shadow](Limit::shadow): calls would not keep to it.
    #[error(
        "limit `{limit}` is in shadow, which keeps no calls under a service's limits: leave it out"
    )]
    InShadow {
        /// The limit's name.
        limit: String,
    },
    /// A limit counts in [the zone](Limit::needs_zone), or from [the day](Limit::needs_day), of each call, and
    /// calls to a service bring none.
    #[error(
        "limit `{limit}` counts in the zone `@local`, or from `day=local`, and calls to a service bring \
         neither: write the service's, such as `@America/Los_Angeles` or `day=15`"
    )]
    NeedsZone {
        /// The limit's name.
        limit: String,
    },
    /// A fixed window has no stricter form: calls that depart in one window may arrive in the next.
    #[error(
        "limit `{limit}` is a fixed window, which cannot have a margin: use sliding-log, \
         sliding-buckets or gcra, or `.margin_of(\"{limit}\", Duration::ZERO)`"
    )]
    FixedWindowWithMargin {
        /// The limit's name.
        limit: String,
    },
    /// A limit is not valid, or the limit that the margin, or what is kept for urgent calls, makes of it is not.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// All limits are blocks, which count nothing.
    #[error(
        "limit `{limit}` is a block, which counts no calls: add the service's limit, such \
         as `api=sliding-log:100/1s`"
    )]
    OnlyBlocks {
        /// The first one's name.
        limit: String,
    },
    /// What is kept for urgent calls leaves nothing of a limit to background calls.
    #[error(
        "keeping {kept} for urgent calls leaves nothing of limit `{limit}` to others: {}",
        less(*most)
    )]
    NothingForBackground {
        /// The limit's name.
        limit: String,
        /// What was to be kept for urgent calls.
        kept: u64,
        /// The largest that is accepted.
        most: u64,
    },
    /// There is no limit of a name that has [a margin of its own](OutboundBuilder::margin_of), of which
    /// [something is kept](OutboundBuilder::keep_for_urgent_of), or for which a layer sets a cost.
    #[error(
        "no limit `{limit}` counts calls here, but a margin, a cost, or what is kept for urgent \
         calls is set for it: name one of the limits"
    )]
    UnknownLimit {
        /// That name.
        limit: String,
    },
}

/// Returns what to do if more than `most` is kept.
fn less(most: u64) -> String {
    match most {
        0 => "leave out `keep_for_urgent`".to_owned(),
        most => format!("choose at most {most}"),
    }
}

//! `Limits`: limits by name that change while a program runs.

mod change;
mod read;
mod set;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};

use arc_swap::ArcSwap;
use tollgate_core::{ErrorKind, RateLimiter, StoreError};

pub use change::Change;
pub use set::LimitSet;
pub use watch::WatchError;

use crate::sync::{Mutex, MutexGuard};

/// Limits by name that change while a program runs: [watched](Self::watch) in a file, or
/// [replaced](Self::replace) by the program.
///
/// [`on`](Self::on) puts them on a store. Clones share the limits.
///
/// # What a change keeps
///
/// What was counted is on the store, under the limit's name, its algorithm, and its window if the
/// algorithm counts by windows. It stays for as long as it would have counted under the limit before.
///
/// | change | what happens to what was counted |
/// |---|---|
/// | the amount or the burst | stays, and counts against the new amount at once; a log that counts denied calls keeps as many as the amount, the newest |
/// | the window of [`SlidingLog`](tollgate_core::SlidingLog) or [`Gcra`](tollgate_core::Gcra), how long a [`Block`](tollgate_core::Block) lasts | stays, but no longer than the window before |
/// | the window of [`FixedWindow`](tollgate_core::FixedWindow), [`SlidingCounter`](tollgate_core::SlidingCounter) or [`SlidingBuckets`](tollgate_core::SlidingBuckets), the number of buckets, or whether windows are anchored | starts afresh |
/// | the algorithm, or the name | starts afresh |
/// | off, and on again | stays, as far as it has not expired |
///
/// A limit that starts afresh, or whose window has become longer, can admit, beside what the old one
/// has admitted, as much as the new one may: never more than both together. [`Change`] says which
/// limits these are.
///
/// While processes take a change over one after the other, each decides by its own amounts on the
/// same states.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate_layers::limits::{LimitSet, Limits};
/// use tollgate_memory::MemoryStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::new(LimitSet::new().with("login", ["sliding-log:1/1m"])?);
/// limits.require(["login"])?;
/// let limiters = limits.on(Arc::new(MemoryStore::new()));
///
/// let login = limiters.get("login")?.expect("it is not off");
/// assert!(login.check("alice").run()?.is_allowed());
/// assert!(login.check("alice").run()?.is_denied());
///
/// let changes = limits.replace(LimitSet::new().with("login", ["sliding-log:2/1m"])?)?;
/// assert_eq!(changes[0].to_string(), "login: login=sliding-log:2/1m, was login=sliding-log:1/1m");
/// let login = limiters.get("login")?.expect("it is not off");
/// assert!(login.check("alice").run()?.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Limits(Arc<Shared>);

struct Shared {
    /// Held from before a change is checked until it is in force; what a program requires is called
    /// meanwhile, and may read the limits.
    changing: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    set: LimitSet,
    required: BTreeSet<Box<str>>,
    /// The limiters to make anew when the limits change.
    followers: Vec<Weak<dyn Follow>>,
}

impl Limits {
    /// Returns limits that change when they are [replaced](Self::replace).
    #[must_use]
    pub fn new(set: LimitSet) -> Self {
        Self(Arc::new(Shared {
            changing: Mutex::default(),
            state: Mutex::new(State {
                set,
                required: BTreeSet::new(),
                followers: Vec::new(),
            }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.changing)
    }

    /// Returns the limits that are in force.
    #[must_use]
    pub fn set(&self) -> LimitSet {
        self.state().set.clone()
    }

    /// Demands that there are limits of these names, now and after each change: a set without one of
    /// them is not accepted. One that is off is.
    ///
    /// # Errors
    ///
    /// If there are no limits of one of the names.
    pub fn require<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), UnknownName> {
        let _changing = self.changing();
        let mut state = self.state();
        for name in names {
            check(&state.set, name)?;
            let _ = state.required.insert(name.into());
        }
        Ok(())
    }

    /// Puts another set into force, and returns what has changed. All limiters change with it, each
    /// between two calls; a call that has begun ends by the limits that it began with.
    ///
    /// # Errors
    ///
    /// If the set lacks a [required](Self::require) name, or does not support
    /// [required calls](Limiters::require): then the limits before stay in force.
    pub fn replace(&self, set: LimitSet) -> Result<Vec<Change>, NotMet> {
        let _changing = self.changing();
        let (changes, followers) = {
            let mut state = self.state();
            for name in &state.required {
                check(&set, name)?;
            }
            let is_alive = |follower: &Weak<dyn Follow>| follower.strong_count() > 0;
            state.followers.retain(is_alive);
            let followers: Vec<_> = state.followers.iter().filter_map(Weak::upgrade).collect();
            (change::changes(&state.set, &set), followers)
        };
        if !changes.is_empty() {
            let made = followers.into_iter().map(|follower| follower.make(&set));
            for put_into_force in made.collect::<Result<Vec<_>, _>>()? {
                put_into_force();
            }
            self.state().set = set;
        }
        Ok(changes)
    }

    /// Returns a limiter for each name, all on this store, in an `Arc`.
    #[must_use]
    pub fn on<S: Clone + Send + Sync + 'static>(&self, store: S) -> Limiters<S> {
        let _changing = self.changing();
        let mut state = self.state();
        let following = Arc::new(Following {
            limiters: ArcSwap::from_pointee(made(&state.set, &store, &HashMap::new())),
            store,
            required: Mutex::default(),
        });
        let follower: Weak<dyn Follow> = Arc::downgrade(&(Arc::clone(&following) as _));
        state
            .followers
            .retain(|follower| follower.strong_count() > 0);
        state.followers.push(follower);
        Limiters {
            following,
            limits: self.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(set: &LimitSet, name: &str) -> Result<(), UnknownName> {
    match set.get(name) {
        Some(_) => Ok(()),
        None => Err(UnknownName {
            name: name.into(),
            known: set.names().map(Into::into).collect(),
        }),
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Limits")
            .field("set", &state.set)
            .field("required", &state.required)
            .finish_non_exhaustive()
    }
}

/// The limiters of [`Limits`] on a store, by name. Clones share them.
pub struct Limiters<S> {
    following: Arc<Following<S>>,
    limits: Limits,
}

impl<S> Limiters<S> {
    /// Returns the limiter of this name as it is now, or `None` if it is switched off.
    ///
    /// Ask for each call; what is kept does not change.
    ///
    /// # Errors
    ///
    /// If there are no limits of this name: see [`Limits::require`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_layers::limits::{LimitSet, Limits};
    /// use tollgate_memory::MemoryStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let set = LimitSet::new().with("default", ["gcra:10/1s"])?.with("acme", ["gcra:99/1s"])?;
    /// let tenants = Limits::new(set).on(Arc::new(MemoryStore::new()));
    /// for (tenant, amount) in [("acme", 99), ("umbrella", 10)] {
    ///     let limiter = tenants.get(tenant).or_else(|_| tenants.get("default"))?;
    ///     let limiter = limiter.expect("neither is off");
    ///     assert_eq!(limiter.peek(tenant).run()?.remaining(), amount);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, name: &str) -> Result<Option<RateLimiter<S>>, UnknownName> {
        let limiters = self.following.limiters.load();
        match limiters.get(name) {
            Some(limiter) => Ok(limiter.clone()),
            // Without a list: a tenant without limits of its own is an everyday matter.
            None => Err(UnknownName {
                name: name.into(),
                known: Vec::new(),
            }),
        }
    }

    /// Demands that there are limits of this name and that their limiter supports calls, now and
    /// after each change, as long as a clone of this is kept: another set is not accepted. One in
    /// which they are off is.
    ///
    /// `calls` is called when limits are about to change. It may read them, but must not change
    /// them; a panic counts as an error.
    ///
    /// # Errors
    ///
    /// If there are no limits of this name, or if `calls` returns an error for those in force.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_layers::limits::{LimitSet, Limits};
    /// use tollgate_memory::MemoryStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::new(LimitSet::new().with("login", ["gcra:5/1m", "ban=block:5m"])?);
    /// let limiters = limits.on(Arc::new(MemoryStore::new()));
    /// limiters.require("login", |login| login.block("any").supported())?;
    ///
    /// let error = limits.replace(LimitSet::new().with("login", ["gcra:9/1m"])?).unwrap_err();
    /// assert!(error.to_string().contains("only a limit that blocks can block a key"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn require(
        &self,
        name: &str,
        calls: impl Fn(&RateLimiter<S>) -> Result<(), StoreError> + Send + Sync + 'static,
    ) -> Result<(), NotMet> {
        let _changing = self.limits.changing();
        check(&self.limits.set(), name)?;
        let required = Required {
            name: name.into(),
            calls: Box::new(calls),
        };
        required.check(&self.following.limiters.load())?;
        lock(&self.following.required).push(required);
        let _ = self.limits.state().required.insert(name.into());
        Ok(())
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl<S> Clone for Limiters<S> {
    fn clone(&self) -> Self {
        Self {
            following: Arc::clone(&self.following),
            limits: self.limits.clone(),
        }
    }
}

impl<S> fmt::Debug for Limiters<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiters")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

type ByName<S> = HashMap<Box<str>, Option<RateLimiter<S>>>;

/// The limiters on one store.
struct Following<S> {
    limiters: ArcSwap<ByName<S>>,
    store: S,
    required: Mutex<Vec<Required<S>>>,
}

type Calls<S> = dyn Fn(&RateLimiter<S>) -> Result<(), StoreError> + Send + Sync;

/// Calls that the limiter of a name must support.
struct Required<S> {
    name: Box<str>,
    calls: Box<Calls<S>>,
}

impl<S> Required<S> {
    fn check(&self, limiters: &ByName<S>) -> Result<(), NotMet> {
        let Some(Some(limiter)) = limiters.get(&self.name) else {
            return Ok(());
        };
        let panicked =
            || StoreError::new(ErrorKind::Malformed, "what the program requires panicked");
        let calls = catch_unwind(AssertUnwindSafe(|| (self.calls)(limiter)));
        let supported = calls.unwrap_or_else(|_| Err(panicked()));
        supported.map_err(|error| NotMet::Unsupported {
            name: self.name.clone(),
            error,
        })
    }
}

trait Follow: Send + Sync {
    /// Makes the limiters of a set, and returns what puts them into force.
    fn make(self: Arc<Self>, set: &LimitSet) -> Result<Box<dyn FnOnce()>, NotMet>;
}

impl<S: Clone + Send + Sync + 'static> Follow for Following<S> {
    fn make(self: Arc<Self>, set: &LimitSet) -> Result<Box<dyn FnOnce()>, NotMet> {
        let limiters = made(set, &self.store, &self.limiters.load());
        for required in &*lock(&self.required) {
            required.check(&limiters)?;
        }
        Ok(Box::new(move || self.limiters.store(Arc::new(limiters))))
    }
}

/// Returns the limiters of a set. Those that have not changed are those before, with whoever waits
/// in their lines.
fn made<S: Clone>(set: &LimitSet, store: &S, before: &ByName<S>) -> ByName<S> {
    let limiter = |name: &str, limits: &[_]| match before.get(name) {
        Some(Some(limiter)) if limiter.limits() == limits => Some(limiter.clone()),
        // A set has only limits that a limiter can have; without any, it is switched off.
        _ => RateLimiter::new(store.clone(), limits).ok(),
    };
    let entries = set.entries.iter();
    entries
        .map(|(name, limits)| (name.clone(), limiter(name, limits)))
        .collect()
}

/// What a program requires of its limits and does not get.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotMet {
    /// There are no limits of a [required](Limits::require) name.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// The limits of a name do not support [required calls](Limiters::require).
    #[error("the limits {name:?} do not support what the program calls: {error}")]
    Unsupported {
        /// The name.
        name: Box<str>,
        /// Why calls under these limits fail.
        #[source]
        error: StoreError,
    },
}

/// The error of a name that there are no limits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownName {
    name: Box<str>,
    /// Those that there are, if that helps.
    known: Vec<Box<str>>,
}

impl UnknownName {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// How many names the error lists.
const MOST_NAMED: usize = 10;

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there are no limits called {:?}", self.name)?;
        let (named, others) = self.known.split_at(self.known.len().min(MOST_NAMED));
        if !named.is_empty() {
            write!(f, ", but {}", named.join(", "))?;
        }
        if !others.is_empty() {
            write!(f, " and {} others", others.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownName {}

//! `OwnedKey` and `OwnedKeys`: keys that outlive the caller's.

use std::iter;
use std::sync::Arc;

use tollgate_core::call::Change;
use tollgate_core::store::Check;
use tollgate_core::{Key, RateLimiter};

/// A copy of a [`Key`].
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct OwnedKey {
    partition: Box<[u8]>,
    rest: Box<[u8]>,
}

impl OwnedKey {
    pub(crate) fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self {
            partition: (*key.partition()).into(),
            rest: key.rest().into(),
        }
    }
}

/// The keys of a call.
#[derive(Clone)]
pub(crate) struct OwnedKeys {
    /// The call's own.
    main: OwnedKey,
    /// One for each limit, if they are not all `main`.
    each: Option<Arc<[OwnedKey]>>,
}

impl OwnedKeys {
    /// Returns the keys of a call for `main`, whose limits have these keys, in order.
    pub(crate) fn new<'k>(main: Key<'k>, each: impl Iterator<Item = Key<'k>> + Clone) -> Self {
        let are_same = each.clone().all(|key| key == main);
        Self {
            main: main.into(),
            each: (!are_same).then(|| each.map(OwnedKey::from).collect()),
        }
    }

    /// Returns the keys of `checks`, of which there is one at least: the first one's, as the call's own.
    pub(crate) fn of_checks(checks: &[Check<'_>]) -> Self {
        Self::new(checks[0].key(), checks.iter().map(Check::key))
    }

    /// Returns the call's own key.
    pub(crate) fn main(&self) -> Key<'_> {
        self.main.as_key()
    }

    /// Returns the same as the name of a line.
    pub(crate) fn name(&self) -> &OwnedKey {
        &self.main
    }

    /// Returns the key of each limit, or `None` if all have the call's own.
    pub(crate) fn each(&self) -> Option<&Arc<[OwnedKey]>> {
        self.each.as_ref()
    }

    /// Returns the key of the limit with this index.
    pub(crate) fn of(&self, limit: usize) -> Key<'_> {
        let own = self.each.as_ref().and_then(|each| each.get(limit));
        own.unwrap_or(&self.main).as_key()
    }

    /// Returns all keys, the call's own once and first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OwnedKey> {
        let each = self.each.iter().flat_map(|each| each.iter());
        iter::once(&self.main).chain(each.filter(|key| **key != self.main))
    }

    /// Sets the keys of `change`, a call of `limiter` for the call's own key.
    pub(crate) fn set<'l, 'k, S, A>(
        &'k self,
        limiter: &RateLimiter<S>,
        change: Change<'l, 'k, S, A>,
    ) -> Change<'l, 'k, S, A> {
        let each = self.each.iter().flat_map(|each| each.iter());
        each.zip(limiter.limits())
            .fold(change, |change, (key, limit)| {
                change.key_of(limit.name(), key.as_key())
            })
    }
}

impl From<Key<'_>> for OwnedKeys {
    fn from(key: Key<'_>) -> Self {
        let main = key.into();
        Self { main, each: None }
    }
}

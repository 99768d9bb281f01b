//! `WireStore`: a store on a server that speaks the Redis protocol.

mod decide;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(doc)]
use tollgate_core::Store;
use tollgate_core::store::{Check, Cover, Request};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};

use super::batch::Queues;
use super::codec;
use super::engine::{Engine, ScriptCall};
use super::fault::{self, Effect};
use super::keyspace::Keyspace;
use super::options::{Options, TimeSource};
use super::runner::{Runner, place, until};

/// A [`Store`] on a server that speaks the Redis protocol, through any [`Engine`].
///
/// A decision takes one round trip. If the server does not have the script, the call takes two
/// more, to load it and to run it again; it is still counted once.
///
/// The inherent methods do what the methods of [`Store`] do, but do not box their futures: a store
/// that wraps this one calls them, and boxes once.
#[derive(Debug)]
pub struct WireStore<E> {
    runner: Arc<Runner<E>>,
    queues: Queues,
    keyspace: Keyspace,
}

impl<E: Engine> WireStore<E> {
    /// Returns a store that sends its commands through `engine`.
    pub fn new(engine: E, options: Options) -> Self {
        Self {
            keyspace: Keyspace::new(&options),
            queues: Queues::new(options.batches.gap()),
            runner: Arc::new(Runner::new(engine, options)),
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        self.runner.engine()
    }

    /// Returns the options: key prefix, clock and deadline.
    pub fn options(&self) -> &Options {
        self.runner.options()
    }

    /// Returns the reply of a script, which does `effect`, to a call that never is sent with others.
    pub(super) async fn once(
        &self,
        call: &ScriptCall<'_>,
        effect: Effect,
    ) -> Result<Vec<u8>, StoreError> {
        let (engine, deadline) = (self.engine(), self.options().deadline);
        let is_out = AtomicBool::new(false);
        let work = pin!(self.runner.run(call, &is_out));
        let is_out = || is_out.load(Ordering::Relaxed);
        until(deadline, engine, effect, is_out, work).await
    }

    /// Deletes the states of `checks`, like [`Store::reset`].
    ///
    /// # Errors
    ///
    /// The same as [`Store::reset`].
    pub async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        let keys = |check: &Check<'_>| self.keyspace.both(check.limit().identity(), check.key());
        if !self.engine().is_clustered() || share_partition(checks) {
            let keys: Vec<_> = checks.iter().flat_map(keys).collect();
            return match keys.as_slice() {
                [] => Ok(()),
                keys => self.forget(keys).await,
            };
        }
        for check in checks {
            self.forget_states(check.limit().identity(), check.key())
                .await?;
        }
        Ok(())
    }

    /// Returns an error if this store cannot decide `request`, like [`Store::supports`].
    ///
    /// # Errors
    ///
    /// Same as [`Store::supports`].
    pub fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let (_, request) = request.split_id()?;
        request.validate_operation()?;
        self.can_send(&request)
    }

    /// Returns an error if no script decides this operation, or not under these limits together.
    fn can_send(&self, request: &Request<'_>) -> Result<(), StoreError> {
        if codec::operation_number(request.operation()).is_none() {
            return Err(fault::unknown_operation());
        }
        if self.engine().is_clustered() && !share_partition(request.checks()) {
            return Err(StoreError::new(
                ErrorKind::Unsupported,
                "a cluster can only decide keys of one hash slot together: give the keys of one \
                 request the same partition (`Key::new(tenant).with_rest(...)`), or check them \
                 separately",
            ));
        }
        Ok(())
    }

    /// Returns the key of the state of `identity` for `key` that is decided at `instant`.
    pub(super) fn state_key(
        &self,
        identity: &str,
        key: Key<'_>,
        instant: Option<Timestamp>,
    ) -> Vec<u8> {
        self.keyspace.one(identity, key, instant.is_some())
    }

    /// Returns the instant to decide at, or `None` for the server's clock.
    pub(super) fn instant(
        &self,
        caller: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, StoreError> {
        match (caller, self.options().clock) {
            (Some(instant), _) => Ok(Some(instant)),
            (None, TimeSource::Server) => Ok(None),
            (None, TimeSource::Caller) => self.here().map(Some),
        }
    }

    /// Returns the instant by this machine's clock.
    fn here(&self) -> Result<Timestamp, StoreError> {
        Timestamp::try_from(self.engine().now()).map_err(|error| {
            let message = "this machine's clock is out of range: set it";
            StoreError::new(ErrorKind::Misconfigured, message).with_source(error)
        })
    }

    /// Returns the periods that a server needs to decide `request` at a caller's `instant` or, if there is
    /// none, at about the time of this machine's clock.
    pub(super) fn cover(
        &self,
        request: &Request<'_>,
        instant: Option<Timestamp>,
    ) -> Option<Box<Cover>> {
        let around = || {
            instant
                .or_else(|| self.here().ok())
                .unwrap_or(Timestamp::UNIX_EPOCH)
        };
        request
            .needs_cover()
            .then(|| Box::new(request.cover(around())))
    }

    /// Deletes the states of `identity` for `key`.
    pub(super) async fn forget_states(
        &self,
        identity: &str,
        key: Key<'_>,
    ) -> Result<(), StoreError> {
        self.forget(&self.keyspace.both(identity, key)).await
    }

    /// Deletes `keys`, which are in one hash slot.
    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), StoreError> {
        let (engine, deadline) = (self.engine(), self.options().deadline);
        let is_out = AtomicBool::new(false);
        let work = pin!(async {
            let _place = place(engine, deadline).await?;
            is_out.store(true, Ordering::Relaxed);
            let forgotten = engine.forget(keys).await;
            forgotten.map_err(|failure| failure.redacted(keys))
        });
        let is_out = || is_out.load(Ordering::Relaxed);
        until(deadline, engine, Effect::Forgets, is_out, work).await
    }
}

crate::__decides!(WireStore<E: Engine>);
crate::__plans_and_leases!(WireStore<E: Engine>);

fn share_partition(checks: &[Check<'_>]) -> bool {
    checks
        .windows(2)
        .all(|pair| pair[0].key().partition() == pair[1].key().partition())
}

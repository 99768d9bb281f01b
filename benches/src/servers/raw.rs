//! The subjects: commands by hand, scripts by hand, and decisions through the library.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{RateLimiter, Store};

use super::capture::Sent;
use super::clients::Client;
use super::keys::Keys;
use super::run::Subject;
use crate::Problem;

/// `PING`: the cost of a round trip.
pub(crate) struct Ping<C>(pub(crate) C);

impl<C: Client> Subject for Ping<C> {
    async fn call(&self, _turn: usize) -> Result<bool, Problem> {
        self.0.ping().await?;
        Ok(true)
    }
}

/// `INCR`: the cost of a write.
pub(crate) struct Increment<C> {
    pub(crate) client: C,
    pub(crate) keys: Arc<Keys>,
}

impl<C: Client> Subject for Increment<C> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        self.client.increment(self.keys.name(turn)).await?;
        Ok(true)
    }
}

/// `EVALSHA` of `return 1`: the cost of a script.
pub(crate) struct Nothing<C> {
    pub(crate) client: C,
    pub(crate) sha1: String,
}

impl<C: Client> Subject for Nothing<C> {
    async fn call(&self, _turn: usize) -> Result<bool, Problem> {
        self.client.script(&self.sha1).await?;
        Ok(true)
    }
}

/// `MULTI`, `INCR`, `PEXPIRE NX`, `EXEC`: the fixed window as many programs implement it.
pub(crate) struct Transaction<C> {
    pub(crate) client: C,
    pub(crate) keys: Arc<Keys>,
}

impl<C: Client> Subject for Transaction<C> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        // Other keys than those of `INCR`, which never expire.
        let key = format!("multi:{}", self.keys.name(turn));
        self.client.transaction(&key).await?;
        Ok(true)
    }
}

/// The library's script calls, sent by hand.
pub(crate) struct ByHand<C> {
    pub(crate) client: C,
    /// The call of each key, and for schedules a second one of each, in turn.
    pub(crate) sent: Vec<Sent>,
    pub(crate) keys: Arc<Keys>,
    /// The first byte of the reply to a call that is allowed.
    pub(crate) allowed: u8,
}

impl<C: Client> Subject for ByHand<C> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let rounds = self.sent.len() / self.keys.names().len();
        let round = turn / self.keys.names().len() % rounds;
        let sent = &self.sent[round * self.keys.names().len() + self.keys.place(turn)];
        let reply = self.client.send(sent).await?;
        Ok(reply.first() == Some(&self.allowed))
    }
}

/// A decision through the library.
pub(crate) struct Decides<S> {
    pub(crate) limiter: RateLimiter<S>,
    pub(crate) cost: u64,
    /// The longest delay to accept, if calls are reserved.
    pub(crate) within: Option<Duration>,
    pub(crate) keys: Arc<Keys>,
}

impl<S: Store + 'static> Subject for Decides<S> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let name = self.keys.name(turn);
        let decision = match self.within {
            Some(within) => {
                let call = self.limiter.reserve(name).cost(self.cost);
                call.within(within).await?
            }
            None => self.limiter.check(name).cost(self.cost).await?,
        };
        Ok(std::hint::black_box(&decision).is_allowed())
    }
}

//! The subjects: commands by hand, and decisions through the library.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{RateLimiter, Store};

use super::clients::Client;
use super::keys::Keys;
use super::run::Subject;
use crate::Problem;

/// A command by hand.
pub(crate) struct Command<C> {
    pub(crate) client: C,
    pub(crate) what: What,
    pub(crate) keys: Arc<Keys>,
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    /// `PING`: the cost of a round trip.
    Ping,
    /// `INCR`: the cost of a write.
    Increment,
    /// `EVALSHA` of `return 1`: the cost of a script.
    Script,
    /// `MULTI`, `INCR`, `PEXPIRE NX`, `EXEC`: the fixed window as many programs implement it.
    Transaction,
}

/// A script that does nothing, and its hash.
pub(crate) const NOTHING: [&str; 2] = ["return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"];

impl<C: Client> Subject for Command<C> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let key = self.keys.name(turn);
        match self.what {
            What::Ping => self.client.send("PING", &[]).await?,
            What::Increment => self.client.send("INCR", &[key]).await?,
            What::Script => self.client.send("EVALSHA", &[NOTHING[1], "0"]).await?,
            What::Transaction => {
                // Other keys than those of `INCR`, which never expire.
                self.client.transaction(&format!("multi:{key}")).await?;
            }
        }
        Ok(true)
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

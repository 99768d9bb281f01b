//! Captures what the library sends for a call, so that it can be sent by hand.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tollgate_core::schedule::{self, Schedule};
use tollgate_core::{Limit, RateLimiter};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

use crate::Problem;

/// A script call: text, hash, keys and argument.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) text: String,
    pub(crate) sha1: String,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) argument: Vec<u8>,
}

/// Returns what a store with `options` sends for a call of `cost` on `limits`, or a reservation `within` a delay, for each key in
/// `names`.
pub(crate) async fn sent(
    options: &Options,
    limits: &[Limit],
    cost: u64,
    within: Option<Duration>,
    names: &[String],
) -> Result<Vec<Sent>, Problem> {
    let store = WireStore::new(Capture::default(), options.clone());
    let limiter = RateLimiter::new(store, limits.iter().cloned())?;
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        // The call fails, because there is no server.
        let name = name.as_str();
        let _ = match within {
            Some(within) => limiter.reserve(name).cost(cost).within(within).await,
            None => limiter.check(name).cost(cost).await,
        };
        let sent = limiter.store().engine().take();
        all.push(sent.ok_or("a store that sends nothing")?);
    }
    Ok(all)
}

/// Returns what a store with `options` sends for the call that `ask` makes of a schedule with
/// `terms`, for each key in `names`.
pub(crate) async fn sent_to_schedule<A: schedule::FromAnswer>(
    options: &Options,
    terms: &schedule::Terms,
    names: &[String],
    ask: impl for<'c> Fn(
        &'c Schedule<WireStore<Capture>>,
        &'c str,
    ) -> schedule::Call<'c, 'c, WireStore<Capture>, A>,
) -> Result<Vec<Sent>, Problem> {
    let store = WireStore::new(Capture::default(), options.clone());
    let schedule = Schedule::with_terms(store, terms.clone());
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        // The call fails, because there is no server.
        let _ = ask(&schedule, name).await;
        let sent = schedule.store().engine().take();
        all.push(sent.ok_or("a store that sends nothing")?);
    }
    Ok(all)
}

/// An engine that only stores the last call.
#[derive(Default)]
pub(crate) struct Capture(Mutex<Option<Sent>>);

impl Capture {
    fn take(&self) -> Option<Sent> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }
}

impl Engine for Capture {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(Sent {
            text: call.script().text().to_owned(),
            sha1: call.script().sha1().to_owned(),
            keys: call.keys().to_vec(),
            argument: call.argument().to_vec(),
        });
        Err(Failure::not_sent("there is no server"))
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        Err(Failure::not_sent("there is no server"))
    }

    async fn forget(&self, _keys: &[Vec<u8>]) -> Result<(), Failure> {
        Err(Failure::not_sent("there is no server"))
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn is_clustered(&self) -> bool {
        false
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_call_of_its_own() {
        let limit = Limit::new(
            "l",
            "gcra:10/1m".parse::<tollgate_core::Algorithm>().unwrap(),
        )
        .unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let sent = runtime.block_on(sent(&Options::new(), &[limit], 1, None, &names));
        let [first, second] = <[Sent; 2]>::try_from(sent.unwrap()).unwrap();
        assert_ne!(first.keys, second.keys);
        assert_eq!(first.sha1, second.sha1);
        assert_eq!(first.sha1.len(), 40);
        assert!(first.text.contains("KEYS[1]"));
        assert_eq!(first.argument, second.argument);
    }
}

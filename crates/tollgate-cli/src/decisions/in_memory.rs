//! Decides the requests of a trace in memory.

use tollgate_core::store::Verdicts;
use tollgate_core::{Algorithm, Limit, RateLimiter};
use tollgate_memory::MemoryStore;

use crate::failure::Failure;
use crate::trace::{Event, Trace};

pub(crate) fn limiter<S>(store: S, algorithms: &[Algorithm]) -> Result<RateLimiter<S>, Failure> {
    let named = |(index, &algorithm)| Limit::new(&format!("limit-{}", index + 1), algorithm);
    let limits: Result<Vec<_>, _> = algorithms.iter().enumerate().map(named).collect();
    limits
        .and_then(|limits| RateLimiter::new(store, limits))
        .map_err(Failure::Limits)
}

/// Decides every request of `trace` in order, at its own time, on a new store in memory, and calls
/// `see` with each decision.
pub(crate) fn replay_in_memory(
    trace: &Trace,
    algorithms: &[Algorithm],
    mut see: impl FnMut(&Event, &Verdicts),
) -> Result<(), Failure> {
    // Room for every key of every limit: the replay must not fail because the store is full.
    let most = trace.keys().len().saturating_mul(algorithms.len()).max(1);
    let store = MemoryStore::builder().max_keys(most).build();
    let limiter = limiter(store, algorithms)?;
    for event in trace.events() {
        let key = event.key.to_bytes();
        let decision = limiter.check(&key[..]).at(event.at).run()?;
        see(event, &decision.into_verdicts());
    }
    Ok(())
}

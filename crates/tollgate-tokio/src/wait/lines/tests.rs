//! Tests of `Lines`.

use std::iter;

use tokio::runtime::Builder;
use tollgate_core::RateLimiter;
use tollgate_memory::MemoryStore;

use super::*;
use crate::queue::Class;

fn shared(limiter: &RateLimiter<MemoryStore>) -> &Shared {
    limiter.companion(Shared::default)
}

fn lines(limiter: &RateLimiter<MemoryStore>) -> usize {
    lock(&shared(limiter).0.lines).len()
}

/// Returns one key, and two of which the limit has the second.
fn keys() -> [OwnedKeys; 2] {
    let [alice, bob] = ["alice", "bob"].map(Key::from);
    [alice, bob].map(|of_limit| OwnedKeys::new(alice, iter::once(of_limit)))
}

/// Lets one call start, and another one leave that has reserved a later start.
async fn give_up(limiter: &RateLimiter<MemoryStore>, keys: &OwnedKeys) {
    let caller = Caller::new(limiter.clone(), keys.clone(), 1, Class::default());
    let patience = Patience::new(Duration::MAX, None);
    for _ in 0..2 {
        let place = shared(limiter).enter(&caller, patience).unwrap();
        while let Turn::Ask(operation) = place.turn() {
            if place.ask(operation).await.unwrap().is_some() {
                break;
            }
        }
    }
}

#[test]
fn a_line_ends_with_the_runtime_that_would_remove_it() {
    let limiter = RateLimiter::new(MemoryStore::new(), ["l=gcra:100/1s,burst=1"]).unwrap();
    let runtime = || {
        Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    for keys in keys() {
        let first = runtime();
        first.block_on(async {
            give_up(&limiter, &keys).await;
            sleep_until(Instant::now() + Duration::from_secs(1)).await;
        });
        assert_eq!(
            lines(&limiter),
            keys.all().count(),
            "remembered for some seconds"
        );
        drop(first);
        assert_eq!(lines(&limiter), 0);
        runtime().block_on(async {
            give_up(&limiter, &keys).await;
            sleep_until(Instant::now() + Duration::from_secs(20)).await;
        });
        assert_eq!(lines(&limiter), 0);
    }
}

#[test]
fn no_line_is_kept_for_a_call_that_is_refused_as_it_enters() {
    let limiter = RateLimiter::new(MemoryStore::new(), ["l=gcra:100/1s,burst=1"]).unwrap();
    Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(async {
            let refused = |of: OwnedKeys| [(of.clone(), 2, None), (of, 1, Some(0))];
            for (keys, cost, most) in keys().into_iter().flat_map(refused) {
                let caller = Caller::new(limiter.clone(), keys, cost, Class::default());
                let patience = Patience::new(Duration::MAX, most);
                assert!(shared(&limiter).enter(&caller, patience).is_err());
                assert_eq!(lines(&limiter), 0);
            }
        });
}

//! Tests of `Lines`.

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

/// Lets one call start, and another one leave that has reserved a later start.
async fn give_up(limiter: &RateLimiter<MemoryStore>) {
    let caller = Caller::new(
        limiter.clone(),
        OwnedKeys::from(Key::from("alice")),
        1,
        Class::default(),
    );
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
    let first = runtime();
    first.block_on(async {
        give_up(&limiter).await;
        sleep_until(Instant::now() + Duration::from_secs(1)).await;
    });
    assert_eq!(lines(&limiter), 1, "it is remembered for some seconds");
    drop(first);
    assert_eq!(lines(&limiter), 0);
    runtime().block_on(async {
        give_up(&limiter).await;
        sleep_until(Instant::now() + Duration::from_secs(20)).await;
    });
    assert_eq!(lines(&limiter), 0);
}

#[test]
fn no_line_is_kept_for_a_call_that_is_refused_as_it_enters() {
    let limiter = RateLimiter::new(MemoryStore::new(), ["l=gcra:100/1s,burst=1"]).unwrap();
    Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(async {
            for (cost, most) in [(2, None), (1, Some(0))] {
                let caller = Caller::new(
                    limiter.clone(),
                    OwnedKeys::from(Key::from("alice")),
                    cost,
                    Class::default(),
                );
                let patience = Patience::new(Duration::MAX, most);
                assert!(shared(&limiter).enter(&caller, patience).is_err());
                assert_eq!(lines(&limiter), 0);
            }
        });
}

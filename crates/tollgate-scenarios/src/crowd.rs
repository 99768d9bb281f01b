//! Far more calls at once than may be in flight.

use std::sync::Arc;

use tokio::task::{JoinSet, block_in_place};
use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_testkit::Server;

/// How many calls a store may have in flight.
const PLACES: u64 = 4_096;
const CALLS: u64 = 2 * PLACES;

/// Makes many calls at once while `server` hangs, and checks that those which found no place among
/// the calls in flight are known not to have been sent, and say so.
///
/// The store must send each call by itself. Its deadline must be so long that all calls are made
/// within half of it: those that are later get the places of those that time out.
pub async fn finds_places_or_is_not_sent(store: Arc<dyn Store>, server: &Server) {
    let limiter =
        Arc::new(RateLimiter::new(store, ["all=fixed-window:1000000/1h,anchored"]).unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());
    block_in_place(|| server.pause());
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let limiter = Arc::clone(&limiter);
        calls.spawn(async move { limiter.check("key").await.map(|_| ()) });
    }
    let (mut unknown, mut unsent) = (0, 0);
    for outcome in calls.join_all().await {
        let error = outcome.unwrap_err();
        match error.kind() {
            ErrorKind::Unknown => unknown += 1,
            ErrorKind::Unavailable => {
                let text = error.to_string();
                assert!(text.contains("too many calls are in flight"), "{text}");
                unsent += 1;
            }
            _ => panic!("{error}"),
        }
    }
    assert!(unknown <= PLACES, "{unknown} unknown, {unsent} not sent");
    block_in_place(|| server.resume());
    let left = limiter.peek("key").await.unwrap().remaining();
    let counted = 1_000_000 - 1 - left;
    assert!(counted <= unknown, "{counted} were counted of {unknown}");
}

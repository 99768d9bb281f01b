//! What calls take and return, by the names that this crate exports: a program needs no other.

use std::time::Duration;

use tollgate_memory::call::{self, Call, Change, Left};
use tollgate_memory::lease::{self, ConcurrencyLimiter, Occupancy};
use tollgate_memory::schedule::{self, BatchPlacement, Event, MAX_EVENTS_PER_CALL, Schedule};
use tollgate_memory::store::{Check, Consumed, MAX_EXACT, Request};
use tollgate_memory::{
    Decision, ErrorKind, Gcra, Limit, MemoryStore, Quota, RateLimiter, Receipt, Timestamp,
};

#[test]
fn limits_need_no_other_crate() {
    let limit = Limit::new("a", Gcra::new(Quota::per_minute(3)).unwrap()).unwrap();
    let limiter = RateLimiter::new(MemoryStore::new(), [limit]).unwrap();
    let call: Call<'_, '_, _, call::Check> = limiter.check("k");
    let decision: Decision<'_> = call.run().unwrap();
    let receipt: Receipt = decision.into_receipt().unwrap();
    let consumed: &[Consumed] = receipt.consumed();
    assert_eq!(consumed[0].cost(), 1);
    let refund: Change<'_, '_, _, call::Refund> = limiter.refund("k", receipt);
    let refunded: Left<'_> = refund.run().unwrap();
    assert_eq!(refunded.remaining(), 3);
    let reserve: Call<'_, '_, _, call::Reserve> = limiter.reserve("k");
    assert!(reserve.within(Duration::ZERO).run().unwrap().is_allowed());
    let reset: Change<'_, '_, _, ()> = limiter.reset("k");
    reset.run().unwrap();
    let request: Request<'_> = limiter.peek("k").into_request().unwrap();
    let checks: &[Check<'_>] = request.checks();
    assert_eq!(checks.len(), 1);
}

#[test]
fn leases_and_schedules_need_no_other_crate() {
    let (store, second) = (MemoryStore::new(), Duration::from_secs(1));
    let places = ConcurrencyLimiter::new(&store, "b", 1, second).unwrap();
    let peek: lease::Call<'_, '_, _, Occupancy> = places.peek("k");
    assert_eq!(peek.run().unwrap().remaining(), 1);
    let reset: lease::Reset<'_, '_, _> = places.reset("k");
    reset.run().unwrap();
    let schedule = Schedule::new(&store, "c", ["1/1m"]).unwrap();
    let end = Timestamp::from_micros(MAX_EXACT).unwrap();
    let ids: Vec<String> = (0..=MAX_EVENTS_PER_CALL).map(|id| id.to_string()).collect();
    let events = ids.iter().map(|id| Event::new(id, end));
    let add: schedule::Call<'_, '_, _, BatchPlacement> = schedule.add_all("k", events);
    assert_eq!(add.run().unwrap_err().kind(), ErrorKind::Malformed);
    let reset: schedule::Reset<'_, '_, _> = schedule.reset("k");
    reset.run().unwrap();
}

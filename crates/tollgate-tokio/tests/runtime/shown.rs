//! What is printed for people shows settings and results, and no keys.

use std::fmt::Debug;
use std::future::ready;

use futures_util::stream;
use tollgate_core::RateLimiter;
use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_memory::MemoryStore;
use tollgate_tokio::meter::SettleGuard;
use tollgate_tokio::pace::Pace;
use tollgate_tokio::{LeaseGuard, Outbound, WaitUpTo};

use crate::waiting::{MINUTE, Remote, SECOND};

const KEY: &str = "alice@example.com";

#[track_caller]
fn shows(value: &impl Debug, expected: &str) {
    let shown = format!("{value:?}");
    assert_eq!(shown, expected);
    assert!(!shown.contains("alice"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_and_streams_show_their_limits_and_no_key() {
    let limiter = RateLimiter::new(Remote::new(), ["l=gcra:9/1s"]).unwrap();
    let paced = stream::iter([1, 2]).pace(&limiter, KEY).wait_up_to(MINUTE);
    shows(
        &paced,
        "Paced { stream: Iter { iter: IntoIter([1, 2]) }, \
         limiter: RateLimiter { limits: [Limit(l=gcra:9/1s)], .. }, longest: 60s, .. }",
    );
    let receipt = limiter.check(KEY).cost(5).await.unwrap().into_receipt();
    let metered = stream::iter([1_u64, 2]);
    let guard = SettleGuard::new(&limiter, KEY, receipt.unwrap());
    shows(
        &guard,
        "SettleGuard { limiter: RateLimiter { limits: [Limit(l=gcra:9/1s)], .. }, cost: 0, .. }",
    );
    let metered = guard.meter_by(metered, |&size, used| used.add(size));
    shows(
        &metered,
        "Metered { stream: Iter { iter: IntoIter([1, 2]) }, \
         limiter: RateLimiter { limits: [Limit(l=gcra:9/1s)], .. }, cost: 0, .. }",
    );
    let call = limiter.check(KEY);
    shows(
        &call.cost(5).wait_up_to(MINUTE),
        "Waiting { limiter: RateLimiter { limits: [Limit(l=gcra:9/1s)], .. }, \
         cost: Ok(Same(5)), longest: 60s, most: None, urgency: 3, .. }",
    );
}

#[tokio::test(start_paused = true)]
async fn outbound_calls_show_their_limits_and_no_key() {
    let builder = || {
        let builder = Outbound::builder(Remote::new(), ["api=gcra:9/1s"]);
        builder.margin(SECOND).permit_age(MINUTE).keep_for_urgent(2)
    };
    shows(
        &builder(),
        "OutboundBuilder { limits: Ok([Limit(api=gcra:9/1s)]), margin: 1s, \
         permit_age: Some(60s), kept_for_urgent: 2, .. }",
    );
    let outbound = builder().build().unwrap();
    let shown = "Outbound { limits: [Limit(api=gcra:9/1s), \
                 Limit(api-paused=block:1s,doublings=6)], margin: 1s, .. }";
    shows(&outbound, shown);
    shows(
        &outbound.call(KEY).cost(3).background().wait_up_to(MINUTE),
        &format!(
            "OutboundCall {{ outbound: {shown}, key: Named {{ all: Key(17 + 0 bytes), named: [] }}, \
             cost: Named {{ all: 3, named: [] }}, urgency: 7, longest: 60s, most: None }}"
        ),
    );
    let permit = outbound.call(KEY).await.unwrap();
    let verdicts = permit.verdicts();
    let said = format!("Permit {{ outbound: {shown}, verdicts: {verdicts:?}, age: 0ns, .. }}");
    shows(&permit, &said);
}

#[tokio::test(start_paused = true)]
async fn leases_show_where_they_stand_and_neither_key_nor_id() {
    let limiter = ConcurrencyLimiter::new(MemoryStore::new(), "uploads", 3, MINUTE).unwrap();
    let acquire = LeaseGuard::acquire(&limiter, KEY).weight(2);
    let said = "Acquire { limiter: \"uploads\", key: Key(17 + 0 bytes), weight: 2 }";
    shows(&acquire, said);
    let guard = acquire.await.unwrap().unwrap();
    let (lease, deadline) = (guard.lease(), guard.deadline().unwrap());
    let said = format!("LeaseGuard {{ lease: {lease:?}, standing: Held({deadline:?}), .. }}");
    shows(&guard, &said);
    limiter.reset(KEY).await.unwrap();
    guard.lost().await;
    let said = format!("LeaseGuard {{ lease: {lease:?}, standing: Lost, .. }}");
    shows(&guard, &said);
    let lost = guard.protect(ready(())).await.unwrap_err();
    assert_eq!(
        lost.to_string(),
        "the lease was lost: it was not renewed in time, or it was reset; acquire a new one and \
         start over"
    );
}

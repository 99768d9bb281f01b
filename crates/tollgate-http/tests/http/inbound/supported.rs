//! What a layer says before a request comes, and the time zones that requests bring.

use std::convert::Infallible;
use std::num::NonZeroU64;

use async_trait::async_trait;
use http::HeaderName;
use jiff::tz::TimeZone;
use tollgate_core::store::{Checks, Operation, Request as Question, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
use tollgate_http::inbound::{ClientIp, InboundLayer, KeyBy, OnStoreFailure, Policy};
use tollgate_memory::MemoryStore;

use super::support::*;

/// A store that supports what `refuses` does not hold for.
struct Partly {
    store: MemoryStore,
    refuses: fn(&Question<'_>) -> bool,
}

impl Partly {
    fn refusing(refuses: fn(&Question<'_>) -> bool) -> Self {
        let store = MemoryStore::new();
        Self { store, refuses }
    }
}

#[async_trait]
impl Store for Partly {
    async fn decide<'a>(&'a self, request: Question<'a>) -> Result<Verdicts, StoreError> {
        self.supports(&request)?;
        self.store.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Question<'a>) -> Result<(), StoreError> {
        match (self.refuses)(request) {
            true => Err(StoreError::new(ErrorKind::Unsupported, "refused")),
            false => self.store.supports(request),
        }
    }
}

/// What a store without scripts refuses.
fn settles(request: &Question<'_>) -> bool {
    let operation = request.operation();
    matches!(operation, Operation::Settle(_) | Operation::Charge)
}

/// What a cluster refuses.
fn has_several_partitions(request: &Question<'_>) -> bool {
    let mut partitions = request.checks().windows(2);
    partitions.any(|two| two[0].key().partition() != two[1].key().partition())
}

#[tokio::test]
async fn a_policy_that_can_never_be_settled_is_found_before_a_request_comes() {
    let layer = |policy: Policy| {
        InboundLayer::new(
            limiter(Partly::refusing(settles), ["a=sliding-log:9/1m"]),
            by_user(),
        )
        .also(["b=sliding-log:9/1m"], policy)
        .unwrap()
    };
    let policy = || Policy::new(by_user());
    assert!(layer(policy()).supported().is_ok());
    // What is only looked at is charged, not settled.
    let charges = |request: &Question<'_>| matches!(request.operation(), Operation::Settle(_));
    let limiter = limiter(Partly::refusing(charges), ["a=sliding-log:9/1m"]);
    let looks = InboundLayer::new(limiter, policy().count_if(|_| true));
    assert!(looks.supported().is_ok());
    for settling in [
        policy().settle(|_| Some(0)),
        policy().settle_by_handler(),
        policy().settle_by_bytes(NonZeroU64::MIN),
        policy().count_if(|_| true),
        policy().ban_after(1, "ban=block:1h").unwrap(),
    ] {
        let error = layer(settling).supported().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn policies_whose_keys_never_share_a_slot_are_found_before_a_request_comes() {
    let header = |name| KeyBy::header(HeaderName::from_static(name));
    let address = || KeyBy::client_ip(ClientIp::peer());
    let network = || KeyBy::client_ip(ClientIp::peer().ipv6_prefix(48));
    for (one, other, may_share) in [
        (address(), network(), true),
        (address(), by_user(), true),
        (header("a"), header("a"), true),
        (header("a").and(address()), header("a"), true),
        (header("a").or(address()), address(), true),
        (address(), address().and(header("a")), true),
        (address(), header("a"), false),
        (header("a"), header("b"), false),
        (header("a").and(address()), address(), false),
        (header("a"), address().or(header("b")), false),
    ] {
        let shown = format!("{one:?} and {other:?}");
        let limiter = limiter(Partly::refusing(has_several_partitions), ["a=gcra:9/1s"]);
        let layer = InboundLayer::new(limiter, one);
        let layer = layer.also(["b=gcra:9/1s"], other).unwrap();
        let supported = layer.supported().map_err(|error| error.kind());
        let expected = if may_share {
            Ok(())
        } else {
            Err(ErrorKind::Unsupported)
        };
        assert_eq!(supported, expected, "{shown}");
    }
}

/// What only a request would show, the limits of a limiter that is chosen for it show before.
#[tokio::test]
async fn a_layer_by_limiter_says_which_limiters_it_can_be_given() {
    let chosen = |name: &str| limiter((), [format!("{name}=gcra:9/1s")]);
    let by_limiter = |policy: Policy| {
        InboundLayer::by_limiter(store().0, policy, move |parts| {
            let name = parts.headers["name"].to_str().unwrap();
            Ok::<Option<RateLimiter<()>>, Infallible>(Some(chosen(name)))
        })
    };
    let also = by_limiter(by_user().into()).also(["a=gcra:9/1s"], by_user());
    let bans = Policy::new(by_user()).ban_after(1, "a=block:1h");
    for layer in [also.unwrap(), by_limiter(bans.unwrap())] {
        assert!(layer.supported().is_ok());
        for (name, status, expected) in [("b", 200, Ok(())), ("a", 500, Err(ErrorKind::Malformed))]
        {
            let request = with(request("alice"), &[("name", name)]);
            assert_eq!(send(&layer, request).await.status, status);
            let supported = layer.supported_with(&chosen(name));
            let kind = supported.map_err(|error| {
                assert!(error.to_string().contains("`a`") || error.to_string().contains("\"a\""));
                error.kind()
            });
            assert_eq!(kind, expected);
        }
    }
}

const MONTH: [&str; 2] = ["a=gcra:9/1s", "bill=fixed-window:2/month@local,day=local"];

/// Counts by the zone in the header `zone`; a word that is none has no name.
fn in_zones() -> Policy {
    let by_day = Policy::new(by_user()).day(|parts| {
        let day = parts.headers.get("day");
        day.map_or(Some(31), |day| day.to_str().ok()?.parse().ok())
    });
    by_day.zone(|parts| {
        let name = parts.headers.get("zone")?.to_str().ok()?;
        Some(TimeZone::get(name).unwrap_or_else(|_| TimeZone::fixed(jiff::tz::offset(1))))
    })
}

fn from_zone(zone: &str) -> http::Request<Body> {
    with(request("alice"), &[("zone", zone)])
}

#[tokio::test]
async fn a_request_counts_in_the_zone_that_it_brings() {
    let plans = [("only", MONTH)];
    let by_limiter = InboundLayer::by_limiter(store().0, in_zones(), |_| {
        Ok::<_, Infallible>(Some(limiter((), MONTH)))
    });
    for layer in [
        InboundLayer::new(limiter(store().0, MONTH), in_zones()),
        InboundLayer::by_plan(store().0, plans, in_zones(), |_| Some("only")).unwrap(),
        by_limiter,
    ] {
        assert!(layer.supported().is_ok());
        for zone in ["Europe/Berlin", "Pacific/Kiritimati"] {
            for status in [200, 200, 429] {
                let answer = send(&layer, from_zone(zone)).await;
                assert_eq!(answer.status, status, "{zone}");
                let policy = answer.header("ratelimit-policy");
                assert_eq!(policy, r#""a";q=9;w=1, "bill";q=2;w=2678400"#);
            }
        }
    }
}

#[tokio::test]
async fn without_a_zone_that_has_a_name_a_request_is_refused_and_asks_nobody() {
    let refuses = |_: &Question<'_>| panic!("the store was asked");
    let layer = InboundLayer::new(limiter(Partly::refusing(refuses), MONTH), in_zones());
    let layer = layer.on_store_failure(OnStoreFailure::Allow);
    let on_day = |day| with(from_zone("Europe/Berlin"), &[("day", day)]);
    for request in [
        request("alice"),
        from_zone("Europe/Atlantis"),
        on_day("32"),
        on_day("first"),
    ] {
        assert_eq!(send(&layer, request).await.status, 500);
    }
    // Without the function, it is known before.
    let layer = InboundLayer::new(limiter(store().0, MONTH), by_user());
    let error = layer.supported().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(send(&layer, from_zone("Europe/Berlin")).await.status, 500);
    // It is not needed by the limits of another policy.
    let layer = InboundLayer::new(limiter(store().0, ["a=gcra:9/1s"]), by_user());
    let layer = layer.also(["bill=fixed-window:2/month@local"], in_zones());
    let layer = layer.unwrap();
    assert!(layer.supported().is_ok());
    assert_eq!(send(&layer, from_zone("Europe/Berlin")).await.status, 200);
}

//! What responses say about limits, and what a client that obeys gets.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate_core::{RateLimiter, Timestamp};
use tollgate_http::inbound::InboundLayer;
use tollgate_http::{Draft, Fields, Hints, Reset};
use tollgate_layers::Share;
use tollgate_memory::{ManualClock, MemoryStore};

use super::support::*;

/// Returns the headers of a decision at a cost, and its limiter.
fn written(fields: &Fields, limits: &[&str], costs: &[u64]) -> HeaderMap {
    let limiter = limiter(store().0, limits.iter().copied());
    let mut headers = HeaderMap::new();
    for cost in costs {
        headers.clear();
        fields.write(
            &limiter.check("alice").cost(*cost).run().unwrap(),
            &mut headers,
        );
    }
    headers
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[test]
fn each_draft_is_written_as_it_says() {
    let limits = ["minute=fixed-window:10/1m", "day=sliding-log:100/1d"];
    let headers = written(&Fields::new(), &limits, &[4]);
    // The window of a minute began 20 seconds ago.
    assert_eq!(
        text(&headers, "ratelimit"),
        r#""minute";r=6;t=40, "day";r=96;t=86400"#
    );
    let policy = r#""minute";q=10;w=60, "day";q=100;w=86400"#;
    assert_eq!(text(&headers, "ratelimit-policy"), policy);
    assert_eq!(headers.len(), 2);

    let headers = written(&Fields::new().draft(Draft::Seven), &limits, &[4]);
    assert_eq!(
        text(&headers, "ratelimit"),
        "limit=10, remaining=6, reset=40"
    );
    assert_eq!(text(&headers, "ratelimit-policy"), "10;w=60, 100;w=86400");

    let headers = written(&Fields::new().draft(Draft::Six), &limits, &[4]);
    assert_eq!(text(&headers, "ratelimit-limit"), "10");
    assert_eq!(text(&headers, "ratelimit-remaining"), "6");
    assert_eq!(text(&headers, "ratelimit-reset"), "40");
    assert_eq!(text(&headers, "ratelimit-policy"), "10;w=60, 100;w=86400");

    let headers = written(&Fields::retry_after_only(), &limits, &[4]);
    assert!(headers.is_empty());
    let headers = written(&Fields::retry_after_only(), &limits, &[4, 8]);
    assert_eq!(text(&headers, "retry-after"), "40");
    assert_eq!(headers.len(), 1);
}

/// Its units return more slowly than the limit says.
#[tokio::test]
async fn a_part_of_a_bucket_says_when_all_of_it_is_back() {
    let half = Share::new(store().0, NonZeroU32::new(2).unwrap());
    let limiter = RateLimiter::new(half, ["a=gcra:10/1m"]).unwrap();
    let mut headers = HeaderMap::new();
    Fields::new().write(&limiter.check("alice").await.unwrap(), &mut headers);
    assert_eq!(text(&headers, "ratelimit"), r#""a";r=4;t=12"#);
}

#[test]
fn x_rate_limit_is_of_the_limit_that_binds() {
    let limits = ["minute=fixed-window:10/1m", "day=fixed-window:12/1d"];
    let fields = Fields::retry_after_only().x_rate_limit(Reset::After);
    let headers = written(&fields, &limits, &[4]);
    assert_eq!(text(&headers, "x-ratelimit-limit"), "10");
    assert_eq!(text(&headers, "x-ratelimit-remaining"), "6");
    assert_eq!(text(&headers, "x-ratelimit-reset"), "40");
    let fields = Fields::retry_after_only().x_rate_limit(Reset::At);
    let headers = written(&fields, &limits, &[4]);
    assert_eq!(text(&headers, "x-ratelimit-reset"), "1700000040");
    // Both deny forever.
    let headers = written(&fields, &limits, &[4, 20]);
    assert_eq!(text(&headers, "x-ratelimit-limit"), "10");
    let headers = written(&fields, &[limits[1], limits[0]], &[4, 20]);
    assert_eq!(text(&headers, "x-ratelimit-limit"), "10");
}

#[test]
fn hidden_limits_say_only_when_to_come_back() {
    let limits = ["minute=fixed-window:10/1m", "secret=sliding-log:5/1d"];
    let fields = Fields::new().hide("secret").x_rate_limit(Reset::After);
    let headers = written(&fields, &limits, &[4]);
    assert!(!format!("{headers:?}").contains("secret"));
    assert_eq!(text(&headers, "x-ratelimit-limit"), "10");
    let headers = written(&fields, &limits, &[4, 4]);
    assert!(!format!("{headers:?}").contains("secret"));
    assert_eq!(text(&headers, "retry-after"), "86400");
}

#[test]
fn a_block_says_something_only_while_it_lasts() {
    let limiter = limiter(store().0, ["a=fixed-window:10/1m", "ban=block:5m"]);
    let write = || {
        let mut headers = HeaderMap::new();
        Fields::new().write(&limiter.check("alice").run().unwrap(), &mut headers);
        headers
    };
    let headers = write();
    assert_eq!(text(&headers, "ratelimit"), r#""a";r=9;t=40"#);
    assert_eq!(text(&headers, "ratelimit-policy"), r#""a";q=10;w=60"#);
    let _ = limiter.block("alice").run().unwrap();
    let headers = write();
    assert_eq!(text(&headers, "retry-after"), "300");
    assert!(
        text(&headers, "ratelimit").contains(r#""ban";r=0;t=300"#),
        "{headers:?}"
    );
}

#[test]
fn a_cost_that_never_fits_asks_for_no_retry() {
    let headers = written(&Fields::new(), &["a=gcra:10/1m"], &[11]);
    assert_eq!(text(&headers, "retry-after"), "");
    assert_eq!(text(&headers, "ratelimit"), r#""a";r=10;t=0"#);
}

#[test]
fn jitter_is_upwards_and_bounded() {
    let fields = Fields::retry_after_only().jitter(Duration::from_secs(30));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2_000 {
        let headers = written(&fields, &["a=fixed-window:1/1m"], &[1, 1]);
        let _ = seen.insert(text(&headers, "retry-after").parse::<u64>().unwrap());
    }
    assert!(*seen.first().unwrap() >= 40 && *seen.last().unwrap() <= 70);
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn numbers_fit_into_structured_fields() {
    let headers = written(
        &Fields::new(),
        &["a=fixed-window:9007199254740991/1d"],
        &[1],
    );
    assert_eq!(
        text(&headers, "ratelimit-policy"),
        r#""a";q=999999999999999;w=86400"#
    );
    assert!(text(&headers, "ratelimit").starts_with(r#""a";r=999999999999999;t="#));
}

#[tokio::test]
async fn the_fields_of_nested_layers_stand_beside_each_other() {
    use tower::{Layer, ServiceExt, service_fn};
    let outer = InboundLayer::new(limiter(store().0, ["outer=sliding-log:9/1m"]), by_user());
    let inner = InboundLayer::new(limiter(store().0, ["inner=sliding-log:5/1m"]), by_user());
    let service = service_fn(|_: http::Request<Body>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(Body::default()))
    });
    let service = outer.layer(inner.layer(service));
    let response = service.oneshot(request("alice")).await.unwrap();
    let hints = Hints::read(response.headers(), SystemTime::UNIX_EPOCH);
    let names: Vec<_> = hints
        .limits()
        .iter()
        .filter_map(|limit| limit.name())
        .collect();
    assert_eq!(names, ["inner", "outer"]);
    assert!(hints.limits().iter().all(|limit| limit.amount().is_some()));
}

/// What only one limit can say, the strictest of all layers says.
#[tokio::test]
async fn of_nested_layers_the_one_with_the_least_left_is_heard() {
    use tower::{Layer, ServiceExt, service_fn};
    for limits in [
        ["100/1m", "1/1m"],
        ["1/1m", "100/1m"],
        ["1/1h", "1/1m"],
        ["1/1m", "1/1h"],
    ] {
        for draft in [Draft::Six, Draft::Seven] {
            let [outer, inner] = limits.map(|limit| {
                let fields = Fields::new().draft(draft).x_rate_limit(Reset::After);
                let limiter = limiter(store().0, [format!("a=sliding-log:{limit}")]);
                InboundLayer::new(limiter, by_user()).fields(fields)
            });
            let reset = if limits.contains(&"1/1h") { 3600 } else { 60 };
            let layers = outer.layer(inner.layer(service_fn(|_: http::Request<Body>| async {
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::default()))
            })));
            for _ in 0..2 {
                let response = layers.clone().oneshot(request("alice")).await.unwrap();
                let headers = response.headers();
                assert_eq!(headers["x-ratelimit-limit"], "1");
                assert_eq!(headers["x-ratelimit-remaining"], "0");
                if response.status() == 200 {
                    assert_eq!(headers["x-ratelimit-reset"], reset.to_string());
                }
                match draft {
                    Draft::Six => assert_eq!(headers["ratelimit-remaining"], "0"),
                    _ => {
                        let said = headers["ratelimit"].to_str().unwrap();
                        assert!(said.starts_with("limit=1, remaining=0, "), "{said}");
                    }
                }
            }
        }
    }
}

/// What a client that obeys knows: how much it may use until when.
struct Client {
    left: u64,
    until: u64,
}

impl Client {
    /// Learns from a response at `now`, by an independent reader of structured fields.
    fn learn(headers: &HeaderMap, now: u64) -> Self {
        let list: List = Parser::new(text(headers, "ratelimit")).parse().unwrap();
        let mut least: Option<Self> = None;
        for entry in list {
            let ListEntry::Item(item) = entry else {
                panic!("a list in a list")
            };
            assert!(matches!(item.bare_item, BareItem::String(_)));
            let number = |name: &str| {
                let value = item.params.get(name)?.as_integer()?;
                u64::try_from(i64::from(value)).ok()
            };
            let (left, after) = (number("r").unwrap(), number("t").unwrap());
            let until = now + after * 1_000_000;
            least = Some(match least {
                Some(before) => Self {
                    left: left.min(before.left),
                    until: until.max(before.until),
                },
                None => Self { left, until },
            });
        }
        let list: List = Parser::new(text(headers, "ratelimit-policy"))
            .parse()
            .unwrap();
        assert!(!list.is_empty());
        least.unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A client that sends no more than what remains, and then waits for the time of the field, is
    /// never refused.
    #[test]
    fn a_client_that_obeys_is_never_refused(
        limits in prop::collection::vec(limit(), 1..4),
        steps in prop::collection::vec((0_u64..3, 0_u64..900_000, any::<bool>()), 1..40),
    ) {
        let clock = ManualClock::at(Timestamp::from_micros(START).unwrap());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let named = limits.iter().enumerate().map(|(index, limit)| format!("l{index}={limit}"));
        let limiter = RateLimiter::new(store, named.collect::<Vec<_>>()).unwrap();
        let mut now = START;
        let mut client: Option<Client> = None;
        for (seconds, micros, is_patient) in steps {
            now += seconds * 1_000_000 + micros;
            if let Some(client) = &client
                && client.left == 0
            {
                now = now.max(client.until);
            }
            clock.set(Timestamp::from_micros(now).unwrap());
            // What is known in advance may be used at once; otherwise one request asks.
            let known = client.as_ref().filter(|client| now < client.until);
            let many = match known {
                Some(client) if !is_patient => client.left,
                _ => 1,
            };
            let mut headers = HeaderMap::new();
            for _ in 0..many {
                let decision = limiter.check("alice").run().unwrap();
                prop_assert!(decision.is_allowed(), "{:?} after {:?}", decision, headers);
                headers.clear();
                Fields::new().write(&decision, &mut headers);
            }
            if many > 0 {
                client = Some(Client::learn(&headers, now));
            }
        }
    }

    /// `Retry-After` is as early as whole seconds allow, and never too early.
    #[test]
    fn retry_after_is_the_first_whole_second_that_is_late_enough(
        limits in prop::collection::vec(limit(), 1..4),
        waits in prop::collection::vec(0_u64..700_000, 1..30),
    ) {
        let clock = ManualClock::at(Timestamp::from_micros(START).unwrap());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let named = limits.iter().enumerate().map(|(index, limit)| format!("l{index}={limit}"));
        let limiter = RateLimiter::new(store, named.collect::<Vec<_>>()).unwrap();
        let mut now = START;
        for wait in waits {
            now += wait;
            clock.set(Timestamp::from_micros(now).unwrap());
            let decision = limiter.check("alice").run().unwrap();
            let mut headers = HeaderMap::new();
            Fields::new().write(&decision, &mut headers);
            let seconds = headers.get("retry-after").map(HeaderValue::to_str);
            let Some(seconds) = seconds else {
                prop_assert!(decision.is_allowed());
                continue;
            };
            let seconds: u64 = seconds.unwrap().parse().unwrap();
            let at = |instant: u64| {
                clock.set(Timestamp::from_micros(instant).unwrap());
                limiter.peek("alice").run().unwrap().is_allowed()
            };
            prop_assert!(seconds == 1 || !at(now + (seconds - 1) * 1_000_000));
            prop_assert!(at(now + seconds * 1_000_000));
            clock.set(Timestamp::from_micros(now).unwrap());
        }
    }

    /// What is written is read back.
    #[test]
    fn hints_read_what_fields_write(limits in prop::collection::vec(limit(), 1..4), calls in 1..9) {
        let (store, _) = store();
        let named = limits.iter().enumerate().map(|(index, limit)| format!("l{index}={limit}"));
        let limiter = RateLimiter::new(store, named.collect::<Vec<_>>()).unwrap();
        let mut headers = HeaderMap::new();
        for _ in 0..calls {
            headers.clear();
            let decision = limiter.check("alice").run().unwrap();
            Fields::new().write(&decision, &mut headers);
            let hints = Hints::read(&headers, SystemTime::UNIX_EPOCH);
            prop_assert_eq!(hints.limits().len(), decision.verdicts().len());
            for (hint, (limit, verdict)) in hints.limits().iter().zip(decision.verdicts()) {
                prop_assert_eq!(hint.name(), Some(limit.name()));
                prop_assert_eq!(hint.amount(), Some(limit.algorithm().quota().amount()));
                prop_assert_eq!(hint.remaining(), Some(verdict.remaining()));
            }
            let waits = decision.retry_after().as_secs_ceil().map(Duration::from_secs);
            prop_assert_eq!(hints.retry_after(), waits.filter(|wait| !wait.is_zero()));
        }
    }
}

#[test]
fn nothing_is_said_about_a_limit_in_shadow() {
    let limits = ["all=fixed-window:2/1m", "next=sliding-log:1/1d,shadow"];
    let headers = written(&Fields::new(), &limits, &[1, 1]);
    assert_eq!(text(&headers, "ratelimit"), r#""all";r=0;t=40"#);
    assert_eq!(text(&headers, "ratelimit-policy"), r#""all";q=2;w=60"#);
    assert_eq!(text(&headers, "retry-after"), "");
    let headers = written(&Fields::new(), &limits, &[1, 1, 1]);
    assert_eq!(text(&headers, "retry-after"), "40");
}

//! What responses say about limits, and what a client that obeys gets.

use std::iter::repeat;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use futures_util::FutureExt;
use http::HeaderMap;
use http::request::Parts;
use proptest::prelude::*;
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};
use tollgate_core::store::{Checks, Fingerprint, Operation, Request, Source, Verdict, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError, Timestamp, Wait};
use tollgate_http::Hints;
use tollgate_http::inbound::{Draft, Fields, InboundLayer, Policy, Reset};
use tollgate_layers::{DenyCache, Fallback, Share};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};
use tower::{Layer, ServiceExt, service_fn};

use super::refusals::of;
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
    let found = text(&headers, "ratelimit");
    assert_eq!(found, r#""minute";r=6;t=40, "day";r=96;t=86400"#);
    let policy = r#""minute";q=10;w=60, "day";q=100;w=86400"#;
    assert_eq!(text(&headers, "ratelimit-policy"), policy);
    assert_eq!(headers.len(), 2);

    let headers = written(&Fields::new().draft(Draft::Seven), &limits, &[4]);
    let found = text(&headers, "ratelimit");
    assert_eq!(found, "limit=10, remaining=6, reset=40");
    assert_eq!(text(&headers, "ratelimit-policy"), "10;w=60, 100;w=86400");

    let headers = written(&Fields::new().draft(Draft::Six), &limits, &[4]);
    assert_eq!(text(&headers, "ratelimit-limit"), "10");
    assert_eq!(text(&headers, "ratelimit-remaining"), "6");
    assert_eq!(text(&headers, "ratelimit-reset"), "40");
    assert_eq!(text(&headers, "ratelimit-policy"), "10;w=60, 100;w=86400");

    let headers = written(&Fields::retry_after_only(), &limits, &[4]);
    assert!(headers.is_empty());

    // The longest names and numbers.
    let limits = ["a", "b"].map(|name| format!("{name:x<64}=fixed-window:2000000000000000/3650d"));
    let headers = written(&Fields::new(), &limits.each_ref().map(|it| &**it), &[1]);
    let all = ["a", "b"].map(|name| format!(r#""{name:x<64}";r=999999999999999;t=192160000"#));
    assert_eq!(text(&headers, "ratelimit"), all.join(", "));
    let all = ["a", "b"].map(|name| format!(r#""{name:x<64}";q=999999999999999;w=315360000"#));
    assert_eq!(text(&headers, "ratelimit-policy"), all.join(", "));

    let limits = ["minute=fixed-window:10/1m", "day=sliding-log:100/1d"];
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
    let holds = text(&headers, "ratelimit").contains(r#""ban";r=0;t=300"#);
    assert!(holds, "{headers:?}");
    // Where a limit must be said, that is none.
    let mut headers = HeaderMap::new();
    let fields = Fields::new().draft(Draft::Seven).x_rate_limit(Reset::After);
    fields.write(&limiter.check("alice").run().unwrap(), &mut headers);
    let found = text(&headers, "ratelimit");
    assert_eq!(found, "limit=0, remaining=0, reset=300");
    assert_eq!(text(&headers, "x-ratelimit-limit"), "0");
}

/// No field names a time at which the same request would be allowed, or more would be left.
#[test]
fn what_is_never_allowed_asks_for_no_retry() {
    for (limit, costs, expected) in [
        ("gcra:10/1m", &[11][..], r#""a";r=10"#),
        // Others can come later.
        ("gcra:10/1m", &[1, 11], r#""a";r=9;t=6"#),
        ("fixed-window:0/1m", &[1], r#""a";r=0"#),
        ("fixed-window:0/1m", &[0], r#""a";r=0"#),
    ] {
        let limits = [&*format!("a={limit}")];
        let headers = written(&Fields::new(), &limits, costs);
        assert_eq!(text(&headers, "retry-after"), "");
        assert_eq!(text(&headers, "ratelimit"), expected);
        let said = &expected[6..];
        let (left, time) = said.split_once(";t=").unwrap_or((said, ""));
        let fields = Fields::new().draft(Draft::Six).x_rate_limit(Reset::After);
        let headers = written(&fields, &limits, costs);
        assert_eq!(text(&headers, "x-ratelimit-remaining"), left);
        assert_eq!(text(&headers, "x-ratelimit-reset"), time);
        assert_eq!(text(&headers, "ratelimit-remaining"), left);
        let never = "999999999999999";
        let time = if time.is_empty() { never } else { time };
        assert_eq!(text(&headers, "ratelimit-reset"), time);
    }
}

/// Of a limit that was not counted, nobody knows what remains.
#[test]
fn nothing_is_said_of_a_limit_that_was_not_counted() {
    let check = |store: Arc<dyn Store>, fields: &Fields, limits: &[&str], costs: &[u64]| {
        let limiter = limiter(store, limits.iter().copied());
        let mut headers = HeaderMap::new();
        for cost in costs {
            headers.clear();
            let decision = limiter.check("alice").cost(*cost);
            let decision = decision.into_future().now_or_never();
            fields.write(&decision.unwrap().unwrap(), &mut headers);
        }
        headers
    };
    let limits = ["a=fixed-window:10/1m", "b=gcra:3/1m"];
    for draft in [Draft::Six, Draft::Seven, Draft::Eleven] {
        let fields = Fields::new().draft(draft).x_rate_limit(Reset::After);
        let headers = check(Arc::new(Fallback::allow(down())), &fields, &limits, &[1]);
        // What the limits are is known.
        assert_eq!(headers.len(), 1, "{headers:?}");
        assert!(headers.contains_key("ratelimit-policy"));
        // Nor do the units in hand tell a client what it may still do.
        let headers = check(Arc::new(InHand), &fields, &limits, &[1]);
        assert_eq!(headers.len(), 1, "{headers:?}");
        assert!(headers.contains_key("ratelimit-policy"));
        // Also beside a look that the store answers, or of one that it does not.
        let stores: [Arc<dyn Store>; 2] = [Arc::new(InHand), Arc::new(Fallback::allow(down()))];
        for store in stores {
            let looks = Policy::new(by_user()).look_first();
            let layer = InboundLayer::new(limiter(store, limits), by_user());
            let layer = layer.also(["c=gcra:9/1m"], looks).unwrap();
            let layer = layer.fields(fields.clone()).unwrap();
            let answer = send(&layer, request("alice")).now_or_never().unwrap();
            assert_eq!(answer.headers.keys_len(), 1, "{answer:?}");
        }
        let zero = ["a=fixed-window:0/1m"];
        let headers = check(Arc::new(Fallback::allow(down())), &fields, &zero, &[1]);
        assert_eq!(headers.len(), 1, "{headers:?}");
    }
    // Another limiter's denial is remembered of one limit.
    let cache = || {
        let (memory, clock) = store();
        let cache: Arc<dyn Store> = Arc::new(DenyCache::new(memory).clock(clock));
        let alone = limiter(cache.clone(), ["b=gcra:3/1m"]);
        for _ in 0..4 {
            let _ = alone.check("alice").into_future().now_or_never().unwrap();
        }
        cache
    };
    let headers = check(cache(), &Fields::new(), &limits, &[1]);
    assert_eq!(text(&headers, "ratelimit"), r#""b";r=0;t=20"#);
    assert_eq!(text(&headers, "retry-after"), "20");
    // Calls of others may have used up what a remembered denial left.
    let cache = || {
        let (memory, clock) = store();
        Arc::new(DenyCache::new(memory).clock(clock))
    };
    let limit = ["a=sliding-log:5/1m"];
    let headers = check(cache(), &Fields::new(), &limit, &[3, 3, 3]);
    assert_eq!(text(&headers, "ratelimit"), r#""a";r=0;t=60"#);
    let headers = check(cache(), &Fields::new(), &limit, &[3, 6, 6]);
    assert_eq!(text(&headers, "ratelimit"), "");
}

/// Of limits that leave as little, the one is said that lasts longest, in either order.
#[test]
fn of_limits_that_leave_equally_much_the_longest_is_said() {
    let mut limits = ["minute=fixed-window:2/1m", "day=fixed-window:2/1d"];
    for _ in 0..2 {
        for costs in [&[1][..], &[1, 1], &[1, 1, 1]] {
            let fields = Fields::new().draft(Draft::Six).x_rate_limit(Reset::After);
            let headers = written(&fields, &limits, costs);
            // The day began at midnight.
            assert_eq!(text(&headers, "ratelimit-reset"), "6400");
            assert_eq!(text(&headers, "x-ratelimit-reset"), "6400");
        }
        limits.reverse();
    }
}

/// What a dear request would wait for is not what a cheap one may use.
#[test]
fn of_limits_that_deny_the_least_that_is_left_is_said() {
    let limits = ["minute=fixed-window:5/1m", "day=fixed-window:8/1d"];
    let fields = Fields::new().draft(Draft::Seven);
    let headers = written(&fields, &limits, &[4, 5]);
    let found = text(&headers, "ratelimit");
    assert_eq!(found, "limit=5, remaining=1, reset=40");
    assert_eq!(text(&headers, "retry-after"), "6400");
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
    let words = ["a=fixed-window:9007199254740991/1d"];
    let headers = written(&Fields::new(), &words, &[1]);
    let found = text(&headers, "ratelimit-policy");
    assert_eq!(found, r#""a";q=999999999999999;w=86400"#);
    assert!(text(&headers, "ratelimit").starts_with(r#""a";r=999999999999999;t="#));
    // A longer window promises less.
    let headers = written(&Fields::new(), &["a=sliding-log:2/1500ms"], &[1]);
    assert_eq!(text(&headers, "ratelimit-policy"), r#""a";q=2;w=2"#);
}

#[test]
fn the_fields_of_nested_layers_stand_beside_each_other() {
    let [outer, inner] = ["outer=sliding-log:9/1m", "inner=sliding-log:5/1m"]
        .map(|limit| InboundLayer::new(limiter(store().0, [limit]), by_user()));
    let headers = send_through([&outer, &inner], "text/plain");
    let hints = Hints::read(&headers, SystemTime::UNIX_EPOCH);
    let names = hints.limits().iter();
    let names: Vec<_> = names.filter_map(|limit| limit.name()).collect();
    assert_eq!(names, ["inner", "outer"]);
    assert!(hints.limits().iter().all(|limit| limit.amount().is_some()));
}

/// What only one limit can say, the strictest of all layers says.
#[test]
fn of_nested_layers_the_one_with_the_least_left_is_heard() {
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
                InboundLayer::new(limiter, by_user())
                    .fields(fields)
                    .unwrap()
            });
            let reset = if limits.contains(&"1/1h") { 3600 } else { 60 };
            for _ in 0..2 {
                let headers = send_through([&outer, &inner], "text/plain");
                assert_eq!(headers["x-ratelimit-limit"], "1");
                assert_eq!(headers["x-ratelimit-remaining"], "0");
                if !headers.contains_key("retry-after") {
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

/// Sends a request of Alice through two layers, with this content type.
fn send_through<S: Store + 'static>(
    [outer, inner]: [&InboundLayer<S>; 2],
    content_type: &str,
) -> HeaderMap {
    let service = service_fn(hello);
    let request = of(content_type);
    let response = outer.layer(inner.layer(service)).oneshot(request);
    let response = response.now_or_never().unwrap().unwrap();
    response.into_parts().0.headers
}

/// The outer layer has admitted what the inner one refuses, and may have nothing left.
#[test]
fn an_outer_limit_lengthens_the_wait_of_an_inner_refusal() {
    // How long more units are ahead, nobody knows.
    let ahead = limiter(
        Arc::new(InHand) as Arc<dyn Store>,
        ["outer=sliding-log:9/1h"],
    );
    let ahead = InboundLayer::new(ahead, Policy::new(by_user()).cost(|_| 3));
    let inner = limiter(store().0 as Arc<dyn Store>, ["inner=gcra:1/1s"]);
    let layers = [&ahead, &InboundLayer::new(inner, by_user())];
    let _ = send_through(layers, "text/plain");
    let headers = send_through(layers, "text/plain");
    assert_eq!(text(&headers, "retry-after"), "1");

    let zero = || by_user().into();
    let settled = |cost| {
        let of = move |is_refused| if is_refused { cost } else { 1 };
        Policy::new(by_user())
            .settle(move |head| Some(of(head.headers.contains_key("retry-after"))))
    };
    let looks = |cost| {
        let counts = |head: &http::response::Parts| head.headers.contains_key("retry-after");
        Policy::new(by_user()).cost(move |_| cost).count_if(counts)
    };
    for (outer, policy, wait) in [
        ("sliding-log:2/1h", zero(), 3_600),
        ("gcra:2/1h", zero(), 1_800),
        ("gcra:4/1h", Policy::new(by_user()).cost(|_| 2), 1_800),
        ("gcra:3/1h", zero(), 60),
        ("sliding-log:2/1h,shadow", zero(), 60),
        ("block:1h", zero(), 60),
        // What the refused request gives back is left to the next one.
        ("sliding-log:2/1h", settled(0), 60),
        ("gcra:2/1h", settled(1), 1_800),
        ("gcra:3/3h", settled(4), 10_800),
        // What only looked has been counted, or not.
        ("sliding-log:1/1h", looks(1), 3_600),
        ("sliding-log:1/1h", looks(0), 60),
        ("gcra:3/3h", looks(4), 7_200),
    ] {
        let layer =
            |limit: &str, policy: Policy| InboundLayer::new(limiter(store().0, [limit]), policy);
        let (outer, inner) = (
            layer(&format!("outer={outer}"), policy),
            layer("inner=gcra:1/1m", zero()),
        );
        let layers = [&outer, &inner];
        let _ = send_through(layers, "text/plain");
        let headers = send_through(layers, "application/grpc");
        assert_eq!(headers["retry-after"], wait.to_string(), "{outer:?}");
        assert_eq!(
            headers["grpc-retry-pushback-ms"],
            (wait * 1_000).to_string()
        );
        let details = headers["grpc-status-details-bin"].as_bytes();
        let details = BASE64_STANDARD_NO_PAD.decode(details).unwrap();
        // The last is the duration, whose first field is the seconds.
        let seconds = [128 + wait % 128, wait / 128].map(|byte| u8::try_from(byte).unwrap());
        let expected = if wait < 128 { &[60][..] } else { &seconds };
        assert!(details.ends_with(expected), "{details:x?}");
    }
}

/// The fields that a client goes by.
#[derive(Clone, Copy, Debug)]
enum Form {
    Draft(Draft),
    X(Reset),
}

const FORMS: [Form; 5] = [
    Form::Draft(Draft::Eleven),
    Form::Draft(Draft::Seven),
    Form::Draft(Draft::Six),
    Form::X(Reset::After),
    Form::X(Reset::At),
];

impl Form {
    fn fields(self) -> Fields {
        match self {
            Self::Draft(draft) => Fields::new().draft(draft),
            Self::X(reset) => Fields::retry_after_only().x_rate_limit(reset),
        }
    }

    /// Returns what is left and for how many seconds, or until when, of each limit that is said.
    fn read(self, headers: &HeaderMap) -> Vec<(u64, Option<u64>)> {
        let named = |[left, time]: [&str; 2]| {
            let number = |name| headers.get(name)?.to_str().ok()?.parse().ok();
            number(left)
                .map(|left| (left, number(time)))
                .into_iter()
                .collect()
        };
        match self {
            Self::Draft(Draft::Eleven) => {
                let list: List = Parser::new(text(headers, "ratelimit")).parse().unwrap();
                let items = list.iter().map(|entry| {
                    let ListEntry::Item(item) = entry else {
                        panic!("a list in a list")
                    };
                    assert!(matches!(item.bare_item, BareItem::String(_)));
                    let number = |name: &str| {
                        let value = item.params.get(name)?.as_integer()?;
                        u64::try_from(i64::from(value)).ok()
                    };
                    (number("r").unwrap(), number("t"))
                });
                items.collect()
            }
            Self::Draft(Draft::Seven) => {
                let said = Parser::new(text(headers, "ratelimit"));
                let said: Dictionary = said.parse().unwrap();
                let number = |name: &str| match said.get(name)? {
                    ListEntry::Item(item) => {
                        u64::try_from(i64::from(item.bare_item.as_integer()?)).ok()
                    }
                    ListEntry::InnerList(_) => None,
                };
                let left = number("remaining");
                left.map(|left| (left, number("reset")))
                    .into_iter()
                    .collect()
            }
            Self::Draft(_) => named(["ratelimit-remaining", "ratelimit-reset"]),
            Self::X(_) => named(["x-ratelimit-remaining", "x-ratelimit-reset"]),
        }
    }
}

/// A client that obeys: it knows how much it may use until when.
#[derive(Clone, Copy, Debug)]
struct Client {
    left: u64,
    /// `None` never comes.
    until: Option<u64>,
    /// The instant of `Retry-After`.
    not_before: u64,
}

impl Client {
    /// Learns from a response at `now`, unless it says nothing.
    fn learn(form: Form, headers: &HeaderMap, now: u64) -> Option<Self> {
        let said = form.read(headers);
        let until = |time: u64| match form {
            Form::X(Reset::At) => time.saturating_mul(1_000_000),
            _ => now.saturating_add(time.saturating_mul(1_000_000)),
        };
        let times: Option<Vec<u64>> = said.iter().map(|(_, time)| time.map(until)).collect();
        let wait: u64 = text(headers, "retry-after").parse().unwrap_or(0);
        Some(Self {
            left: said.iter().map(|(left, _)| *left).min()?,
            until: times.map(|times| times.into_iter().max().unwrap_or(now)),
            not_before: now + wait * 1_000_000,
        })
    }
}

/// A layer with two units of each limit in hand; it looks in the store.
#[derive(Debug)]
struct InHand;

#[async_trait]
impl Store for InHand {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let checks = request.checks().iter();
        let each = checks.map(|check| {
            let capacity = check.limit().algorithm().capacity();
            Verdict::allow(capacity, 2).with_reset_after(Wait::from_micros(60_000_000))
        });
        let source = match request.operation() {
            Operation::Peek => Source::Store,
            _ => Source::Prefetched,
        };
        Ok(Verdicts::new(Fingerprint::of(&request), each).with_source(source))
    }

    async fn reset<'a>(&'a self, _: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _: &Request<'a>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns a store that never answers.
fn down() -> FaultyStore<MemoryStore> {
    FaultyStore::new(
        MemoryStore::new(),
        repeat(Fault::Fail(ErrorKind::Unavailable)),
    )
}

/// Returns stores that answer in all ways there are, with the number of parts that each limit has.
fn stores(clock: &ManualClock) -> [(Arc<dyn Store>, u64); 4] {
    let memory = || MemoryStore::builder().clock(clock.clone()).build();
    let share = || Share::new(memory(), NonZeroU32::new(2).unwrap());
    [
        (Arc::new(memory()), 1),
        (Arc::new(DenyCache::new(memory()).clock(clock.clone())), 1),
        (Arc::new(share()), 2),
        (Arc::new(Fallback::to(down(), share())), 2),
    ]
}

fn named(limits: &[String]) -> Vec<String> {
    let named = limits.iter().enumerate();
    named
        .map(|(index, limit)| format!("l{index}={limit}"))
        .collect()
}

/// Returns the largest cost that all limits allow in one of `parts` calls that share their units.
fn largest_cost<S>(limiter: &RateLimiter<S>, parts: u64) -> u64 {
    let capacities = limiter.limits().iter();
    let capacities = capacities.map(|limit| limit.algorithm().capacity());
    capacities.min().unwrap() / parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// A client that sends no more than what remains, and then waits for the time of the field, is
    /// never refused, whatever it sent before, and whatever fields it reads.
    #[test]
    fn a_client_that_obeys_is_never_refused(
        limits in prop::collection::vec(limit(), 1..4),
        rude in 0_usize..12,
        steps in prop::collection::vec((0_u64..3, 0_u64..900_000, 1_u64..5), 1..40),
        looks in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let cost_of = |parts: &Parts| text(&parts.headers, "cost").parse().unwrap();
        let policy = Policy::new(by_user()).cost(cost_of);
        let policy = if looks { policy.count_if(|_| true) } else { policy };
        for form in FORMS {
            let clock = ManualClock::at(Timestamp::from_micros(START).unwrap());
            for (store, parts) in stores(&clock) {
                clock.set(Timestamp::from_micros(START).unwrap());
                let limiter = RateLimiter::new(store, named(&limits)).unwrap();
                let largest = largest_cost(&limiter, parts);
                if largest == 0 {
                    continue;
                }
                let layer = InboundLayer::new(limiter, policy.clone());
                let layer = layer.fields(form.fields()).unwrap();
                let mut now = START;
                let mut client: Option<Client> = None;
                for (index, (seconds, micros, cost)) in steps.iter().copied().enumerate() {
                    let mut cost = cost.min(largest);
                    // Who has to wait may send at the first instant that is late enough.
                    let is_rude = index < rude;
                    now += if is_rude { micros } else { seconds * 1_000_000 + micros };
                    if !is_rude && let Some(client) = client {
                        now = now.max(client.not_before);
                        if client.left == 0 {
                            let Some(until) = client.until else { break };
                            now = now.max(until);
                        }
                        let is_over = client.until.is_some_and(|until| now >= until);
                        cost = cost.min(client.left + u64::from(is_over)).min(largest);
                    }
                    clock.set(Timestamp::from_micros(now).unwrap());
                    let mut request = request("alice");
                    let _ = request.headers_mut().insert("cost", cost.into());
                    let answer = runtime.block_on(async {
                        let answer = send(&layer, request).await;
                        if looks {
                            settled().await;
                        }
                        answer
                    });
                    prop_assert!(
                        is_rude || client.is_none() || answer.status == 200,
                        "{form:?} {parts} {cost} {client:?} {answer:?}"
                    );
                    client = Client::learn(form, &answer.headers, now);
                    prop_assert!(client.is_some(), "{:?}", answer);
                }
            }
        }
    }

    /// So is that of a layer inside another one: when it is over, both admit the request.
    #[test]
    fn a_refusal_by_an_inner_layer_says_when_both_admit(
        limits in [limit(), limit()],
        costs in [1_u64..4, 1..4],
        passes in prop::collection::vec(0_u64..700_000, 1..30),
    ) {
        let clock = ManualClock::at(Timestamp::from_micros(START).unwrap());
        let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
        let layer = |index: usize| {
            let limit = [format!("l{index}={}", limits[index])];
            let policy = Policy::new(by_user()).cost(move |_| costs[index]);
            InboundLayer::new(limiter(Arc::clone(&store), limit), policy)
        };
        let (outer, inner) = (layer(0), layer(1));
        for pass in passes {
            clock.advance(Duration::from_micros(pass));
            let headers = send_through([&outer, &inner], "application/grpc");
            // Only the inner layer's refusals say anything of both.
            let Some(wait) = headers.get("retry-after").filter(|_| text(&headers, "ratelimit").contains("l1")) else {
                continue;
            };
            clock.advance(Duration::from_secs(wait.to_str().unwrap().parse().unwrap()));
            let headers = send_through([&outer, &inner], "application/grpc");
            prop_assert!(!headers.contains_key("retry-after"), "{:?}", headers);
        }
    }

    /// What is written is read back.
    #[test]
    fn hints_read_what_fields_write(limits in prop::collection::vec(limit(), 1..4), calls in 1..9) {
        let limiter = RateLimiter::new(store().0, named(&limits)).unwrap();
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

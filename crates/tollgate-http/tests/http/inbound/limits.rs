//! What is counted: keys, costs, plans, several policies, and what is not counted at all.

use std::convert::Infallible;
use std::iter::{repeat, repeat_n};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use http::{Method, Request, Response, StatusCode};
use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::store::{
    Check, Checks, Fingerprint, MAX_CHECKS, Request as Question, Source, Verdict, Verdicts,
};
use tollgate_core::{ErrorKind, LimitErrorKind, Store, StoreError, SyncStore, Wait};
use tollgate_http::inbound::{
    Charge, ClientIp, Decided, Draft, Fields, InboundLayer, KeyBy, OnStoreFailure, Place, Policy,
};
use tollgate_layers::limits::{LimitSet, Limits};
use tollgate_layers::{AllowAll, Fallback, Share, usual};
use tollgate_mock::{Fault, FaultyStore};
use tower::{Layer, ServiceExt, service_fn};

use super::support::*;

#[tokio::test]
async fn a_request_that_one_policy_denies_consumes_nothing_from_the_others() {
    let (store, clock) = store();
    let words = ["minute=sliding-log:2/1m", "hour=sliding-log:4/1h"];
    let limiter_of_user = limiter(store.clone(), words);
    let layer = InboundLayer::new(limiter_of_user.clone(), by_user())
        .also(
            ["all=sliding-log:100/1h"],
            ClientIp::peer().peer_by(|_| Some(ALICE.into())),
        )
        .unwrap();
    for _ in 0..2 {
        assert_eq!(send(&layer, request("alice")).await.status, 200);
    }
    for _ in 0..10 {
        assert_eq!(send(&layer, request("alice")).await.status, 429);
    }
    let left = limiter_of_user.peek("alice").run().unwrap();
    assert_eq!(left.verdict("hour").unwrap().remaining(), 2);
    let answer = send(&layer, request("bob")).await;
    let holds = answer.header("ratelimit").contains(r#""all";r=97"#);
    assert!(holds, "{answer:?}");
    clock.advance(Duration::from_secs(60));
    assert_eq!(send(&layer, request("alice")).await.status, 200);
}

#[tokio::test]
async fn limits_of_one_name_are_refused() {
    let layer = InboundLayer::new(limiter(store().0, ["a=gcra:1/1s"]), by_user());
    let twice = layer.clone().also(["a=gcra:9/1s"], by_user()).unwrap_err();
    let expected = "two limits of one layer are called \"a\": give each a name of its own";
    assert_eq!(twice.to_string(), expected);
    let both = layer
        .clone()
        .also(["b=gcra:1/1s", "b=gcra:2/1s"], by_user());
    assert!(both.is_err());
    assert!(layer.also(["b=gcra:1/1"], by_user()).is_err());
}

/// What could never work is an error when the layer is made.
#[tokio::test]
async fn a_layer_that_could_never_work_is_an_error() {
    let layer = || InboundLayer::new(limiter(store().0, ["a=gcra:1/1s"]), by_user());
    for (refusals, block, part) in [
        (0, "ban=block:1h", "1 refusal or more, not 0"),
        (3, "ban=block:1h,shadow", "not `ban=block:1h,shadow`"),
        (3, "ban=gcra:1/1h", "not `ban=gcra:1/1h`"),
        (3, "block:1h", "expected a name"),
        (u64::MAX, "ban=block:1h", "too large"),
    ] {
        let error = Policy::new(by_user()).ban_after(refusals, block);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let bans = Policy::new(by_user()).ban_after(3, "a=block:1h").unwrap();
    let twice = layer().also(["b=gcra:1/1s"], bans.clone()).unwrap_err();
    assert_eq!(twice.kind(), LimitErrorKind::Name);
    let plans = [("free", ["a=gcra:1/1s"])];
    assert!(InboundLayer::by_plan(store().0, plans, bans.clone(), |_| None).is_err());
    let new = InboundLayer::new(limiter(store().0, plans[0].1), bans);
    assert!(new.supported().unwrap_err().to_string().contains("\"a\""));

    let none: [&str; 0] = [];
    let error = layer().also(none, by_user()).unwrap_err();
    assert_eq!(error.kind(), LimitErrorKind::Count);

    let by_plan = |plans: &[(&'static str, Vec<&'static str>)]| {
        InboundLayer::by_plan(store().0, plans.to_vec(), by_user(), |_| Some("free"))
    };
    let none = by_plan(&[]).unwrap_err();
    assert!(none.to_string().contains("at least one plan"), "{none}");
    let empty = by_plan(&[("free", vec!["a=gcra:1/1s"]), ("pro", vec![])]);
    let empty = empty.unwrap_err();
    let said =
        r#"the plan "pro" needs at least one limit, such as `requests=gcra:10/1m`, or `off`"#;
    assert_eq!(empty.to_string(), said);
    // The second would silently replace the first.
    let twice = by_plan(&[("free", vec!["a=gcra:1/1s"]), ("free", vec!["a=gcra:9/1s"])]);
    let twice = twice.unwrap_err().to_string();
    assert!(twice.contains(r#"two plans are called "free""#), "{twice}");

    // A limit that nobody should hear of would be in every response.
    let hide = |name| Fields::new().hide(name);
    let typo = layer().fields(hide("b")).unwrap_err().to_string();
    let holds = typo.contains(r#"no limit of the layer is called "b""#);
    assert!(holds, "{typo}");
    let with_b = layer().also(["b=gcra:1/1s"], by_user()).unwrap();
    assert!(with_b.fields(hide("b")).is_ok());
    let plans = by_plan(&[("free", vec!["a=gcra:1/1s"]), ("pro", vec!["b=gcra:1/1s"])]).unwrap();
    assert!(plans.clone().fields(hide("b")).is_ok());
    assert!(plans.fields(hide("c")).is_err());
    // Of limits that are chosen for each request, no name is known.
    let limiter = limiter(store().0, ["a=gcra:1/1s"]);
    let by_limiter = InboundLayer::by_limiter(store().0, by_user(), move |_| {
        Ok::<_, Infallible>(Some(limiter.clone()))
    });
    assert!(by_limiter.fields(hide("b")).is_ok());
}

/// Limits that no request could ever pass are found before one comes, in whatever rule they are.
#[tokio::test]
async fn a_layer_that_no_request_could_pass_says_so_before() {
    let store = || Share::new(store().0, NonZeroU32::new(10).unwrap());
    let (enough, too_small) = ("a=sliding-log:10/1m", "b=sliding-log:9/1m");
    let layer = || InboundLayer::new(limiter(store(), [enough]), by_user());
    let plans = |pro: &'static str| {
        let plans = [("free", [enough]), ("pro", [pro])];
        InboundLayer::by_plan(store(), plans, by_user(), |_| Some("pro")).unwrap()
    };
    for layer in [layer(), plans("a=sliding-log:20/1m")] {
        assert!(layer.supported().is_ok());
        assert_eq!(send(&layer, request("alice")).await.status, 200);
    }
    let by_request = InboundLayer::by_limiter(store(), by_user(), |_| {
        Ok::<Option<tollgate_core::RateLimiter<()>>, String>(None)
    });
    for layer in [
        layer().also([too_small], by_user()).unwrap(),
        by_request.also([too_small], by_user()).unwrap(),
        layer()
            .also([too_small], Policy::new(by_user()).look_first())
            .unwrap(),
        plans(too_small),
    ] {
        let error = layer.supported().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(send(&layer, request("alice")).await.status, 500);
    }
}

#[tokio::test]
async fn a_plan_chooses_the_limits_and_keeps_what_was_counted() {
    let (store, _) = store();
    let plans = [
        ("free", ["requests=sliding-log:1/1m"]),
        ("pro", ["requests=sliding-log:3/1m"]),
        ("unlimited", ["off"]),
    ];
    let layer = InboundLayer::by_plan(store, plans, by_user(), |parts| {
        parts.headers.get("plan")?.to_str().ok()
    });
    let layer = layer.unwrap();
    let of_plan = |plan| with(request("alice"), &[("plan", plan)]);
    assert_eq!(send(&layer, of_plan("free")).await.status, 200);
    assert_eq!(send(&layer, of_plan("free")).await.status, 429);
    let answer = send(&layer, of_plan("pro")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("ratelimit-policy"), r#""requests";q=3;w=60"#);
    assert!(answer.header("ratelimit").starts_with(r#""requests";r=1;"#));
    for unknown in [of_plan("gold"), request("alice")] {
        assert_eq!(send(&layer, unknown).await.status, 500);
    }
    let mut nobody = of_plan("unlimited");
    nobody.headers_mut().remove("user");
    for unlimited in [of_plan("unlimited"), of_plan("unlimited"), nobody] {
        let answer = send(&layer, unlimited).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("ratelimit-policy"), "");
    }
}

/// Who has no limits is not asked for a key, not banned, and counted by the other policies only.
#[tokio::test]
async fn a_ban_a_look_or_a_settlement_is_of_no_matter_without_limits() {
    let bans = Policy::new(by_user()).ban_after(1, "ban=block:1h").unwrap();
    let settles = Policy::new(by_user()).settle(|_| Some(2));
    let all = Policy::new(KeyBy::function(|_| Some("all")));
    for policy in [bans.clone(), bans.look_first(), settles] {
        let off = [("off", ["off"])];
        let by_plan = InboundLayer::by_plan(store().0, off, policy.clone(), |_| Some("off"));
        let by_limiter = InboundLayer::by_limiter(store().0, policy, |_| {
            Ok::<Option<tollgate_core::RateLimiter<()>>, String>(None)
        });
        for layer in [by_plan.unwrap(), by_limiter] {
            let nobody = || Request::new(Body::default());
            let answer = send(&layer, nobody()).await;
            assert_eq!((answer.status, answer.headers.len()), (200, 0));
            for (name, all) in [("a", all.clone()), ("b", all.clone().look_first())] {
                let layer = layer.clone();
                let layer = layer.also([format!("{name}=sliding-log:1/1m")], all);
                let layer = layer.unwrap();
                assert!(layer.supported().is_ok());
                for status in [200, 429] {
                    assert_eq!(send(&layer, nobody()).await.status, status);
                }
            }
        }
    }
}

#[tokio::test]
async fn limits_change_between_two_requests() {
    let (store, _) = store();
    let set = |text: &str| LimitSet::new().with("login", [text]).unwrap();
    let limits = Limits::new(set("sliding-log:1/1m"));
    let limiters = limits.on(store.clone());
    let layer = InboundLayer::by_limiter(store.clone(), by_user(), move |parts| {
        limiters.get(parts.headers.get("plan").map_or("login", |_| "gold"))
    });
    assert_eq!(send(&layer, request("alice")).await.status, 200);
    assert_eq!(send(&layer, request("alice")).await.status, 429);
    let _ = limits.replace(set("sliding-log:3/1m")).unwrap();
    let answer = send(&layer, request("alice")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("ratelimit-policy"), r#""login";q=3;w=60"#);
    assert!(answer.header("ratelimit").starts_with(r#""login";r=1;"#));
    let _ = limits.replace(set("off")).unwrap();
    for _ in 0..9 {
        let answer = send(&layer, request("alice")).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.headers.contains_key("ratelimit"));
    }
    let unknown = with(request("alice"), &[("plan", "gold")]);
    assert_eq!(send(&layer, unknown).await.status, 500);
    // Nobody needs to say who they are, unless they take a place.
    let nobody = || Request::new(Body::default());
    assert_eq!(send(&layer, nobody()).await.status, 200);
    let places = ConcurrencyLimiter::new(store, "places", 1, Duration::from_secs(9)).unwrap();
    let held = layer.clone().hold(places.clone());
    assert_eq!(send(&held, nobody()).await.status, 401);
    let other = places.acquire("bob", "other").run().unwrap();
    assert!(other.is_granted());
    for (user, status) in [("alice", 200), ("bob", 429)] {
        assert_eq!(send(&held, request(user)).await.status, status);
    }
    // With another policy, a limit must not be there twice, nor too many.
    let all = KeyBy::function(|_| Some("all"));
    let both = layer.also(["login=gcra:9/1s"], all).unwrap();
    assert_eq!(send(&both, request("bob")).await.status, 200);
    let _ = limits.replace(set("gcra:3/1s")).unwrap();
    assert_eq!(send(&both, request("bob")).await.status, 500);
    let _ = limits.replace(set("other=gcra:3/1s")).unwrap();
    assert_eq!(send(&both, request("bob")).await.status, 200);
    let many = (0..MAX_CHECKS).map(|index| format!("l{index}=gcra:1/1s"));
    let many = LimitSet::new().with("login", many).unwrap();
    let _ = limits.replace(many).unwrap();
    assert_eq!(send(&both, request("bob")).await.status, 500);
}

#[tokio::test]
async fn costs_and_settlements_are_those_of_their_policy() {
    for store in stores() {
        let bytes = Policy::new(by_user()).cost(|_| 400);
        let bytes = bytes.settle_by_bytes(NonZeroU64::new(2).unwrap());
        let layer = InboundLayer::new(limiter(store, ["requests=sliding-log:10/1m"]), by_user());
        let layer = layer.also(["bytes=sliding-log:1000/1m"], bytes).unwrap();
        // Five bytes are three pairs.
        assert_eq!(send(&layer, request("alice")).await.status, 200);
        settled().await;
        let answer = send(&layer, request("alice")).await;
        let found = answer.header("ratelimit");
        assert_eq!(found, r#""requests";r=8;t=60, "bytes";r=597;t=60"#);
    }
}

#[tokio::test]
async fn what_is_expected_to_cost_nothing_is_settled() {
    let (store, _) = store();
    let limiter = limiter(store, ["a=sliding-log:10/1m"]);
    let policy = Policy::new(by_user())
        .cost(|_| 0)
        .settle(|head| match head.status {
            StatusCode::OK => Some(6),
            StatusCode::CREATED => Some(0),
            _ => None,
        });
    let layer = InboundLayer::new(limiter.clone(), policy);
    let answers = |status| {
        move |_| {
            let mut response = Response::new(Body::default());
            *response.status_mut() = status;
            response
        }
    };
    for (answer, status, left) in [
        (201, 201, 10),
        (200, 200, 4),
        (204, 204, 3),
        (200, 200, 0),
        (200, 429, 0),
    ] {
        let answer = answers(StatusCode::from_u16(answer).unwrap());
        let answer = send_to(&layer, request("alice"), answer).await;
        assert_eq!(answer.status, status);
        assert_eq!(limiter.peek("alice").run().unwrap().remaining(), left);
    }
}

#[tokio::test]
async fn a_handler_says_what_its_request_cost() {
    let (store, _) = store();
    let policy = Policy::new(by_user()).settle_by_handler();
    let layer = InboundLayer::new(limiter(store, ["rows=sliding-log:100/1m"]), policy);
    let charging = |cost: Option<u64>| {
        move |request: Request<Body>| {
            let charge: Charge = request.extensions().get().cloned().unwrap();
            // The last one counts.
            for cost in cost.into_iter().flat_map(|cost| [cost + 9, cost]) {
                charge.set(cost);
            }
            Response::new(Body::default())
        }
    };
    let _ = send_to(&layer, request("alice"), charging(Some(30))).await;
    let _ = send_to(&layer, request("alice"), charging(None)).await;
    let _ = send_to(&layer, request("alice"), charging(Some(0))).await;
    let answer = send_to(&layer, request("alice"), charging(Some(0))).await;
    let holds = answer.header("ratelimit").starts_with(r#""rows";r=68;"#);
    assert!(holds, "{answer:?}");
}

#[tokio::test]
async fn a_handler_says_to_all_layers_what_its_request_cost() {
    let (store, _) = store();
    let outer = limiter(store.clone(), ["outer=sliding-log:100/1m"]);
    let inner = limiter(store, ["inner=sliding-log:100/1m"]);
    let policy = Policy::new(by_user()).settle_by_handler();
    let [around, within] =
        [&outer, &inner].map(|limiter| InboundLayer::new(limiter.clone(), policy.clone()));
    let service = service_fn(|request: Request<Body>| async move {
        request.extensions().get::<Charge>().unwrap().set(30);
        Ok::<_, Infallible>(Response::new(Body::default()))
    });
    let service = around.layer(within.layer(service));
    let _ = service.oneshot(request("alice")).await.unwrap();
    for limiter in [outer, inner] {
        assert_eq!(limiter.peek("alice").run().unwrap().remaining(), 70);
    }
}

#[tokio::test]
async fn handlers_serve_requests_that_are_not_counted() {
    let client = ClientIp::peer().allow(["203.0.113.7"]).unwrap();
    let policy = Policy::new(client).settle_by_handler();
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), policy);
    let layer = layer.insert_decision();
    let handler = async |charge: Charge, decided: Option<Decided>, place: Option<Place>| {
        charge.set(3);
        format!("{} {}", decided.is_some(), place.is_some())
    };
    let app: Router = Router::new().route("/", get(handler)).layer(layer);
    for (peer, expected) in [(7, "false false"), (8, "true false")] {
        let request = request_from([203, 0, 113, peer]).map(axum::body::Body::new);
        let response = app.clone().oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 100).await;
        assert_eq!(body.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_service_that_fails_keeps_the_estimate_unless_it_was_only_looked_at() {
    let settles = Policy::new(by_user()).cost(|_| 4).settle(|_| Some(1));
    for (policy, left) in [(settles.clone(), 6), (settles.look_first(), 10)] {
        let limiter = limiter(store().0, ["a=sliding-log:10/1m"]);
        let layer = InboundLayer::new(limiter.clone(), policy);
        let fails = service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>("broken") });
        let answer = layer.layer(fails).oneshot(request("alice")).await;
        assert_eq!(answer.unwrap_err(), "broken");
        assert_eq!(limiter.peek("alice").run().unwrap().remaining(), left);
    }
}

#[tokio::test]
async fn what_is_skipped_is_not_counted() {
    let (store, _) = store();
    let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), ClientIp::peer())
        .skip(|parts| parts.uri.path() == "/health")
        .skip(|parts| parts.uri.path() == "/metrics")
        .skip_preflight();
    let to = |method: Method, path: &str, preflight: bool| {
        let headers = [("access-control-request-method", "POST")];
        let mut request = with(request_from(ALICE), &headers[..usize::from(preflight)]);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    for _ in 0..3 {
        for request in [
            to(Method::GET, "/health", false),
            to(Method::GET, "/metrics", false),
            to(Method::OPTIONS, "/", true),
        ] {
            let answer = send(&layer, request).await;
            assert_eq!((answer.status, answer.header("ratelimit").len()), (200, 0));
        }
    }
    let found = send(&layer, to(Method::OPTIONS, "/", false)).await.status;
    assert_eq!(found, 200);
    for preflight in [false, true] {
        let answer = send(&layer, to(Method::GET, "/", preflight)).await;
        assert_eq!(answer.status, 429);
    }
}

#[tokio::test]
async fn no_method_gets_around_the_limits() {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), by_user());
    for status in [200, 429] {
        let headers = [("access-control-request-method", "POST")];
        let mut request = with(request("alice"), &headers);
        *request.method_mut() = Method::OPTIONS;
        assert_eq!(send(&layer, request).await.status, status);
    }
}

#[tokio::test]
async fn a_failed_store_refuses_with_503_or_allows() {
    for kind in [
        ErrorKind::Unavailable,
        ErrorKind::Unknown,
        ErrorKind::Misconfigured,
    ] {
        let failing = || {
            let faults = [Fault::Fail(kind), Fault::Fail(kind)];
            limiter(FaultyStore::new(store().0, faults), ["a=sliding-log:1/1m"])
        };
        let layer = InboundLayer::new(failing(), by_user());
        let answer = send(&layer, request("alice")).await;
        assert_eq!(answer.status, 503);
        let said = "#temporary-reduced-capacity";
        assert!(answer.body.contains(said), "{answer:?}");
        // The error says "scheduled to fail".
        assert!(!answer.body.contains("scheduled"), "{answer:?}");
        let layer = InboundLayer::new(failing(), by_user()).on_store_failure(OnStoreFailure::Allow);
        let answer = send(&layer, request("alice")).await;
        assert_eq!((answer.status, answer.headers.len()), (200, 0));
    }
}

/// Denies as many limits as this, whatever it is asked, and has to wait or not.
struct Denies(usize, bool);

#[async_trait]
impl Store for Denies {
    async fn decide<'a>(&'a self, request: Question<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&'a self, _: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _: &Question<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        self.1.then_some(self)
    }
}

impl SyncStore for Denies {
    fn decide_now(&self, request: &Question<'_>) -> Result<Verdicts, StoreError> {
        let each = repeat_n(Verdict::deny(1, 0, Wait::from_micros(1)), self.0);
        Ok(Verdicts::new(Fingerprint::of(request), each))
    }

    fn reset_now(&self, _: &[Check<'_>]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// As for a limiter: what it said is of no use.
#[tokio::test]
async fn a_store_that_answers_for_another_number_of_limits_has_failed() {
    let bans = Policy::new(by_user()).ban_after(1, "ban=block:1h").unwrap();
    for policy in [bans.clone(), bans.look_first()] {
        for (answers, status) in [(0, 503), (1, 503), (2, 429), (3, 503)] {
            for waits in [false, true] {
                let limiter = limiter(Denies(answers, !waits), ["a=sliding-log:9/1m"]);
                let layer = InboundLayer::new(limiter, policy.clone());
                let found = send(&layer, request("alice")).await.status;
                assert_eq!(found, status, "{answers} {waits}");
            }
        }
    }
}

#[tokio::test]
async fn who_was_denied_stays_out_for_a_second_of_an_outage_if_a_cache_knows() {
    // Decides twice, and then is down.
    let failing = || {
        let down = repeat(Fault::Fail(ErrorKind::Unavailable));
        FaultyStore::new(store().0, [Fault::None; 2].into_iter().chain(down))
    };
    async fn statuses<S: Store + 'static>(store: S, does: OnStoreFailure) -> [u16; 4] {
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), by_user());
        let layer = layer.on_store_failure(does);
        let mut statuses = [0; 4];
        for (index, status) in statuses.iter_mut().enumerate() {
            if index == 3 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            *status = send(&layer, request("alice")).await.status;
        }
        statuses
    }
    let refuse = OnStoreFailure::Refuse;
    let (allow, fallback, usual) = tokio::join!(
        statuses(failing(), OnStoreFailure::Allow),
        statuses(Fallback::allow(failing()), refuse),
        statuses(usual(failing(), AllowAll), refuse),
    );
    assert_eq!(allow, [200, 429, 200, 200]);
    assert_eq!(fallback, [200, 429, 200, 200]);
    assert_eq!(usual, [200, 429, 429, 200]);
}

#[tokio::test]
async fn a_request_that_no_store_decides_is_refused_even_if_failures_allow() {
    for kind in [ErrorKind::Malformed, ErrorKind::Unsupported] {
        let store = FaultyStore::new(store().0, [Fault::Fail(kind)]);
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), by_user());
        let layer = layer.on_store_failure(OnStoreFailure::Allow);
        assert_eq!(send(&layer, request("alice")).await.status, 500);
    }
}

#[tokio::test]
async fn more_limits_than_a_request_can_have_are_refused() {
    let limits = |prefix: char, count: usize| {
        (0..count).map(move |index| format!("{prefix}{index}=gcra:1/1s"))
    };
    let layer = InboundLayer::new(limiter(store().0, limits('a', 20)), by_user());
    let layer = layer.also(limits('b', 12), by_user()).unwrap();
    let error = layer.also(["c=gcra:1/1s"], by_user()).unwrap_err();
    assert_eq!(error.kind(), LimitErrorKind::Count);
    // What counts is the largest plan.
    let plans = [1, 20, 2].map(|count| (count.to_string(), limits('a', count)));
    let by_plan = InboundLayer::by_plan(store().0, plans, by_user(), |_| None).unwrap();
    let by_plan = by_plan.also(limits('b', 12), by_user()).unwrap();
    let of_plans = by_plan.also(["c=gcra:1/1s"], by_user()).unwrap_err();
    assert_eq!(of_plans, error);
}

/// What the layer says to the client and the fields of its limits, in whatever order it was made.
#[tokio::test]
async fn every_policy_is_described_by_the_fields() {
    let fields = || Fields::new().draft(Draft::Seven).hide("hidden");
    let limits = || {
        [
            "a=sliding-log:1/1m".to_owned(),
            "hidden=sliding-log:9/1h".to_owned(),
        ]
    };
    let also = ["b=sliding-log:9/1d", "next=gcra:9/1s,shadow"];
    let always = || InboundLayer::new(limiter(store().0, limits()), by_user());
    let by_plan = || {
        let plans = [("only", limits())];
        InboundLayer::by_plan(store().0, plans, by_user(), |_| Some("only")).unwrap()
    };
    let [first, second] = [always(), by_plan()].map(|it| it.fields(fields()).unwrap());
    let [third, fourth] = [always(), by_plan()].map(|it| it.also(also, by_user()).unwrap());
    for layer in [
        first.also(also, by_user()).unwrap(),
        second.also(also, by_user()).unwrap(),
        third.fields(fields()).unwrap(),
        fourth.fields(fields()).unwrap(),
    ] {
        for status in [200, 429] {
            let answer = send(&layer, request("alice")).await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("ratelimit-policy"), "1;w=60, 9;w=86400");
            let said = "limit=1, remaining=0, reset=60";
            assert_eq!(answer.header("ratelimit"), said);
        }
    }
}

/// Whoever is allowed is limited by no policy, also not by one for another key, before or after.
#[tokio::test]
async fn an_allowed_address_is_limited_by_no_policy() {
    let allowed = || ClientIp::peer().allow(["203.0.113.7"]).unwrap();
    let user = |last: u8| with(request_from([203, 0, 113, last]), &[("user", "alice")]);
    let limits = ["a=sliding-log:1/1m"];
    for layer in [
        InboundLayer::new(limiter(store().0, limits), by_user())
            .also(["b=sliding-log:9/1m"], allowed())
            .unwrap(),
        InboundLayer::new(limiter(store().0, limits), allowed())
            .also(["b=sliding-log:1/1m"], by_user())
            .unwrap(),
    ] {
        for (last, statuses) in [(7, [200, 200]), (8, [200, 429]), (7, [200, 200])] {
            for status in statuses {
                assert_eq!(send(&layer, user(last)).await.status, status, "{last}");
            }
        }
    }
}

/// Who is never limited or never served, or has no key, needs no plan.
#[tokio::test]
async fn a_missing_plan_matters_last() {
    let client = ClientIp::peer().allow(["203.0.113.7"]).unwrap();
    let client = client.deny(["203.0.113.8"]).unwrap();
    let plans = [("free", ["a=sliding-log:9/1m"])];
    let by_plan = InboundLayer::by_plan(store().0, plans, client.clone(), |_| None).unwrap();
    let by_limiter = InboundLayer::by_limiter(store().0, client, |_| {
        Err::<Option<tollgate_core::RateLimiter<()>>, _>("none")
    });
    for by_address in [by_plan, by_limiter] {
        for (last, status) in [(7, 200), (8, 403), (9, 500)] {
            let answer = send(&by_address, request_from([203, 0, 113, last])).await;
            assert_eq!(answer.status, status);
        }
    }
    let by_user = InboundLayer::by_plan(store().0, plans, by_user(), |_| Some("gold")).unwrap();
    let nobody = Request::new(Body::default());
    assert_eq!(send(&by_user, nobody).await.status, 401);
    assert_eq!(send(&by_user, request("alice")).await.status, 500);
}

#[tokio::test]
async fn the_decision_is_in_the_extensions() {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), by_user());
    let seen = |request: Request<Body>| {
        let decided = request.extensions().get::<Decided>();
        Response::new(Body::from(format!("{:?}", decided.map(Decided::remaining))))
    };
    assert_eq!(send_to(&layer, request("bob"), seen).await.body, "None");
    let layer = layer.insert_decision();
    let found = send_to(&layer, request("alice"), seen).await.body;
    assert_eq!(found, "Some(0)");
    let service = layer.layer(service_fn(hello));
    let passed = service.clone().oneshot(request("carol")).await.unwrap();
    let found = passed.extensions().get().map(Decided::is_allowed);
    assert_eq!(found, Some(true));
    let refused = service.clone().oneshot(request("alice")).await.unwrap();
    let decided: &Decided = refused.extensions().get().unwrap();
    assert!(!decided.is_allowed());
    assert_eq!(decided.retry_after().as_secs_ceil(), Some(60));
    assert_eq!(decided.verdicts().next().unwrap().0.name(), "a");

    let down = FaultyStore::new(store().0, [Fault::Fail(ErrorKind::Unavailable)]);
    let limiter = limiter(Fallback::allow(down), ["a=sliding-log:1/1m"]);
    let layer = InboundLayer::new(limiter, by_user()).insert_decision();
    let passed = layer.layer(service).oneshot(request("alice"));
    let passed = passed.await.unwrap();
    let found = passed.extensions().get().map(Decided::source);
    assert_eq!(found, Some(Source::Fallback));
}

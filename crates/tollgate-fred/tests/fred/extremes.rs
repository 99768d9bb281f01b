//! Options set before a store connects, and the longest and shortest durations.

use std::sync::Arc;
use std::time::Duration;

use tollgate_fred::lease::ConcurrencyLimiter;
use tollgate_fred::store::{Check, Operation, Request};
use tollgate_fred::{ErrorKind, FredStore, FredStoreBuilder, RateLimiter, Store};
use tollgate_scenarios::Connected;
use tollgate_scenarios::extremes::are_taken;
use tollgate_scenarios::secured::is_misconfigured;
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

#[tokio::test]
async fn a_pool_takes_extreme_times() {
    let server = Server::start(Flavor::System);
    are_taken(async |options| {
        let builder = FredStoreBuilder::from(options);
        let store = builder.connect_pool(&server.url(), 2).await?;
        Ok(Arc::new(store) as Connected)
    })
    .await;
}

#[tokio::test]
async fn a_store_has_the_options_it_was_given() {
    let server = Server::start(Flavor::System);
    let builder = FredStore::builder().batches(true).prefix("shop");
    let store = builder.connect_pool(&server.url(), 1).await.unwrap();
    let options = Options::new().with_batches(true).with_prefix("shop");
    assert_eq!(*store.options(), options.unwrap());
}

#[tokio::test]
async fn a_wrong_option_is_an_error_when_the_store_connects() {
    // Nothing listens at this address. The prefix is reported first, and later settings do not hide
    // it.
    let wrong = || FredStore::builder().prefix("a b").deadline(Duration::ZERO);
    let url = "redis://127.0.0.1:1";
    let builder = FredStoreBuilder::from(Options::new())
        .client_builder(url)
        .unwrap();
    let hint = "\"a b\"";
    is_misconfigured(wrong().connect(url), hint).await;
    is_misconfigured(wrong().connect_pool(url, 2), hint).await;
    is_misconfigured(wrong().connect_with(&builder), hint).await;
    is_misconfigured(FredStore::builder().connect_pool(url, 0), "").await;
    let never = FredStore::builder().deadline(Duration::ZERO);
    is_misconfigured(never.connect(url), "deadline is zero").await;
}

#[tokio::test]
async fn an_error_shows_how_to_write_an_address() {
    for address in ["127.0.0.1:6379", "here", "redis://"] {
        is_misconfigured(FredStore::connect(address), "redis://user").await;
    }
}

/// As if a `static` store were used in several tests, each with a runtime of its own.
#[test]
fn a_store_whose_runtime_has_ended_says_so() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let server = Server::start(Flavor::System);
    let url = server.url();
    let store = runtime().block_on(FredStore::connect(&url)).unwrap();
    let limiter = RateLimiter::new(store, ["a=gcra:3/1m"]).unwrap();
    let places = Duration::from_secs(30);
    let places = ConcurrencyLimiter::new(limiter.store(), "uploads", 1, places).unwrap();
    runtime().block_on(async {
        // A mistake in the call is still told as one.
        let none = Request::new(Operation::Consume, [] as [Check<'_>; 0]);
        let error = limiter.store().decide(none).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error:?}");
        let errors = [
            limiter.check("k").await.map(drop).unwrap_err(),
            limiter.reset("k").await.unwrap_err(),
            places
                .acquire("k", "request-1")
                .await
                .map(drop)
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
            assert!(error.to_string().contains("connect a new store"), "{error}");
        }
    });
}

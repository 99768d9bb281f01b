//! The examples, run.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::Full;
use tollgate_testkit::{Flavor, Server};

use crate::client::*;

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/api_keys.rs"]
mod api_keys;
#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/hyper.rs"]
mod hyper;
#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/login.rs"]
mod login;
#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/upload.rs"]
mod upload;

/// Runs an example in the background.
macro_rules! start {
    ($serve:expr) => {
        drop(tokio::spawn(async move {
            let served = $serve.await;
            served.map_err(|error| error.to_string()).unwrap();
        }))
    };
}

#[tokio::test]
async fn login_serves_five_a_minute_in_memory_and_on_a_server() {
    let server = Server::start(Flavor::System);
    for store in [None, Some(server.url())] {
        let (listener, address) = listener().await;
        start!(login::serve(listener, store));
        let post = || {
            request("POST", address, "/login")
                .body(Full::<Bytes>::default())
                .unwrap()
        };
        for left in (0..5).rev() {
            let answer = send(post()).await;
            assert_eq!((answer.status, &*answer.body), (200, "welcome\n"));
            assert!(
                answer
                    .header("ratelimit")
                    .starts_with(&format!("\"login-minute\";r={left};"))
            );
        }
        let answer = send(post()).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let retry_after: u64 = answer.header("retry-after").parse().unwrap();
        assert!((50..=60).contains(&retry_after));
        // What is denied uses up nothing.
        assert!(
            answer.header("ratelimit").contains("\"login-hour\";r=15;"),
            "{answer:?}"
        );
        // The form is not limited.
        let get = request("GET", address, "/").body(Full::<Bytes>::default());
        let page = send(get.unwrap()).await;
        assert_eq!((page.status, page.header("ratelimit")), (200, ""));
        assert!(page.header("content-type").starts_with("text/html"));
    }
}

#[tokio::test]
async fn api_keys_have_plans() {
    let (listener, address) = listener().await;
    start!(api_keys::serve(listener));
    let get = |key: &str| {
        let request = request("GET", address, "/").header("x-api-key", key);
        request.body(Full::<Bytes>::default()).unwrap()
    };
    for _ in 0..3 {
        assert_eq!(send(get("trial")).await.status, 200);
    }
    assert_eq!(send(get("trial")).await.status, 429);
    for _ in 0..10 {
        assert_eq!(send(get("customer")).await.status, 200);
    }
    assert_eq!(send(get("stranger")).await.status, 401);
}

#[tokio::test]
async fn uploads_cost_what_arrived() {
    let (listener, address) = listener().await;
    start!(upload::serve(listener));
    let post = |mebibytes: usize| {
        let body = Full::new(Bytes::from(vec![0; mebibytes << 20]));
        request("POST", address, "/upload").body(body).unwrap()
    };
    assert_eq!(send(post(6)).await.body, "6291456 bytes\n");
    let denied = send(post(6)).await;
    assert_eq!(denied.status, 429);
    assert_eq!(send(post(3)).await.status, 200);
}

#[tokio::test]
async fn hyper_serves_five_a_minute_to_each_address() {
    let (listener, address) = listener().await;
    start!(hyper::serve(listener));
    for client in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)] {
        for _ in 0..5 {
            let answer = send_from(client, get(address, "/")).await;
            assert_eq!((answer.status, &*answer.body), (200, "welcome\n"));
        }
        let answer = send_from(client, get(address, "/")).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
}

//! The examples, run.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ::hyper::body::Incoming;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use tollgate_memory::{ManualClock, MemoryStore};

use crate::client::*;

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/api_keys.rs"]
mod api_keys;
#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/hyper.rs"]
mod hyper;
#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/llm_proxy.rs"]
mod llm_proxy;
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

/// Requests of a tenant to the proxy of a language model.
struct Tenant(&'static str, SocketAddr);

impl Tenant {
    fn request(&self, method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
        let request = request(method, self.1, path).header("x-api-key", self.0);
        let request = request.header("content-type", "application/json");
        request.body(Full::from(body)).unwrap()
    }

    fn completion(&self, prompt: &str, max_tokens: u64) -> Request<Full<Bytes>> {
        let body = format!(r#"{{"prompt": "{prompt}", "max_tokens": {max_tokens}}}"#);
        self.request("POST", "/complete", body)
    }

    /// Returns the tokens that are left of the minute and of the month, and the time until the next month.
    async fn left(&self) -> [u64; 3] {
        let usage = self.request("GET", "/usage", String::new());
        let answer = send(usage).await;
        let said = answer.header("ratelimit");
        let numbers = said.split([';', ',']);
        let numbers = numbers.filter_map(|part| part.split_once('=')?.1.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        [numbers[0], numbers[2], numbers[3]]
    }

    /// Waits until no more is in use than `minute` and `month` leave.
    async fn settled(&self, minute: u64, month: u64) {
        let settled = async {
            while self.left().await[..2] != [minute, month] {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), settled).await;
        assert!(in_time.is_ok(), "{:?}", self.left().await);
    }
}

/// Sends a request on a connection of its own, which ends with the body that this returns.
async fn begin(request: Request<Full<Bytes>>) -> Incoming {
    ask_from(Ipv4Addr::LOCALHOST, request).await.into_body()
}

async fn proxy() -> (ManualClock, SocketAddr) {
    let (listener, address) = listener().await;
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    start!(llm_proxy::serve(listener, store));
    (clock, address)
}

#[tokio::test]
async fn the_llm_proxy_settles_estimates_that_were_too_high_or_too_low() {
    let (_, address) = proxy().await;
    let acme = Tenant("secret-1", address);
    // Estimated at 4 + 100, but 2 + 2.
    let answer = send(acme.completion("hello wonderful", 100)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("ratelimit").starts_with("\"minute\";r=9896;"));
    let expected = "event: prompt\ndata: 2\n\ndata: hello\n\ndata: wonderful\n\n";
    assert_eq!(answer.body, expected);
    acme.settled(9_996, 999_996).await;
    // Estimated at 3 + 1, but 5 + 1.
    send(acme.completion("a b c d e", 1)).await;
    acme.settled(9_990, 999_990).await;
    // More than a minute ever allows.
    let answer = send(acme.completion("hello", 10_000)).await;
    assert_eq!((answer.status, &*answer.header("retry-after")), (413, ""));
    assert_eq!(
        send(Tenant("stranger", address).completion("hello", 1))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn a_client_of_the_llm_proxy_that_hangs_up_pays_what_was_sent_and_frees_its_place() {
    let (_, address) = proxy().await;
    let acme = Tenant("secret-1", address);
    // Each takes 40 seconds if it is not cut off.
    let long = vec!["a"; 2_000].join(" ");
    let mut first = begin(acme.completion(&long, 2_000)).await;
    let _second = begin(acme.completion(&long, 2_000)).await;
    let left = [10_000 - 2 * 3_000, 1_000_000 - 2 * 3_000];
    assert_eq!(acme.left().await[..2], left);
    let refused = send(acme.completion("hello", 1)).await;
    assert_eq!(
        (refused.status, &*refused.header("retry-after")),
        (429, "1")
    );
    // What is refused for want of a place uses up no tokens.
    assert_eq!(acme.left().await[..2], left);

    let mut received = 0;
    while received < 5 {
        let frame = first.frame().await.unwrap().unwrap();
        let frame = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        received += frame.matches("data: a\n").count();
    }
    drop(first);
    let freed = async {
        while send(acme.completion("hello", 1)).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(20), freed).await;
    assert!(freed.is_ok(), "the place is still taken");
    // Less those two tokens of the last one: 3,000 were estimated, and 2,000 are the prompt's.
    let used = left[1] + 3_000 - 2 - acme.left().await[1];
    assert!((2_005..3_000).contains(&used), "{used}");
}

#[tokio::test]
async fn the_llm_proxy_refuses_a_month_that_is_used_up_until_the_next_begins_in_the_tenants_zone() {
    let (clock, address) = proxy().await;
    let trial = Tenant("secret-2", address);
    // It is 2020-09-13T12:26:40Z. October begins 17 days, 2 hours and 2000 seconds later in Tokyo, and 7 hours after
    // that in Berlin.
    let until_october = 17 * 86_400 + 2 * 3_600 + 2_000;
    let acme = Tenant("secret-1", address);
    assert_eq!(send(acme.completion("hello", 1)).await.status, 200);
    assert_eq!(acme.left().await[2], until_october + 7 * 3_600);

    let half = vec!["abc"; 50].join(" ");
    assert_eq!(send(trial.completion(&half, 50)).await.status, 200);
    trial.settled(9_900, 0).await;
    let refused = send(trial.completion("hello", 1)).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), until_october.to_string());
    assert!(refused.header("ratelimit").contains("\"month\";r=0;"));
    // What the month denies uses up nothing of the minute.
    assert_eq!(trial.left().await[0], 9_900);
    clock.advance(Duration::from_secs(until_october));
    assert_eq!(send(trial.completion("hello", 1)).await.status, 200);
}

//! Commands that a server does not run: only those are sent again.

use std::sync::Mutex;
use std::time::Duration;

use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError};
use tollgate_testkit::{Answer, FakeServer};
use tollgate_wire::Options;

use crate::client::Client;

/// The reply to a command that is run. No script gives it.
pub const DONE: &str = ":1\r\n";

/// Answers the setup of a connection.
pub fn greet(words: &[String]) -> Answer {
    match &*words[0] {
        "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
        _ => "+OK\r\n".into(),
    }
}

/// Returns a function that answers commands about keys with `replies`, one after another, and then
/// with the last of them.
pub fn replies(replies: &[Answer]) -> impl Fn(&[String]) -> Answer + Send + Sync + use<> {
    let mut left = replies.to_vec();
    left.reverse();
    let left = Mutex::new(left);
    move |words| match &*words[0] {
        "UNLINK" | "EVALSHA" => {
            let mut left = left.lock().unwrap();
            match left.len() {
                1 => left[0].clone(),
                _ => left.pop().unwrap(),
            }
        }
        _ => greet(words),
    }
}

/// Returns a limit of five calls per hour.
pub fn limit() -> Limit {
    Limit::new("hourly", FixedWindow::anchored(Quota::per_hour(5))).unwrap()
}

/// Returns a limiter of five calls per hour.
pub fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    RateLimiter::new(store, [limit()]).unwrap()
}

/// Returns what a reset comes to: nothing, or the kind of its error.
pub fn kind(outcome: Result<(), StoreError>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// A command is sent again to a cluster's node that refuses it for now, and not to one that refuses it
/// for good.
pub async fn only_what_was_not_run_is_sent_again(client: &dyn Client) {
    for (lines, expected, sent) in [
        (&[DONE][..], None, 1),
        (&["-TRYAGAIN no\r\n", "-TRYAGAIN no\r\n", DONE], None, 3),
        (&["-OOM no\r\n", DONE], Some(ErrorKind::Full), 1),
    ] {
        let answers: Vec<_> = lines.iter().map(|&line| line.into()).collect();
        let node = FakeServer::start_node(&[], replies(&answers));
        let options = Options::default().with_deadline(Duration::from_secs(2));
        let limiter = limiter(client.cluster(&[node.url()], options).await.unwrap());
        assert_eq!(kind(limiter.reset("key").await), expected, "{lines:?}");
        assert_eq!(node.count("UNLINK"), sent, "{lines:?}");
    }
}

/// Keys of several slots are decided together by one server, and not by a cluster.
pub async fn only_a_cluster_refuses_keys_of_several_slots_together(client: &dyn Client) {
    let (server, node) = (FakeServer::start(greet), FakeServer::start_node(&[], greet));
    let server = client.server(&server.url(), Options::default()).await;
    let cluster = client.cluster(&[node.url()], Options::default()).await;
    let limit = limit();
    let [one, other] = ["a", "b"].map(|key| Check::new(&limit, key, 1));
    let both = Request::consume(one).and(other);
    assert!(server.unwrap().supports(&both).is_ok());
    let cluster = cluster.unwrap();
    assert!(cluster.supports(&Request::consume(one)).is_ok());
    assert!(cluster.supports(&both).is_err());
}

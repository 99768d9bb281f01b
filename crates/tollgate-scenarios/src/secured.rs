//! Servers that accept only TLS, or that require passwords.

use std::sync::Once;
use std::time::{Duration, Instant};

use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError};
use tollgate_testkit::{SentinelGroup, Server};
use tollgate_wire::Options;

/// How long it may take to find out that no connection is possible. Stores take up to 2.6 s, and more
/// on a busy machine.
pub const SET_UP: Duration = Duration::from_secs(4);
/// The ACL rules that the documentation gives for this store and this limit.
pub const USER: [&str; 9] = [
    "on",
    ">secret",
    "~tollgate:*",
    "+evalsha",
    "+script|load",
    "+time",
    "+get",
    "+set",
    "+unlink",
];
/// Part of the error if no password was given.
pub const ASKED: &str = "the server requires a password";
/// Part of the error if a wrong password was given.
pub const REFUSED: &str = "the server refused the user or password";

/// Installs a rustls crypto provider, as programs do: a workspace build may include several.
pub fn choose() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        provider.install_default().unwrap();
    });
}

/// Returns options with a deadline that is never reached.
pub fn options() -> Options {
    // These tests must not fail because the machine is busy with others.
    Options::default().with_deadline(Duration::from_secs(5))
}

/// Returns a limiter of nine calls per hour.
pub fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("hourly", FixedWindow::anchored(Quota::per_hour(9)));
    RateLimiter::new(store, [limit.unwrap()]).unwrap()
}

/// Calls for `key` and returns what remains.
pub async fn call<S: Store>(limiter: &RateLimiter<S>, key: &str) -> u64 {
    limiter.check(key).await.unwrap().remaining()
}

/// Checks that calls are decided and counted.
pub async fn decides<S: Store>(store: Result<S, StoreError>) {
    let limiter = limiter(store.unwrap());
    limiter.reset("alice").await.unwrap();
    assert_eq!(call(&limiter, "alice").await, 8);
    assert_eq!(call(&limiter, "alice").await, 7);
}

/// Checks that connecting fails with `kind`, and a message that contains `hint`.
#[track_caller]
pub fn is_refused<S>(store: Result<S, StoreError>, kind: ErrorKind, hint: &str) {
    let Err(error) = store else {
        panic!("a connection, in spite of {hint}");
    };
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(hint), "no {hint:?} in {error}");
}

/// Checks that connecting fails because of the settings that `hint` names.
#[track_caller]
pub fn is_misconfigured<S>(store: Result<S, StoreError>, hint: &str) {
    is_refused(store, ErrorKind::Misconfigured, hint);
}

/// Creates the user `limiter` on a server, with the rights of [`USER`] and `more`.
pub fn let_in(server: &Server, more: &[&str]) {
    let own = [&["ACL", "SETUSER", "limiter"][..], &USER, more].concat();
    assert_eq!(server.command(&own).text(), Some("OK"));
}

/// Kills the primary, and checks that calls continue on the new one.
pub async fn follows_a_failover<S: Store>(group: &SentinelGroup, limiter: &RateLimiter<S>) {
    let old = group.primary();
    old.kill();
    let new = tokio::task::block_in_place(|| group.wait_for_failover(old));
    let begun = Instant::now();
    while let Err(error) = limiter.check("bob").await {
        assert!(begun.elapsed() < Duration::from_secs(20), "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let counted = new.command(&["KEYS", "*bob*"]);
    assert_eq!(counted.items().len(), 1, "{counted:?}");
}

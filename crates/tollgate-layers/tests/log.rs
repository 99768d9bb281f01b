//! What a breaker and a fallback log, in a process of its own: in others, tests that log nothing would
//! switch the log off.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::Source;
use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_layers::{Breaker, DenyCache, Fallback, Observed, Share};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// What is written to a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Returns the lines since the last call.
    fn lines(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns what is logged until the guard is dropped.
fn logged() -> (Log, DefaultGuard) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time();
    let subscriber = subscriber.with_max_level(Level::DEBUG);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[test]
fn a_denied_call_is_logged_with_the_hash_of_its_key() {
    let (log, _guard) = logged();
    let store = Observed::new(MemoryStore::new());
    let limiter = RateLimiter::new(store, ["a=gcra:0/1s"]).unwrap();
    for (key, hash) in [
        (("alice", ""), "1504cb571759afdb"),
        (("alic", "e"), "da2a5f97a8bf39b5"),
    ] {
        assert!(limiter.check(key).run().unwrap().is_denied());
        let said = format!(" key_hash={hash}");
        assert!(log.lines().concat().contains(&said), "{hash}");
    }
}

#[tokio::test]
async fn outages_are_logged_once() {
    let (log, _guard) = logged();
    let limits = ["a=gcra:99/1s"];

    let down = [Fault::Fail(ErrorKind::Unavailable); 3];
    let breaker = Breaker::new(FaultyStore::new(MemoryStore::new(), down));
    let breaker = breaker.retry_every(Duration::from_millis(10));
    let limiter = RateLimiter::new(&breaker, limits).unwrap();
    for _ in 0..9 {
        assert!(limiter.check("k").await.is_err());
    }
    while breaker.is_open() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..9 {
        assert!(limiter.check("k").await.unwrap().is_allowed());
    }
    let lines = log.lines();
    let [opened, closed] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert!(opened.contains("WARN") && opened.ends_with("scheduled to fail: Unavailable"));
    assert!(closed.contains("INFO") && closed.ends_with("the store answers again"));

    let kinds = [
        Some(ErrorKind::Misconfigured),
        Some(ErrorKind::Misconfigured),
        Some(ErrorKind::Unavailable),
        Some(ErrorKind::Unknown),
        Some(ErrorKind::Misconfigured),
        None,
        Some(ErrorKind::Misconfigured),
    ];
    let faults = kinds.map(|kind| kind.map_or(Fault::None, Fault::Fail));
    let faults = [Fault::None].into_iter().chain(faults);
    let store = DenyCache::new(FaultyStore::new(MemoryStore::new(), faults));
    let limiter = RateLimiter::new(Fallback::allow(store), limits).unwrap();
    assert!(limiter.check("denied").cost(100).await.unwrap().is_denied());
    for _ in kinds {
        assert!(limiter.check("k").await.unwrap().is_allowed());
        // What the cache knows is no sign of the store.
        let known = limiter.check("denied").cost(100).await.unwrap();
        assert_eq!(known.source(), Source::Cache);
    }
    let lines = log.lines();
    let said = lines.iter().map(|line| line.rsplit_once(": ").unwrap().1);
    let said: Vec<_> = said.collect();
    let expected = ["Misconfigured", "Unavailable", "Misconfigured"];
    assert_eq!(said, expected, "{lines:#?}");

    // Which limit the fallback cannot decide, either, is in the log, too.
    let part = Share::new(MemoryStore::new(), NonZeroU32::new(100).unwrap());
    let down = FaultyStore::new(MemoryStore::new(), down);
    let limiter = RateLimiter::new(Fallback::to(down, part), limits).unwrap();
    for _ in 0..3 {
        assert!(limiter.check("k").await.is_err());
    }
    let lines = log.lines();
    let is_said = lines[0].contains("parts of the limit a=gcra:99/1s");
    assert!(lines.len() == 1 && is_said, "{lines:#?}");
}

//! What the layer logs, and how often.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::{ErrorKind, Store};
use tollgate_http::inbound::{ClientIp, InboundLayer, Policy};
use tollgate_mock::{Fault, FaultyStore};

use super::client_ip::from;
use super::support::*;

const XFF: &str = "x-forwarded-for";

thread_local! {
    /// What this thread has logged at the level `INFO` or above, for all threads have one subscriber:
    /// with several, tracing may leave out an event that a thread without one logs first.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that this thread has logged since the last call, and begins with none.
fn logged() -> Vec<String> {
    static START: Once = Once::new();
    START.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(|| Log);
        subscriber.with_ansi(false).init();
        tracing::callsite::rebuild_interest_cache();
    });
    let text = String::from_utf8(LOG.take()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the only line since the last call.
fn logged_one() -> String {
    let lines = logged();
    let [line] = &*lines else {
        panic!("not one line: {lines:?}")
    };
    line.clone()
}

fn layer(client: ClientIp) -> InboundLayer<impl Store> {
    InboundLayer::new(limiter(store().0, ["a=gcra:1000/1s"]), client)
}

/// Sends requests from these peers with these headers, each ten times, and checks that one of them,
/// the last, is warned of, once, in a line that contains all of `parts`.
async fn check(client: ClientIp, requests: &[(&str, &[(&str, &str)])], parts: &[&str]) {
    drop(logged());
    let layer = layer(client);
    let (last, others) = requests.split_last().unwrap();
    for (peer, headers) in others {
        for _ in 0..10 {
            assert_eq!(send(&layer, from(peer, headers)).await.status, 200);
        }
        assert_eq!(logged(), [""; 0], "{peer} {headers:?}");
    }
    for _ in 0..10 {
        assert_eq!(send(&layer, from(last.0, last.1)).await.status, 200);
    }
    let line = logged_one();
    for part in ["WARN"].iter().chain(parts) {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn headers_from_an_unlisted_proxy_are_warned_of() {
    let client = || ClientIp::behind(["127.0.0.1", "10.0.0.0/8"]).unwrap();
    let fine: [(&str, &[(&str, &str)]); 3] = [
        ("127.0.0.1", &[(XFF, "203.0.113.7")]),
        ("::ffff:10.0.0.1", &[(XFF, "6.6.6.6, 203.0.113.7")]),
        // Directly.
        ("203.0.113.7", &[]),
    ];
    for (peer, headers, parts) in [
        (
            "::1",
            [(XFF, "203.0.113.7")],
            ["unknown-proxy", "from ::1,"],
        ),
        (
            "172.18.0.5",
            [("forwarded", "for=203.0.113.7")],
            ["`forwarded`", "172.18.0.5"],
        ),
    ] {
        let mut requests = fine.to_vec();
        requests.push((peer, &headers));
        check(client(), &requests, &parts).await;
        check(client().forwarded(), &[(peer, &headers)], &parts).await;
        let hops = ClientIp::hops(1).only_from(["127.0.0.1"]).unwrap();
        check(hops, &[fine[0], fine[2], (peer, &headers)], &parts).await;
    }
    let real = ClientIp::header(http::HeaderName::from_static("x-real-ip"));
    let real = real.only_from(["10.0.0.0/8"]).unwrap();
    let from = |peer| (peer, &[("x-real-ip", "203.0.113.7")][..]);
    check(
        real,
        &[from("10.0.0.1"), from("::1")],
        &["`x-real-ip`", "from ::1,"],
    )
    .await;
}

#[tokio::test]
async fn a_listed_proxy_that_names_nobody_is_warned_of() {
    let client = || ClientIp::behind(["10.0.0.0/8"]).unwrap();
    let named: (&str, &[(&str, &str)]) = ("10.0.0.1", &[(XFF, "unknown, 203.0.113.7")]);
    let parts = ["missing-address", "10.0.0.1", "`x-forwarded-for`"];
    let unnamed: [&[(&str, &str)]; 4] = [
        &[],
        &[("forwarded", "for=203.0.113.7")],
        &[(XFF, "203.0.113.7, unknown")],
        &[(XFF, " , "), (XFF, "")],
    ];
    for headers in unnamed {
        check(client(), &[named, ("10.0.0.1", headers)], &parts).await;
    }
    let parts = ["missing-address", "10.0.0.1", "`forwarded`"];
    check(client().forwarded(), &[named], &parts).await;
}

#[tokio::test]
async fn a_denied_request_is_examined_however_late_it_comes() {
    for (client, warning) in [
        (ClientIp::peer(), "unused-forwarded"),
        (ClientIp::behind(["10.0.0.0/8"]).unwrap(), "unknown-proxy"),
    ] {
        drop(logged());
        let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), client);
        for host in 0..=200 {
            let check_of_health = from(&format!("192.0.2.{host}"), &[]);
            assert_eq!(send(&layer, check_of_health).await.status, 200);
        }
        let through = || from("127.0.0.1", &[(XFF, "203.0.113.7")]);
        assert_eq!(send(&layer, through()).await.status, 200);
        assert_eq!(logged(), [""; 0]);
        for _ in 0..10 {
            assert_eq!(send(&layer, through()).await.status, 429);
        }
        let line = logged_one();
        assert!(line.contains(warning), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_outage_and_its_end_are_logged_once() {
    use ErrorKind::{Unavailable, Unknown};
    const DOWN: Fault = Fault::Fail(Unavailable);
    const UP: Fault = Fault::None;
    drop(logged());
    // A store that denies requests works, too. One of places fails as one of limits does.
    for (limit, up, is_of_places) in [
        ("a=gcra:1000/1s", 200, false),
        ("a=sliding-log:0/1s", 429, false),
        ("a=gcra:1000/1s", 200, true),
    ] {
        let faults = Arc::new(Mutex::new(UP));
        let next = Arc::clone(&faults);
        let faulty = Arc::new(FaultyStore::new(
            store().0,
            std::iter::from_fn(move || Some(*next.lock().unwrap())),
        ));
        let layer = if is_of_places {
            let month = Duration::from_secs(30 * 86_400);
            let places = ConcurrencyLimiter::new(faulty, "places", 1_000, month).unwrap();
            let decides: Arc<dyn Store> = store().0;
            InboundLayer::new(limiter(decides, [limit]), by_user()).hold(places)
        } else {
            let decides: Arc<dyn Store> = faulty;
            InboundLayer::new(limiter(decides, [limit]), by_user())
        };
        let expect = async |seconds, fault, expected: &str| {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            *faults.lock().unwrap() = fault;
            let status = if fault == UP { up } else { 503 };
            for _ in 0..3 {
                assert_eq!(send(&layer, request("alice")).await.status, status);
            }
            let lines = logged();
            let expected: Vec<&str> = expected.split_terminator('|').collect();
            assert_eq!(lines.len(), expected.len(), "{lines:?}");
            for (line, part) in lines.iter().zip(expected) {
                assert!(line.contains(part), "{part}: {line}");
            }
        };
        expect(0, UP, "").await;
        expect(0, DOWN, "WARN").await;
        expect(300, DOWN, "").await;
        // Another error is no secret.
        expect(1, Fault::Fail(Unknown), "WARN").await;
        expect(1, DOWN, "").await;
        // While one node of a cluster is down, others decide.
        expect(29, UP, "").await;
        expect(1, DOWN, "").await;
        expect(29, UP, "").await;
        expect(1, UP, "INFO").await;
        expect(100, UP, "").await;
        expect(0, DOWN, "WARN").await;
        expect(0, Fault::Fail(Unknown), "WARN").await;
        expect(30, UP, "INFO").await;
    }
}

/// Who is refused stays refused, whatever becomes of the ban; what is served stays served, though not counted.
#[tokio::test]
async fn a_store_that_fails_after_the_decision_is_warned_of() {
    drop(logged());
    let bans = Policy::new(by_user()).ban_after(1, "ban=block:1h").unwrap();
    let counts = Policy::new(by_user()).count_if(|_| true);
    let down = Fault::Fail(ErrorKind::Unavailable);
    let (up, full) = (Fault::None, "a=sliding-log:0/1m");
    for (policy, limit, faults, status) in [
        (bans.clone(), full, vec![up, down], 429),
        (bans, full, vec![up, up, down], 429),
        (counts, "a=sliding-log:1/1m", vec![up, down], 200),
    ] {
        let store = FaultyStore::new(store().0, faults);
        let layer = InboundLayer::new(limiter(store, [limit]), policy);
        assert_eq!(send(&layer, request("alice")).await.status, status);
        settled().await;
        assert!(logged_one().contains("not-settled"));
    }
}

#[test]
fn every_warning_has_an_entry_on_the_page() {
    let source = include_str!("../../../src/inbound/warning.rs");
    let names = source.lines().filter_map(|line| line.split_once(" => \""));
    let names = names.map(|(_, name)| name.trim_end_matches("\","));
    let mut names: Vec<&str> = names.collect();
    let page = include_str!("../../../../../docs/http.md");
    let (_, entries) = page.split_once("\n## Warnings\n").unwrap();
    let entries = entries.lines().filter_map(|line| line.strip_prefix("### "));
    let mut entries: Vec<_> = entries.collect();
    names.sort_unstable();
    entries.sort_unstable();
    assert_eq!(names, entries);
}

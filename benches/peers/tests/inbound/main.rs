//! The layer for servers beside `tower_governor`: the same login, five a minute and twenty an hour for
//! each client. The results are the table in `docs/http.md`.

#![allow(clippy::print_stdout, reason = "`--nocapture` shows the table")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod tollgate;
mod tower_governor;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ::tower_governor::GovernorLayer;
use ::tower_governor::governor::GovernorConfigBuilder;
use ::tower_governor::key_extractor::SmartIpKeyExtractor;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::post;
use http::{HeaderMap, Request};
use tollgate_core::Timestamp;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::{ManualClock, MemoryStore, RateLimiter};
use tower::ServiceExt;

const DOCUMENT: &str = include_str!("../../../../docs/http.md");
const LOCKED: &str = include_str!("../../Cargo.lock");

const CLIENT: [u8; 4] = [203, 0, 113, 7];
const PROXY: [u8; 4] = [10, 0, 0, 1];
/// More than a client may send in a minute.
const CALLS: u8 = 10;

/// Sends a login, and returns whether it is admitted, and the headers of its response.
fn send(app: &Router, peer: impl Into<IpAddr>, forwarded: Option<String>) -> (bool, HeaderMap) {
    let mut request = Request::post("/login").body(Body::empty()).unwrap();
    let peer = SocketAddr::new(peer.into(), 4711);
    let _ = request.extensions_mut().insert(ConnectInfo(peer));
    if let Some(forwarded) = forwarded {
        let forwarded = forwarded.parse().unwrap();
        let _ = request.headers_mut().insert("x-forwarded-for", forwarded);
    }
    let call = pin!(app.clone().oneshot(request));
    let Poll::Ready(response) = call.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("a login waits for nothing")
    };
    let response = response.unwrap();
    assert!(
        matches!(response.status().as_u16(), 200 | 429),
        "{response:?}"
    );
    (response.status() == 200, response.headers().clone())
}

fn number(headers: &HeaderMap, name: &str) -> u64 {
    headers[name].to_str().unwrap().parse().unwrap()
}

/// Returns how many of some logins are admitted.
fn admitted(app: &Router, calls: impl Fn(u8) -> (IpAddr, Option<String>)) -> usize {
    let calls = (0..CALLS).map(calls);
    let is_admitted = |(peer, forwarded)| send(app, peer, forwarded).0;
    calls.filter(|call| is_admitted(call.clone())).count()
}

/// Returns how many lines of a program are neither empty nor comments.
fn lines(program: &str) -> usize {
    let lines = program.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Returns the logins behind a proxy.
fn behind() -> [Router; 2] {
    let limiter = RateLimiter::new(MemoryStore::new(), ["login-minute=sliding-log:5/1m"]).unwrap();
    let client = ClientIp::behind(["10.0.0.0/8"]).unwrap();
    let mut theirs = GovernorConfigBuilder::default().key_extractor(SmartIpKeyExtractor);
    let theirs = theirs.per_second(12).burst_size(5).finish().unwrap();
    let login = || Router::new().route("/login", post(async || "welcome"));
    [
        login().layer(InboundLayer::new(limiter, client)),
        login().layer(GovernorLayer::new(theirs)),
    ]
}

/// Returns whether a login is admitted as soon as `Retry-After` says.
fn our_retry_after_is_late_enough() -> bool {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_123_456).unwrap());
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(store, ["login=sliding-log:1/1900ms"]).unwrap();
    let login = Router::new().route("/login", post(async || "welcome"));
    let app = login.layer(InboundLayer::new(limiter, ClientIp::peer()));
    assert!(send(&app, CLIENT, None).0);
    let (is_admitted, headers) = send(&app, CLIENT, None);
    assert!(!is_admitted);
    clock.advance(Duration::from_secs(number(&headers, "retry-after")));
    send(&app, CLIENT, None).0
}

/// The same, by the clock of the system.
fn their_retry_after_is_late_enough() -> bool {
    let mut config = GovernorConfigBuilder::default();
    let config = config
        .per_millisecond(1_900)
        .burst_size(1)
        .finish()
        .unwrap();
    let login = Router::new().route("/login", post(async || "welcome"));
    let app = login.layer(GovernorLayer::new(config));
    loop {
        let (is_admitted, headers) = send(&app, CLIENT, None);
        if is_admitted {
            continue;
        }
        let denied = Instant::now();
        thread::sleep(Duration::from_secs(number(&headers, "retry-after")));
        let (is_admitted, _) = send(&app, CLIENT, None);
        // A machine that was busy may have slept for longer.
        if !is_admitted || denied.elapsed() < Duration::from_millis(1_900) {
            return is_admitted;
        }
    }
}

/// Returns the names of the headers about limits.
fn fields(headers: &HeaderMap) -> String {
    let names = headers.keys().map(|name| name.as_str());
    let mut names: Vec<_> = names
        .filter(|name| name.contains("ratelimit") || *name == "retry-after")
        .collect();
    names.sort_unstable();
    format!("`{}`", names.join("`, `"))
}

#[test]
fn the_table_in_the_document_is_what_happens() {
    let apps = || [tollgate::app(), tower_governor::app()];
    let counts = |counts: [usize; 2]| counts.map(|count| count.to_string());
    let outcomes = |outcomes: [bool; 2]| {
        outcomes.map(|is_admitted| if is_admitted { "admitted" } else { "denied" }.to_owned())
    };

    let programs = [
        include_str!("tollgate.rs"),
        include_str!("tower_governor.rs"),
    ];
    let [ours, theirs] = apps().map(|app| {
        let (_, first) = send(&app, CLIENT, None);
        for call in 2..=8 {
            assert_eq!(send(&app, CLIENT, None).0, call <= 5);
        }
        (first, send(&app, CLIENT, None).1)
    });
    let said = ours.1["ratelimit"].to_str().unwrap();
    assert!(
        said.starts_with("\"login-minute\";r=0;t=") && said.contains("\"login-hour\";r=15;"),
        "{said}"
    );
    let of_the_hour = number(&theirs.1, "x-ratelimit-remaining");
    let says = [
        "`\"login-minute\";r=0`".to_owned(),
        format!("`x-ratelimit-remaining: {of_the_hour}`"),
    ];

    let another_each_time = |call| (PROXY.into(), Some(format!("6.6.6.{call}, 203.0.113.7")));
    let has_access = behind().map(|app| {
        let victim = "198.51.100.1";
        let _ = admitted(&app, |_| {
            (PROXY.into(), Some(format!("{victim}, 203.0.113.7")))
        });
        send(&app, PROXY, Some(victim.to_owned())).0
    });
    let network = |call: u8| {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, call.into());
        (address.into(), None)
    };
    let rows = [
        ("lines of the program", counts(programs.map(lines))),
        (
            "left of 20 an hour after 5 logins and 4 that are denied",
            ["15".to_owned(), of_the_hour.to_string()],
        ),
        (
            "headers of an admitted login",
            [fields(&ours.0), fields(&theirs.0)],
        ),
        (
            "headers of a denied login",
            [fields(&ours.1), fields(&theirs.1)],
        ),
        ("which say that this is left", says),
        (
            "a login at the time that `Retry-After` says",
            outcomes([
                our_retry_after_is_late_enough(),
                their_retry_after_is_late_enough(),
            ]),
        ),
        (
            "admitted of 10 addresses of one IPv6 /64",
            counts(apps().map(|app| admitted(&app, network))),
        ),
        (
            "behind a proxy, counted by connection: admitted of 10 clients",
            counts(apps().map(|app| admitted(&app, |_| (PROXY.into(), None)))),
        ),
        (
            "counted by header: admitted of 10 logins by a client that writes another address each time",
            counts(behind().map(|app| admitted(&app, another_each_time))),
        ),
        (
            "counted by header: a client whose address another one wrote 10 times",
            outcomes(has_access),
        ),
    ];
    let (_, version) = LOCKED
        .split_once("name = \"tower_governor\"\nversion = \"")
        .unwrap();
    let (version, _) = version.split_once('"').unwrap();
    let mut table =
        format!("| the same login | tollgate | tower_governor {version} |\n|---|---|---|\n");
    for (what, [ours, theirs]) in rows {
        table += &format!("| {what} | {ours} | {theirs} |\n");
    }
    println!("{table}");
    assert!(
        DOCUMENT.contains(&table),
        "docs/http.md does not have this table:\n{table}"
    );
}

//! The layer under the load of thousands of requests on many connections, by h2load.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::any;
use tokio::process::Command;
use tokio::time::sleep;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_layers::{AllowAll, usual};
use tollgate_memory::lease::ConcurrencyLimiter;
use tollgate_memory::{MemoryStore, RateLimiter};
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Program, Server};

use crate::connections::*;

/// HTTP/1.1, and HTTP/2 with many streams on each connection.
const PROTOCOLS: [&[&str]; 2] = [&["--h1"], &["--max-concurrent-streams=10"]];

/// Returns a command that sends `requests` requests on 200 connections.
fn h2load(address: SocketAddr, path: &str, requests: usize, protocol: &[&str]) -> Command {
    let mut command = Command::new(Program::path("h2load"));
    let _ = command
        .arg(format!("--requests={requests}"))
        .arg("--clients=200")
        .args(protocol)
        .arg(format!("http://{address}{path}"))
        .kill_on_drop(true);
    command
}

/// Sends requests, and returns how many were answered with which status.
async fn statuses(
    address: SocketAddr,
    requests: usize,
    protocol: &[&str],
) -> BTreeMap<String, usize> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = h2load(address, "/", requests, protocol);
    let _ = command.arg(format!("--log-file={}", log.display()));
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut statuses = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        // When it began, the status, and how long it took.
        let status = line.split('\t').nth(1).unwrap();
        *statuses.entry(status.to_owned()).or_default() += 1;
    }
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_requests_run_at_once_than_a_client_has_places() {
    let hour = Duration::from_secs(3600);
    let leases = ConcurrencyLimiter::new(MemoryStore::new(), "requests", 10, hour).unwrap();
    let limiter = RateLimiter::new(MemoryStore::new(), ["requests=gcra:1000000/1s"]).unwrap();
    let layer = InboundLayer::new(limiter, ClientIp::peer()).hold(leases);
    let [running, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let (runs, reached) = (running.clone(), most.clone());
    let handler = async move || {
        let _ = reached.fetch_max(runs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        let _ = runs.fetch_sub(1, Ordering::SeqCst);
    };
    let app = Router::new().route("/", any(handler)).layer(layer);
    let address = serve(app).await;
    for protocol in PROTOCOLS {
        let statuses = statuses(address, 2_000, protocol).await;
        assert_eq!(statuses.values().sum::<usize>(), 2_000);
        assert!(statuses.keys().eq(["200", "429"]), "{statuses:?}");
        assert!((2..=10).contains(&most.swap(0, Ordering::SeqCst)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_gives_its_places_back() {
    let server = Holding::serve(50, ClientIp::peer()).await;
    for path in ["/silent", "/flood", "/never"] {
        for protocol in PROTOCOLS {
            let mut command = h2load(server.address, path, 1_000, protocol);
            let mut client = command.stdout(Stdio::null()).spawn().unwrap();
            server.until_full().await;
            client.kill().await.unwrap();
            server.until_free().await;
        }
    }
}

/// Sends a request on a connection of its own, and returns the status of its response.
fn guess(address: SocketAddr) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = b"GET /login HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    connection.write_all(request).unwrap();
    let mut response = String::new();
    let _ = connection.read_to_string(&mut response).unwrap();
    response.split(' ').nth(1).unwrap().to_owned()
}

/// The handlers use up the threads, so that the service reads the replies of a healthy server late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_guesses_while_a_service_is_busy_has_as_many_guesses_as_ever() {
    let server = Server::start(Flavor::System);
    let redis = RedisStore::connect(server.url()).await.unwrap();
    let store = Arc::new(usual(redis, AllowAll));
    let layer = |limit| {
        let limiter = RateLimiter::new(store.clone(), [limit]).unwrap();
        InboundLayer::new(limiter, ClientIp::peer())
    };
    let work = any(async || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
    });
    let app = Router::new()
        .route("/work", work.layer(layer("work=gcra:1000000/1s")))
        .route(
            "/login",
            any(async || "welcome").layer(layer("login=sliding-log:5/1m")),
        );
    let address = serve(app).await;
    let mut command = h2load(address, "/work", 1_000_000, PROTOCOLS[0]);
    let mut others = command.stdout(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_secs(1)).await;
    let guessing = (0..24).map(|_| thread::spawn(move || [(); 5].map(|()| guess(address))));
    let guessing: Vec<_> = guessing.collect();
    let statuses = tokio::task::spawn_blocking(|| {
        let guesses = guessing
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        guesses.collect::<Vec<_>>()
    });
    let statuses = statuses.await.unwrap();
    let admitted = statuses.iter().filter(|status| *status == "200").count();
    let denied = statuses.iter().filter(|status| *status == "429").count();
    assert_eq!((admitted, denied), (5, 115));
    others.kill().await.unwrap();
}

//! A server that is gone, hangs, or answers with noise.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

use crate::client::{Client, Connected};

/// The longest that a call may take to fail at once, on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(2);
const AMOUNT: u64 = 1_000_000;
/// How many calls a store may have in flight.
const PLACES: u64 = 4_096;
const CALLS: u64 = 2 * PLACES;

type Limiter = RateLimiter<Connected>;

fn options(deadline_ms: u64) -> Options {
    Options::default().with_deadline(Duration::from_millis(deadline_ms))
}

async fn limiter(client: &dyn Client, url: &str, options: Options) -> Limiter {
    let store = client.server(url, options).await.unwrap();
    RateLimiter::new(store, ["all=fixed-window:1000000/1h,anchored"]).unwrap()
}

/// Calls until a call succeeds, and returns how many were counted before. Calls that fail must fail
/// at once.
async fn until_answered(limiter: &Limiter) -> u64 {
    let started = Instant::now();
    loop {
        let called = Instant::now();
        match limiter.check("key").await {
            Ok(decision) => return AMOUNT - decision.remaining() - 1,
            Err(error) => assert!(called.elapsed() < AT_ONCE, "{error}"),
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(5)).await;
    }
}

/// While a server is gone, calls fail at once and are known not to be counted, and nobody connects.
pub async fn a_stopped_server_fails_calls_at_once_until_it_is_back(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let limiter = limiter(client, &server.url(), options(5_000)).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
    server.kill();
    sleep(Duration::from_millis(200)).await;
    // Until the client notices the lost connection, a call may have been sent.
    let killed = Instant::now();
    while limiter.check("key").await.unwrap_err().kind() == ErrorKind::Unknown {
        assert!(killed.elapsed() < Duration::from_secs(10), "not noticed");
    }
    for _ in 0..10 {
        let called = Instant::now();
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_retryable() && called.elapsed() < AT_ONCE);
    }
    let nobody = client.server(&server.url(), options(1_000)).await;
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::Unavailable);
    server.restart();
    assert_eq!(until_answered(&limiter).await, 0);
}

/// Of far more calls at once than may be in flight, while the server hangs, those that found no place
/// among them are known not to have been sent, and say so.
pub async fn calls_beyond_those_in_flight_are_known_not_to_be_sent(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    // Less than the time after which the connection is lost, and so long that all calls are made within
    // half of it: those that are later get the places of those that time out.
    let options = options(4_000).with_batches(false);
    let limiter = limiter(client, &server.url(), options).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
    block_in_place(|| server.pause());
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check("key").await.map(|_| ()) });
    }
    let (mut unknown, mut unsent) = (0, 0);
    for outcome in calls.join_all().await {
        let error = outcome.unwrap_err();
        match error.kind() {
            ErrorKind::Unknown => unknown += 1,
            ErrorKind::Unavailable => {
                let text = error.to_string();
                assert!(text.contains("too many calls are in flight"), "{text}");
                unsent += 1;
            }
            _ => panic!("{error}"),
        }
    }
    assert!(unknown <= PLACES, "{unknown} unknown, {unsent} not sent");
    block_in_place(|| server.resume());
    let left = limiter.peek("key").await.unwrap().remaining();
    let counted = AMOUNT - 1 - left;
    assert!(counted <= unknown, "{counted} were counted of {unknown}");
}

/// A call whose reply is noise counts once, its error differs from a lost reply's, and calls work
/// afterwards.
pub async fn a_call_with_a_garbled_reply_is_not_sent_again(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let (address, garbles_next) = garbler(&server);
    let limiter = limiter(client, &format!("redis://{address}"), options(3_000)).await;
    for round in 0..3 {
        limiter.reset("key").await.unwrap();
        assert!(limiter.check("key").await.unwrap().is_allowed());
        // Wait, because clients trust a new connection for a moment.
        sleep(Duration::from_millis(200)).await;
        garbles_next.store(true, Ordering::SeqCst);
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{round}: {error:?}");
        assert!(!error.is_retryable());
        let begun = Instant::now();
        let left = loop {
            match limiter.peek("key").await {
                Ok(decision) => break decision.remaining(),
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(10), "{error:?}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(left, AMOUNT - 2, "counted once");
    }
}

/// Starts a proxy that forwards everything, except that it replaces one reply by noise whenever that is
/// asked for.
fn garbler(server: &Server) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let garbles_next = Arc::new(AtomicBool::new(false));
    let (upstream, garbles) = (server.address(), Arc::clone(&garbles_next));
    // This thread ends with the test's process.
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(&upstream).unwrap();
            let never = Arc::new(AtomicBool::new(false));
            pass(client.try_clone(), server.try_clone(), never);
            pass(Ok(server), Ok(client), Arc::clone(&garbles));
        }
    });
    (address, garbles_next)
}

/// Forwards bytes from `from` as they arrive.
fn pass(from: io::Result<TcpStream>, to: io::Result<TcpStream>, garbles_next: Arc<AtomicBool>) {
    let (mut from, mut to) = (from.unwrap(), to.unwrap());
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let sent = match garbles_next.swap(false, Ordering::SeqCst) {
                true => to.write_all(b"?noise\r\n"),
                false => to.write_all(&bytes[..count]),
            };
            if sent.is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

//! Invalid replies: the server executes a call, but the client receives noise.
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store};
use tollgate_testkit::Server;

/// A proxy that forwards everything, except that it can replace one reply by noise.
struct Garbler {
    address: String,
    garbles_next: Arc<AtomicBool>,
}

impl Garbler {
    fn start(server: &Server) -> Self {
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
        Self {
            address,
            garbles_next,
        }
    }
}

/// Forwards bytes from `from` as they arrive.
fn pass(from: io::Result<TcpStream>, to: io::Result<TcpStream>, garbles_next: Arc<AtomicBool>) {
    let (mut from, mut to) = (from.unwrap(), to.unwrap());
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let noise = b"?noise\r\n";
            let sent = match garbles_next.swap(false, Ordering::SeqCst) {
                true => to.write_all(noise),
                false => to.write_all(&bytes[..count]),
            };
            if sent.is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("hourly", FixedWindow::anchored(Quota::per_hour(100)));
    RateLimiter::new(store, [limit.unwrap()]).unwrap()
}

/// Checks that a call whose reply is noise counts once, that its error differs from a lost reply's,
/// and that calls work afterwards.
pub async fn is_counted_once<S: Store>(server: &Server, connect: impl AsyncFn(String) -> S) {
    let garbler = Garbler::start(server);
    let limiter = limiter(connect(format!("redis://{}", garbler.address)).await);
    for round in 0..3 {
        limiter.reset("key").await.unwrap();
        assert_eq!(limiter.check("key").await.unwrap().remaining(), 99);
        // Wait, because clients trust a new connection for a moment.
        tokio::time::sleep(Duration::from_millis(200)).await;
        garbler.garbles_next.store(true, Ordering::SeqCst);
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{round}: {error:?}");
        assert!(!error.is_retryable());
        let begun = std::time::Instant::now();
        let left = loop {
            match limiter.peek("key").await {
                Ok(decision) => break decision.remaining(),
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(10), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(left, 98, "counted once");
    }
}

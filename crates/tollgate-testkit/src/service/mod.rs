//! `Service`: a web service that enforces a limit of its own, for tests of its clients.

mod rule;

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::time::sleep;

pub use self::rule::Rule;
use self::rule::{Answer, Counted};

/// The header in which a client says when a request departed: [`clock_micros`].
const DEPARTED: HeaderName = HeaderName::from_static("x-departed");

/// A web service on a port of its own that enforces a limit: it counts a request when it arrives,
/// after a random part of its journey, and answers 200 or 429.
///
/// Its answers have the headers `X-RateLimit-Limit`, `-Remaining` and `-Reset-Ms`; a 429 also has
/// `Retry-After-Ms`. Requests that are refused do not count.
///
/// It is closed when this is dropped.
pub struct Service {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    counted: Mutex<(Counted, Counts)>,
    jitter: Duration,
}

/// What a [`Service`] has seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// The requests that it answered with 200.
    pub accepted: u64,
    /// The requests that it answered with 429.
    pub refused: u64,
    /// The longest time, in microseconds, from the departure of a request, in the header
    /// `X-Departed`, to its arrival.
    pub longest_journey_us: u64,
}

/// Returns the time of a clock that all processes of this machine share, and that never steps, in
/// microseconds.
#[must_use]
pub fn clock_micros() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let micros = time.tv_sec.saturating_mul(1_000_000) + time.tv_nsec / 1_000;
    u64::try_from(micros).unwrap_or_default()
}

impl Service {
    /// Starts a service that enforces `rule`. Each request takes up to `jitter` longer than others
    /// to arrive, at random.
    #[must_use]
    pub fn start(rule: Rule, jitter: Duration) -> Self {
        let shared = Arc::new(Shared {
            counted: Mutex::new((Counted::new(rule, clock_micros()), Counts::default())),
            jitter,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener
            .set_nonblocking(true)
            .expect("a socket can be read without waiting");
        let address = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can start");
            runtime.block_on(async {
                tokio::spawn(accept(listener, serving));
                // The sender is dropped to stop.
                let _ = stopped.await;
            });
        });
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns what it has seen so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.lock().1
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("address", &self.address)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((stream, _)) = listener.accept().await {
        // Small answers wait for nothing.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let answer = service_fn(move |request| answer(Arc::clone(&shared), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let departed = request.headers().get(DEPARTED);
    let departed = departed.and_then(|time| time.to_str().ok()?.parse().ok());
    sleep(shared.rest_of_the_journey()).await;
    let answer = shared.count(departed);
    let mut response = Response::builder()
        .header("x-ratelimit-limit", answer.amount)
        .header("x-ratelimit-remaining", answer.remaining)
        .header(
            "x-ratelimit-reset-ms",
            answer.reset_after_us.div_ceil(1_000),
        );
    if !answer.is_accepted {
        response = response
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("retry-after-ms", answer.reset_after_us.div_ceil(1_000));
    }
    let response = response.body(Empty::new());
    Ok(response.expect("numbers are valid headers"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (Counted, Counts)> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a random time from zero to the jitter.
    fn rest_of_the_journey(&self) -> Duration {
        let most = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.lock().0.random() % most.saturating_add(1))
    }

    fn count(&self, departed: Option<u64>) -> Answer {
        let mut counted = self.lock();
        let now = clock_micros();
        let answer = counted.0.count(now);
        let counts = &mut counted.1;
        if answer.is_accepted {
            counts.accepted += 1;
        } else {
            counts.refused += 1;
        }
        let journey = departed.map_or(0, |departed| now.saturating_sub(departed));
        counts.longest_journey_us = counts.longest_journey_us.max(journey);
        answer
    }
}

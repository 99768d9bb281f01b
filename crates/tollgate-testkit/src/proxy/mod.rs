//! `Proxy`: a TCP proxy in front of a server that simulates network faults.

mod frame;
mod link;
mod orders;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::port::Port;
use link::Link;
use orders::Orders;

/// A proxy between clients and one server. It forwards everything until one of its methods breaks
/// it, or sends later connections to another server.
///
/// It splits the stream into requests and replies, of RESP2 and RESP3. It forwards messages that
/// the server pushes, for example to subscribers, but does not count them as replies.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    upstream: Arc<Mutex<String>>,
    orders: Arc<Orders>,
    links: Arc<Mutex<Vec<Arc<Link>>>>,
    acceptor: Mutex<Option<Acceptor>>,
}

/// The thread that accepts connections.
#[derive(Debug)]
struct Acceptor {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`, such as `127.0.0.1:6379`.
    ///
    /// The server need not be running yet: until it is, new connections are closed at once.
    #[track_caller]
    pub fn start(upstream: impl Into<String>) -> Self {
        let proxy = Self {
            port: Port::choose(),
            upstream: Arc::new(Mutex::new(upstream.into())),
            orders: Arc::default(),
            links: Arc::default(),
            acceptor: Mutex::new(None),
        };
        proxy.accept();
        proxy
    }

    /// Returns the proxy's port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the proxy's URL, such as `redis://127.0.0.1:11000`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Forwards new connections to the server at `upstream`. Open connections stay as they are, as
    /// those of a service whose address leads to another server after a failover.
    pub fn lead_to(&self, upstream: impl Into<String>) {
        *lock(&self.upstream) = upstream.into();
    }

    /// Delays each reply by `time`, as a slow network would; zero ends the delay.
    pub fn delay_replies(&self, time: Duration) {
        self.orders.set_delay(time);
    }

    /// Drops the next `count` replies, on any connections, and forwards those after them; the server still
    /// executes the requests.
    ///
    /// A connection that has lost a reply gets no later ones either, because its client would take
    /// them for answers to the wrong requests.
    pub fn drop_replies(&self, count: u64) {
        self.orders.set_drops(count);
    }

    /// Cuts all connections; clients may reconnect.
    pub fn cut(&self) {
        for link in lock(&self.links).drain(..) {
            link.cut();
        }
    }

    /// Cuts a connection after the server has executed its next request with the command `command`,
    /// such as `EVALSHA`, in upper or lower case, and before the reply is forwarded. Replies to
    /// earlier requests are still forwarded.
    pub fn cut_after_next(&self, command: &str) {
        self.orders.cut_after(command);
    }

    /// Refuses new connections until [`accept`](Self::accept), as if the server were down. Open
    /// connections stay open.
    pub fn refuse(&self) {
        let Some(acceptor) = lock(&self.acceptor).take() else {
            return;
        };
        acceptor.stopped.store(true, Ordering::SeqCst);
        // Connect, to wake the acceptor, which then sees that it must stop.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
        let _ = acceptor.thread.join();
    }

    /// Accepts new connections again after [`refuse`](Self::refuse).
    #[track_caller]
    pub fn accept(&self) {
        let mut acceptor = lock(&self.acceptor);
        if acceptor.is_some() {
            return;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port()));
        let listener = listener.expect("the port that was chosen");
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, upstream) = (Arc::clone(&stopped), Arc::clone(&self.upstream));
        let (orders, links) = (Arc::clone(&self.orders), Arc::clone(&self.links));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let upstream = lock(&upstream).clone();
                // If the client is gone or the server is down, wait for the next connection.
                let link = stream.and_then(|stream| Link::open(stream, &upstream, &orders));
                if let Ok(link) = link {
                    orders.connections.fetch_add(1, Ordering::SeqCst);
                    let mut links = lock(&links);
                    links.retain(|link| !link.has_ended());
                    links.push(link);
                }
            }
        });
        *acceptor = Some(Acceptor { stopped, thread });
    }

    /// Returns the number of connections forwarded to the server so far.
    pub fn connections(&self) -> u64 {
        self.orders.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

/// Locks `mutex` even if a thread panicked with it: every change is a single step, so it is
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

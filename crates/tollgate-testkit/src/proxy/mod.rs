//! A proxy that breaks what a network breaks.

mod frame;
mod link;
mod orders;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::port::Port;
use link::Link;
use orders::{Orders, Replies};

/// A proxy between clients and one server, which passes everything on until it is told otherwise.
///
/// It understands what it passes on as far as to tell one request or reply from the next, of RESP2
/// and RESP3 alike. What a server sends unasked, as to subscribers, is passed on and counts as
/// nothing.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    upstream: String,
    orders: Arc<Orders>,
    links: Arc<Mutex<Vec<Link>>>,
    acceptor: Mutex<Option<Acceptor>>,
}

/// The thread that takes connections.
#[derive(Debug)]
struct Acceptor {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`, such as `127.0.0.1:6379`.
    ///
    /// The server need not be there yet: a connection ends at once as long as it is not.
    ///
    /// # Panics
    ///
    /// Panics if the proxy finds no port to listen on.
    #[track_caller]
    pub fn start(upstream: impl Into<String>) -> Self {
        let proxy = Self {
            port: Port::choose(),
            upstream: upstream.into(),
            orders: Arc::default(),
            links: Arc::default(),
            acceptor: Mutex::new(None),
        };
        proxy.accept();
        proxy
    }

    /// Returns where the proxy listens, such as `127.0.0.1:11000`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the port that the proxy listens on.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns where the proxy listens as a client takes it, such as `redis://127.0.0.1:11000`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Holds every reply back for `time` after its arrival, as a long way would; zero ends that.
    pub fn delay_replies(&self, time: Duration) {
        self.orders.set_delay(time);
    }

    /// Swallows the next `count` replies, of whatever connections: the requests are executed.
    ///
    /// A connection that has lost a reply gets none of the later ones either, as on a network: a
    /// client could but take one for the answer to another question.
    pub fn drop_replies(&self, count: u64) {
        self.orders.set_replies(Replies::Drop(count));
    }

    /// Swallows all replies from now on, until [`deliver_replies`](Self::deliver_replies).
    pub fn drop_all_replies(&self) {
        self.orders.set_replies(Replies::Drop(u64::MAX));
    }

    /// Passes replies on again, to connections that have lost none.
    pub fn deliver_replies(&self) {
        self.orders.set_replies(Replies::Deliver);
    }

    /// Cuts every connection now; new ones may be made.
    pub fn cut(&self) {
        for link in self.links().drain(..) {
            link.cut();
        }
    }

    /// Cuts a connection once the next request on it was executed and before its reply is passed
    /// on; the replies to earlier requests are.
    pub fn cut_after_next_request(&self) {
        self.orders.cut_after(None);
    }

    /// Does the same as [`cut_after_next_request`](Self::cut_after_next_request) with the next
    /// request whose first word is `command`, in any case of letters, such as `EVALSHA`.
    pub fn cut_after_next(&self, command: &str) {
        self.orders.cut_after(Some(command));
    }

    /// Refuses new connections until [`accept`](Self::accept), as a server that is down does;
    /// those that are open stay so.
    pub fn refuse(&self) {
        let Some(acceptor) = self.acceptor().take() else {
            return;
        };
        acceptor.stopped.store(true, Ordering::SeqCst);
        // It waits for a connection, and finds the order after this one.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
        let _ = acceptor.thread.join();
    }

    /// Accepts new connections again, as at first.
    ///
    /// # Panics
    ///
    /// Panics if some other program has taken the port meanwhile.
    #[track_caller]
    pub fn accept(&self) {
        let mut acceptor = self.acceptor();
        if acceptor.is_some() {
            return;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port()));
        let listener = listener.expect("the port that was chosen");
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, upstream) = (Arc::clone(&stopped), self.upstream.clone());
        let (orders, links) = (Arc::clone(&self.orders), Arc::clone(&self.links));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                // A client that is gone again, or a server that is not there: the next may do.
                if let Ok(link) = stream.and_then(|stream| open(stream, &upstream, &orders)) {
                    let mut links = lock(&links);
                    links.retain(|link| !link.has_ended());
                    links.push(link);
                }
            }
        });
        *acceptor = Some(Acceptor { stopped, thread });
    }

    /// Returns how many connections were passed on to the server so far.
    pub fn connections(&self) -> u64 {
        self.orders.connections.load(Ordering::SeqCst)
    }

    /// Returns how many connections are open.
    pub fn open_connections(&self) -> usize {
        let links = self.links();
        links.iter().filter(|link| !link.has_ended()).count()
    }

    /// Returns how many requests were passed on to the server so far.
    pub fn requests(&self) -> u64 {
        self.orders.requests.load(Ordering::SeqCst)
    }

    /// Returns how many replies were passed on to clients so far.
    pub fn replies(&self) -> u64 {
        self.orders.replies.load(Ordering::SeqCst)
    }

    /// Returns how many bytes of requests were passed on to the server so far.
    pub fn request_bytes(&self) -> u64 {
        self.orders.request_bytes.load(Ordering::SeqCst)
    }

    /// Returns how many bytes of replies were passed on to clients so far.
    pub fn reply_bytes(&self) -> u64 {
        self.orders.reply_bytes.load(Ordering::SeqCst)
    }

    fn links(&self) -> MutexGuard<'_, Vec<Link>> {
        lock(&self.links)
    }

    fn acceptor(&self) -> MutexGuard<'_, Option<Acceptor>> {
        lock(&self.acceptor)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

fn open(client: TcpStream, upstream: &str, orders: &Arc<Orders>) -> io::Result<Link> {
    let link = Link::open(client, upstream, orders)?;
    orders.connections.fetch_add(1, Ordering::SeqCst);
    Ok(link)
}

/// Locks what a thread that panicked has left in order: every change is made in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

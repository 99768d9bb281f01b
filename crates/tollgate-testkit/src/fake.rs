//! `FakeServer`: a server whose replies a test chooses.

use std::fmt;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::connection::{Reply, read};
use crate::port::Port;

/// What a [`FakeServer`] does after it has received a command.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "tests construct it")]
pub enum Answer {
    /// Sends a reply in the Redis protocol, such as `+OK\r\n`.
    Reply(String),
    /// Sends a reply, and closes the connection at once.
    ReplyAndClose(String),
    /// Never replies.
    Nothing,
}

impl From<&str> for Answer {
    fn from(reply: &str) -> Self {
        Self::Reply(reply.to_owned())
    }
}

impl From<String> for Answer {
    fn from(reply: String) -> Self {
        Self::Reply(reply)
    }
}

type Script = dyn Fn(&[String]) -> Answer + Send + Sync;

/// A server on a port of its own that answers each command with what a function returns.
///
/// It is for tests of rare replies, and of what a client sends and how often. It is closed when
/// this is dropped.
pub struct FakeServer {
    port: Port,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_closed: AtomicBool,
    links: Mutex<Vec<TcpStream>>,
    commands: Mutex<Vec<Vec<String>>>,
}

impl FakeServer {
    /// Starts a server that answers each command, given as its words, with `answer`.
    #[track_caller]
    pub fn start(answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_on(Port::choose(), answer)
    }

    /// Starts a node of a cluster. It says that each of `others` serves one slot, and it the rest.
    /// `answer` gets the commands other than `CLUSTER`.
    #[track_caller]
    pub fn start_node(
        others: &[&Self],
        answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let port = Port::choose();
        let range = |first: usize, last: usize, port: u16| {
            let node = format!("*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$5\r\n{port}\r\n");
            format!("*3\r\n:{first}\r\n:{last}\r\n{node}")
        };
        let mut slots = format!("*{}\r\n", others.len() + 1);
        slots += &range(others.len(), 16_383, port.number());
        for (slot, other) in others.iter().enumerate() {
            slots += &range(slot, slot, other.port());
        }
        Self::start_on(port, move |words| match &*words[0] {
            "CLUSTER" if words.get(1).is_some_and(|word| word == "INFO") => {
                "$16\r\ncluster_state:ok\r\n".into()
            }
            "CLUSTER" => slots.as_str().into(),
            _ => answer(words),
        })
    }

    fn start_on(port: Port, answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number()));
        let listener = listener.expect("a port to listen on");
        let shared = Arc::<Shared>::default();
        let answer: Arc<Script> = Arc::new(answer);
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for link in listener.incoming() {
                    if shared.is_closed.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Ok(link) = link {
                        let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                        lock(&shared.links).extend(link.try_clone());
                        thread::spawn(move || serve(link, &shared, &*answer));
                    }
                }
            }
        });
        Self {
            port,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Returns the server's port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the server's URL, such as `redis://127.0.0.1:11000`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Closes all connections. New ones are accepted.
    pub fn cut(&self) {
        for link in lock(&self.shared.links).drain(..) {
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Returns all received commands, as their words, in order of arrival.
    pub fn commands(&self) -> Vec<Vec<String>> {
        lock(&self.shared.commands).clone()
    }

    /// Returns how many of the received commands begin with `word`.
    pub fn count(&self, word: &str) -> usize {
        let commands = lock(&self.shared.commands);
        let named = commands
            .iter()
            .filter(|words| words.first().is_some_and(|first| first == word));
        named.count()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // The acceptor only looks after it has accepted a connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number()));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.cut();
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServer")
            .field("port", &self.port.number())
            .finish_non_exhaustive()
    }
}

/// Answers the commands of one connection until it ends.
fn serve(link: TcpStream, shared: &Shared, answer: &Script) {
    let Ok(mut replies) = link.try_clone() else {
        return;
    };
    let _ = link.set_nodelay(true);
    let mut commands = BufReader::new(link);
    while let Ok(command) = read(&mut commands) {
        let words = command.items().iter().map(|word| match word {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        });
        let words: Vec<_> = words.collect();
        lock(&shared.commands).push(words.clone());
        let (reply, closes) = match answer(&words) {
            Answer::Reply(reply) => (reply, false),
            Answer::ReplyAndClose(reply) => (reply, true),
            Answer::Nothing => continue,
        };
        let sent = replies.write_all(reply.as_bytes());
        if closes || sent.is_err() {
            break;
        }
    }
    let _ = replies.shutdown(Shutdown::Both);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! `Link`: one client connection through a proxy.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::frame::{Frame, Frames};
use super::lock;
use super::orders::Orders;

/// A client's connection, and the connection to the server for it.
///
/// It has three threads: one forwards requests, one reads replies, and one sends them to the client
/// when they are due.
#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    orders: Arc<Orders>,
    ended: AtomicBool,
    /// The numbers of the requests before whose replies to cut.
    cuts: Mutex<BTreeSet<u64>>,
}

impl Link {
    pub(super) fn open(
        client: TcpStream,
        upstream: &str,
        orders: &Arc<Orders>,
    ) -> io::Result<Arc<Self>> {
        let server = TcpStream::connect(upstream)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let link = Arc::new(Self {
            client,
            server,
            orders: Arc::clone(orders),
            ended: AtomicBool::new(false),
            cuts: Mutex::default(),
        });
        let (sender, receiver) = channel();
        let requests = Arc::clone(&link);
        thread::spawn(move || requests.end_after(requests.pass_requests()));
        let replies = Arc::clone(&link);
        // This thread only drops the sender, so that replies that have arrived are still delivered.
        thread::spawn(move || replies.take_replies(&sender));
        let delivered = Arc::clone(&link);
        thread::spawn(move || delivered.end_after(delivered.deliver(&receiver)));
        Ok(link)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub(super) fn cut(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            // Fails if the other side has already closed; that is fine.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// When one direction ends, so does the other.
    fn end_after(&self, _outcome: io::Result<()>) {
        self.cut();
    }

    fn pass_requests(&self) -> io::Result<()> {
        let mut number = 0;
        each(&self.client, |frame| {
            // Before the request is sent, so that its reply cannot arrive first.
            if self.orders.take_cut(frame.command()) {
                lock(&self.cuts).insert(number);
            }
            number += 1;
            (&self.server).write_all(&frame.0)
        })
    }

    fn take_replies(&self, sender: &Sender<(Instant, Frame)>) -> io::Result<()> {
        let mut number = 0;
        each(&self.server, |frame| {
            if !frame.is_push() {
                if lock(&self.cuts).contains(&number) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                number += 1;
            }
            let sent = sender.send((Instant::now(), frame));
            sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
        })
    }

    fn deliver(&self, receiver: &Receiver<(Instant, Frame)>) -> io::Result<()> {
        let mut has_lost = false;
        for (arrived, frame) in receiver {
            let due = arrived + self.orders.delay();
            thread::sleep(due.saturating_duration_since(Instant::now()));
            has_lost |= !frame.is_push() && self.orders.take_drop();
            if has_lost {
                continue;
            }
            (&self.client).write_all(&frame.0)?;
        }
        Ok(())
    }
}

/// Calls `work` with each request or reply from `stream`, until the stream ends.
fn each(mut stream: &TcpStream, mut work: impl FnMut(Frame) -> io::Result<()>) -> io::Result<()> {
    let mut frames = Frames::default();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        frames.push(&buffer[..count]);
        while let Some(frame) = frames.next() {
            work(frame)?;
        }
    }
}

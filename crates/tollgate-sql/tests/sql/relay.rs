//! `Relay`: connections to a server that break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to a server.
pub(crate) struct Relay {
    port: u16,
    upstream: watch::Sender<String>,
    cuts: watch::Sender<u64>,
    /// Whether replies are thrown away.
    is_mute: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) async fn start(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            upstream: watch::Sender::new(upstream),
            cuts: watch::Sender::new(0),
            is_mute: Arc::default(),
        };
        let (upstream, cuts) = (relay.upstream.subscribe(), relay.cuts.subscribe());
        let is_mute = Arc::clone(&relay.is_mute);
        drop(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = upstream.borrow().clone();
                let (mut cuts, is_mute) = (cuts.clone(), Arc::clone(&is_mute));
                let _ = cuts.borrow_and_update();
                drop(tokio::spawn(async move {
                    tokio::select! {
                        _ = cuts.changed() => {}
                        _ = forward(client, upstream, &is_mute) => {}
                    }
                }));
            }
        }));
        relay
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Cuts all connections; clients may connect again.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Throws replies away, or no longer.
    pub(crate) fn mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::SeqCst);
    }

    /// Leads new connections to another server.
    pub(crate) fn lead_to(&self, upstream: String) {
        let _ = self.upstream.send_replace(upstream);
    }
}

async fn forward(client: TcpStream, upstream: String, is_mute: &AtomicBool) -> std::io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut to_client) = client.into_split();
    let (mut replies, mut to_server) = server.into_split();
    let answer = async {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = replies.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            if !is_mute.load(Ordering::SeqCst) {
                to_client.write_all(&buffer[..count]).await?;
            }
        }
    };
    tokio::select! {
        done = copy(&mut requests, &mut to_server) => done.map(drop),
        done = answer => done,
    }
}

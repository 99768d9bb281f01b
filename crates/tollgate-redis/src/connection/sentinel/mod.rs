//! `SentinelConnection`: a connection that follows the primary that Sentinels name.

use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::SentinelClient;
use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisError, RedisFuture, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tollgate_wire::inside::Pauses;

use super::multiplexed;
use crate::failure;
use crate::home::Home;
use crate::lock::lock;

/// The first pause before Sentinels are asked again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause before Sentinels are asked again.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long after it was found a primary is trusted, even if calls get no reply.
const TRUST: Duration = Duration::from_secs(1);

/// A connection to the primary that Sentinels name, which follows failovers.
///
/// If the connection is lost, or the server says that it is a replica, this asks the Sentinels
/// again in the background until it is connected to a primary. Meanwhile calls fail at once, and
/// nothing is sent. If a call ends without a reply, this asks the Sentinels too, but calls keep
/// using the old connection meanwhile. No command is sent again.
#[derive(Clone)]
pub struct SentinelConnection(Arc<Shared>);

impl SentinelConnection {
    /// Connects to the primary that `client` finds.
    ///
    /// The client must look for a primary (`SentinelServerType::Master`). Use [`tcp`](super::tcp) and
    /// RESP3 for the connection to it. With RESP3, this notices a lost connection before the next
    /// call does.
    ///
    /// # Errors
    ///
    /// If no Sentinel answers, none knows a primary, or connecting to it fails.
    ///
    /// # Examples
    ///
    /// One password for the Sentinels, another for the server, and TLS to both, with certificates
    /// that the system does not know:
    ///
    /// ```no_run
    /// # #[cfg(feature = "tls-rustls")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::redis::sentinel::{SentinelClientBuilder, SentinelServerType};
    /// use tollgate_redis::redis::{ConnectionAddr, ProtocolVersion, TlsCertificates, TlsMode};
    /// use tollgate_redis::RedisStore;
    /// use tollgate_redis::connection::{SentinelConnection, tcp};
    ///
    /// let certificates = TlsCertificates {
    ///     client_tls: None,
    ///     root_cert: Some(std::fs::read("authority.pem")?),
    /// };
    /// let sentinels = ["10.0.0.1", "10.0.0.2"].map(|host| ConnectionAddr::TcpTls {
    ///     host: host.to_owned(),
    ///     port: 26379,
    ///     insecure: false,
    ///     tls_params: None,
    /// });
    /// let primary = SentinelServerType::Master;
    /// let client = SentinelClientBuilder::new(sentinels, "mymaster", primary)?
    ///     .set_client_to_sentinel_password("word")
    ///     .set_client_to_sentinel_certificates(certificates.clone())
    ///     .set_client_to_redis_password("secret")
    ///     .set_client_to_redis_tls_mode(TlsMode::Secure)
    ///     .set_client_to_redis_certificates(certificates)
    ///     .set_client_to_redis_protocol(ProtocolVersion::RESP3)
    ///     .set_client_to_redis_tcp_settings(tcp())
    ///     .build()?;
    /// let store = RedisStore::new(SentinelConnection::new(client).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn new(client: SentinelClient) -> RedisResult<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                primary: Err(io::Error::from(io::ErrorKind::NotConnected).into()),
                home: Home::here(),
                generation: 0,
                found: Instant::now(),
            }),
            is_seeking: AtomicBool::new(false),
            client: tokio::sync::Mutex::new(client),
        });
        shared.find().await?;
        Ok(Self(shared))
    }
}

impl ConnectionLike for SentinelConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (mut primary, call) = self.0.primary()?;
            let reply = primary.req_packed_command(cmd).await;
            call.end(reply.and_then(Value::extract_error))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (mut primary, call) = self.0.primary()?;
            call.end(primary.req_packed_commands(cmd, offset, count).await)
        })
    }

    fn get_db(&self) -> i64 {
        match &lock(&self.0.state).primary {
            Ok(primary) => primary.get_db(),
            Err(_) => 0,
        }
    }
}

impl fmt::Debug for SentinelConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelConnection")
            .field("is_connected", &lock(&self.0.state).primary.is_ok())
            .finish_non_exhaustive()
    }
}

struct Shared {
    /// Never spawn a task or drop a connection while this is held. A runtime that shuts down drops
    /// a new task at once, on the spawning thread, and that may lock this again.
    state: Mutex<State>,
    /// Whether a [`Seeking`] exists.
    is_seeking: AtomicBool,
    /// Locked while Sentinels are asked.
    client: tokio::sync::Mutex<SentinelClient>,
}

/// A connection, or why there is none.
type Primary = Result<MultiplexedConnection, RedisError>;

struct State {
    primary: Primary,
    /// The runtime that drives the connection.
    home: Home,
    /// How many times a primary was found. Events of earlier connections are ignored.
    generation: u64,
    found: Instant,
}

impl State {
    /// Puts a connection into use, and returns the one before.
    fn replace(&mut self, primary: MultiplexedConnection, generation: u64) -> Primary {
        self.home = Home::here();
        self.generation = generation;
        self.found = Instant::now();
        mem::replace(&mut self.primary, Ok(primary))
    }

    /// Returns the connection of `generation`, which is not used any more because of `reason`,
    /// unless there is a newer one.
    fn lose(&mut self, generation: u64, reason: &RedisError) -> Option<Primary> {
        (self.generation == generation)
            .then(|| mem::replace(&mut self.primary, Err(reason.clone())))
    }

    /// Returns whether Sentinels should be asked because a call got no reply.
    fn is_doubtful(&self, generation: u64, now: Instant) -> bool {
        self.generation == generation && now - self.found >= TRUST
    }
}

impl Shared {
    /// Returns the connection for one call.
    ///
    /// If there is none, looks for one, unless that is being done. An earlier search may have ended
    /// with its runtime.
    fn primary(self: &Arc<Self>) -> RedisResult<(MultiplexedConnection, Unanswered)> {
        self.in_use().map_err(|reason| {
            self.seek();
            let reason = format!("Sentinels are being asked for a primary: {reason}");
            // `ConnectionRefused` is what says that nothing was sent.
            io::Error::new(io::ErrorKind::ConnectionRefused, reason).into()
        })
    }

    fn in_use(self: &Arc<Self>) -> RedisResult<(MultiplexedConnection, Unanswered)> {
        let state = lock(&self.state);
        let primary = state.primary.clone()?;
        if state.home.is_over() {
            return Err(disconnected());
        }
        let call = Unanswered {
            shared: Arc::clone(self),
            generation: state.generation,
            is_over: false,
        };
        Ok((primary, call))
    }

    /// Asks Sentinels for the primary, and connects to it.
    async fn find(self: &Arc<Self>) -> RedisResult<()> {
        let mut client = self.client.lock().await;
        let client = client.async_get_client().await?;
        let generation = lock(&self.state).generation + 1;
        let is_lost = Arc::new(AtomicBool::new(false));
        let mut config = multiplexed();
        let settings = client.get_connection_info().redis_settings();
        if settings.protocol().supports_resp3() {
            config = config.set_push_sender(self.listener(generation, &is_lost));
        }
        let primary = client.get_multiplexed_async_connection_with_config(&config);
        let primary = primary.await;
        self.install(primary?, generation, &is_lost)
    }

    /// Returns what to do with news of the connection of `generation`, which may not be in use yet.
    fn listener(
        self: &Arc<Self>,
        generation: u64,
        is_lost: &Arc<AtomicBool>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + use<> {
        let (shared, is_lost) = (Arc::downgrade(self), Arc::clone(is_lost));
        move |news| {
            if let (PushKind::Disconnection, Some(shared)) = (news.kind, shared.upgrade()) {
                is_lost.store(true, Ordering::Release);
                shared.lose(generation, &disconnected());
            }
            Ok(())
        }
    }

    /// Puts a connection into use, unless it was already lost: [`lose`](Self::lose) ignores
    /// connections that are not in use.
    fn install(
        &self,
        primary: MultiplexedConnection,
        generation: u64,
        is_lost: &AtomicBool,
    ) -> RedisResult<()> {
        let _earlier = {
            let mut state = lock(&self.state);
            // If it is lost from here on, `lose` waits for this lock, and finds the new generation.
            if is_lost.load(Ordering::Acquire) {
                return Err(disconnected());
            }
            state.replace(primary, generation)
        };
        Ok(())
    }

    /// Drops a connection that cannot be used any more, and looks for another.
    fn lose(self: &Arc<Self>, generation: u64, reason: &RedisError) {
        let lost = lock(&self.state).lose(generation, reason);
        if lost.is_some() {
            self.seek();
        }
    }

    /// Looks for another connection, keeping this one until it is found.
    fn doubt(self: &Arc<Self>, generation: u64) {
        let is_doubtful = lock(&self.state).is_doubtful(generation, Instant::now());
        if is_doubtful {
            self.seek();
        }
    }

    /// Looks for another connection in the background, unless that is being done. Outside a
    /// runtime, or in one that shuts down, a later call does it.
    fn seek(self: &Arc<Self>) {
        if !self.is_seeking.swap(true, Ordering::AcqRel) {
            let seeking = Seeking(Arc::downgrade(self));
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(seeking.run());
            }
        }
    }
}

fn disconnected() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// A running search for a primary. It ends when this is dropped, for example by a runtime that
/// shuts down.
struct Seeking(Weak<Shared>);

impl Seeking {
    async fn run(self) {
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        while !self.is_over().await {
            sleep(pauses.next_pause()).await;
        }
    }

    /// Looks for a primary once. Returns whether it is found, or nothing needs it any more.
    async fn is_over(&self) -> bool {
        let Some(shared) = self.0.upgrade() else {
            return true;
        };
        let Err(error) = shared.find().await else {
            return true;
        };
        if let Err(reason) = &mut lock(&shared.state).primary {
            *reason = error;
        }
        false
    }
}

impl Drop for Seeking {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.is_seeking.store(false, Ordering::Release);
        }
    }
}

/// A call in flight. If it is dropped before it ends, by a deadline, say, its primary is doubted.
struct Unanswered {
    shared: Arc<Shared>,
    generation: u64,
    is_over: bool,
}

impl Unanswered {
    fn end<T>(mut self, outcome: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &outcome {
            if error.is_unrecoverable_error() || failure::is_of_replica(error) {
                self.shared.lose(self.generation, error);
            } else if error.is_timeout() || failure::is_out_of_service(error) {
                // The primary is doubted when this is dropped.
                return outcome;
            }
        }
        self.is_over = true;
        outcome
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.doubt(self.generation);
        }
    }
}

#[cfg(test)]
mod tests;

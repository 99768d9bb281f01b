//! `SentinelConnection`: a connection that follows the primary that Sentinels name.

use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    Cmd, IntoConnectionInfo, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    RedisError, RedisFuture, RedisResult, Value,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;

use super::builder::RedisStoreBuilder;
use super::lock::lock;
use super::refused::refused;
use crate::settings;
use crate::store::RedisStore;

impl RedisStore<SentinelConnection> {
    /// Connects to the primary that the Sentinels at `urls` call `service`, and returns a store on
    /// it, with the default [`Options`](crate::Options) and settings for a rate limiter.
    ///
    /// A password or TLS in `urls` applies only to the Sentinels. If the primary requires either,
    /// make a [`SentinelConnection`] of your own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is not valid, or a password or a certificate is
    /// refused; [`ErrorKind::Unavailable`] if no Sentinel can be reached, or none knows a primary
    /// of `service`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let store = RedisStore::connect_sentinel(sentinels, "mymaster").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<U: IntoConnectionInfo>(
        urls: impl IntoIterator<Item = U>,
        service: &str,
    ) -> Result<Self, StoreError> {
        RedisStore::builder().connect_sentinel(urls, service).await
    }
}

impl RedisStoreBuilder {
    /// Connects to the primary that the Sentinels at `urls` call `service`, and returns a store on
    /// it.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect_sentinel`], and [`ErrorKind::Misconfigured`] if an option
    /// is not valid, or if there are certificates and a URL is not `rediss://`.
    pub async fn connect_sentinel<U: IntoConnectionInfo>(
        self,
        urls: impl IntoIterator<Item = U>,
        service: &str,
    ) -> Result<RedisStore<SentinelConnection>, StoreError> {
        let sentinels: Result<Vec<_>, _> = urls.into_iter().map(|url| self.address(url)).collect();
        let sentinels = sentinels?;
        let options = self.options?;
        let node = SentinelNodeConnectionInfo::default()
            .set_tcp_settings(settings::tcp())
            .set_redis_connection_info(
                RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3),
            );
        let primary = SentinelServerType::Master;
        // Without other features of redis-rs, this must be a `String`.
        let service = service.to_owned();
        let client = SentinelClient::build(sentinels, service, Some(node), primary);
        let connection = SentinelConnection::new(client.map_err(refused)?).await;
        Ok(RedisStore::with_options(
            connection.map_err(refused)?,
            options,
        ))
    }
}

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
    /// The client must look for a primary (`SentinelServerType::Master`). Use [`settings::tcp`] and
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
    /// use tollgate_redis::{RedisStore, SentinelConnection, settings};
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
    ///     .set_client_to_redis_tcp_settings(settings::tcp())
    ///     .build()?;
    /// let store = RedisStore::new(SentinelConnection::new(client).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn new(client: SentinelClient) -> RedisResult<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                primary: Err(io::Error::from(io::ErrorKind::NotConnected).into()),
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

struct State {
    /// The connection, or why there is none.
    primary: Result<MultiplexedConnection, RedisError>,
    /// How many times a primary was found. Events of earlier connections are ignored.
    generation: u64,
    found: Instant,
}

impl Shared {
    /// Returns the connection for one call.
    ///
    /// If there is none, looks for one, unless that is being done. An earlier search may have ended
    /// with its runtime.
    fn primary(self: &Arc<Self>) -> RedisResult<(MultiplexedConnection, Unanswered)> {
        let state = lock(&self.state);
        let reason = match &state.primary {
            Ok(primary) => {
                let call = Unanswered {
                    shared: Arc::clone(self),
                    generation: state.generation,
                    is_over: false,
                };
                return Ok((primary.clone(), call));
            }
            Err(reason) => format!("Sentinels are being asked for a primary: {reason}"),
        };
        drop(state);
        self.seek();
        // `ConnectionRefused` is what says that nothing was sent.
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, reason).into())
    }

    /// Asks Sentinels for the primary, and connects to it.
    async fn find(self: &Arc<Self>) -> RedisResult<()> {
        let mut client = self.client.lock().await;
        let client = client.async_get_client().await?;
        let generation = lock(&self.state).generation + 1;
        let is_lost = Arc::new(AtomicBool::new(false));
        let mut config = settings::connection();
        let settings = client.get_connection_info().redis_settings();
        if settings.protocol().supports_resp3() {
            let (shared, is_lost) = (Arc::downgrade(self), Arc::clone(&is_lost));
            config = config.set_push_sender(move |news: PushInfo| {
                if let (PushKind::Disconnection, Some(shared)) = (news.kind, shared.upgrade()) {
                    is_lost.store(true, Ordering::Release);
                    shared.lose(generation, &disconnected());
                }
                Ok::<(), ()>(())
            });
        }
        let primary = client.get_multiplexed_async_connection_with_config(&config);
        let primary = primary.await;
        self.install(primary?, generation, &is_lost)
    }

    /// Puts a connection into use, unless it was already lost: [`lose`](Self::lose) ignores
    /// connections that are not in use.
    fn install(
        &self,
        primary: MultiplexedConnection,
        generation: u64,
        is_lost: &AtomicBool,
    ) -> RedisResult<()> {
        let mut state = lock(&self.state);
        // If it is lost from here on, `lose` waits for this lock, and finds the new generation.
        if is_lost.load(Ordering::Acquire) {
            return Err(disconnected());
        }
        let earlier = mem::replace(&mut state.primary, Ok(primary));
        state.generation = generation;
        state.found = Instant::now();
        drop(state);
        drop(earlier);
        Ok(())
    }

    /// Drops a connection that cannot be used any more, and looks for another.
    fn lose(self: &Arc<Self>, generation: u64, reason: &RedisError) {
        let mut state = lock(&self.state);
        if state.generation == generation {
            let lost = mem::replace(&mut state.primary, Err(reason.clone()));
            drop(state);
            drop(lost);
            self.seek();
        }
    }

    /// Looks for another connection, keeping this one until it is found.
    fn doubt(self: &Arc<Self>, generation: u64) {
        let state = lock(&self.state);
        let is_doubtful = state.generation == generation && state.found.elapsed() >= TRUST;
        drop(state);
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
                runtime.spawn(seek(seeking));
            }
        }
    }
}

fn disconnected() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

async fn seek(seeking: Seeking) {
    let mut pause = FIRST_PAUSE;
    while let Some(shared) = seeking.0.upgrade() {
        match shared.find().await {
            Ok(()) => return,
            Err(error) => {
                if let Err(reason) = &mut lock(&shared.state).primary {
                    *reason = error;
                }
            }
        }
        drop(shared);
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// A running search for a primary. It ends when this is dropped, for example by a runtime that
/// shuts down.
struct Seeking(Weak<Shared>);

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
            if error.is_timeout() {
                return outcome;
            }
            if error.is_unrecoverable_error() || is_read_only(error) {
                self.shared.lose(self.generation, error);
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

/// Returns whether the server says `READONLY`, as a replica does. In a transaction that is nested
/// inside `EXECABORT`, and before Redis 7.0 inside a script's error.
fn is_read_only(error: &RedisError) -> bool {
    let errors = error.clone().into_server_errors().unwrap_or_default();
    errors.iter().any(|(_, said)| {
        let within = said.details();
        said.code() == "READONLY" || within.is_some_and(|said| said.contains("-READONLY"))
    })
}

#[cfg(test)]
mod tests {
    use redis::Client;
    use tollgate_testkit::{Flavor, Server};

    use super::*;

    async fn connect(server: &Server) -> MultiplexedConnection {
        let client = Client::open(server.url()).unwrap();
        let config = settings::connection();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        connection.await.unwrap()
    }

    #[tokio::test]
    async fn a_replica_is_recognized_by_its_reply() {
        for flavor in Flavor::chosen() {
            let server = Server::start(flavor);
            let mut connection = connect(&server).await;
            server.command(&["REPLICAOF", "127.0.0.1", "1"]);
            let mut set = redis::cmd("SET");
            set.arg("key").arg(1);
            let mut script = redis::cmd("EVAL");
            script.arg("return redis.call('SET', KEYS[1], 1)").arg(1);
            script.arg("key");
            let mut transaction = redis::pipe();
            transaction.atomic().add_command(set.clone());
            for said in [
                set.query_async::<()>(&mut connection).await,
                script.query_async(&mut connection).await,
                transaction.query_async(&mut connection).await,
            ] {
                let error = said.unwrap_err();
                assert!(is_read_only(&error), "{flavor}: {error}");
            }
            let other = redis::cmd("GET").query_async::<()>(&mut connection).await;
            assert!(!is_read_only(&other.unwrap_err()));
        }
    }

    #[tokio::test]
    async fn a_connection_lost_before_its_first_use_is_not_used() {
        let server = Server::start(Flavor::System);
        let service = SentinelClient::build(
            vec!["redis://127.0.0.1:1"],
            "primary",
            None,
            SentinelServerType::Master,
        );
        let shared = Shared {
            state: Mutex::new(State {
                primary: Err(disconnected()),
                generation: 0,
                found: Instant::now(),
            }),
            is_seeking: AtomicBool::new(false),
            client: tokio::sync::Mutex::new(service.unwrap()),
        };
        let is_lost = AtomicBool::new(true);
        let outcome = shared.install(connect(&server).await, 1, &is_lost);
        assert!(outcome.is_err() && lock(&shared.state).primary.is_err());
        let is_lost = AtomicBool::new(false);
        shared.install(connect(&server).await, 1, &is_lost).unwrap();
        assert!(lock(&shared.state).primary.is_ok());
    }
}

//! The two clients, and the commands that are sent through each by hand.

use std::time::Duration;

use fred::bytes::Bytes;
use fred::bytes_utils::Str;
use fred::clients::Client as FredClient;
use fred::interfaces::{ClientLike, Resp3Frame};
use fred::types::{ClusterHash, CustomCommand, Value};
use redis::aio::MultiplexedConnection;
use redis::{IntoConnectionInfo, ProtocolVersion};
use tollgate_core::{Limit, Store, StoreError, schedule};
use tollgate_fred::FredStore;
use tollgate_redis::{PlainStore, RedisStore};
use tollgate_testkit::Server;
use tollgate_wire::Options;

use super::capture::Sent;
use crate::Problem;

/// The TTL of a counter that is set by hand, in milliseconds.
const MINUTE_MS: u32 = 60_000;
/// Long enough for a shared machine; a shorter timer would cost the same.
const DEADLINE: Duration = Duration::from_secs(10);

/// One connection of each client.
pub(crate) struct Clients {
    pub(crate) redis: RedisRs,
    pub(crate) fred: Fred,
}

impl Clients {
    /// Connects to `server` with the same settings as the stores' own connections.
    pub(crate) async fn connect(server: &Server) -> Result<Self, Problem> {
        let info = server.url().into_connection_info()?;
        let settings = info.redis_settings().clone();
        let info = info
            .set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3))
            .set_tcp_settings(tollgate_redis::connection::tcp());
        let config = tollgate_redis::connection::multiplexed();
        let redis = redis::Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let fred = tollgate_fred::connection::builder(server.url(), &options())?.build()?;
        fred.init().await?;
        Ok(Self {
            redis: RedisRs(redis),
            fred: Fred(fred),
        })
    }

    /// Closes fred's client, which would keep reconnecting after the server has ended.
    pub(crate) async fn close(self) -> Result<(), Problem> {
        self.fred.0.quit().await?;
        Ok(())
    }
}

/// Returns the options of all measured stores: every call is sent by itself, to be compared with
/// commands that are.
pub(crate) fn options() -> Options {
    Options::new().with_deadline(DEADLINE).with_batches(false)
}

/// A client: commands by hand, as its own documentation shows them, and a store on the same
/// connection.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// The name of the client crate.
    const NAME: &'static str;

    type Store: Store + schedule::Store + 'static;

    /// Returns a store on the same connection.
    fn store(&self) -> Result<Self::Store, StoreError> {
        self.store_with(options())
    }

    /// Returns a store on the same connection, with `options`.
    fn store_with(&self, options: Options) -> Result<Self::Store, StoreError>;

    /// Loads a script, and returns its hash.
    fn load(&self, text: &str) -> impl Future<Output = Result<String, Problem>> + Send;

    fn ping(&self) -> impl Future<Output = Result<(), Problem>> + Send;

    fn increment(&self, key: &str) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Runs a script without keys that replies with a number.
    fn script(&self, sha1: &str) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Increments a counter with a TTL, in one transaction.
    fn transaction(&self, key: &str) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Sends what the library sends, and returns the reply that it would read.
    fn send(&self, sent: &Sent) -> impl Future<Output = Result<Vec<u8>, Problem>> + Send;
}

#[derive(Clone)]
pub(crate) struct RedisRs(pub(crate) MultiplexedConnection);

impl RedisRs {
    pub(crate) fn plain(
        &self,
        limits: &[Limit],
    ) -> Result<PlainStore<MultiplexedConnection>, StoreError> {
        PlainStore::new(self.0.clone(), options(), limits)
    }

    async fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, Problem> {
        Ok(command.query_async(&mut self.0.clone()).await?)
    }
}

impl Client for RedisRs {
    const NAME: &'static str = "redis-rs";

    type Store = RedisStore<MultiplexedConnection>;

    fn store_with(&self, options: Options) -> Result<Self::Store, StoreError> {
        Ok(RedisStore::with_options(self.0.clone(), options))
    }

    async fn load(&self, text: &str) -> Result<String, Problem> {
        self.query(redis::cmd("SCRIPT").arg("LOAD").arg(text)).await
    }

    async fn ping(&self) -> Result<(), Problem> {
        self.query(&redis::cmd("PING")).await
    }

    async fn increment(&self, key: &str) -> Result<(), Problem> {
        self.query(redis::cmd("INCR").arg(key)).await
    }

    async fn script(&self, sha1: &str) -> Result<(), Problem> {
        self.query(redis::cmd("EVALSHA").arg(sha1).arg(0)).await
    }

    async fn transaction(&self, key: &str) -> Result<(), Problem> {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("INCR").arg(key);
        pipe.cmd("PEXPIRE").arg(key).arg(MINUTE_MS).arg("NX");
        let mut connection = self.0.clone();
        let (_, _): (u64, u64) = pipe.query_async(&mut connection).await?;
        Ok(())
    }

    async fn send(&self, sent: &Sent) -> Result<Vec<u8>, Problem> {
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(&sent.sha1)
            .arg(sent.keys.len())
            .arg(&sent.keys)
            .arg(&sent.argument);
        self.query(&command).await
    }
}

#[derive(Clone)]
pub(crate) struct Fred(FredClient);

impl Fred {
    async fn frame(
        &self,
        name: &'static str,
        arguments: Vec<Value>,
    ) -> Result<Resp3Frame, Problem> {
        match self.0.custom_raw(command(name), arguments).await? {
            Resp3Frame::SimpleError { data, .. } => Err(data.to_string().into()),
            frame => Ok(frame),
        }
    }
}

impl Client for Fred {
    const NAME: &'static str = "fred";

    type Store = FredStore;

    fn store_with(&self, options: Options) -> Result<Self::Store, StoreError> {
        FredStore::with_options(self.0.clone(), options)
    }

    async fn load(&self, script: &str) -> Result<String, Problem> {
        let arguments = vec![Value::from_static_str("LOAD"), text(script)];
        Ok(self.0.custom(command("SCRIPT"), arguments).await?)
    }

    async fn ping(&self) -> Result<(), Problem> {
        self.frame("PING", Vec::new()).await.map(drop)
    }

    async fn increment(&self, key: &str) -> Result<(), Problem> {
        self.frame("INCR", vec![text(key)]).await.map(drop)
    }

    async fn script(&self, sha1: &str) -> Result<(), Problem> {
        let arguments = vec![text(sha1), Value::Integer(0)];
        self.frame("EVALSHA", arguments).await.map(drop)
    }

    /// Uses a pipeline with `MULTI` and `EXEC`, because fred's own transactions wait for each
    /// other.
    async fn transaction(&self, key: &str) -> Result<(), Problem> {
        let pipeline = self.0.pipeline();
        let expire = vec![
            text(key),
            Value::Integer(MINUTE_MS.into()),
            Value::from_static_str("NX"),
        ];
        let commands = [
            ("MULTI", Vec::new()),
            ("INCR", vec![text(key)]),
            ("PEXPIRE", expire),
            ("EXEC", Vec::new()),
        ];
        for (name, arguments) in commands {
            let () = pipeline.custom(command(name), arguments).await?;
        }
        match pipeline.last::<Value>().await? {
            Value::Array(replies) if replies.len() == 2 => Ok(()),
            other => Err(format!("not what a transaction replies: {other:?}").into()),
        }
    }

    async fn send(&self, sent: &Sent) -> Result<Vec<u8>, Problem> {
        let mut arguments = Vec::with_capacity(sent.keys.len() + 3);
        arguments.push(text(&sent.sha1));
        arguments.push(Value::Integer(i64::try_from(sent.keys.len())?));
        arguments.extend(sent.keys.iter().map(|key| bytes(key)));
        arguments.push(bytes(&sent.argument));
        match self.frame("EVALSHA", arguments).await? {
            Resp3Frame::BlobString { data, .. } => Ok(data.into()),
            frame => Err(format!("not what a script replies: {frame:?}").into()),
        }
    }
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Random, false)
}

fn text(text: &str) -> Value {
    Value::String(Str::from(text))
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(Bytes::copy_from_slice(bytes))
}

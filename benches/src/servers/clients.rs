//! The two clients, and the commands that are sent through each by hand.

use std::time::Duration;

use fred::clients::Client as FredClient;
use fred::interfaces::{ClientLike, Resp3Frame};
use fred::types::{ClusterHash, CustomCommand, Value};
use redis::aio::MultiplexedConnection;
use redis::{IntoConnectionInfo, ProtocolVersion};
use tollgate_core::{Limit, Store, StoreError, schedule};
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_redis::{PlainStore, RedisStore, RedisStoreBuilder};
use tollgate_testkit::Server;
use tollgate_wire::Options;

use crate::Problem;

/// The TTL of a counter that is set by hand, in milliseconds.
const MINUTE_MS: &str = "60000";
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
        let fred = FredStoreBuilder::from(options(false))
            .client_builder(server.url())?
            .build()?;
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

/// Returns the options of a measured store. Without batches, every call is sent by itself, to be
/// compared with commands that are.
pub(crate) fn options(batches: bool) -> Options {
    Options::new().with_deadline(DEADLINE).with_batches(batches)
}

/// A client: commands by hand, as its own documentation shows them, and a store on the same
/// connection.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// The name of the client crate.
    const NAME: &'static str;

    type Store: Store + schedule::Store + 'static;

    /// Returns a store on the same connection.
    fn store(&self, options: Options) -> Result<Self::Store, StoreError>;

    /// Sends a command, and waits for its reply.
    fn send(&self, name: &'static str, arguments: &[&str]) -> impl Future<Output = Sent> + Send;

    /// Increments a counter with a TTL, in one transaction.
    fn transaction(&self, key: &str) -> impl Future<Output = Sent> + Send;
}

/// Whether the reply to a command is no error.
pub(crate) type Sent = Result<(), Problem>;

#[derive(Clone)]
pub(crate) struct RedisRs(pub(crate) MultiplexedConnection);

impl RedisRs {
    pub(crate) fn plain(
        &self,
        limits: &[Limit],
    ) -> Result<PlainStore<MultiplexedConnection>, StoreError> {
        RedisStoreBuilder::from(options(false)).plain(self.0.clone(), limits)
    }
}

impl Client for RedisRs {
    const NAME: &'static str = "redis-rs";

    type Store = RedisStore<MultiplexedConnection>;

    fn store(&self, options: Options) -> Result<Self::Store, StoreError> {
        RedisStoreBuilder::from(options).over(self.0.clone())
    }

    async fn send(&self, name: &'static str, arguments: &[&str]) -> Sent {
        let mut command = redis::cmd(name);
        Ok(command
            .arg(arguments)
            .query_async(&mut self.0.clone())
            .await?)
    }

    async fn transaction(&self, key: &str) -> Sent {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("INCR").arg(key);
        pipe.cmd("PEXPIRE").arg(key).arg(MINUTE_MS).arg("NX");
        let (_, _): (u64, u64) = pipe.query_async(&mut self.0.clone()).await?;
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct Fred(FredClient);

impl Client for Fred {
    const NAME: &'static str = "fred";

    type Store = FredStore;

    fn store(&self, options: Options) -> Result<Self::Store, StoreError> {
        FredStoreBuilder::from(options).over(self.0.clone())
    }

    async fn send(&self, name: &'static str, arguments: &[&str]) -> Sent {
        match self.0.custom_raw(command(name), values(arguments)).await? {
            Resp3Frame::SimpleError { data, .. } => Err(data.to_string().into()),
            _ => Ok(()),
        }
    }

    /// Uses a pipeline with `MULTI` and `EXEC`, because fred's own transactions wait for each
    /// other.
    async fn transaction(&self, key: &str) -> Sent {
        let pipeline = self.0.pipeline();
        for (name, arguments) in [
            ("MULTI", &[][..]),
            ("INCR", &[key]),
            ("PEXPIRE", &[key, MINUTE_MS, "NX"]),
            ("EXEC", &[]),
        ] {
            let () = pipeline.custom(command(name), values(arguments)).await?;
        }
        match pipeline.last::<Value>().await? {
            Value::Array(replies) if replies.len() == 2 => Ok(()),
            other => Err(format!("not what a transaction replies: {other:?}").into()),
        }
    }
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Random, false)
}

fn values(arguments: &[&str]) -> Vec<Value> {
    arguments.iter().map(|text| Value::from(*text)).collect()
}

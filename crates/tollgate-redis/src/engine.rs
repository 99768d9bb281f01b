//! `RedisEngine`: sends the commands of a store through a connection of redis-rs.

use std::time::{Duration, SystemTime};

use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tollgate_wire::{Engine, Failure, Runtime, ScriptCall};

use crate::cluster::{Cluster, Importers};
use crate::commands::{evalsha, script_load, unlink};
use crate::connection::{Connection, MOST_IN_FLIGHT};
use crate::failure;
#[cfg(feature = "cluster")]
use crate::home::Home;

/// A connection, and how long a call through it may take.
pub(crate) struct RedisEngine<C> {
    connection: C,
    deadline: Duration,
    importers: Option<Importers>,
    /// A permit for each call that may be in flight. The connection has as many, but to wait for one
    /// of those looks like waiting for a reply.
    places: Semaphore,
    /// The runtime without which nothing is sent any more, if that is known.
    #[cfg(feature = "cluster")]
    home: Option<Home>,
}

impl<C> RedisEngine<C> {
    /// Returns an engine on `connection`. It connects to migrating nodes through `importers`, or
    /// without those through `connection` too.
    pub(crate) fn new(connection: C, deadline: Duration, importers: Option<Importers>) -> Self {
        Self {
            connection,
            deadline,
            importers,
            places: Semaphore::new(MOST_IN_FLIGHT),
            #[cfg(feature = "cluster")]
            home: None,
        }
    }

    /// Returns this engine, whose connection ends with the current runtime.
    #[cfg(feature = "cluster")]
    pub(crate) fn at_home(self) -> Self {
        Self {
            home: Some(Home::here()),
            ..self
        }
    }

    pub(crate) fn connection(&self) -> &C {
        &self.connection
    }
}

impl<C: Connection> RedisEngine<C> {
    /// Returns the cluster, if the connection is to one and has not ended with its runtime.
    pub(crate) fn driven_cluster(&self) -> Option<Result<Cluster<'_>, Failure>> {
        let cluster = self.cluster()?;
        #[cfg(feature = "cluster")]
        if self.home.as_ref().is_some_and(Home::is_over) {
            return Some(Err(Failure::ended("the tasks of the connection are gone")));
        }
        Some(Ok(cluster))
    }

    /// Returns the cluster, if the connection is to one.
    fn cluster(&self) -> Option<Cluster<'_>> {
        Cluster::of(&self.connection, self.importers.as_ref(), self.deadline)
    }

    async fn send<T: redis::FromRedisValue>(&self, command: Cmd) -> Result<T, Failure> {
        let mut connection = self.connection.clone();
        let reply = command.query_async(&mut connection).await;
        reply.map_err(failure::of)
    }
}

impl<C: Connection> Engine for RedisEngine<C> {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        if let Some(cluster) = self.driven_cluster() {
            return cluster?.run(call).await;
        }
        self.send(evalsha(call)).await
    }

    async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        if let Some(cluster) = self.driven_cluster() {
            return cluster?.load(call).await;
        }
        self.send(script_load(call)).await
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        if let Some(cluster) = self.driven_cluster() {
            return cluster?.forget(keys).await;
        }
        self.send(unlink(keys)).await
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        tokio::time::timeout(limit, work).await.ok()
    }

    async fn place(&self) -> impl Send {
        self.places.acquire().await
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        self.cluster().is_some()
    }

    fn runtime(&self) -> Option<Runtime> {
        let id = Handle::try_current().ok()?.id();
        let now = || tokio::time::Instant::now().into_std();
        // No other worker takes over the task that a worker has started last, not even while its
        // own task blocks it. So another task, which does nothing, is started after it.
        let spawn = |task| {
            drop(tokio::spawn(task));
            drop(tokio::spawn(async {}));
        };
        Some(Runtime::new(id, spawn, now))
    }
}

//! `Remote` and `Client`: what a store on a server can do, and where a client library finds it.

use std::time::Duration;

use tollgate_core::schedule;
use tollgate_wire::operate::Operate;

/// The timeout for connecting and for each call: no service is waiting for this program.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A store on a server: it decides limits and schedules, and supports the operator commands.
pub(crate) trait Remote: Operate + schedule::Store {}

impl<S: Operate + schedule::Store> Remote for S {}

/// A client library with its addresses, passwords included.
#[derive(Eq, PartialEq)]
pub(crate) enum Client {
    Fred(String),
    Redis(String),
    RedisCluster(Vec<String>),
    Sql(String),
}

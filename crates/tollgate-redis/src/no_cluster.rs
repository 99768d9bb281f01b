//! Replaces `cluster` where that feature is off: no connection is to a cluster.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

#[cfg(feature = "operate")]
use redis::{Pipeline, Value};
#[cfg(feature = "operate")]
use tollgate_wire::inside::Node;
use tollgate_wire::{Failure, ScriptCall};

use crate::connection::Connection;

pub(crate) enum Importers {}

pub(crate) struct Cluster<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Cluster<'a> {
    pub(crate) fn of(
        _connection: &'a impl Connection,
        _importers: Option<&'a Importers>,
        _deadline: Duration,
    ) -> Option<Self> {
        None
    }

    pub(crate) async fn run(&self, _call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        match self.0 {}
    }

    pub(crate) async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        match self.0 {}
    }

    pub(crate) async fn forget(&self, _keys: &[Vec<u8>]) -> Result<(), Failure> {
        match self.0 {}
    }

    #[cfg(feature = "operate")]
    pub(crate) async fn send_all(
        &self,
        _commands: Pipeline,
        _to: &Node,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        match self.0 {}
    }
}

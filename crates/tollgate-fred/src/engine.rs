//! Moves bytes through fred: each command is written once, and its reply is taken as it came.

use std::future;
use std::time::{Duration, SystemTime};

use fred::bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, Resp3Frame};
use fred::types::config::{Options as Pins, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use tokio::time::{self, Instant};
use tollgate_core::wire::{Call, Engine, Failure};

use crate::clients::Clients;
use crate::failure;

/// fred's own timeout comes this much before the deadline, so that it, and not the deadline, ends
/// the call: only then does fred drop a command that it has not written yet.
const MARGIN: Duration = Duration::from_millis(2);
/// How long to wait before a call is sent again that the server has refused because the key is on
/// its way to another node. The routes are new by then: fred reads them before it tells of `MOVED`.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

#[derive(Debug)]
pub(crate) struct FredEngine<C> {
    clients: C,
    is_clustered: bool,
    /// What is asked of fred for each command, whatever the client's own configuration says.
    pins: Pins,
    /// How long a call may go after a key that is on its way.
    patience: Duration,
}

impl<C: Clients> FredEngine<C> {
    pub(crate) fn new(clients: C, deadline: Duration) -> Self {
        let timeout = deadline
            .saturating_sub(MARGIN)
            .max(Duration::from_millis(1));
        Self {
            is_clustered: clients.all().iter().any(ClientLike::is_clustered),
            clients,
            pins: Pins {
                // One write, ever: in a cluster, fred would write a command again whose connection
                // it has closed, even if it is to fail fast.
                max_attempts: Some(1),
                fail_fast: true,
                timeout: Some(timeout),
                ..Pins::default()
            },
            patience: deadline / 2,
        }
    }

    pub(crate) fn clients(&self) -> &C {
        &self.clients
    }

    /// Sends a command about `key`, again only where the server has said that it did not run it.
    async fn send(
        &self,
        name: &'static str,
        key: &[u8],
        arguments: Vec<Value>,
    ) -> Result<Resp3Frame, Failure> {
        if !self.is_clustered {
            let command = CustomCommand::new_static(name, ClusterHash::Random, false);
            return self.send_once(command, arguments).await;
        }
        let command = CustomCommand::new_static(name, redis_keyslot(key), false);
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let outcome = self.send_once(command.clone(), arguments.clone()).await;
            match outcome {
                Err(failure)
                    if failure::is_on_its_way(&failure)
                        && begun.elapsed() + pause < self.patience => {}
                outcome => return outcome,
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn send_once(
        &self,
        command: CustomCommand,
        arguments: Vec<Value>,
    ) -> Result<Resp3Frame, Failure> {
        send_once(self.clients.next(), &self.pins, command, arguments).await
    }

    /// Returns what is asked of fred for each command that is to go to `server`.
    pub(crate) fn pinned_to(&self, server: Option<Server>) -> Pins {
        let mut pins = self.pins.clone();
        pins.cluster_node = server;
        pins
    }
}

/// Writes a command once, and returns its reply.
pub(crate) async fn send_once(
    client: &Client,
    pins: &Pins,
    command: CustomCommand,
    arguments: Vec<Value>,
) -> Result<Resp3Frame, Failure> {
    // Raw, since fred's own decoding mixes the server's errors with those of the client. What
    // is an error here is never the server's answer to this very command.
    let client = client.with_options(pins);
    match client.custom_raw(command, arguments).await {
        Ok(frame) => failure::reply(frame),
        // The deadline is about to say so.
        Err(error) if failure::is_timeout(&error) => future::pending().await,
        Err(error) => Err(failure::no_reply(error)),
    }
}

impl<C: Clients> Engine for FredEngine<C> {
    async fn run(&self, call: &Call<'_>) -> Result<Vec<u8>, Failure> {
        let keys = call.keys();
        let mut arguments = Vec::with_capacity(keys.len() + 3);
        arguments.push(Value::from_static_str(call.script().sha1()));
        arguments.push(Value::Integer(
            i64::try_from(keys.len()).unwrap_or(i64::MAX),
        ));
        arguments.extend(keys.iter().map(|key| bytes(key)));
        arguments.push(bytes(call.argument()));
        match self.send("EVALSHA", &keys[0], arguments).await? {
            Resp3Frame::BlobString { data, .. } => Ok(data.into()),
            frame => Err(failure::wrong_type("a bulk string", &frame)),
        }
    }

    async fn load(&self, call: &Call<'_>) -> Result<(), Failure> {
        // Where the keys are, the script will be sent; another node learns it when it is asked.
        let text = Value::from_static_str(call.script().text());
        let arguments = vec![Value::from_static_str("LOAD"), text];
        self.send("SCRIPT", &call.keys()[0], arguments).await?;
        Ok(())
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let arguments = keys.iter().map(|key| bytes(key)).collect();
        self.send("UNLINK", first, arguments).await?;
        Ok(())
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        time::timeout(limit, work).await.ok()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        self.is_clustered
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(Bytes::copy_from_slice(bytes))
}

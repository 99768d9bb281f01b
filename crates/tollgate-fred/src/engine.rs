//! `FredEngine`: sends the commands of a store through fred, each of them once.

use std::future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use fred::bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, Resp3Frame};
use fred::types::config::Options as Pins;
#[cfg(feature = "operate")]
use fred::types::config::Server;
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use tokio::runtime::Handle;
use tokio::time::{self, Instant};
use tollgate_wire::inside::{Pauses, Wait};
use tollgate_wire::{Engine, Failure, Runtime, ScriptCall};

use crate::connection::{Clients, Connection};
use crate::failure;
use crate::places::Places;

/// How long before the deadline fred's own timeout fires. Only that makes fred drop a command that
/// it has not written yet.
const MARGIN: Duration = Duration::from_millis(2);
/// The longest that a late program leaves fred alone to read an answer.
const LONGEST_TURNS: Duration = Duration::from_secs(3);
/// The first pause before a call is sent again because its key is moving to another node; each
/// further one is twice as long. fred knows the new routes by then: it reads them before it reports
/// a `MOVED`.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

#[derive(Debug)]
pub(crate) struct FredEngine<C> {
    clients: C,
    is_clustered: bool,
    /// The options of each command, which override the client's own configuration.
    pins: Pins,
    deadline: Duration,
    places: Places,
    /// The connections that the store made itself, which end with it.
    connections: Vec<Connection>,
}

impl<C: Clients> FredEngine<C> {
    /// Returns an engine on `clients`, and on the `connections` of those that the store made itself.
    pub(crate) fn new(clients: C, deadline: Duration, connections: Vec<Connection>) -> Self {
        Self {
            is_clustered: clients.all().iter().any(ClientLike::is_clustered),
            clients,
            pins: pins(deadline),
            deadline,
            places: Places::new(),
            connections,
        }
    }

    pub(crate) fn clients(&self) -> &C {
        &self.clients
    }

    /// Returns how long a call is sent again while its key is moving.
    fn patience(&self) -> Duration {
        self.deadline / 2
    }

    /// Sends a command about `key`, and again only if the server said that it did not run it.
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
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let outcome = self.send_once(command.clone(), arguments.clone()).await;
            if !matches!(&outcome, Err(failure) if failure::is_on_its_way(failure)) {
                return outcome;
            }
            let Some(pause) = pauses.next_within(begun.elapsed(), self.patience()) else {
                return outcome;
            };
            time::sleep(pause).await;
        }
    }

    async fn send_once(
        &self,
        command: CustomCommand,
        arguments: Vec<Value>,
    ) -> Result<Resp3Frame, Failure> {
        let outcome = send_once(self.clients.next(), &self.pins, command, arguments).await;
        outcome.map_err(|failure| self.noted(failure))
    }

    /// Connects the store's own clients again if the server says that it is out of service, and says
    /// so if nothing will be sent any more.
    #[cold]
    pub(crate) fn noted(&self, failure: Failure) -> Failure {
        let is_own = !self.connections.is_empty();
        match failure {
            Failure::NotSent(source) if self.connections.iter().any(Connection::is_over) => {
                Failure::Ended(source)
            }
            failure => {
                if is_own && !self.is_clustered && failure::is_out_of_service(&failure) {
                    self.places.connect_again(&self.clients, self.deadline);
                }
                failure
            }
        }
    }

    /// Returns the options of a command for `server`.
    #[cfg(feature = "operate")]
    pub(crate) fn pinned_to(&self, server: Option<Server>) -> Pins {
        let mut pins = self.pins.clone();
        pins.cluster_node = server;
        pins
    }
}

/// Returns the options of each command.
fn pins(deadline: Duration) -> Pins {
    let timeout = deadline.saturating_sub(MARGIN);
    Pins {
        // Write once: in a cluster, fred would write a command again after it closed the
        // connection, even with `fail_fast`.
        max_attempts: Some(1),
        fail_fast: true,
        timeout: Some(timeout.max(Duration::from_millis(1))),
        ..Pins::default()
    }
}

/// Writes a command once, and returns its reply.
pub(crate) async fn send_once(
    client: &Client,
    pins: &Pins,
    command: CustomCommand,
    arguments: Vec<Value>,
) -> Result<Resp3Frame, Failure> {
    // Raw, because fred's decoding mixes the server's errors with those of the client. An `Err`
    // here is never the server's answer to this command.
    let client = client.with_options(pins);
    let timeout = pins.timeout.unwrap_or_default();
    match in_turn(timeout, client.custom_raw(command, arguments)).await {
        Ok(frame) => failure::reply(frame),
        // The deadline is near, and reports it.
        Err(error) if failure::is_timeout(&error) => future::pending().await,
        Err(error) => Err(failure::no_reply(error)),
    }
}

/// Waits for `work`, which gives up when it is polled after `timeout`: if the program was late until then, it is
/// polled again only when its answer has had a few more turns to be read.
async fn in_turn<F: Future>(timeout: Duration, work: F) -> F::Output {
    let now = || Instant::now().into_std();
    let begun = now();
    let (mut work, mut wait) = (pin!(work), Wait::since(begun));
    let mut waited = Duration::ZERO;
    while waited < timeout {
        let looked = begun + waited;
        let due = looked + wait.timer(timeout, looked).min(timeout - waited);
        let mut timer = pin!(time::sleep_until(due.into()));
        let answer = future::poll_fn(|context| match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        });
        if let Some(answer) = answer.await {
            return answer;
        }
        let noticed = now();
        wait.note(due, noticed);
        waited = noticed.saturating_duration_since(begun);
    }
    let turns = wait.longest_delay().saturating_mul(3);
    time::sleep(turns.min(LONGEST_TURNS)).await;
    work.await
}

impl<C: Clients> Engine for FredEngine<C> {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let keys = call.keys();
        let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
        let script = [
            Value::from_static_str(call.script().sha1()),
            Value::Integer(count),
        ];
        let words = keys.iter().map(Vec::as_slice).chain([call.argument()]);
        let arguments = script.into_iter().chain(words.map(bytes)).collect();
        match self.send("EVALSHA", &keys[0], arguments).await? {
            Resp3Frame::BlobString { data, .. } => Ok(data.into()),
            frame => Err(failure::wrong_type("a bulk string", &frame)),
        }
    }

    async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        // Load it where the call goes, by its keys; other nodes get the script when they need it.
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

    async fn place(&self) -> impl Send {
        self.places.take().await
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        self.is_clustered
    }

    fn runtime(&self) -> Option<Runtime> {
        let id = Handle::try_current().ok()?.id();
        let now = || Instant::now().into_std();
        // No other worker takes over the task that a worker has started last, not even while its
        // own task blocks it. So another task, which does nothing, is started after it.
        let spawn = |task| {
            drop(tokio::spawn(task));
            drop(tokio::spawn(async {}));
        };
        Some(Runtime::new(id, spawn, now))
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use fred::types::Builder;

    use super::*;

    #[test]
    fn a_key_may_be_on_its_way_for_half_the_deadline() {
        let client = Builder::default_centralized().build().unwrap();
        let engine = FredEngine::new(client, Duration::from_secs(1), Vec::new());
        assert_eq!(engine.patience(), Duration::from_millis(500));
    }

    #[test]
    fn fred_gives_a_command_up_before_the_deadline() {
        let ms = Duration::from_millis;
        for (deadline, timeout) in [(500, 498), (4, 2), (3, 1), (2, 1), (0, 1)] {
            assert_eq!(pins(ms(deadline)).timeout, Some(ms(timeout)), "{deadline}");
        }
    }
}

//! `Cluster`: sends commands to a cluster, and follows redirections.

mod importers;

use std::time::Duration;

use redis::Value;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind};
use tokio::time::{Instant, sleep};
use tollgate_wire::inside::Pauses;
use tollgate_wire::{Failure, ScriptCall};

use crate::commands::{evalsha, script_load, unlink};
use crate::connection::Connection;
use crate::failure;
pub(crate) use importers::Importers;
use importers::{Node, Sent};

/// The first pause between attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A cluster connection, for one call.
///
/// With retries, redis-rs also sends a command again after a lost connection. Without, it follows
/// no redirections. So this follows redirections, where the node said that it did not execute the
/// command, and sends nothing else again.
pub(crate) struct Cluster<'a> {
    connection: &'a ClusterConnection,
    /// `None` for a client that the caller has set up, because its password and TLS settings are not
    /// known.
    importers: Option<&'a Importers>,
    deadline: Duration,
}

impl<'a> Cluster<'a> {
    /// Returns the cluster, if `connection` is to one.
    pub(crate) fn of(
        connection: &'a impl Connection,
        importers: Option<&'a Importers>,
        deadline: Duration,
    ) -> Option<Self> {
        let connection = connection.cluster()?;
        Some(Self {
            connection,
            importers,
            deadline,
        })
    }

    pub(crate) async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        self.follow(&call.keys()[0], evalsha(call), Some(call))
            .await
    }

    /// Loads the script only on the node that serves the keys, so that a node that is down does not
    /// keep the others from deciding.
    pub(crate) async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        let loaded = self.send(script_load(call), &call.keys()[0]).await?;
        loaded.map_err(failure::of_answer)
    }

    pub(crate) async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        match keys {
            [] => Ok(()),
            [key, ..] => self.follow(key, unlink(keys), None).await,
        }
    }

    /// Sends `command` to the node of `key`, again and again until it is executed or the deadline
    /// is near. A call that is sent again after loading its script starts with a full deadline here,
    /// so the store's deadline may come first.
    async fn follow<T: FromRedisValue + Send>(
        &self,
        key: &[u8],
        command: Cmd,
        script: Option<&ScriptCall<'_>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let mut attempts = Attempts::new(self.deadline);
        loop {
            let begun = Instant::now();
            let refused = match self.send(command.clone(), key).await? {
                Err(error) if is_kind(&error, ServerErrorKind::Ask) => {
                    match self.ask(&error, &command, script).await? {
                        Err(error) if was_not_executed(&error) => error,
                        answer => return answer.map_err(failure::of_answer),
                    }
                }
                Err(error) if was_not_executed(&error) => error,
                answer => return answer.map_err(failure::of_answer),
            };
            let Some(pause) = attempts.pause_after(begun.elapsed(), started.elapsed()) else {
                return Err(failure::of_answer(refused));
            };
            // After a `MOVED`, redis-rs reads the slots again before it sends anything else, but
            // possibly from a node with outdated slots.
            sleep(pause).await;
        }
    }

    /// Sends `command` to the node that serves `key`, once.
    async fn send<T: FromRedisValue>(&self, command: Cmd, key: &[u8]) -> Answered<T> {
        let route = Route::with_key(key, SlotAddr::Master);
        let node = SingleNodeRoutingInfo::SpecificNode(route);
        let mut connection = self.connection.clone();
        let reply = connection
            .route_command(command, RoutingInfo::SingleNode(node))
            .await;
        answer(reply)
    }

    /// Sends `command` to the node that an `ASK` names, which the key's slot is migrating to.
    async fn ask<T: FromRedisValue + Send>(
        &self,
        redirection: &RedisError,
        command: &Cmd,
        script: Option<&ScriptCall<'_>>,
    ) -> Answered<T> {
        let Some(node) = node_of(redirection) else {
            return Ok(Err(redirection.clone()));
        };
        // `ASKING` applies to the next command of its connection, so both go in one pipeline, and
        // no other command comes in between.
        let mut asking = redis::pipe();
        asking.cmd("ASKING").add_command(command.clone());
        let outcome = self.send_together(asking, &node, redirection).await?;
        match (outcome, script) {
            (Err(error), Some(call)) if is_kind(&error, ServerErrorKind::NoScript) => {
                let mut asking = redis::pipe();
                asking
                    .add_command(script_load(call))
                    .cmd("ASKING")
                    .add_command(command.clone());
                self.send_together(asking, &node, redirection).await
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Sends `commands` to `node`, and returns the last one's reply. If there is no connection to
    /// the node, sends nothing and returns `redirection`.
    ///
    /// Only the last command may change anything, and only its own error proves that it did not.
    async fn send_together<T: FromRedisValue>(
        &self,
        commands: Pipeline,
        node: &Node,
        redirection: &RedisError,
    ) -> Answered<T> {
        let replies = match self.importers {
            Some(importers) => match importers.send(&commands, node).await {
                Sent::Nothing => return Ok(Err(redirection.clone())),
                Sent::Commands(replies) => replies,
            },
            None => self.route_together(commands, node).await,
        };
        match replies {
            Err(error) if is_unknown_node(&error) => Ok(Err(redirection.clone())),
            replies => answer(replies.and_then(|mut replies| {
                let last = replies.pop();
                last.ok_or_else(|| (ErrorKind::Parse, "no reply").into())
            })),
        }
    }

    /// Sends `commands` to one node, without following redirections. If redis-rs reports one error
    /// of the node for all of them, the inner result is that error's line.
    #[cfg(feature = "operate")]
    pub(crate) async fn send_all(
        &self,
        commands: Pipeline,
        to: &tollgate_wire::inside::Node,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        let node = match to {
            tollgate_wire::inside::Node::Any => SingleNodeRoutingInfo::Random,
            tollgate_wire::inside::Node::At { host, port } => SingleNodeRoutingInfo::ByAddress {
                host: host.clone(),
                port: *port,
            },
            tollgate_wire::inside::Node::Serving(slot) => {
                SingleNodeRoutingInfo::SpecificNode(Route::new(*slot, SlotAddr::Master))
            }
        };
        let count = commands.len();
        let mut connection = self.connection.clone();
        match connection.route_pipeline(commands, 0, count, node).await {
            Ok(replies) => Ok(Ok(replies)),
            Err(error) if is_the_commands_own(&error) => match failure::of_answer(error) {
                Failure::Refused { line, .. } => Ok(Err(line)),
                other => Err(other),
            },
            Err(error) if is_unknown_node(&error) => Err(Failure::not_sent(error)),
            Err(error) => Err(Failure::lost(error)),
        }
    }

    async fn route_together(&self, commands: Pipeline, node: &Node) -> RedisResult<Vec<Value>> {
        let count = commands.len();
        let (host, port) = node.clone();
        let node = SingleNodeRoutingInfo::ByAddress { host, port };
        let mut connection = self.connection.clone();
        connection.route_pipeline(commands, 0, count, node).await
    }
}

/// The attempts of one call.
///
/// They end early, so that none is in flight at the deadline: a call that was refused every time is
/// then known not to have been executed. The last quarter of the deadline is reserved for that, or
/// the time of the longest attempt if that is more.
struct Attempts {
    deadline: Duration,
    longest: Duration,
    pauses: Pauses,
}

impl Attempts {
    fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            longest: Duration::ZERO,
            pauses: Pauses::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// Returns the pause after an attempt that `took` a time, if there may be another. The call was
    /// begun `spent` ago.
    fn pause_after(&mut self, took: Duration, spent: Duration) -> Option<Duration> {
        self.longest = self.longest.max(took);
        let reserve = self.longest.max(self.deadline / 4);
        let limit = self.deadline.saturating_sub(reserve);
        self.pauses.next_within(spent, limit)
    }
}

/// A node's answer to a command. Without an answer, the command may have been executed.
type Answered<T> = Result<RedisResult<T>, Failure>;

fn answer<T: FromRedisValue>(reply: RedisResult<Value>) -> Answered<T> {
    match reply {
        Ok(reply) => Ok(reply
            .extract_error()
            .and_then(|value| Ok(T::from_redis_value(value)?))),
        Err(error) if is_the_commands_own(&error) => Ok(Err(error)),
        Err(error) => Err(Failure::lost(error)),
    }
}

/// Returns whether `error`, which redis-rs returned instead of a reply, is the node's answer to
/// this command.
///
/// redis-rs returns some server errors this way, and leaves others in the reply. But if it cannot
/// read the slots again, it also fails every waiting call with that error (`send_refresh_error`).
/// That can be a refused connection or a node's answer: `NOPERM` to `CLUSTER SLOTS`, `WRONGPASS` to
/// `HELLO`, or `LOADING` to either. The errors accepted here cannot come from reading the slots:
/// they are about keys, writes, or stale data.
fn is_the_commands_own(error: &RedisError) -> bool {
    use ServerErrorKind::{MasterDown, ReadOnly};
    was_not_executed(error) || is_kind(error, MasterDown) || is_kind(error, ReadOnly)
}

/// Returns whether `error` says that the node did not execute the command, and that another node
/// will, or the same one later.
fn was_not_executed(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    [Ask, ClusterDown, Moved, TryAgain]
        .into_iter()
        .any(|kind| is_kind(error, kind))
}

/// Returns whether redis-rs has no connection to the node that it was asked for by its address, so
/// that it sent nothing. It gives details only in that case.
fn is_unknown_node(error: &RedisError) -> bool {
    error.kind() == ErrorKind::ClusterConnectionNotFound && error.detail().is_some()
}

fn is_kind(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == ErrorKind::Server(kind)
}

fn node_of(redirection: &RedisError) -> Option<Node> {
    let (address, _slot) = redirection.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    // A node may not know how clients reach another.
    let is_known = !host.is_empty() && host != "?";
    Some((is_known.then(|| host.to_owned())?, port.parse().ok()?))
}

#[cfg(test)]
mod tests;

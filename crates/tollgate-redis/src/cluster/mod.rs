//! Sends commands to a cluster, and follows them where their keys have gone.

mod importers;

use std::any::Any;
use std::time::Duration;

use redis::Value;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind};
use tokio::time::{Instant, sleep};
use tollgate_core::wire::{self, Call, Failure};

use crate::engine::{evalsha, script_load, unlink};
use crate::failure;
pub(crate) use importers::Importers;
use importers::{Node, Sent};

/// How long the first pause takes; each further one takes twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How long a pause takes at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A cluster, for one call.
///
/// redis-rs sends a command again after a lost connection too, unless its retries are 0; then it
/// follows no redirection either. So those are followed here, where the node said that it did not
/// execute the command, and nothing else is sent again.
pub(crate) struct Cluster<'a> {
    connection: &'a ClusterConnection,
    /// None for a connection of the caller's own, of which neither password nor TLS is known.
    importers: Option<&'a Importers>,
    deadline: Duration,
}

impl<'a> Cluster<'a> {
    /// Returns `connection` as that of a cluster, if it is one.
    ///
    /// It is told by its type, of which redis-rs has one, so that nobody has to say it and nobody
    /// can say it wrongly: without that, keys of several slots would be sent together, and
    /// redirections not be followed.
    pub(crate) fn of<C: 'static>(
        connection: &'a C,
        importers: Option<&'a Importers>,
        deadline: Duration,
    ) -> Option<Self> {
        let connection = (connection as &dyn Any).downcast_ref()?;
        Some(Self {
            connection,
            importers,
            deadline,
        })
    }

    pub(crate) async fn run(&self, call: &Call<'_>) -> Result<Vec<u8>, Failure> {
        self.follow(&call.keys()[0], evalsha(call), Some(call))
            .await
    }

    /// Loads the script at the node that serves the keys, and no other: a node that is down must
    /// not keep the others from deciding.
    pub(crate) async fn load(&self, call: &Call<'_>) -> Result<(), Failure> {
        let loaded = self.send(script_load(call), &call.keys()[0]).await?;
        loaded.map_err(failure::of_answer)
    }

    pub(crate) async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        match keys {
            [] => Ok(()),
            [key, ..] => self.follow(key, unlink(keys), None).await,
        }
    }

    /// Sends `command` to where `key` is until it is executed, or the deadline is near.
    ///
    /// It gives up before the deadline, so that a call which was refused to the end is known not to
    /// have been executed: the deadline must not pass while the call is with a node once more. The
    /// last quarter of it is kept for that, or as long as the longest attempt took if that is more.
    /// A call that was sent before, as where a script had to be loaded, has begun again: for it the
    /// store's deadline comes first.
    async fn follow<T: FromRedisValue + Send>(
        &self,
        key: &[u8],
        command: Cmd,
        script: Option<&Call<'_>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut reserve = self.deadline / 4;
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
            reserve = reserve.max(begun.elapsed());
            if (started.elapsed() + pause).saturating_add(reserve) >= self.deadline {
                return Err(failure::of_answer(refused));
            }
            // After a `MOVED`, redis-rs reads the slots again before it sends anything else, but
            // it may read them from a node that has not heard the news.
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
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

    /// Sends `command` to the node that an `ASK` names, to which the key's slot is being moved.
    async fn ask<T: FromRedisValue + Send>(
        &self,
        redirection: &RedisError,
        command: &Cmd,
        script: Option<&Call<'_>>,
    ) -> Answered<T> {
        let Some(node) = node_of(redirection) else {
            return Ok(Err(redirection.clone()));
        };
        // `ASKING` is good for the next command of its connection, so both are written at once:
        // nothing that others send comes between.
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

    /// Sends `commands` to `node`, and returns the last one's reply; where there is no connection
    /// to the node, nothing is sent, and what asked for it stands.
    ///
    /// Only the last may change anything, and only its own error says that it did not.
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
            // Only of a node that was to be found by its address is this said with details.
            Err(error)
                if error.kind() == ErrorKind::ClusterConnectionNotFound
                    && error.detail().is_some() =>
            {
                Ok(Err(redirection.clone()))
            }
            replies => answer(replies.and_then(|mut replies| {
                let last = replies.pop();
                last.ok_or_else(|| (ErrorKind::Parse, "no reply").into())
            })),
        }
    }

    /// Sends `commands` to one node, which is not followed anywhere; where redis-rs reports one
    /// error of the node for all of them, that is the line in the inner result.
    pub(crate) async fn send_all(
        &self,
        commands: Pipeline,
        to: &wire::Node,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        let node = match to {
            wire::Node::Any => SingleNodeRoutingInfo::Random,
            wire::Node::At { host, port } => SingleNodeRoutingInfo::ByAddress {
                host: host.clone(),
                port: *port,
            },
            wire::Node::Serving(slot) => {
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
            // Only of a node that was to be found by its address is this said with details.
            Err(error)
                if error.kind() == ErrorKind::ClusterConnectionNotFound
                    && error.detail().is_some() =>
            {
                Err(Failure::not_sent(error))
            }
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

/// What a node answered to a command; without an answer, the command may have been executed.
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

/// Returns whether `error`, which stands where a reply should, is what a node answered to the
/// command.
///
/// redis-rs puts some of those there, and leaves the others in the reply. But where the slots
/// cannot be read again, it also fails every call that waits for a reply with the error of that
/// (`send_refresh_error`), be it a refused connection or a node's answer: `NOPERM` to
/// `CLUSTER SLOTS`, `WRONGPASS` to `HELLO`, `LOADING` to the one or the other.
/// Only these are answered to nothing that reads slots: they are about keys, writes, or stale data,
/// which `CLUSTER SLOTS` has nothing to do with.
fn is_the_commands_own(error: &RedisError) -> bool {
    use ServerErrorKind::{MasterDown, ReadOnly};
    was_not_executed(error) || is_kind(error, MasterDown) || is_kind(error, ReadOnly)
}

/// Returns whether the node that answered `error` did not execute the command, and another will,
/// or the same one later.
fn was_not_executed(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    [Ask, ClusterDown, Moved, TryAgain]
        .into_iter()
        .any(|kind| is_kind(error, kind))
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
mod tests {
    use std::io;

    use redis::ErrorKind::Server;
    use redis::parse_redis_value;

    use super::*;

    const LIFTED: [ServerErrorKind; 6] = [
        ServerErrorKind::Ask,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::MasterDown,
        ServerErrorKind::Moved,
        ServerErrorKind::ReadOnly,
        ServerErrorKind::TryAgain,
    ];

    fn is_lost(error: RedisError) -> bool {
        match answer::<Value>(Err(error)) {
            Err(Failure::Lost(_)) => true,
            Err(other) => panic!("{other:?}"),
            Ok(_) => false,
        }
    }

    #[test]
    fn what_a_reply_says_is_the_commands_own() {
        for line in ["NOPERM no", "WRONGPASS no", "LOADING no", "MOVED 1 a:1"] {
            let reply = parse_redis_value(format!("-{line}\r\n").as_bytes());
            let Ok(Err(error)) = answer::<Value>(reply) else {
                panic!("no answer in {line}");
            };
            let failure = failure::of_answer(error);
            assert!(matches!(failure, Failure::Refused { line: said, .. } if said == line));
        }
    }

    #[test]
    fn what_redis_rs_takes_out_of_a_reply_is_the_commands_own() {
        for kind in LIFTED {
            assert!(!is_lost((Server(kind), "").into()), "{kind:?}");
        }
    }

    #[test]
    fn what_may_be_of_reading_the_slots_says_nothing_of_the_command() {
        for kind in [
            Server(ServerErrorKind::BusyLoading),
            Server(ServerErrorKind::NoPerm),
            Server(ServerErrorKind::ResponseError),
            ErrorKind::AuthenticationFailed,
            ErrorKind::ClusterConnectionNotFound,
            ErrorKind::Parse,
            ErrorKind::UnexpectedReturnType,
        ] {
            assert!(is_lost((kind, "").into()), "{kind:?}");
        }
        let refused = redis::make_extension_error("WRONGPASS".into(), None);
        assert!(is_lost(refused));
        assert!(is_lost(
            io::Error::from(io::ErrorKind::ConnectionRefused).into()
        ));
    }
}

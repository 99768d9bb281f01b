//! `Cluster`: sends commands to a cluster, and follows redirections.

mod importers;

use std::any::Any;
use std::time::Duration;

use redis::Value;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind};
use tokio::time::{Instant, sleep};
use tollgate_wire::{Failure, Pauses, ScriptCall};

use crate::commands::{evalsha, script_load, unlink};
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
    /// `None` for a connection of the caller's own, because its password and TLS settings are not
    /// known.
    importers: Option<&'a Importers>,
    deadline: Duration,
}

impl<'a> Cluster<'a> {
    /// Returns the cluster, if `connection` is to one.
    ///
    /// We detect a cluster by its connection type. A flag could be wrong: keys of several slots
    /// would be sent together, and redirections would not be followed.
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
        to: &tollgate_wire::Node,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        let node = match to {
            tollgate_wire::Node::Any => SingleNodeRoutingInfo::Random,
            tollgate_wire::Node::At { host, port } => SingleNodeRoutingInfo::ByAddress {
                host: host.clone(),
                port: *port,
            },
            tollgate_wire::Node::Serving(slot) => {
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
mod tests {
    use std::io;

    use redis::ErrorKind::Server;
    use redis::cluster::ClusterClientBuilder;
    use redis::parse_redis_value;
    use tollgate_testkit::{Answer, FakeServer};
    use tollgate_wire::Options;

    use crate::settings;

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
    fn a_servers_error_is_attributed_to_the_command() {
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
    fn an_error_that_redis_rs_extracts_is_attributed_to_the_command() {
        for kind in LIFTED {
            assert!(!is_lost((Server(kind), "").into()), "{kind:?}");
        }
    }

    #[test]
    fn an_error_of_reading_the_slots_is_not_attributed_to_the_command() {
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

    #[test]
    fn attempts_leave_time_for_the_last() {
        let ms = Duration::from_millis;
        // A quarter of the deadline, or the longest attempt so far.
        for (attempts, limit) in [
            (&[0][..], 300),
            (&[99, 100], 300),
            (&[101], 299),
            (&[150, 10], 250),
            (&[10, 150], 250),
            (&[500], 0),
        ] {
            for (left, is_last) in [(5, false), (0, true)] {
                let mut all = Attempts::new(ms(400));
                let (last, earlier) = attempts.split_last().unwrap();
                for took in earlier {
                    assert!(all.pause_after(ms(*took), ms(0)).is_some());
                }
                let spent = ms(limit).saturating_sub(ms(left));
                let pause = all.pause_after(ms(*last), spent);
                assert_eq!(pause.is_none(), is_last || limit == 0, "{attempts:?}");
            }
        }
        let mut all = Attempts::new(Duration::MAX);
        assert_eq!(all.pause_after(ms(0), ms(0)), Some(ms(1)));
    }

    #[test]
    fn a_redirection_names_a_node() {
        for (line, expected) in [
            ("ASK 1 127.0.0.1:7", Some(("127.0.0.1", 7))),
            ("MOVED 1 a.b:65535", Some(("a.b", 65_535))),
            ("ASK 1 [::1]:7", Some(("::1", 7))),
            ("ASK 1 :7", None),
            ("ASK 1 ?:7", None),
            ("ASK 1 127.0.0.1", None),
            ("ASK 1 127.0.0.1:x", None),
            ("ASK", None),
        ] {
            let reply = parse_redis_value(format!("-{line}\r\n").as_bytes());
            let error = reply.and_then(Value::extract_error).unwrap_err();
            let node = node_of(&error);
            let node = node.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(node, expected, "{line}");
        }
    }

    #[test]
    fn only_a_node_that_was_looked_up_by_its_address_may_be_unknown() {
        let unknown = ErrorKind::ClusterConnectionNotFound;
        let detailed = |kind| RedisError::from((kind, "no", "127.0.0.1:1".to_owned()));
        assert!(is_unknown_node(&detailed(unknown)));
        assert!(!is_unknown_node(&(unknown, "no").into()));
        assert!(!is_unknown_node(&detailed(ErrorKind::Parse)));
    }

    /// Sends two commands to a node that answers the second with `reply`, or to a node that the
    /// cluster does not have.
    async fn sent(
        reply: Answer,
        to: &tollgate_wire::Node,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        let node = FakeServer::start_node(&[], move |words| match &*words[0] {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            "SECOND" => reply.clone(),
            _ => "+OK\r\n".into(),
        });
        let builder = ClusterClientBuilder::new([node.url()]);
        let client = settings::cluster(builder, &Options::default()).build();
        let connection = client.unwrap().get_async_connection().await.unwrap();
        let cluster = Cluster::of(&connection, None, Duration::from_secs(1)).unwrap();
        let mut commands = redis::pipe();
        commands.cmd("FIRST").cmd("SECOND");
        cluster.send_all(commands, to).await
    }

    #[tokio::test]
    async fn an_operators_commands_are_answered_together() {
        let replies = sent(":7\r\n".into(), &tollgate_wire::Node::Any)
            .await
            .unwrap();
        assert_eq!(replies, Ok(vec![Value::Okay, Value::Int(7)]));
        let replies = sent("-OOM no\r\n".into(), &tollgate_wire::Node::Serving(1)).await;
        let Ok(Ok(replies)) = &replies else {
            panic!("{replies:?}");
        };
        assert!(matches!(replies[..], [Value::Okay, Value::ServerError(_)]));
        let line = "MOVED 1 127.0.0.1:1";
        let replies = sent(format!("-{line}\r\n").into(), &tollgate_wire::Node::Any).await;
        assert_eq!(replies.unwrap(), Err(line.to_owned()));
        let lost = sent(
            Answer::ReplyAndClose(String::new()),
            &tollgate_wire::Node::Any,
        )
        .await;
        assert!(matches!(lost, Err(Failure::Lost(_))), "{lost:?}");
        let nowhere = tollgate_wire::Node::At {
            host: "127.0.0.1".to_owned(),
            port: 1,
        };
        let unsent = sent(":7\r\n".into(), &nowhere).await;
        assert!(matches!(unsent, Err(Failure::NotSent(_))), "{unsent:?}");
    }
}

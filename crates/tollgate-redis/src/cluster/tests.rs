//! Tests of `Cluster`.

use std::io;

use redis::ErrorKind::Server;
use redis::ProtocolVersion;
use redis::cluster::ClusterClientBuilder;
use redis::parse_redis_value;
use tollgate_testkit::{Answer, FakeServer};
use tollgate_wire::inside::Node;

use crate::connection::cluster;

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
async fn sent(reply: impl Into<Answer>, to: Node) -> Result<Result<Vec<Value>, String>, Failure> {
    let reply = reply.into();
    let node = FakeServer::start_node(&[], move |words| match &*words[0] {
        "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
        "SECOND" => reply.clone(),
        _ => "+OK\r\n".into(),
    });
    let builder = ClusterClientBuilder::new([node.url()]);
    let client = cluster(builder, ProtocolVersion::RESP3, Duration::from_millis(500)).build();
    let connection = client.unwrap().get_async_connection().await.unwrap();
    let cluster = Cluster::of(&connection, None, Duration::from_secs(1)).unwrap();
    let mut commands = redis::pipe();
    commands.cmd("FIRST").cmd("SECOND");
    cluster.send_all(commands, &to).await
}

#[tokio::test]
async fn an_operators_commands_are_answered_together() {
    let replies = sent(":7\r\n", Node::Any).await.unwrap();
    assert_eq!(replies, Ok(vec![Value::Okay, Value::Int(7)]));
    let replies = sent("-OOM no\r\n", Node::Serving(1)).await;
    let Ok(Ok(replies)) = &replies else {
        panic!("{replies:?}");
    };
    assert!(matches!(replies[..], [Value::Okay, Value::ServerError(_)]));
    let moved = sent("-MOVED 1 127.0.0.1:1\r\n", Node::Any).await.unwrap();
    assert_eq!(moved, Err("MOVED 1 127.0.0.1:1".to_owned()));
    let lost = sent(Answer::ReplyAndClose(String::new()), Node::Any).await;
    assert!(matches!(lost, Err(Failure::Lost(_))), "{lost:?}");
    let (host, port) = ("127.0.0.1".to_owned(), 1);
    let unsent = sent(":7\r\n", Node::At { host, port }).await;
    assert!(matches!(unsent, Err(Failure::NotSent(_))), "{unsent:?}");
}

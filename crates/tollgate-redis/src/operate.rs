//! What operators do on a server: check its settings, and delete or find states.
//!
//! Import [`Operate`], and call on a store
//!
//! - [`diagnose`](Operate::diagnose) to check the settings of its servers: a [`Diagnosis`] has
//!   [`Finding`]s, each with a [`Severity`] and advice;
//! - [`clear`](Operate::clear) to delete the states of all keys, of some limits, or only those ahead
//!   of the server's clock, as a [`Clear`] says; [`Cleared`] counts them;
//! - [`find`](Operate::find) to list states: a [`Search`] selects them, and returns [`FoundState`]s
//!   page by page, which [`read`](Operate::read) and [`peek_at`](Operate::peek_at) ask about, and
//!   [`forget`](Operate::forget) deletes;
//! - [`held`](Operate::held) to see which states of a key your limits read.
//!
//! # Examples
//!
//! ```no_run
//! use tollgate_redis::operate::{Operate, Severity};
//! use tollgate_redis::RedisStore;
//!
//! # async fn example() -> Result<(), tollgate_redis::StoreError> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
//! for finding in store.diagnose().await.findings() {
//!     if finding.severity >= Severity::Warning {
//!         println!("{}: {}: {}", finding.server, finding.found, finding.advice);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use redis::{Pipeline, Value};
use tollgate_wire::Failure;
use tollgate_wire::inside::{Command, Node, Nodes, Reply};
pub use tollgate_wire::operate::{
    Clear, Cleared, Diagnosis, Encoding, Facts, Finding, FoundState, Operate, Search, Severity,
};

use crate::connection::Connection;
use crate::engine::RedisEngine;
use crate::failure;
use crate::redis_store::RedisStore;

tollgate_wire::__operates!(RedisStore<C: Connection>);

impl<C: Connection> Nodes for RedisEngine<C> {
    async fn send(&self, node: &Node, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let mut pipeline = Pipeline::new();
        for words in commands.iter().map(Command::words) {
            let mut command = redis::Cmd::new();
            for word in words {
                command.arg(word.as_slice());
            }
            pipeline.add_command(command);
        }
        if let Some(cluster) = self.driven_cluster() {
            return Ok(match cluster?.send_all(pipeline, node).await? {
                Ok(replies) => replies.into_iter().map(reply).collect(),
                // redis-rs reports one error for the whole pipeline.
                Err(line) => vec![Reply::Error(line); commands.len()],
            });
        }
        let mut connection = self.connection().clone();
        let replies = connection.req_packed_commands(&pipeline, 0, commands.len());
        let replies = replies.await.map_err(failure::of)?;
        Ok(replies.into_iter().map(reply).collect())
    }
}

fn reply(value: Value) -> Reply {
    let text = |text: String| Reply::Bytes(text.into_bytes());
    match value {
        Value::Array(values) | Value::Set(values) | Value::Push { data: values, .. } => {
            Reply::List(values.into_iter().map(reply).collect())
        }
        Value::Attribute { data, .. } => reply(*data),
        Value::Boolean(is_true) => Reply::Integer(is_true.into()),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::Double(number) => text(number.to_string()),
        Value::Int(number) => Reply::Integer(number),
        Value::Map(pairs) => {
            let both = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::List(both.map(reply).collect())
        }
        Value::Okay => text("OK".to_owned()),
        Value::ServerError(error) => Reply::Error(failure::line(&error)),
        Value::SimpleString(status) => text(status),
        Value::VerbatimString { text: verbatim, .. } => text(verbatim),
        // `Nil`, and big numbers, which no command of a store gets. Their type depends on a feature
        // of redis-rs that other crates may enable.
        _ => Reply::Nil,
    }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn all_types_of_replies_are_understood() {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        for (sent, expected) in [
            ("+OK", bytes("OK")),
            ("+QUEUED", bytes("QUEUED")),
            ("$2\r\nhi", bytes("hi")),
            ("=6\r\ntxt:hi", bytes("hi")),
            ("(12345678901234567890123", Reply::Nil),
            (",1.5", bytes("1.5")),
            (":7", Reply::Integer(7)),
            ("#t", Reply::Integer(1)),
            ("#f", Reply::Integer(0)),
            ("_", Reply::Nil),
            ("$-1", Reply::Nil),
            ("-ERR no", Reply::Error("ERR no".to_owned())),
            ("-BUSY", Reply::Error("BUSY".to_owned())),
            (
                "*2\r\n:1\r\n+a",
                Reply::List(vec![Reply::Integer(1), bytes("a")]),
            ),
            ("~1\r\n:1", Reply::List(vec![Reply::Integer(1)])),
            (
                "%1\r\n+a\r\n:1",
                Reply::List(vec![bytes("a"), Reply::Integer(1)]),
            ),
        ] {
            let value = parse_redis_value(format!("{sent}\r\n").as_bytes()).unwrap();
            assert_eq!(reply(value), expected, "{sent}");
        }
        let described = Value::Attribute {
            data: Box::new(Value::Int(1)),
            attributes: Vec::new(),
        };
        assert_eq!(reply(described), Reply::Integer(1));
    }
}

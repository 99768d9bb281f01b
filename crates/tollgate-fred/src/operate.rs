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
//! use tollgate_fred::operate::{Operate, Severity};
//! use tollgate_fred::FredStore;
//!
//! # async fn example() -> Result<(), tollgate_fred::StoreError> {
//! let store = FredStore::connect("redis://127.0.0.1:6379").await?;
//! for finding in store.diagnose().await.findings() {
//!     if finding.severity >= Severity::Warning {
//!         println!("{}: {}: {}", finding.server, finding.found, finding.advice);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use fred::interfaces::Resp3Frame;
use fred::types::config::Server;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::join_all;
use tollgate_wire::Failure;
use tollgate_wire::inside::{Command, Node, Nodes, Reply};
pub use tollgate_wire::operate::{
    Clear, Cleared, Diagnosis, Encoding, Facts, Finding, FoundState, Operate, Search, Severity,
};

use crate::connection::Clients;
use crate::engine::{FredEngine, bytes, send_once};
use crate::fred_store::FredStore;

tollgate_wire::__operates!(FredStore<C: Clients>);

impl<C: Clients> Nodes for FredEngine<C> {
    async fn send(&self, node: &Node, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let (server, hash) = match node {
            Node::Any => (None, ClusterHash::Random),
            Node::At { host, port } => {
                (Some(Server::new(host.clone(), *port)), ClusterHash::Random)
            }
            Node::Serving(slot) => (None, ClusterHash::Custom(*slot)),
        };
        // All through one client, which keeps the order of commands.
        let (client, pins) = (self.clients().next(), self.pinned_to(server));
        // fred writes commands in the order of their first poll, which is this one.
        let replies = join_all(commands.iter().map(|words| {
            let (name, arguments) = split(words);
            let command = CustomCommand::new(name, hash.clone(), false);
            send_once(client, &pins, command, arguments)
        }));
        let replies = replies.await.into_iter().map(|outcome| match outcome {
            Ok(frame) => Ok(reply(frame)),
            Err(Failure::Refused { line, .. }) => Ok(Reply::Error(line)),
            Err(failure) => Err(self.noted(failure)),
        });
        replies.collect()
    }
}

/// Returns the name of a command, and its arguments.
fn split(command: &Command) -> (String, Vec<Value>) {
    let mut words = command.words().iter();
    let name = words.next().map(Vec::as_slice).unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    (name, words.map(|word| bytes(word)).collect())
}

fn reply(frame: Resp3Frame) -> Reply {
    match frame {
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Reply::List(data.into_iter().map(reply).collect())
        }
        Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::BlobString { data, .. }
        | Resp3Frame::ChunkedString(data)
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Reply::Bytes(data.into()),
        Resp3Frame::BlobError { data, .. } => {
            Reply::Error(String::from_utf8_lossy(&data).into_owned())
        }
        Resp3Frame::Boolean { data, .. } => Reply::Integer(data.into()),
        Resp3Frame::Double { data, .. } => Reply::Bytes(data.to_string().into_bytes()),
        Resp3Frame::Hello { .. } | Resp3Frame::Null => Reply::Nil,
        Resp3Frame::Map { data, .. } => {
            let both = data.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::List(both.map(reply).collect())
        }
        Resp3Frame::Number { data, .. } => Reply::Integer(data),
        Resp3Frame::Set { data, .. } => Reply::List(data.into_iter().map(reply).collect()),
        Resp3Frame::SimpleError { data, .. } => Reply::Error(data.to_string()),
    }
}

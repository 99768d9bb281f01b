//! Encodes the argument of a script, and decodes its reply.
//!
//! Numbers are little-endian IEEE doubles, the number type of Lua, which hold integers below 2^53
//! exactly. A script unpacks them in one step, without parsing decimal text.

mod argument;
mod reply;
mod series;

use tollgate_core::Timestamp;
use tollgate_core::store::{Cover, Request};

pub(super) use self::argument::{
    argument, count, many_argument, operation_number, push, push_id, push_instant,
    push_or_minus_one, slack, slack_at,
};
pub(super) use self::reply::{answer_to, decision, not_understood, uncovered};
pub(super) use self::series::{Series, Turn};

/// A request, and what its decision depends on beside the reply.
#[derive(Clone, Copy)]
pub(super) struct Question<'r> {
    pub(super) request: &'r Request<'r>,
    /// `None` for the server's clock.
    pub(super) instant: Option<Timestamp>,
    /// The periods that the server needs, if it [needs](Request::needs_cover) any.
    pub(super) cover: Option<&'r Cover>,
}

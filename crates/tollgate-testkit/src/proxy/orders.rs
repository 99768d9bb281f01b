//! `Orders`: what a proxy has been told to do, and counts of what it has done.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::lock;

/// The state that all connections of a proxy share.
#[derive(Debug, Default)]
pub(super) struct Orders {
    standing: Mutex<Standing>,
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) replies: AtomicU64,
}

#[derive(Debug, Default)]
struct Standing {
    delay: Duration,
    replies: Replies,
    cuts: Vec<String>,
}

/// What to do with replies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Replies {
    #[default]
    Deliver,
    Drop(u64),
}

impl Orders {
    pub(super) fn set_delay(&self, delay: Duration) {
        lock(&self.standing).delay = delay;
    }

    pub(super) fn delay(&self) -> Duration {
        lock(&self.standing).delay
    }

    pub(super) fn set_replies(&self, replies: Replies) {
        lock(&self.standing).replies = replies;
    }

    /// Returns whether to drop the reply that has arrived.
    pub(super) fn take_drop(&self) -> bool {
        let mut standing = lock(&self.standing);
        match &mut standing.replies {
            Replies::Deliver | Replies::Drop(0) => false,
            Replies::Drop(count) => {
                *count -= 1;
                true
            }
        }
    }

    /// Adds a cut after the next request with this `command`.
    pub(super) fn cut_after(&self, command: &str) {
        lock(&self.standing).cuts.push(command.to_owned());
    }

    /// Returns whether to cut after a request with this `command`, and removes that order.
    pub(super) fn take_cut(&self, command: &[u8]) -> bool {
        let cuts = &mut lock(&self.standing).cuts;
        let is_meant = |meant: &String| meant.as_bytes().eq_ignore_ascii_case(command);
        match cuts.iter().position(is_meant) {
            Some(index) => {
                cuts.remove(index);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_replies_are_dropped_as_ordered() {
        let orders = Orders::default();
        assert!(!orders.take_drop());
        orders.set_replies(Replies::Drop(2));
        assert!(orders.take_drop() && orders.take_drop() && !orders.take_drop());
        orders.set_replies(Replies::Drop(u64::MAX));
        assert!(orders.take_drop());
        orders.set_replies(Replies::Deliver);
        assert!(!orders.take_drop());
    }

    #[test]
    fn a_cut_is_made_once_and_after_the_given_request() {
        let orders = Orders::default();
        assert!(!orders.take_cut(b"GET"));
        orders.cut_after("EVALSHA");
        assert!(!orders.take_cut(b"GET"));
        assert!(orders.take_cut(b"evalsha") && !orders.take_cut(b"EVALSHA"));
    }
}

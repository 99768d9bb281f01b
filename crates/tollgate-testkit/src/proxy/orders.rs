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
}

#[derive(Debug, Default)]
struct Standing {
    delay: Duration,
    /// How many replies to drop.
    drops: u64,
    cuts: Vec<String>,
}

impl Orders {
    pub(super) fn set_delay(&self, delay: Duration) {
        lock(&self.standing).delay = delay;
    }

    pub(super) fn delay(&self) -> Duration {
        lock(&self.standing).delay
    }

    pub(super) fn set_drops(&self, count: u64) {
        lock(&self.standing).drops = count;
    }

    /// Returns whether to drop the reply that has arrived.
    pub(super) fn take_drop(&self) -> bool {
        let drops = &mut lock(&self.standing).drops;
        let is_dropped = *drops > 0;
        *drops -= u64::from(is_dropped);
        is_dropped
    }

    /// Adds a cut after the next request with this `command`.
    pub(super) fn cut_after(&self, command: &str) {
        lock(&self.standing).cuts.push(command.to_owned());
    }

    /// Returns whether to cut after a request with this `command`, and removes that order.
    pub(super) fn take_cut(&self, command: &[u8]) -> bool {
        let cuts = &mut lock(&self.standing).cuts;
        let is_meant = |meant: &String| meant.as_bytes().eq_ignore_ascii_case(command);
        let order = cuts.iter().position(is_meant);
        order.map(|index| cuts.remove(index)).is_some()
    }
}

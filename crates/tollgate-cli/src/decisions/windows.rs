//! `Windows`: the most requests of each key within any window.

use std::collections::VecDeque;

use crate::trace::{Event, Trace};

/// Counts the requests of each key within the window that ends now, and remembers the most. A window
/// contains its end, but not its start.
pub(crate) struct Windows {
    window_us: u64,
    /// By key index.
    keys: Vec<Recent>,
}

#[derive(Clone, Default)]
struct Recent {
    /// The times of the requests in the window that ends at the latest one.
    at: VecDeque<u64>,
    most: u64,
}

impl Windows {
    pub(crate) fn new(trace: &Trace, window_us: u64) -> Self {
        Self {
            window_us,
            keys: vec![Recent::default(); trace.keys().len()],
        }
    }

    pub(crate) fn of(trace: &Trace, window_us: u64) -> Self {
        let mut windows = Self::new(trace, window_us);
        for event in trace.events() {
            windows.admit(event);
        }
        windows
    }

    /// Adds a request; requests must come in time order.
    pub(crate) fn admit(&mut self, event: &Event) {
        let count = self.count(event) + 1;
        let key = &mut self.keys[event.key.index()];
        key.at.push_back(event.at.as_micros());
        key.most = key.most.max(count);
    }

    /// Returns how many requests of the same key came within the window before `event`.
    pub(crate) fn count(&mut self, event: &Event) -> u64 {
        let recent = &mut self.keys[event.key.index()].at;
        let now = event.at.as_micros();
        while recent.front().is_some_and(|&at| now - at >= self.window_us) {
            recent.pop_front();
        }
        u64::try_from(recent.len()).unwrap_or(u64::MAX)
    }

    /// Returns the most requests of one key.
    pub(crate) fn worst(&self) -> u64 {
        self.keys.iter().map(|key| key.most).max().unwrap_or(0)
    }

    /// Returns the most requests of each key.
    pub(crate) fn of_each_key(&self) -> Vec<u64> {
        self.keys.iter().map(|key| key.most).collect()
    }
}

//! `Keys`: the keys that a subject's calls use in turn, and how many of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::run::DEPTHS;

/// How full a log should get if every call is to be admitted: speed varies, and a full log denies.
const FULLNESS: f64 = 0.6;

/// Names of keys; calls use the first `used` of them in turn.
pub(crate) struct Keys {
    names: Vec<String>,
    used: AtomicUsize,
    log: Option<Log>,
}

/// A limit whose state grows with the calls in its window.
pub(crate) struct Log {
    amount: u32,
    window: Duration,
    /// The highest measured calls per second, at each depth.
    fastest: Mutex<[f64; DEPTHS]>,
}

impl Keys {
    /// Returns `count` keys, all of which are used.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            names: (0..count).map(|number| format!("user:{number}")).collect(),
            used: AtomicUsize::new(count),
            log: None,
        }
    }

    /// Returns at most `count` keys, and uses only as many as get nearly as many calls each as
    /// `amount` per `window` admits.
    pub(crate) fn of_log(count: usize, amount: u32, window: Duration) -> Self {
        Self {
            log: Some(Log {
                amount,
                window,
                fastest: Mutex::default(),
            }),
            ..Self::new(count)
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index of the key for call number `turn`.
    pub(crate) fn place(&self, turn: usize) -> usize {
        turn % self.used.load(Ordering::Relaxed)
    }

    /// Returns the key for call number `turn`.
    pub(crate) fn name(&self, turn: usize) -> &str {
        &self.names[self.place(turn)]
    }

    /// Sets the number of used keys for the highest speed measured at this depth.
    pub(crate) fn prepare(&self, depth: usize) {
        if let Some(log) = &self.log {
            let used = log.keys(log.fastest()[depth]).clamp(1, self.names.len());
            self.used.store(used, Ordering::Relaxed);
        }
    }

    /// Records the speed measured at a depth.
    pub(crate) fn saw(&self, depth: usize, per_second: f64) {
        if let Some(log) = &self.log {
            let fastest = &mut log.fastest()[depth];
            *fastest = fastest.max(per_second);
        }
    }
}

impl Log {
    fn fastest(&self) -> std::sync::MutexGuard<'_, [f64; DEPTHS]> {
        let locked = self.fastest.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns how many keys are needed for `per_second` calls per second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small number of keys, which was rounded up"
    )]
    fn keys(&self, per_second: f64) -> usize {
        let each = FULLNESS * f64::from(self.amount);
        (per_second * self.window.as_secs_f64() / each).ceil() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_use_enough_keys_not_to_be_full() {
        let keys = Keys::of_log(50, 100, Duration::from_millis(240));
        keys.prepare(1);
        assert_eq!(keys.place(7), 0);
        // 2,400 calls per window, and 60 of them for each key.
        keys.saw(1, 10_000.0);
        keys.saw(1, 9_000.0);
        keys.prepare(1);
        assert_eq!((keys.place(39), keys.place(40)), (39, 0));
        keys.saw(2, 1e9);
        keys.prepare(2);
        assert_eq!((keys.place(49), keys.place(50)), (49, 0));
        keys.prepare(0);
        assert_eq!(keys.name(3), "user:0");
    }

    #[test]
    fn algorithms_without_a_log_use_all_keys() {
        let keys = Keys::new(3);
        keys.saw(0, 1.0);
        keys.prepare(0);
        assert_eq!(keys.name(5), "user:2");
    }
}

//! `Pauses`: how long to wait between attempts.

use std::time::Duration;

/// The pauses between attempts: each is twice as long as the one before, up to a longest.
#[derive(Clone, Debug)]
pub struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Returns pauses that begin with `first`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            next: first,
            longest,
        }
    }

    /// Returns the next pause.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.longest.min(pause * 2);
        pause
    }

    /// Returns the next pause, or `None` if `spent` and the pause together reach `limit`.
    pub fn next_within(&mut self, spent: Duration, limit: Duration) -> Option<Duration> {
        let pause = self.next_pause();
        (spent + pause < limit).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut pauses = Pauses::new(Duration::from_millis(50), Duration::from_millis(250));
        let five = [(); 5].map(|()| pauses.next_pause().as_millis());
        assert_eq!(five, [50, 100, 200, 250, 250]);
    }

    #[test]
    fn a_pause_ends_before_its_limit() {
        let ms = Duration::from_millis;
        for (spent, limit, expected) in [
            (0, 51, Some(ms(50))),
            (0, 50, None),
            (10, 61, Some(ms(50))),
            (10, 60, None),
            (60, 50, None),
        ] {
            let mut pauses = Pauses::new(ms(50), ms(250));
            let pause = pauses.next_within(ms(spent), ms(limit));
            assert_eq!(pause, expected, "{spent} of {limit}");
        }
    }
}

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
}

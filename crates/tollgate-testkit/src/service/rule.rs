//! `Rule`: the limit of a service, and `Counted`, what it has counted. Written for this, and not
//! with the library's own algorithms, which it tests.

use std::collections::VecDeque;

/// The limit that a [`Service`](super::Service) enforces. All times are in microseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "tests construct it")]
pub enum Rule {
    /// A token bucket of `burst` that gets `amount` tokens per window, evenly.
    Bucket {
        /// The tokens per window.
        amount: u64,
        /// The length of a window.
        window_us: u64,
        /// The tokens of a full bucket.
        burst: u64,
    },
    /// At most `amount` in any window.
    Log {
        /// The requests per window.
        amount: u64,
        /// The length of a window.
        window_us: u64,
    },
    /// At most `amount` in each of consecutive windows, which begin when the service starts.
    Window {
        /// The requests per window.
        amount: u64,
        /// The length of a window.
        window_us: u64,
    },
}

/// What a service has counted.
pub(super) struct Counted {
    rule: Rule,
    started: u64,
    state: State,
    random: u64,
}

enum State {
    /// The tokens, in parts of one `window_us`th, and as of when.
    Bucket {
        parts: u64,
        at: u64,
    },
    Log(VecDeque<u64>),
    Window {
        index: u64,
        count: u64,
    },
}

/// What a service answers.
pub(super) struct Answer {
    pub(super) is_accepted: bool,
    pub(super) amount: u64,
    pub(super) remaining: u64,
    /// How long until more is accepted.
    pub(super) reset_after_us: u64,
}

impl Counted {
    pub(super) fn new(rule: Rule, now: u64) -> Self {
        let state = match rule {
            Rule::Bucket {
                window_us, burst, ..
            } => State::Bucket {
                parts: burst * window_us,
                at: now,
            },
            Rule::Log { .. } => State::Log(VecDeque::new()),
            Rule::Window { .. } => State::Window { index: 0, count: 0 },
        };
        Self {
            rule,
            started: now,
            state,
            // Any number but zero.
            random: now | 1,
        }
    }

    /// Returns a random number (xorshift).
    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Counts a request that arrives now.
    pub(super) fn count(&mut self, now: u64) -> Answer {
        match (self.rule, &mut self.state) {
            (
                Rule::Bucket {
                    amount,
                    window_us,
                    burst,
                },
                State::Bucket { parts, at },
            ) => {
                let gained = (now - *at) * amount;
                (*parts, *at) = ((*parts + gained).min(burst * window_us), now);
                let is_accepted = *parts >= window_us;
                *parts -= if is_accepted { window_us } else { 0 };
                Answer {
                    is_accepted,
                    amount: burst,
                    remaining: *parts / window_us,
                    reset_after_us: window_us.saturating_sub(*parts).div_ceil(amount),
                }
            }
            (Rule::Log { amount, window_us }, State::Log(log)) => {
                while log.front().is_some_and(|first| first + window_us <= now) {
                    log.pop_front();
                }
                let held = u64::try_from(log.len()).unwrap_or(u64::MAX);
                let is_accepted = held < amount;
                if is_accepted {
                    log.push_back(now);
                }
                let first = log.front().copied().unwrap_or(now);
                Answer {
                    is_accepted,
                    amount,
                    remaining: amount - held - u64::from(is_accepted),
                    reset_after_us: first + window_us - now,
                }
            }
            (Rule::Window { amount, window_us }, State::Window { index, count }) => {
                let into = now - self.started;
                if into / window_us != *index {
                    (*index, *count) = (into / window_us, 0);
                }
                let is_accepted = *count < amount;
                *count += u64::from(is_accepted);
                Answer {
                    is_accepted,
                    amount,
                    remaining: amount - *count,
                    reset_after_us: window_us - into % window_us,
                }
            }
            _ => unreachable!("the state is made for the rule"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000;

    /// Returns which of the requests at these times after the start are accepted.
    fn accepted(rule: Rule, times: &[u64]) -> Vec<bool> {
        let mut counted = Counted::new(rule, START);
        let answers = times.iter().map(|time| counted.count(START + time));
        answers.map(|answer| answer.is_accepted).collect()
    }

    #[test]
    fn rules_are_strict_to_the_microsecond() {
        let (amount, window_us) = (2, 10);
        let window = Rule::Window { amount, window_us };
        let times = [8, 9, 9, 10, 10, 10, 20];
        let expected = [true, true, false, true, true, false, true];
        assert_eq!(accepted(window, &times), expected);

        let log = Rule::Log { amount, window_us };
        let times = [8, 9, 10, 17, 18, 18, 19];
        let expected = [true, true, false, false, true, false, true];
        assert_eq!(accepted(log, &times), expected);

        let bucket = Rule::Bucket {
            amount,
            window_us,
            burst: 3,
        };
        let times = [0, 0, 0, 4, 5, 9, 10, 11, 99, 99, 99, 99];
        let expected = [
            true, true, true, false, true, false, true, false, true, true, true, false,
        ];
        assert_eq!(accepted(bucket, &times), expected);
    }
}

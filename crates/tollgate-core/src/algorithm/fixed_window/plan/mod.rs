//! `CounterPlan`: counts a fixed window with plain commands, for servers that run no scripts.
//!
//! One transaction reads the server's clock and adds to a counter that cannot pass the quota:
//! `BITFIELD` with `OVERFLOW FAIL` does not change a counter whose new value would not fit into 63
//! bits, so each unit adds the largest step that fits exactly `N` times.

use super::{FixedWindow, State};
use crate::algorithm::{self, Algorithm, Listed, Machine};
use crate::time::MAX_EXACT;

/// The shortest aligned window: its counter must be named before the server's time is known.
const SHORTEST_US: u64 = 10_000;
/// The largest value of a counter.
const MOST: u64 = i64::MAX.cast_unsigned();

/// How plain commands count a fixed window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CounterPlan {
    amount: u64,
    window_us: u64,
    anchored: bool,
    counts_denied: bool,
    /// What one unit adds to the counter.
    step: u64,
}

impl Algorithm {
    /// Returns how plain commands count calls.
    ///
    /// # Errors
    ///
    /// The reason why they cannot.
    pub(crate) fn plan(&self) -> Result<CounterPlan, &'static str> {
        match self {
            Self::FixedWindow(window) => window.plan(),
            _ => Err("only fixed windows can be counted without scripts"),
        }
    }
}

impl FixedWindow {
    /// Returns how plain commands count this window.
    ///
    /// # Errors
    ///
    /// The reason why they cannot.
    fn plan(&self) -> Result<CounterPlan, &'static str> {
        let (amount, window_us) = (self.quota().amount(), self.quota().window_us());
        if self.is_anchored() && window_us % 1_000 != 0 {
            return Err("an anchored window must be whole milliseconds, because TTLs are");
        }
        if !self.is_anchored() && window_us < SHORTEST_US {
            return Err(
                "an aligned window must be 10 ms or longer, or it ends before the command arrives",
            );
        }
        let step = if self.count_denied {
            1
        } else {
            let Some(step) = MOST.checked_div(amount) else {
                return Err("a quota of zero cannot be counted");
            };
            // One more than the amount must not fit. The product is at most twice `MOST`.
            if (amount + 1) * step <= MOST {
                return Err(
                    "the amount is too large: no step fits into a 63-bit counter exactly so many times",
                );
            }
            step
        };
        Ok(CounterPlan {
            amount,
            window_us,
            anchored: self.is_anchored(),
            counts_denied: self.count_denied,
            step,
        })
    }
}

/// The server's replies about a counter.
#[expect(
    clippy::exhaustive_structs,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug)]
pub struct CounterReply {
    /// The server's time in microseconds.
    pub now: u64,
    /// The counter before the call.
    pub before: u64,
    /// Whether the counter was changed, or `None` if it was only read.
    pub counted: Option<bool>,
    /// The Unix time in milliseconds after which the counter expires, or negative if it does not.
    pub expires: i64,
}

impl CounterPlan {
    /// Returns whether windows begin with their first calls, and so have no numbers.
    pub const fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// Returns the number of the window that holds `now`, or `None` for anchored windows.
    pub const fn window(&self, now: u64) -> Option<u64> {
        if self.anchored {
            return None;
        }
        Some(now / self.window_us)
    }

    /// Returns the part of the key that tells the counters of a limit apart: the amount, which
    /// determines the step, unless denied calls count; and the number of an aligned window.
    pub fn variant(&self, window: Option<u64>) -> String {
        let mut variant = String::new();
        let amount = (!self.counts_denied).then_some(self.amount);
        for part in [amount, window].into_iter().flatten() {
            variant.push('-');
            variant.push_str(&part.to_string());
        }
        variant
    }

    /// Returns the arguments with which `BITFIELD` adds `cost` to the counter.
    pub fn add(&self, cost: u64) -> [Vec<u8>; 6] {
        let overflow = if self.counts_denied { "SAT" } else { "FAIL" };
        let added = self.step.saturating_mul(cost).min(MOST);
        increment(overflow, &added.to_string())
    }

    /// Returns the arguments with which `BITFIELD` gives back `amount`.
    pub fn give_back(&self, amount: u64) -> [Vec<u8>; 6] {
        let returned = self.step.saturating_mul(amount).min(MOST);
        increment("SAT", &format!("-{returned}"))
    }

    /// Returns the command that sets the expiry of a counter of `window`, unless it has one.
    ///
    /// It lives a millisecond longer than the window: a server deletes a key at once if its expiry is
    /// the current millisecond, or becomes that while the command runs.
    pub fn expire(&self, key: &[u8], window: Option<u64>) -> Vec<Vec<u8>> {
        let (name, when) = match window {
            Some(window) => {
                let end = (window + 1).saturating_mul(self.window_us);
                ("PEXPIREAT", end / 1_000 + 1)
            }
            None => ("PEXPIRE", self.window_us / 1_000 + 1),
        };
        vec![
            name.into(),
            key.to_vec(),
            when.to_string().into(),
            "NX".into(),
        ]
    }

    /// Returns whether to send a call of `cost` to be counted: not if it costs nothing, or if it
    /// can never fit and denied calls do not count, as under a quota of zero.
    pub const fn may_count(&self, cost: u64, amount: u64) -> bool {
        cost > 0 && amount > 0 && (self.counts_denied || cost <= amount)
    }

    /// Returns the state before the call, and the instant of the decision.
    ///
    /// An anchored window begins up to two milliseconds after its first call, because servers expire
    /// keys by the millisecond; calls before that are decided at its start. An aligned window may
    /// begin after `reply.now`, if the server's clock has stepped back: the machine then decides at
    /// the start of the window and adds the step to each wait.
    pub fn state(
        &self,
        window: Option<u64>,
        reply: CounterReply,
    ) -> Option<(algorithm::State, u64)> {
        let kept = (reply.before / self.step).min(MAX_EXACT);
        let (start, now) = match window {
            Some(window) => (window.checked_mul(self.window_us)?, reply.now),
            None if reply.expires < 0 => (reply.now, reply.now),
            None => {
                let expires = u64::try_from(reply.expires).ok()?;
                let end = (expires + 1).checked_mul(1_000)?;
                let start = end.checked_sub(self.window_us)?;
                // `TIME` may be later than the clock by which the server expires keys.
                (start, reply.now.clamp(start, end - 1))
            }
        };
        let state = if kept == 0 && now >= start {
            algorithm::State::default()
        } else {
            // Keeps the start even if nothing is counted: a fresh state would be decided before it.
            FixedWindow::keep(State {
                start,
                kept,
                at_start: kept,
            })
        };
        (start <= MAX_EXACT).then_some((state, now))
    }
}

fn increment(overflow: &str, by: &str) -> [Vec<u8>; 6] {
    ["OVERFLOW", overflow, "INCRBY", "u63", "0", by].map(Vec::from)
}

#[cfg(test)]
mod tests;

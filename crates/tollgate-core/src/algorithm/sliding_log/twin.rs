//! The sliding log's script: its parameters, and how to read its states.

use super::{Entry, MOST, SlidingLog, State};
use crate::algorithm::Machine;
use crate::algorithm::{self, CallContext, Listed, Paired, Words, words};
use crate::time::LONGEST_AHEAD_US;

impl Paired for SlidingLog {
    const SCRIPT: &'static str = include_str!("script.lua");
    const IS_LIST: bool = true;
    const PARAMETERS: &'static [&'static str] = &["amount_per_window", "window"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.quota().amount(), self.quota().window_us()])
    }

    /// The script replies only with what the decision depends on: how many units count, when the
    /// newest was recorded, and when the units were recorded that a denied call waits for.
    fn decode(&self, reply: &[u64], call: CallContext) -> Option<algorithm::State> {
        let [used, first, second, last, latest] = *reply else {
            return None;
        };
        let amount = self.quota().amount();
        let mut entries = Vec::new();
        let mut push = |at, total| {
            if (1..=used).contains(&total) {
                entries.push(Entry { at, total });
            }
        };
        if (1..=amount).contains(&call.cost) {
            // How many units must leave for the call to fit, and for it to fit once this attempt is
            // counted.
            let needed = (used + call.cost).saturating_sub(amount);
            let again = (used + 2 * call.cost).saturating_sub(amount);
            if needed < used {
                push(first, needed);
            }
            if self.counts_denied() && again < used {
                push(second, again);
            }
        }
        push(last, used);
        let gone = self.expired(call.now.max(latest));
        let live = entries.iter().all(|e| gone.is_none_or(|gone| e.at > gone));
        let ordered = entries.is_sorted_by_key(|entry| entry.at);
        let newest = entries.last().map_or(0, |entry| entry.at);
        let too_late = newest > latest.saturating_add(LONGEST_AHEAD_US.into());
        if used > MOST || !live || !ordered || too_late {
            return None;
        }
        Some(Self::keep(State::of(latest, 3, true, entries.into_iter())))
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [header, newest] = values else {
            return None;
        };
        Some(recorded(header)?.max(recorded(newest)?))
    }
}

/// Returns when a list element was recorded: it is a double, four bytes of a running total, and a double
/// more if its units are used ahead, so that the first one is later.
fn recorded(element: &[u8]) -> Option<u64> {
    let (instant, rest) = element.split_first_chunk::<8>()?;
    let instant = match rest {
        [_, _, _, _] => instant,
        [_, _, _, _, recorded @ ..] => recorded.first_chunk()?,
        _ => return None,
    };
    words(instant)?.first().copied()
}

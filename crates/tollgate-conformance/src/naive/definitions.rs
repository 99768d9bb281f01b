//! `Definition`: what remains of each algorithm at an instant, computed from all counted calls.

use tollgate_core::store::MAX_EXACT;

use super::calendar::Calendar;

/// One counted call, or a refund to a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// When it counts: for units that are used ahead, it may be later than when they were recorded.
    pub(super) at: i128,
    pub(super) recorded: i128,
    /// When it is used at the latest.
    pub(super) starts: i128,
    /// Whether it is used later than it was recorded.
    pub(super) ahead: bool,
    /// What was counted and not refunded: in units; in a bucket, in drops, `window` to a unit, and
    /// negative for a refund.
    pub(super) amount: i128,
}

impl Event {
    /// Returns what was recorded, counted and used at one instant.
    fn at(at: i128, amount: i128) -> Self {
        Self {
            at,
            recorded: at,
            starts: at,
            ahead: false,
            amount,
        }
    }
}

/// An algorithm with its parameters.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) amount: i128,
    pub(super) window: i128,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Aligned,
    Anchored,
    Bucket { burst: i128 },
    Buckets { bucket: i128, buckets: i128 },
    Calendar(Calendar),
    Counter,
    Log,
}

impl Definition {
    /// Returns the largest cost that can ever be admitted.
    pub(super) fn capacity(&self) -> i128 {
        match self.kind {
            Kind::Bucket { burst } => burst,
            _ => self.amount,
        }
    }

    pub(super) fn count(&self, events: &mut Vec<Event>, now: i128, cost: i128) {
        let now = self.clamp(events, now);
        let (amount, window) = (self.amount, self.window);
        let at = match self.kind {
            Kind::Log => now.max(latest(events)),
            _ => now,
        };
        let counted = match self.kind {
            // Once the last window has ended, or all of it was refunded, a new one begins.
            Kind::Anchored if self.left(events, now) == amount => {
                events.clear();
                cost.min(MAX_EXACT.into())
            }
            Kind::Bucket { .. } => cost * window,
            // A denied call, or what is settled beyond a call's cost, counts at most the amount.
            Kind::Log => cost.min(amount),
            Kind::Counter => {
                let this = events.iter();
                let this = this.filter(|event| event.at / window == at / window);
                let counted: i128 = this.map(|event| event.amount).sum();
                cost.min(amount - counted)
            }
            // Larger counts are not exact. The place of a first call that was refunded is not counted.
            _ => {
                let used = match self.kind {
                    Kind::Anchored => events.iter().map(|event| event.amount).sum(),
                    _ => amount - self.left(events, now),
                };
                cost.min(i128::from(MAX_EXACT) - used)
            }
        };
        events.push(Event {
            recorded: now,
            ..Event::at(at, counted)
        });
        if matches!(self.kind, Kind::Log) {
            keep_newest(events, amount);
        }
    }

    /// Counts, at `now`, a call of `cost`, and units that are used until `within` later: `units` with the
    /// cost.
    pub(super) fn count_ahead(
        &self,
        events: &mut Vec<Event>,
        now: i128,
        within: i128,
        (cost, units): (i128, i128),
    ) {
        let now = self.clamp(events, now);
        let event = |amount, at| Event {
            recorded: now,
            ahead: true,
            ..Event::at(at, amount)
        };
        match self.kind {
            // All of them leave the window when those have left it that are used last.
            Kind::Log => {
                let end = (now + within).min(MAX_EXACT.into());
                events.push(event(units, end.max(latest(events))));
            }
            // What leaks until the end of their use is not there for them.
            Kind::Bucket { .. } => {
                let lost = within * self.amount - level(events, self.amount, now);
                events.push(Event {
                    starts: (now + within).min(MAX_EXACT.into()),
                    ..event(lost.max(0) + units * self.window, now)
                });
            }
            _ => {
                self.count(events, now, cost);
                let at = events.last().map_or(now, |own| own.at);
                events.push(event(units - cost, at));
            }
        }
    }

    /// Returns how many units fit that are used until `within` after `now`.
    pub(super) fn left_ahead(&self, events: &[Event], now: i128, within: i128) -> i128 {
        let now = self.clamp(events, now);
        let left = self.left(events, now);
        match self.kind {
            Kind::Bucket { burst } => {
                let leaked = (within * self.amount + self.window - 1) / self.window;
                left.min(burst - leaked)
            }
            _ => left,
        }
    }

    /// Refunds, at `now`, what still counts of a call of `cost` that was counted at `at`.
    pub(super) fn refund(&self, events: &mut Vec<Event>, now: i128, at: i128, cost: i128) {
        let now = self.clamp(events, now);
        // What has leaked since the call is not given back again.
        if let Kind::Bucket { .. } = self.kind {
            let (amount, window) = (self.amount, self.window);
            let level = level(events, amount, now);
            // What leaks until the last use of another is not there to be given back.
            let starts = events.iter().map(|event| event.starts);
            let starts = starts.max().unwrap_or(0).max(now);
            let kept = cost * window - (starts - at).max(0) * amount;
            let returned = kept.clamp(0, level);
            if returned > 0 {
                events.push(Event::at(now, -returned));
            }
            return;
        }
        if !self.still_counts(events, at, now) {
            return;
        }
        // From the newest, so that the first call of an anchored window is the last to be refunded, but
        // for units that are used ahead.
        let mut left = cost;
        for ahead in [false, true] {
            let all = events.iter_mut().rev();
            for event in all.filter(|event| event.at == at && event.ahead == ahead) {
                let taken = event.amount.min(left);
                event.amount -= taken;
                left -= taken;
            }
        }
        // A counter's refund is written in the current window, and the clock may not step back
        // behind it.
        if matches!(self.kind, Kind::Counter) && left < cost {
            events.push(Event::at(now, 0));
        }
    }

    /// Gives back, at `now`, the newest `cost` units that still count, and returns how many they were.
    pub(super) fn give(&self, events: &mut Vec<Event>, now: i128, cost: i128) -> i128 {
        let now = self.clamp(events, now);
        if let Kind::Bucket { .. } = self.kind {
            let (amount, window) = (self.amount, self.window);
            // What is due by the latest start stays due.
            let starts = events.iter().map(|event| event.starts).max();
            let due = (starts.unwrap_or(0) - now).max(0) * amount;
            let owed = level(events, amount, now) - due;
            let returned = owed.clamp(0, cost * window);
            if returned > 0 {
                events.push(Event::at(now, -returned));
            }
            return (returned + window - 1) / window;
        }
        let which = events.iter();
        let which = which.map(|event| self.still_counts(events, event.at, now));
        let which: Vec<bool> = which.collect();
        let mut left = cost;
        for (event, counts) in events.iter_mut().zip(which).rev() {
            let taken = if counts { event.amount.min(left) } else { 0 };
            event.amount -= taken;
            left -= taken;
        }
        // As after a refund.
        if matches!(self.kind, Kind::Counter) && left < cost {
            events.push(Event::at(now, 0));
        }
        cost - left
    }

    /// Returns whether a unit that was counted at `at` still counts at `now`; of a bucket, none by itself.
    fn still_counts(&self, events: &[Event], at: i128, now: i128) -> bool {
        let window = self.window;
        match self.kind {
            Kind::Aligned => at / window == now / window,
            Kind::Calendar(ref calendar) => calendar.same(at, now),
            Kind::Anchored => now < last_window(events, window).0 + window,
            Kind::Buckets { bucket, buckets } => now / bucket <= at / bucket + buckets,
            Kind::Counter => now / window <= at / window + 1,
            Kind::Log => at + window > now,
            Kind::Bucket { .. } => false,
        }
    }

    /// Returns the instant to use for `now` if the clock may have stepped back: never before the
    /// last counted call, or before the start of its window or bucket.
    pub(super) fn clamp(&self, events: &[Event], now: i128) -> i128 {
        let Some(last) = events.last() else {
            return now;
        };
        now.max(match self.kind {
            Kind::Aligned | Kind::Counter => last.at / self.window * self.window,
            Kind::Anchored => last_window(events, self.window).0,
            Kind::Buckets { bucket, .. } => last.at / bucket * bucket,
            Kind::Calendar(_) if now >= last.at => now,
            Kind::Calendar(ref calendar) => calendar.start(last.at),
            Kind::Bucket { .. } | Kind::Log => last.recorded,
        })
    }

    /// Returns what is not used at `now`: a call is admitted if it costs at most that. Negative if
    /// denied calls were counted.
    pub(super) fn left(&self, events: &[Event], now: i128) -> i128 {
        let sum = |counts: &dyn Fn(i128) -> bool| -> i128 {
            let counted = events.iter().filter(|event| counts(event.at));
            counted.map(|event| event.amount).sum()
        };
        let (amount, window) = (self.amount, self.window);
        match self.kind {
            // Counts every call in the same window.
            Kind::Aligned => amount - sum(&|at| at / window == now / window),
            // Counts every call with the same date, or in the same week, month or year.
            Kind::Calendar(ref calendar) => {
                let now = calendar.label(now);
                amount - sum(&|at| calendar.label(at) == now)
            }
            // A window opens at the first call outside an open window; counts every call in it.
            Kind::Anchored => {
                let (start, used) = last_window(events, window);
                if now < start + window {
                    amount - used
                } else {
                    amount
                }
            }
            // A bucket holds the burst, less what has not leaked yet.
            Kind::Bucket { burst } => {
                (burst * window - level(events, amount, now)).div_euclid(window)
            }
            // Counts the current bucket, and as many before it as a window holds.
            Kind::Buckets { bucket, buckets } => {
                amount - sum(&|at| now / bucket <= at / bucket + buckets)
            }
            // Counts the current window, and the share of the previous one that a sliding window
            // would cover.
            Kind::Counter => {
                let this = sum(&|at| at / window == now / window);
                let last = sum(&|at| at / window + 1 == now / window);
                let covered = last * (window - now % window);
                amount - this - (covered + window - 1) / window
            }
            // Counts every call in the half-open window that ends now.
            Kind::Log => amount - sum(&|at| at + window > now),
        }
    }
}

/// Returns the start of the last anchored window, and what is used in it.
fn last_window(events: &[Event], window: i128) -> (i128, i128) {
    let Some(first) = events.first() else {
        return (-window, 0);
    };
    let kept: i128 = events.iter().map(|event| event.amount).sum();
    // If the first call was refunded and others were not, one unit stays used in its place.
    let place = i128::from(kept > 0 && first.amount == 0);
    (first.at, kept + place)
}

/// Returns when what is counted in a log counts last: later events do not count before it.
fn latest(events: &[Event]) -> i128 {
    let counted = events.iter().filter(|event| event.amount > 0);
    counted.map(|event| event.at).max().unwrap_or(0)
}

/// Returns how many drops are in a bucket that leaks `leak` drops per microsecond.
fn level(events: &[Event], leak: i128, now: i128) -> i128 {
    let (mut level, mut then) = (0, 0);
    for event in events {
        level = (level - (event.at - then) * leak).max(0) + event.amount;
        then = event.at;
    }
    (level - (now - then) * leak).max(0)
}

/// Reduces the oldest events until all of them together count at most `amount`.
fn keep_newest(events: &mut [Event], amount: i128) {
    let counted: i128 = events.iter().map(|event| event.amount).sum();
    let mut over = counted - amount;
    for event in events {
        let dropped = event.amount.min(over.max(0));
        event.amount -= dropped;
        over -= dropped;
    }
}

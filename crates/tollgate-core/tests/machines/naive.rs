//! A second, naive definition of each algorithm: slow and plain.
//!
//! It shares no code with the crate. It keeps events and scans them, and finds minima and maxima by
//! trying one value after another.

/// Defines which calls fit, and records those that count.
pub(crate) trait Naive {
    /// Whether a call of `cost` fits at `now`, if nothing more is recorded until then.
    fn fits(&self, now: u64, cost: u64) -> bool;

    /// Whether no recorded unit counts at `now`.
    fn is_empty(&self, now: u64) -> bool;

    /// The instant at which a call is recorded when the clock reads `now`.
    fn instant(&self, now: u64) -> u64;

    fn record(&mut self, now: u64, cost: u64);

    fn give_back(&mut self, now: u64, at: u64, amount: u64);

    fn counts_denied(&self) -> bool {
        false
    }
}

/// The answer of a naive definition, found by trying values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) granted: u64,
    pub(crate) remaining: u64,
    /// `None` means never.
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
}

/// The end of the waits that are tried: longer than any wait of the small quotas in these tests.
const PATIENCE: u64 = 400;

/// The end of the costs that are tried: more than any capacity in these tests.
const MOST: u64 = 16;

pub(crate) fn answer(
    naive: &dyn Naive,
    now: u64,
    allowed: bool,
    cost: u64,
    granted: u64,
) -> Answer {
    Answer {
        allowed,
        granted,
        remaining: (0..MOST).rfind(|&c| naive.fits(now, c)).unwrap_or(0),
        retry_after: if allowed {
            Some(0)
        } else {
            (1..PATIENCE).find(|r| naive.fits(now + r, cost))
        },
        reset_after: (0..PATIENCE)
            .find(|r| naive.is_empty(now + r))
            .unwrap_or(u64::MAX),
    }
}

pub(crate) fn consume(naive: &mut dyn Naive, now: u64, cost: u64) -> Answer {
    let allowed = naive.fits(now, cost);
    if cost > 0 && (allowed || naive.counts_denied()) {
        naive.record(now, cost);
    }
    answer(naive, now, allowed, cost, if allowed { cost } else { 0 })
}

pub(crate) fn peek(naive: &dyn Naive, now: u64, cost: u64) -> Answer {
    answer(naive, now, naive.fits(now, cost), cost, 0)
}

/// Consumes one unit after another, up to `most`, until one is refused.
pub(crate) fn take_up_to(naive: &mut dyn Naive, now: u64, most: u64) -> Answer {
    let mut granted = 0;
    while granted < most && naive.fits(now, 1) {
        naive.record(now, 1);
        granted += 1;
    }
    if granted == 0 && most > 0 {
        return consume(naive, now, 1);
    }
    answer(naive, now, true, 1, granted)
}

pub(crate) fn give_back(naive: &mut dyn Naive, now: u64, at: u64, amount: u64) -> Answer {
    naive.give_back(now, at, amount);
    answer(naive, now, true, 0, 0)
}

/// Units recorded at one instant.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    units: u64,
}

/// Takes up to `amount` from the events at `at`.
fn take_from(events: &mut [Event], at: u64, mut amount: u64) {
    for event in events.iter_mut().filter(|event| event.at == at) {
        let taken = event.units.min(amount);
        event.units -= taken;
        amount -= taken;
    }
}

fn sum<'a>(events: impl Iterator<Item = &'a Event>) -> u128 {
    events.map(|event| u128::from(event.units)).sum()
}

/// A sliding log: the instant of each of the newest units.
pub(crate) struct Log {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) count_denied: bool,
    pub(crate) units: Vec<u64>,
    pub(crate) latest: u64,
}

impl Naive for Log {
    fn fits(&self, now: u64, cost: u64) -> bool {
        let at = self.instant(now);
        let live = self.units.iter().filter(|&&u| u + self.window > at).count();
        live as u128 + u128::from(cost) <= u128::from(self.amount) || cost == 0
    }

    fn is_empty(&self, now: u64) -> bool {
        let at = self.instant(now);
        self.units.iter().all(|&u| u + self.window <= at)
    }

    fn instant(&self, now: u64) -> u64 {
        now.max(self.latest)
    }

    fn record(&mut self, now: u64, cost: u64) {
        let at = self.instant(now);
        self.latest = at;
        self.units.retain(|&u| u + self.window > at);
        for _ in 0..cost.min(self.amount) {
            self.units.push(at);
        }
        while self.units.len() as u64 > self.amount {
            self.units.remove(0);
        }
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        if at + self.window <= self.instant(now) {
            return;
        }
        for _ in 0..amount {
            if let Some(index) = self.units.iter().position(|&u| u == at) {
                self.units.remove(index);
            }
        }
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}

/// A leaky bucket: `amount` drops leak per microsecond, and each unit adds `window` drops.
pub(crate) struct Bucket {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) burst: u64,
    /// Instants, and the drops poured in (or, negative, scooped out) at each.
    pub(crate) changes: Vec<(u64, i128)>,
}

impl Bucket {
    fn level(&self, now: u64) -> i128 {
        let (mut level, mut then) = (0i128, 0);
        for &(at, drops) in &self.changes {
            level = (level - i128::from(self.amount) * i128::from(at - then)).max(0) + drops;
            then = at;
        }
        let since = self.instant(now) - then;
        (level - i128::from(self.amount) * i128::from(since)).max(0)
    }
}

impl Naive for Bucket {
    fn fits(&self, now: u64, cost: u64) -> bool {
        let drops = |units: u64| i128::from(units) * i128::from(self.window);
        cost == 0 || (cost <= self.burst && self.level(now) + drops(cost) <= drops(self.burst))
    }

    fn is_empty(&self, now: u64) -> bool {
        self.level(now) == 0
    }

    fn instant(&self, now: u64) -> u64 {
        self.changes.last().map_or(now, |&(at, _)| at.max(now))
    }

    fn record(&mut self, now: u64, cost: u64) {
        let drops = i128::from(cost) * i128::from(self.window);
        self.changes.push((self.instant(now), drops));
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        let now = self.instant(now);
        let dripped = i128::from(now - at) * i128::from(self.amount);
        let poured = i128::from(amount) * i128::from(self.window);
        let scooped = (poured - dripped).clamp(0, self.level(now));
        if scooped > 0 {
            self.changes.push((now, -scooped));
        }
    }
}

/// Fixed windows that start at multiples of the window's length.
pub(crate) struct Aligned {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) count_denied: bool,
    events: Vec<Event>,
}

impl Aligned {
    pub(crate) fn new(amount: u64, window: u64, count_denied: bool) -> Self {
        let events = Vec::new();
        Self {
            amount,
            window,
            count_denied,
            events,
        }
    }

    fn used(&self, now: u64) -> u128 {
        let index = self.instant(now) / self.window;
        sum(self
            .events
            .iter()
            .filter(|event| event.at / self.window == index))
    }
}

impl Naive for Aligned {
    fn fits(&self, now: u64, cost: u64) -> bool {
        cost == 0 || self.used(now) + u128::from(cost) <= u128::from(self.amount)
    }

    fn is_empty(&self, now: u64) -> bool {
        self.used(now) == 0
    }

    /// Returns `now`, but at least the start of the last window that has an event.
    fn instant(&self, now: u64) -> u64 {
        let starts = self
            .events
            .iter()
            .map(|event| event.at / self.window * self.window);
        starts.fold(now, u64::max)
    }

    fn record(&mut self, now: u64, cost: u64) {
        let at = self.instant(now);
        self.events
            .retain(|event| event.at / self.window == at / self.window);
        self.events.push(Event { at, units: cost });
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        if at / self.window == self.instant(now) / self.window {
            take_from(&mut self.events, at, amount);
        }
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}

/// Anchored windows, one at a time: each starts at the first call that it counts.
pub(crate) struct Anchored {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) count_denied: bool,
    events: Vec<Event>,
    /// Whether all units of the window's first instant were refunded; one unit then stays used.
    place: bool,
}

impl Anchored {
    pub(crate) fn new(amount: u64, window: u64, count_denied: bool) -> Self {
        let events = Vec::new();
        let place = false;
        Self {
            amount,
            window,
            count_denied,
            events,
            place,
        }
    }

    fn used(&self, now: u64) -> u128 {
        let Some(first) = self.events.first() else {
            return 0;
        };
        let kept = sum(self.events.iter());
        if now >= first.at + self.window || kept == 0 {
            return 0;
        }
        kept + u128::from(self.place)
    }
}

impl Naive for Anchored {
    fn fits(&self, now: u64, cost: u64) -> bool {
        cost == 0 || self.used(now) + u128::from(cost) <= u128::from(self.amount)
    }

    fn is_empty(&self, now: u64) -> bool {
        self.used(now) == 0
    }

    fn instant(&self, now: u64) -> u64 {
        self.events.first().map_or(now, |first| now.max(first.at))
    }

    fn record(&mut self, now: u64, cost: u64) {
        let at = self.instant(now);
        if self.used(now) == 0 {
            self.events.clear();
            self.place = false;
        }
        self.events.push(Event { at, units: cost });
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        if self.used(now) > 0 {
            take_from(&mut self.events, at, amount);
            let first = self.events[0].at;
            let at_first = self.events.iter().filter(|event| event.at == first);
            self.place |= sum(at_first) == 0;
        }
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}

/// A sliding counter: this window's units, and a share of the previous window's.
pub(crate) struct Estimate {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    events: Vec<Event>,
    /// The start of the last window that was written to.
    start: u64,
}

impl Estimate {
    pub(crate) fn new(amount: u64, window: u64) -> Self {
        let events = Vec::new();
        Self {
            amount,
            window,
            events,
            start: 0,
        }
    }

    /// Returns the units of the window that is `back` windows before the current one.
    fn units(&self, now: u64, back: u64) -> u128 {
        let index = self.instant(now) / self.window;
        sum(self
            .events
            .iter()
            .filter(|event| event.at / self.window + back == index))
    }

    fn write(&mut self, now: u64) {
        let start = self.instant(now) / self.window * self.window;
        self.start = start;
        self.events.retain(|event| event.at + self.window >= start);
    }
}

impl Naive for Estimate {
    fn fits(&self, now: u64, cost: u64) -> bool {
        let window = u128::from(self.window);
        let into = u128::from(self.instant(now) % self.window);
        let weighed = (self.units(now, 1) * (window - into)).div_ceil(window);
        cost == 0 || self.units(now, 0) + weighed + u128::from(cost) <= u128::from(self.amount)
    }

    fn is_empty(&self, now: u64) -> bool {
        self.units(now, 0) == 0 && self.units(now, 1) == 0
    }

    fn instant(&self, now: u64) -> u64 {
        now.max(self.start)
    }

    fn record(&mut self, now: u64, cost: u64) {
        let at = self.instant(now);
        self.write(now);
        self.events.push(Event { at, units: cost });
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        let index = self.instant(now) / self.window;
        let back = index.saturating_sub(at / self.window);
        if back <= 1 && self.units(now, back) > 0 {
            self.write(now);
            take_from(&mut self.events, at, amount);
        }
    }
}

/// Sliding buckets: the units of the current bucket and of the `buckets` before it.
pub(crate) struct Ring {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) buckets: u64,
    events: Vec<Event>,
}

impl Ring {
    pub(crate) fn new(amount: u64, window: u64, buckets: u64) -> Self {
        let events = Vec::new();
        Self {
            amount,
            window,
            buckets,
            events,
        }
    }

    fn length(&self) -> u64 {
        let mut length = 1;
        while length * self.buckets < self.window {
            length += 1;
        }
        length
    }

    fn used(&self, now: u64) -> u128 {
        let bucket = self.instant(now) / self.length();
        let counts = |event: &&Event| event.at / self.length() + self.buckets >= bucket;
        sum(self.events.iter().filter(counts))
    }
}

impl Naive for Ring {
    fn fits(&self, now: u64, cost: u64) -> bool {
        cost == 0 || self.used(now) + u128::from(cost) <= u128::from(self.amount)
    }

    fn is_empty(&self, now: u64) -> bool {
        self.used(now) == 0
    }

    /// Returns `now`, but at least the start of the last bucket that has an event.
    fn instant(&self, now: u64) -> u64 {
        let starts = self
            .events
            .iter()
            .map(|event| event.at / self.length() * self.length());
        starts.fold(now, u64::max)
    }

    fn record(&mut self, now: u64, cost: u64) {
        let at = self.instant(now);
        self.events.push(Event { at, units: cost });
    }

    fn give_back(&mut self, now: u64, at: u64, amount: u64) {
        if at / self.length() + self.buckets >= self.instant(now) / self.length() {
            take_from(&mut self.events, at, amount);
        }
    }
}

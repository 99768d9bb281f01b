//! `Blocks`: how long a key is blocked, from the list of all its blocks.

use tollgate_core::store::{BlockSpan, MAX_EXACT};
use tollgate_core::{Algorithm, Limit};

/// The blocks of one key under one limit.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    usual: u64,
    doublings: u64,
    all: Vec<Begun>,
}

/// A block that changed until when the key is blocked.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: u64,
    ends: u64,
    is_usual: bool,
}

impl Blocks {
    /// Returns no blocks under `limit`.
    pub(crate) fn of(limit: &Limit) -> Self {
        let doublings = match limit.algorithm() {
            Algorithm::Block(block) => block.doublings(),
            _ => 0,
        };
        Self {
            usual: limit.algorithm().quota().window_us(),
            doublings,
            all: Vec::new(),
        }
    }

    pub(crate) fn block(&mut self, now: u64, span: BlockSpan) {
        let ends = match span {
            BlockSpan::Usual if now < self.end() => return,
            BlockSpan::Usual => now + (self.usual << self.repeated(now).min(self.doublings)),
            BlockSpan::Until(instant) => instant.as_micros(),
            BlockSpan::Lasting(time) => {
                let micros = u64::try_from(time.as_nanos().div_ceil(1_000));
                now.saturating_add(micros.unwrap_or(u64::MAX))
            }
        };
        let ends = ends.min(MAX_EXACT);
        if ends > now && ends > self.end() {
            let is_usual = span == BlockSpan::Usual;
            let at = now;
            self.all.push(Begun { at, ends, is_usual });
        }
    }

    /// Returns how long a call of `cost` waits at `now`, or `None` if for ever.
    pub(crate) fn wait(&self, now: u64, cost: u64) -> Option<u64> {
        match cost {
            0 => Some(0),
            1..=MAX_EXACT => Some(self.end().saturating_sub(now)),
            _ => None,
        }
    }

    /// Returns how long it takes at `now` until nothing matters any more.
    pub(crate) fn left(&self, now: u64) -> u64 {
        let is_remembered = self.doublings > 0 && self.repeated(now) > 0;
        let memory = if is_remembered { self.longest() } else { 0 };
        (self.end() + memory).saturating_sub(now)
    }

    fn end(&self) -> u64 {
        self.all.iter().map(|begun| begun.ends).max().unwrap_or(0)
    }

    fn longest(&self) -> u64 {
        self.usual << self.doublings
    }

    /// Returns how many blocks of the usual kind there have been at `now` without a pause of the
    /// longest time.
    fn repeated(&self, now: u64) -> u64 {
        let (mut repeated, mut end) = (0, 0);
        let pauses = |end: u64, at: u64| at >= end + self.longest();
        for begun in &self.all {
            if pauses(end, begun.at) {
                repeated = 0;
            }
            repeated += u64::from(begun.is_usual);
            end = begun.ends;
        }
        if pauses(end, now) { 0 } else { repeated }
    }
}

//! `Counter`: nanoseconds from a cycle counter that is regularly compared with the monotonic clock.
//!
//! Reading a processor's cycle counter costs a third of reading the monotonic clock, but its rate
//! is unknown. Measuring the rate once, at the start, is not enough: a thread that is preempted
//! between the two readings of a comparison measures a wrong rate, and would keep it forever.
//!
//! So time is divided into stretches of at most [`SPAN`] ticks, about a millisecond. Each stretch
//! starts at a reading of the monotonic clock, and only readings within it come from the counter.
//! Errors therefore neither last nor add up. A comparison that took too long is thrown away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// The ticks for which the counter is used after a comparison: 0.4 ms at 5 GHz, 2 ms at 1 GHz.
const SPAN: u64 = 1 << 21;

/// The most ticks a comparison may take. It usually takes 100 to 300; with a preemption, more.
const LONGEST_COMPARISON: u64 = 1 << 10;

/// The shortest time over which a rate is measured. Both ends are exact to [`LONGEST_COMPARISON`].
const LEAST_MEASURED_NS: u64 = 10_000_000;

/// Two successive measured rates agree if they differ by less than one part in 2^12.
const AGREEMENT_BITS: u32 = 12;

/// Rates are in units of 2^-32 nanoseconds per tick.
const RATE_BITS: u32 = 32;

/// Counters slower than 250 MHz are not used: a `SPAN` would take long, and products could
/// overflow.
const LARGEST_RATE: u64 = 4 << RATE_BITS;

/// The rate of a counter that stands still or has not been measured yet; it agrees with no rate.
const NO_RATE: u64 = u64::MAX;

/// A cycle counter and the monotonic clock to compare it with.
pub(crate) trait Hardware {
    /// Reads the counter. The processor may do so before it has finished earlier instructions.
    fn ticks(&self) -> u64;

    /// Reads the counter after all earlier instructions.
    fn ordered_ticks(&self) -> u64;

    /// Returns the monotonic clock's nanoseconds since a fixed instant.
    fn nanos(&self) -> u64;
}

/// Returns nanoseconds of the monotonic clock, mostly by reading the cycle counter.
///
/// Readers are lock-free. No reading is ever less than an earlier one, on any thread:
///
/// - A stretch is used for [`SPAN`] ticks only, and the next one starts after that.
/// - `floor` is a lower bound for the next stretch: the end of the last one, and every reading of
///   the monotonic clock returned in between.
///
/// If the counter runs ahead of the monotonic clock, time stands still at the end of a stretch for
/// that long (nanoseconds); if it falls behind, time jumps forward by as much.
#[repr(C, align(64))]
pub(crate) struct Counter<H> {
    /// Odd while a thread is writing the stretch.
    version: AtomicU64,
    start: AtomicU64,
    span: AtomicU64,
    nanos: AtomicU64,
    rate: AtomicU64,
    floor: AtomicU64,
    hardware: H,
    /// The holder compares the counter; meanwhile all other threads read the monotonic clock.
    measured: Mutex<Measured>,
}

/// A period during which time is read from the counter.
#[derive(Clone, Copy)]
struct Stretch {
    /// The first tick.
    start: u64,
    /// The length in ticks; 0 if the counter cannot be used.
    span: u64,
    /// The time at the first tick.
    nanos: u64,
    /// In units of 2^-32 nanoseconds per tick.
    rate: u64,
}

impl Stretch {
    #[inline]
    fn at(self, ticks: u64) -> Option<u64> {
        let passed = ticks.wrapping_sub(self.start);
        (passed < self.span).then(|| self.nanos + ((passed * self.rate) >> RATE_BITS))
    }

    fn end(self) -> u64 {
        self.nanos + ((self.span * self.rate) >> RATE_BITS)
    }

    /// Returns whether `ticks` is from shortly before this stretch: the processor read the counter
    /// early.
    fn begins_after(self, ticks: u64) -> bool {
        self.start.wrapping_sub(ticks) < self.span
    }
}

/// The last comparison that was used to measure a rate.
struct Measured {
    ticks: u64,
    nanos: u64,
    rate: u64,
    agrees: bool,
}

impl Measured {
    /// Records a comparison, and returns the rate if the last two measurements agree.
    fn rate(&mut self, ticks: u64, nanos: u64) -> Option<u64> {
        let passed = nanos.saturating_sub(self.nanos);
        if passed >= LEAST_MEASURED_NS {
            let scaled = u128::from(passed) << RATE_BITS;
            let rate = scaled
                .checked_div(ticks.wrapping_sub(self.ticks).into())
                .and_then(|rate| u64::try_from(rate).ok())
                .unwrap_or(NO_RATE);
            let differs_by = rate.abs_diff(self.rate);
            *self = Self {
                ticks,
                nanos,
                rate,
                agrees: rate <= LARGEST_RATE && differs_by < self.rate >> AGREEMENT_BITS,
            };
        }
        self.agrees.then_some(self.rate)
    }
}

impl<H: Hardware> Counter<H> {
    pub(crate) fn new(hardware: H) -> Self {
        let measured = Measured {
            ticks: hardware.ordered_ticks(),
            nanos: hardware.nanos(),
            rate: NO_RATE,
            agrees: false,
        };
        Self {
            version: AtomicU64::default(),
            start: AtomicU64::default(),
            span: AtomicU64::default(),
            nanos: AtomicU64::default(),
            rate: AtomicU64::default(),
            floor: AtomicU64::default(),
            hardware,
            measured: Mutex::new(measured),
        }
    }

    /// Returns the time, which is never less than an earlier reading on any thread.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.read(H::ordered_ticks)
    }

    /// Returns the time, but may read the counter before earlier instructions, such as taking a
    /// lock, have finished: a few nanoseconds earlier than [`Self::now`].
    #[inline]
    pub(crate) fn early_now(&self) -> u64 {
        self.read(H::ticks)
    }

    #[inline]
    fn read(&self, ticks: impl Fn(&H) -> u64) -> u64 {
        let version = self.version.load(Ordering::Acquire);
        let stretch = self.stretch();
        let ticks = ticks(&self.hardware);
        match stretch.at(ticks) {
            Some(nanos) if self.is_whole(version) => nanos.max(self.floor.load(Ordering::Relaxed)),
            _ => self.read_slowly(ticks),
        }
    }

    // A reader that sees any part of a later stretch also sees a changed version.
    #[inline]
    fn stretch(&self) -> Stretch {
        Stretch {
            start: self.start.load(Ordering::Acquire),
            span: self.span.load(Ordering::Acquire),
            nanos: self.nanos.load(Ordering::Acquire),
            rate: self.rate.load(Ordering::Acquire),
        }
    }

    /// Returns whether a stretch read after `version` is consistent: no write overlapped the read.
    #[inline]
    fn is_whole(&self, version: u64) -> bool {
        (self.version.load(Ordering::Relaxed) ^ version) | (version & 1) == 0
    }

    #[cold]
    #[inline(never)]
    fn read_slowly(&self, ticks: u64) -> u64 {
        let version = self.version.load(Ordering::Acquire);
        let stretch = self.stretch();
        if !self.is_whole(version) {
            return self.read_monotonic_clock(0);
        }
        // The processor read the counter before another thread's comparison.
        if stretch.begins_after(ticks) {
            return stretch.nanos.max(self.floor.load(Ordering::Relaxed));
        }
        self.read_monotonic_clock(stretch.end())
    }

    /// Reads the monotonic clock, and compares the counter with it unless another thread is doing
    /// so.
    ///
    /// All readings of the last stretch were less than `end`.
    fn read_monotonic_clock(&self, end: u64) -> u64 {
        let nanos = match self.measured.try_lock() {
            Some(mut measured) => self.compare(&mut measured),
            None => self.hardware.nanos().max(end),
        };
        nanos.max(self.floor.fetch_max(nanos, Ordering::Relaxed))
    }

    fn compare(&self, measured: &mut Measured) -> u64 {
        let last = self.stretch();
        let before = self.hardware.ordered_ticks();
        let nanos = self.hardware.nanos();
        let after = self.hardware.ordered_ticks();
        // Another thread has started a new stretch since this one looked.
        if let Some(nanos) = last.at(after) {
            return nanos;
        }
        let taken = after.wrapping_sub(before);
        if taken <= LONGEST_COMPARISON {
            let ticks = before.wrapping_add(taken / 2);
            let next = match measured.rate(ticks, nanos) {
                Some(rate) => Stretch {
                    start: ticks,
                    span: SPAN,
                    nanos,
                    rate,
                },
                None => Stretch { span: 0, ..last },
            };
            self.publish(last.end(), next);
        }
        nanos.max(last.end())
    }

    /// Starts the stretch `next`; all readings of the last one were less than `end`.
    fn publish(&self, end: u64, next: Stretch) {
        self.floor.fetch_max(end, Ordering::Relaxed);
        let version = self.version.load(Ordering::Relaxed);
        // A reader that sees the odd version also sees the floor.
        self.version.store(version + 1, Ordering::Release);
        self.start.store(next.start, Ordering::Release);
        self.span.store(next.span, Ordering::Release);
        self.nanos.store(next.nanos, Ordering::Release);
        self.rate.store(next.rate, Ordering::Release);
        self.version.store(version + 2, Ordering::Release);
    }
}

/// The time stamp counter of x86-64, if it is Linux's own clock source.
///
/// Linux uses it only while its rate is constant and all processors agree on it, and keeps
/// checking.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) struct TimeStampCounter {
    origin: Instant,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl TimeStampCounter {
    /// Returns the counter, if Linux uses it as its clock source.
    pub(crate) fn trusted(origin: Instant) -> Option<Self> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let trusted = std::fs::read(source).is_ok_and(|name| Self::is(&name));
        trusted.then_some(Self { origin })
    }

    /// Returns whether `source`, the name of Linux's current clock source, is this counter.
    fn is(source: &[u8]) -> bool {
        source.trim_ascii() == b"tsc"
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl Hardware for TimeStampCounter {
    #[inline]
    fn ticks(&self) -> u64 {
        tick_counter::x86_64_tick_counter()
    }

    #[inline]
    fn ordered_ticks(&self) -> u64 {
        // RDTSCP waits for earlier instructions to finish.
        tick_counter::x86_64_processor_id().0
    }

    fn nanos(&self) -> u64 {
        nanos_since(self.origin)
    }
}

/// No counter: other systems do not say whether it can be trusted.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) enum TimeStampCounter {}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
impl TimeStampCounter {
    pub(crate) fn trusted(_origin: Instant) -> Option<Self> {
        None
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
impl Hardware for TimeStampCounter {
    fn ticks(&self) -> u64 {
        match *self {}
    }

    fn ordered_ticks(&self) -> u64 {
        match *self {}
    }

    fn nanos(&self) -> u64 {
        match *self {}
    }
}

#[inline(never)]
pub(crate) fn nanos_since(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

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
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::{
        AGREEMENT_BITS, Counter, Hardware, LARGEST_RATE, LEAST_MEASURED_NS, Measured, NO_RATE,
        RATE_BITS, Stretch,
    };

    const MILLISECOND: u64 = 1_000_000;

    /// Simulated hardware with a known true time, which only passes when the hardware is read.
    struct Simulated {
        /// The true nanoseconds.
        nanos: AtomicU64,
        /// Ticks added to those that the rate gives.
        offset: AtomicU64,
        /// Ticks per 1,000 nanoseconds.
        rate: AtomicU64,
        random: AtomicU64,
        /// One in this many readings is followed by a preemption; 0 for no preemptions.
        preempted_one_in: u64,
        /// The nanoseconds that each reading takes; 0 for random.
        reading_takes: AtomicU64,
    }

    impl Simulated {
        fn new(preempted_one_in: u64) -> Self {
            Self {
                nanos: AtomicU64::new(5_000),
                offset: AtomicU64::new(1 << 40),
                rate: AtomicU64::new(2_596),
                random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
                preempted_one_in,
                reading_takes: AtomicU64::default(),
            }
        }

        /// Returns hardware that is never preempted, counts `rate` ticks per 1,000 nanoseconds, and
        /// takes the same time for every reading.
        fn even(rate: u64, reading_takes: u64) -> Self {
            Self {
                rate: AtomicU64::new(rate),
                reading_takes: AtomicU64::new(reading_takes),
                ..Self::new(0)
            }
        }

        fn random(&self, below: u64) -> u64 {
            let mut random = self.random.load(Ordering::Relaxed);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            self.random.store(random, Ordering::Relaxed);
            random % below
        }

        fn pass(&self, nanos: u64) {
            self.nanos.fetch_add(nanos, Ordering::Relaxed);
        }

        fn true_nanos(&self) -> u64 {
            self.nanos.load(Ordering::Relaxed)
        }

        /// Lets one instruction's time pass, and sometimes a preemption's.
        fn work(&self) {
            self.pass(match self.reading_takes.load(Ordering::Relaxed) {
                0 => 5 + self.random(20),
                takes => takes,
            });
            if self.preempted_one_in > 0 && self.random(self.preempted_one_in) == 0 {
                self.pass(20_000 + self.random(5 * MILLISECOND));
            }
        }

        fn change_rate(&self, rate: u64) {
            let before = self.count();
            self.rate.store(rate, Ordering::Relaxed);
            let step = before.wrapping_sub(self.count());
            self.offset.fetch_add(step, Ordering::Relaxed);
        }

        fn count(&self) -> u64 {
            let ticks = self.true_nanos() * self.rate.load(Ordering::Relaxed) / 1_000;
            ticks.wrapping_add(self.offset.load(Ordering::Relaxed))
        }
    }

    impl Hardware for &Simulated {
        fn ticks(&self) -> u64 {
            // Up to 60 ns before the previous instruction.
            let early = self.random(60) * self.rate.load(Ordering::Relaxed) / 1_000;
            self.ordered_ticks().wrapping_sub(early)
        }

        fn ordered_ticks(&self) -> u64 {
            let ticks = self.count();
            self.work();
            ticks
        }

        fn nanos(&self) -> u64 {
            let nanos = self.true_nanos();
            self.work();
            nanos
        }
    }

    /// Reads the counter, and returns how far the reading lies outside the time it took.
    fn error(counter: &Counter<&Simulated>, last: &mut u64) -> u64 {
        let before = counter.hardware.true_nanos();
        let now = counter.now();
        let after = counter.hardware.true_nanos();
        assert!(now >= *last, "stepped back by {} ns", *last - now);
        *last = now;
        before.saturating_sub(now).max(now.saturating_sub(after))
    }

    fn is_used(counter: &Counter<&Simulated>) -> bool {
        counter.stretch().span > 0
    }

    /// Returns a counter that has started using its cycle counter, and its last reading.
    fn used(simulated: &Simulated) -> (Counter<&Simulated>, u64) {
        let counter = Counter::new(simulated);
        let mut last = 0;
        for _ in 0..20_000 {
            if is_used(&counter) {
                return (counter, last);
            }
            assert!(error(&counter, &mut last) <= 1_000);
            simulated.pass(2_000);
        }
        panic!("the counter is not used after 40 ms");
    }

    #[test]
    fn readings_stay_within_a_microsecond_though_comparisons_are_preempted() {
        for preempted_one_in in [0, 100_000, 1_000, 50, 10, 2] {
            let simulated = Simulated::new(preempted_one_in);
            let counter = Counter::new(&simulated);
            let (mut last, mut worst, mut used) = (0, 0, 0);
            for _ in 0..100_000 {
                worst = worst.max(error(&counter, &mut last));
                used += u32::from(is_used(&counter));
                simulated.pass(simulated.random(2_000));
            }
            assert!(
                worst <= 1_000,
                "{worst} ns, 1 in {preempted_one_in} preempted"
            );
            // A counter that is hardly ever used would prove nothing.
            assert!(
                used > 50_000,
                "{used} times, 1 in {preempted_one_in} preempted"
            );
        }
    }

    #[test]
    fn a_clock_is_right_after_a_long_pause_between_readings() {
        let simulated = Simulated::new(100);
        let counter = Counter::new(&simulated);
        let mut last = 0;
        for round in 0..2_000 {
            for _ in 0..20 {
                let error = error(&counter, &mut last);
                assert!(error <= 1_000, "{error} ns in round {round}");
            }
            simulated.pass(simulated.random(1 << (round % 40)));
        }
    }

    #[test]
    fn a_counter_that_jumps_or_changes_its_rate_is_not_followed() {
        let simulated = Simulated::new(0);
        let counter = Counter::new(&simulated);
        let mut last = 0;
        for round in 0..60 {
            match round % 6 {
                0 => simulated.offset.fetch_add(1 << 20, Ordering::Relaxed),
                1 => simulated.offset.fetch_sub(1 << 22, Ordering::Relaxed),
                2 => simulated.offset.fetch_add(1 << 50, Ordering::Relaxed),
                3 => simulated.offset.fetch_sub(1 << 50, Ordering::Relaxed),
                4 => simulated.random(2),
                _ => {
                    simulated.change_rate(1_000 + 100 * round);
                    0
                }
            };
            let end = simulated.true_nanos() + 100 * MILLISECOND;
            while simulated.true_nanos() < end {
                let error = error(&counter, &mut last);
                // Until a different rate is measured, each stretch may be off by its length.
                let most = if simulated.true_nanos() + 60 * MILLISECOND < end {
                    4 * MILLISECOND
                } else {
                    1_000
                };
                assert!(error <= most, "{error} ns in round {round}");
                simulated.pass(simulated.random(20_000));
            }
            assert!(is_used(&counter), "the counter is not used again");
        }
    }

    #[test]
    fn a_counter_of_no_constant_rate_is_not_used() {
        let simulated = Simulated::new(0);
        let counter = Counter::new(&simulated);
        let mut last = 0;
        for round in 0..1_000 {
            simulated.change_rate(1_000 + 4 * round);
            for _ in 0..10 {
                assert_eq!(error(&counter, &mut last), 0);
                assert!(!is_used(&counter), "round {round}");
                simulated.pass(simulated.random(2 * MILLISECOND));
            }
        }
    }

    #[test]
    fn early_readings_stay_within_a_microsecond() {
        let simulated = Simulated::new(1_000);
        let counter = Counter::new(&simulated);
        for _ in 0..300_000 {
            let before = simulated.true_nanos();
            let now = counter.early_now();
            let after = simulated.true_nanos();
            assert!(now + 1_100 >= before && now <= after + 1_000);
            simulated.pass(simulated.random(2_000));
        }
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn the_processors_counter_is_trusted_if_the_system_does() {
        use super::TimeStampCounter;

        for (source, is) in [
            ("tsc\n", true),
            ("tsc", true),
            ("hpet\n", false),
            ("", false),
        ] {
            assert_eq!(TimeStampCounter::is(source.as_bytes()), is, "{source:?}");
        }
        let folder = "/sys/devices/system/clocksource/clocksource0";
        let source = std::fs::read_to_string(format!("{folder}/current_clocksource"));
        let trusted = TimeStampCounter::trusted(Instant::now());
        assert_eq!(
            trusted.is_some(),
            source.is_ok_and(|name| name.starts_with("tsc"))
        );
        let Some(counter) = trusted else { return };
        let read = || [counter.ticks(), counter.ordered_ticks(), counter.nanos()];
        let before = read();
        std::thread::sleep(Duration::from_millis(2));
        // At least 250 MHz.
        for (before, after) in before.iter().zip(read()) {
            assert!(after - before >= 500_000, "{before} to {after}");
        }
    }

    /// Another thread may read the next stretch before the thread that started it has returned.
    #[test]
    fn a_stretch_never_reads_earlier_than_the_last_one() {
        let simulated = Simulated::new(0);
        let (counter, _) = used(&simulated);
        simulated.pass(3 * MILLISECOND);
        let end = counter.stretch().end();
        let next = Stretch {
            start: simulated.count(),
            nanos: end - 5_000,
            ..counter.stretch()
        };
        counter.publish(end, next);
        assert_eq!(counter.now(), end);
        // Not less, even if the processor read the counter before that stretch started.
        simulated.offset.fetch_sub(1_000, Ordering::Relaxed);
        assert_eq!(counter.now(), end);
        simulated.offset.fetch_add(1_000, Ordering::Relaxed);
        // Nor less than a monotonic reading returned in between.
        simulated.pass(3 * MILLISECOND);
        let held = counter.measured.lock();
        let told = counter.now();
        drop(held);
        let next = Stretch {
            start: simulated.count(),
            nanos: told - 5_000,
            ..next
        };
        counter.publish(0, next);
        assert_eq!(counter.now(), told);
        // Nor less than this stretch may have returned to another thread.
        let next = Stretch {
            start: simulated.count() + 1_000,
            nanos: told + 5_000,
            ..next
        };
        counter.publish(0, next);
        assert_eq!(counter.now(), told + 5_000);
    }

    /// A thread that is preempted during a comparison does not stop others from reading the time.
    #[test]
    fn readers_need_no_lock() {
        let simulated = Simulated::new(0);
        let (counter, mut last) = used(&simulated);
        // Repeated, so that more than the lowest bit of the version changes.
        for _ in 0..4 {
            simulated.pass(3 * MILLISECOND);
            let held = counter.measured.lock();
            let end = counter.stretch().end();
            counter.floor.fetch_max(end, Ordering::Relaxed);
            let version = counter.version.fetch_add(1, Ordering::Relaxed);
            // Half of the stretch is written.
            let start = counter.start.swap(simulated.count(), Ordering::Relaxed);
            for _ in 0..3_000 {
                assert!(error(&counter, &mut last) <= 1_000);
                simulated.pass(simulated.random(2_000));
            }
            counter.start.store(start, Ordering::Relaxed);
            counter.version.store(version, Ordering::Relaxed);
            for _ in 0..3_000 {
                assert!(error(&counter, &mut last) <= 1_000);
                simulated.pass(simulated.random(2_000));
            }
            drop(held);
            assert!(error(&counter, &mut last) <= 1_000);
        }
    }

    /// All four fields of a stretch are the same number, so a torn read shows.
    #[test]
    fn a_stretch_is_never_read_half_written() {
        let simulated = Simulated::new(0);
        let counter = Counter::new(&simulated);
        let of = |number| Stretch {
            start: number,
            span: number,
            nanos: number,
            rate: number,
        };
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let end = Instant::now() + Duration::from_millis(300);
                for number in 1.. {
                    counter.publish(0, of(number));
                    written.store(number, Ordering::Release);
                    if number % 1_000 == 0 && Instant::now() > end {
                        break;
                    }
                }
            });
            while !writer.is_finished() {
                let least = written.load(Ordering::Acquire);
                let version = counter.version.load(Ordering::Acquire);
                let Stretch {
                    start,
                    span,
                    nanos,
                    rate,
                } = counter.stretch();
                if counter.is_whole(version) {
                    assert_eq!([start, span, nanos], [rate; 3]);
                    assert!(rate >= least, "{rate} after {least} was written");
                }
            }
        });
        assert!(counter.is_whole(counter.version.load(Ordering::Relaxed)));
        assert_eq!(counter.stretch().rate, written.into_inner());
    }

    #[test]
    fn a_rate_is_used_once_two_measured_ones_agree() {
        let least = LEAST_MEASURED_NS;
        // Four nanoseconds per tick: the slowest counter that is used.
        let ticks = least / 4;
        let mut measured = Measured {
            ticks: 0,
            nanos: 0,
            rate: NO_RATE,
            agrees: false,
        };
        assert_eq!(measured.rate(ticks, least), None, "measured once");
        assert_eq!(measured.rate(2 * ticks, 2 * least), Some(LARGEST_RATE));
        // Comparisons too soon after the last one, or before it, measure nothing.
        assert_eq!(measured.rate(0, 3 * least - 1), Some(LARGEST_RATE));
        assert_eq!(measured.rate(0, 0), Some(LARGEST_RATE));
        // One part in 2^12 slower, then the same again.
        let slower = least + (least >> AGREEMENT_BITS) + 1;
        assert_eq!(measured.rate(3 * ticks, 2 * least + slower), None);
        assert_eq!(measured.rate(4 * ticks, 2 * least + 2 * slower), None);
        // Twice as fast, then faster by exactly one part in 2^12, which is too much to agree.
        let mut measured = Measured {
            ticks: 0,
            nanos: 0,
            rate: 1 << RATE_BITS,
            agrees: true,
        };
        let more = (1 << AGREEMENT_BITS) + 1;
        let ticks = 1 << 30;
        assert_eq!(measured.rate(ticks, (ticks >> AGREEMENT_BITS) * more), None);
        assert_eq!(measured.rate, more << (RATE_BITS - AGREEMENT_BITS));
        assert!(
            measured
                .rate(2 * ticks, 2 * (ticks >> AGREEMENT_BITS) * more)
                .is_some()
        );
    }

    #[test]
    fn a_counter_that_is_slow_or_stands_still_is_not_used() {
        for rate in [0, 1, 100, 249] {
            let simulated = Simulated::even(rate, 0);
            simulated.offset.store(0, Ordering::Relaxed);
            let counter = Counter::new(&simulated);
            let mut last = 0;
            while simulated.true_nanos() < 100 * MILLISECOND {
                assert_eq!(error(&counter, &mut last), 0);
                assert_eq!(error(&counter, &mut last), 0);
                assert!(!is_used(&counter), "{rate} ticks a microsecond");
                simulated.pass(simulated.random(100_000));
            }
        }
    }

    #[test]
    fn a_comparison_takes_the_middle_of_its_two_readings() {
        // A comparison takes twice as long as a reading.
        for (reading_takes, used) in [(100, true), (512, true), (513, false)] {
            let simulated = Simulated::even(1_000, reading_takes);
            let counter = Counter::new(&simulated);
            let mut last = 0;
            for _ in 0..1_000 {
                let version = counter.version.load(Ordering::Relaxed);
                let before = simulated.true_nanos();
                assert_eq!(error(&counter, &mut last), 0);
                // One tick per nanosecond, so the counter's time is when the reading began.
                let compared = counter.version.load(Ordering::Relaxed) != version;
                let off = last.abs_diff(before);
                assert!(compared || !is_used(&counter) || off <= 2, "{off} ns off");
                simulated.pass(100_000);
            }
            assert_eq!(is_used(&counter), used, "{reading_takes} ns for a reading");
        }
    }

    /// Another thread holds the comparison lock, so this one cannot compare.
    #[test]
    fn an_early_reading_of_the_counter_is_not_taken_for_a_late_one() {
        let simulated = Simulated::new(0);
        let (counter, _) = used(&simulated);
        simulated.pass(3 * MILLISECOND);
        let begun = counter.now();
        let _held = counter.measured.lock();
        simulated.offset.fetch_sub(1_000, Ordering::Relaxed);
        let now = counter.now();
        assert!(
            now >= begun && now <= simulated.true_nanos(),
            "{now} after {begun}"
        );
    }

    #[test]
    fn time_stands_still_where_the_counter_ran_ahead() {
        for is_compared in [false, true] {
            let simulated = Simulated::new(0);
            let (counter, mut last) = used(&simulated);
            simulated.change_rate(2 * 2_596);
            // Either another thread is comparing, or every comparison takes too long.
            let held = (!is_compared).then(|| counter.measured.lock());
            if is_compared {
                simulated.reading_takes.store(1_000, Ordering::Relaxed);
            }
            for _ in 0..2_000 {
                // Never back, and never ahead by more than a stretch.
                assert!(error(&counter, &mut last) <= MILLISECOND);
                simulated.pass(1_000);
            }
            assert!(error(&counter, &mut last) <= 1_000);
            drop(held);
        }
    }

    /// Two threads find the same stretch used up, one after the other.
    #[test]
    fn a_stretch_that_has_just_begun_is_not_ended() {
        let simulated = Simulated::new(0);
        let (counter, mut last) = used(&simulated);
        simulated.pass(3 * MILLISECOND);
        assert!(error(&counter, &mut last) <= 1_000);
        let start = counter.stretch().start;
        let before = simulated.true_nanos();
        let now = counter.compare(&mut counter.measured.lock());
        assert!(now >= last && now + 1_000 >= before && now <= simulated.true_nanos());
        assert_eq!(counter.stretch().start, start);
    }
}

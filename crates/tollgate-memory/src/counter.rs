//! A cycle counter that is compared with the system's monotonic clock again and again.
//!
//! Reading a processor's cycle counter costs a third of what the monotonic clock costs, but its
//! rate is not known. Measuring the rate once, at the start, is not good enough: a thread that is
//! preempted between the two readings of a comparison measures a wrong rate, and keeps it for ever.
//!
//! So the counter only fills in the time between readings of the monotonic clock, which are at
//! most [`SPAN`] ticks apart: about a millisecond. After that the next caller reads the monotonic
//! clock, and its reading is where the next stretch starts. An error never lasts, and never adds
//! up. A comparison that took too long is thrown away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// For how many ticks the counter is used after a comparison: 0.4 ms at 5 GHz, 2 ms at 1 GHz.
const SPAN: u64 = 1 << 21;

/// The ticks that a comparison may take. It usually takes 100 to 300; a preemption takes more.
const LONGEST_COMPARISON: u64 = 1 << 10;

/// The least time over which a rate is measured. Both ends are known to [`LONGEST_COMPARISON`].
const LEAST_MEASURED_NS: u64 = 10_000_000;

/// Two rates measured one after the other agree if they differ by less than one part in 2^12.
const AGREEMENT_BITS: u32 = 12;

/// Rates are in units of 2^-32 nanoseconds a tick.
const RATE_BITS: u32 = 32;

/// Counters slower than 250 MHz are not used: `SPAN` would be long, and products could overflow.
const LARGEST_RATE: u64 = 4 << RATE_BITS;

/// The rate of a counter that stands still, or was not measured yet; it agrees with no other.
const NO_RATE: u64 = u64::MAX;

/// A cycle counter, and the monotonic clock that it is compared with.
pub(crate) trait Hardware {
    /// Reads the counter. The processor may do so before it has finished earlier instructions.
    fn ticks(&self) -> u64;

    /// Reads the counter after all earlier instructions.
    fn ordered_ticks(&self) -> u64;

    /// Returns the nanoseconds since a fixed instant, by the monotonic clock.
    fn nanos(&self) -> u64;
}

/// Tells the nanoseconds of the monotonic clock, mostly from the counter.
///
/// Readers are lock-free, and a reading is never less than one that was returned before, to this
/// or another thread:
///
/// - A stretch is used for [`SPAN`] ticks only, and the next one starts after that.
/// - `floor` holds what the next stretch must not fall behind: the end of the last one, and every
///   reading of the monotonic clock that was returned in between.
///
/// If the counter runs ahead of the monotonic clock, time stands still at the end of a stretch
/// for as long (nanoseconds); if it falls behind, time moves forward by as much.
#[repr(C, align(64))]
pub(crate) struct Counter<H> {
    /// Odd while the stretch is being written.
    version: AtomicU64,
    start: AtomicU64,
    span: AtomicU64,
    nanos: AtomicU64,
    rate: AtomicU64,
    floor: AtomicU64,
    hardware: H,
    /// Whoever holds it compares the counter; everybody else reads the monotonic clock meanwhile.
    measured: Mutex<Measured>,
}

/// A stretch of time that the counter tells.
#[derive(Clone, Copy)]
struct Stretch {
    /// The first tick.
    start: u64,
    /// How many ticks it is long. A stretch of none stands for a counter that cannot be used.
    span: u64,
    /// The time at the first tick.
    nanos: u64,
    /// In units of 2^-32 nanoseconds a tick.
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

    /// Returns whether `ticks` were read shortly before this stretch began, by a processor that
    /// read the counter early.
    fn begins_after(self, ticks: u64) -> bool {
        self.start.wrapping_sub(ticks) < self.span
    }
}

/// The last comparison that a rate was measured from.
struct Measured {
    ticks: u64,
    nanos: u64,
    rate: u64,
    agrees: bool,
}

impl Measured {
    /// Takes a comparison, and returns the rate if the last two measured ones agree.
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

    /// Returns the time, never less than what was returned before, to any thread.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.read(H::ordered_ticks)
    }

    /// Returns the time at which the processor comes by here, which may be before it has finished
    /// earlier instructions, such as taking a lock: some nanoseconds earlier than [`Self::now`].
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

    // Whoever sees a part of a later stretch also sees that the version has changed.
    #[inline]
    fn stretch(&self) -> Stretch {
        Stretch {
            start: self.start.load(Ordering::Acquire),
            span: self.span.load(Ordering::Acquire),
            nanos: self.nanos.load(Ordering::Acquire),
            rate: self.rate.load(Ordering::Acquire),
        }
    }

    /// Returns whether the stretch that was read since `version` was is one that was written.
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

    /// Reads the monotonic clock, and compares the counter with it unless another thread does.
    ///
    /// What the last stretch told was less than `end`.
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
        // Another thread has compared them since this one looked.
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

    /// Replaces the stretch, whose last reading is less than `end`.
    fn publish(&self, end: u64, next: Stretch) {
        self.floor.fetch_max(end, Ordering::Relaxed);
        let version = self.version.load(Ordering::Relaxed);
        // Whoever sees that the stretch is being written also sees the floor.
        self.version.store(version + 1, Ordering::Release);
        self.start.store(next.start, Ordering::Release);
        self.span.store(next.span, Ordering::Release);
        self.nanos.store(next.nanos, Ordering::Release);
        self.rate.store(next.rate, Ordering::Release);
        self.version.store(version + 2, Ordering::Release);
    }
}

/// The time stamp counter of x86-64, on a Linux that takes its own time from it.
///
/// Linux does so only while the counter has a constant rate and is in step on all processors, and
/// keeps watching it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) struct TimeStampCounter {
    origin: Instant,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl TimeStampCounter {
    /// Returns the counter, unless the system does not trust it.
    pub(crate) fn trusted(origin: Instant) -> Option<Self> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let trusted = std::fs::read(source).is_ok_and(|name| Self::is(&name));
        trusted.then_some(Self { origin })
    }

    /// Returns whether this is what Linux calls `source`, the clock it takes its time from.
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
        // RDTSCP, which waits for earlier instructions.
        tick_counter::x86_64_processor_id().0
    }

    fn nanos(&self) -> u64 {
        nanos_since(self.origin)
    }
}

/// No counter: on other systems nothing tells that there is one to be trusted.
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

    /// Hardware of which everything is known: reading it is all that makes time pass.
    struct Simulated {
        /// The true nanoseconds.
        nanos: AtomicU64,
        /// What the counter counts beside its rate.
        offset: AtomicU64,
        /// Ticks in 1,000 nanoseconds.
        rate: AtomicU64,
        random: AtomicU64,
        /// One of so many readings is followed by a preemption.
        preempted_one_in: u64,
        /// The nanoseconds that every reading takes; random if there are none.
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

        /// Returns hardware that is never preempted, counts `rate` ticks in 1,000 nanoseconds, and
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

        /// Lets the time of an instruction pass, and now and then that of a preemption.
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
            // Up to 60 ns before what was done last.
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

    /// Reads the counter, and returns by how much the reading is outside the time that it took.
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

    /// Returns a counter that is used, and its last reading.
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
            // A test of a counter that is hardly ever used would show nothing.
            assert!(
                used > 50_000,
                "{used} times, 1 in {preempted_one_in} preempted"
            );
        }
    }

    #[test]
    fn a_clock_that_is_rarely_read_is_right_when_it_is() {
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
                // Until a rate has been measured that differs, each stretch may be off by its length.
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
    fn early_readings_are_no_more_than_early() {
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
        // At 250 MHz at least.
        for (before, after) in before.iter().zip(read()) {
            assert!(after - before >= 500_000, "{before} to {after}");
        }
    }

    /// Another thread may read the next stretch before the one that began it has returned.
    #[test]
    fn a_stretch_never_tells_less_than_the_last_one() {
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
        // Not even to a processor that read the counter before that stretch began.
        simulated.offset.fetch_sub(1_000, Ordering::Relaxed);
        assert_eq!(counter.now(), end);
        simulated.offset.fetch_add(1_000, Ordering::Relaxed);
        // Nor less than what was read of the monotonic clock in between.
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
        // Nor less than another thread may have been told by this stretch.
        let next = Stretch {
            start: simulated.count() + 1_000,
            nanos: told + 5_000,
            ..next
        };
        counter.publish(0, next);
        assert_eq!(counter.now(), told + 5_000);
    }

    /// A thread that is preempted while it compares keeps nobody from reading the time.
    #[test]
    fn readers_need_no_lock() {
        let simulated = Simulated::new(0);
        let (counter, mut last) = used(&simulated);
        // Versions are told apart by more than one bit.
        for _ in 0..4 {
            simulated.pass(3 * MILLISECOND);
            let held = counter.measured.lock();
            let end = counter.stretch().end();
            counter.floor.fetch_max(end, Ordering::Relaxed);
            let version = counter.version.fetch_add(1, Ordering::Relaxed);
            // Half of what it writes is there.
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

    /// Each stretch is four times the same number, so one that was read in part is told.
    #[test]
    fn a_stretch_is_read_as_it_was_written() {
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
        // Four nanoseconds a tick, the slowest counter that is used.
        let ticks = least / 4;
        let mut measured = Measured {
            ticks: 0,
            nanos: 0,
            rate: NO_RATE,
            agrees: false,
        };
        assert_eq!(measured.rate(ticks, least), None, "measured once");
        assert_eq!(measured.rate(2 * ticks, 2 * least), Some(LARGEST_RATE));
        // Comparisons that are too close to the last one, or before it, measure nothing.
        assert_eq!(measured.rate(0, 3 * least - 1), Some(LARGEST_RATE));
        assert_eq!(measured.rate(0, 0), Some(LARGEST_RATE));
        // Slower by one part in 2^12, then as slow as that.
        let slower = least + (least >> AGREEMENT_BITS) + 1;
        assert_eq!(measured.rate(3 * ticks, 2 * least + slower), None);
        assert_eq!(measured.rate(4 * ticks, 2 * least + 2 * slower), None);
        // Twice as fast, and then faster by exactly one part in 2^12, which is not less.
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
    fn the_clock_is_taken_as_read_in_the_middle_of_a_comparison() {
        // What a comparison takes is twice what a reading does.
        for (reading_takes, used) in [(100, true), (512, true), (513, false)] {
            let simulated = Simulated::even(1_000, reading_takes);
            let counter = Counter::new(&simulated);
            let mut last = 0;
            for _ in 0..1_000 {
                let version = counter.version.load(Ordering::Relaxed);
                let before = simulated.true_nanos();
                assert_eq!(error(&counter, &mut last), 0);
                // A nanosecond is a tick, so the counter tells the time of its first instruction.
                let compared = counter.version.load(Ordering::Relaxed) != version;
                let off = last.abs_diff(before);
                assert!(compared || !is_used(&counter) || off <= 2, "{off} ns off");
                simulated.pass(100_000);
            }
            assert_eq!(is_used(&counter), used, "{reading_takes} ns for a reading");
        }
    }

    /// While another thread compares, so that this one cannot.
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
            // Another thread compares, or every comparison takes too long.
            let held = (!is_compared).then(|| counter.measured.lock());
            if is_compared {
                simulated.reading_takes.store(1_000, Ordering::Relaxed);
            }
            for _ in 0..2_000 {
                // Never back, and ahead by no more than a stretch.
                assert!(error(&counter, &mut last) <= MILLISECOND);
                simulated.pass(1_000);
            }
            assert!(error(&counter, &mut last) <= 1_000);
            drop(held);
        }
    }

    /// Two threads that find a stretch used up, one after the other.
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

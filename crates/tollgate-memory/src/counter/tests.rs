//! Tests of `Counter`.

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

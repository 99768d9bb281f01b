//! The system's clock runs at the right rate in every process, and never steps back.

use std::env;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Timestamp;
use tollgate_memory::{Clock, ManualClock, SystemClock};

/// Set in processes that measure their own clock.
const CHILD: &str = "TOLLGATE_CLOCK_CHILD";

/// The most that a clock may gain or lose, in parts per million.
const MOST_PPM: u64 = 20;

/// Returns a reading of each clock at about the same time, and how long both took, in microseconds.
fn readings(clock: &SystemClock, origin: Instant) -> (u64, u64, u64) {
    let micros = |instant: Instant| u64::try_from((instant - origin).as_micros()).unwrap();
    let attempt = || {
        let before = Instant::now();
        let now = clock.now().as_micros();
        let after = Instant::now();
        (now, micros(before), micros(after) - micros(before))
    };
    // Other threads may preempt this one in between, so take the closest of many attempts.
    (0..200)
        .map(|_| attempt())
        .min_by_key(|&(_, _, apart)| apart)
        .unwrap()
}

/// Returns whether a new clock keeps its rate for half a second.
fn keeps_its_rate() -> bool {
    let origin = Instant::now();
    let clock = SystemClock::new();
    let (first, start, apart) = readings(&clock, origin);
    let mut right = true;
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(50));
        let (now, instant, later_apart) = readings(&clock, origin);
        let (told, passed) = (now - first, instant - start);
        // Both readings are truncated to microseconds, and each was taken somewhere within its
        // span.
        let most = passed * MOST_PPM / 1_000_000 + 2 + apart + later_apart;
        right &= told.abs_diff(passed) <= most;
    }
    right
}

/// Starts this test in many processes, while other threads keep the processors busy.
#[test]
fn every_process_keeps_the_rate_of_the_monotonic_clock() {
    if env::var_os(CHILD).is_some() {
        assert!(keeps_its_rate());
        return;
    }
    let stop = AtomicBool::new(false);
    let wrong = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let start = || {
            Command::new(env::current_exe().unwrap())
                .args([
                    "--exact",
                    "clock::every_process_keeps_the_rate_of_the_monotonic_clock",
                ])
                .env(CHILD, "1")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut wrong = 0;
        for _ in 0..4 {
            let children: Vec<_> = (0..15).map(|_| start()).collect();
            for mut child in children {
                wrong += u32::from(!child.wait().unwrap().success());
            }
        }
        stop.store(true, Ordering::Relaxed);
        wrong
    });
    assert_eq!(
        wrong, 0,
        "so many of 60 processes were off by more than {MOST_PPM} ppm"
    );
}

/// Each thread reads the clock after it has seen the latest reading of all threads.
#[test]
fn a_reading_is_never_before_one_of_another_thread() {
    let clock = SystemClock::new();
    let latest = AtomicU64::new(0);
    let end = Instant::now() + Duration::from_millis(500);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while Instant::now() < end {
                    for _ in 0..1_000 {
                        let seen = latest.load(Ordering::Acquire);
                        let now = clock.now().as_micros();
                        assert!(now >= seen, "{} µs back", seen - now);
                        latest.fetch_max(now, Ordering::AcqRel);
                    }
                }
            });
        }
    });
}

#[test]
fn clones_tell_the_same_time() {
    let clock = SystemClock::new();
    let clone = clock.clone();
    for _ in 0..1_000 {
        let (before, now, after) = (clock.now(), clone.now(), clock.now());
        assert!(before <= now && now <= after);
    }
}

#[test]
fn a_clock_starts_at_the_time_of_the_system() {
    for clock in [SystemClock::new(), SystemClock::default()] {
        let now = clock.now().as_micros();
        let system = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
        let apart = system.abs_diff(u128::from(now));
        assert!(apart < 60_000_000, "{apart} µs apart");
        let shown = format!("{clock:?}");
        assert!(shown.starts_with("SystemClock(Timestamp("), "{shown}");
    }
}

#[test]
fn a_manual_clock_starts_in_2020_and_moves_only_when_set() {
    let start = Timestamp::from_micros(1_600_000_000_000_000).unwrap();
    for clock in [ManualClock::new(), ManualClock::default()] {
        let clone = clock.clone();
        assert_eq!(clone.now(), start);
        clock.advance(Duration::from_nanos(1_999));
        assert_eq!(clone.now().as_micros(), start.as_micros() + 1);
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clone.now(), Timestamp::UNIX_EPOCH);
    }
}

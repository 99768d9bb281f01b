//! A day of synthetic traffic, identical in every run.

use tollgate_core::Timestamp;

use crate::failure::Failure;
use crate::trace::Trace;

pub(super) const ABUSER: &str = "203.0.113.66";

/// An exporter that sends a batch every quarter of an hour.
const EXPORTER: &str = "198.51.100.7";

/// A monitor that sends a request every ten seconds.
const MONITOR: &str = "198.51.100.20";

const VISITORS: u64 = 240;
const SEED: u64 = 0x746f_6c6c_6761_7465;

/// 3 June 2025, 00:00 UTC.
const MIDNIGHT_US: u64 = 1_748_908_800 * SECOND_US;
const MS: u64 = 1_000;
const SECOND_US: u64 = 1_000 * MS;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;

/// How many of a thousand visits begin in each hour: few at night, many in the evening.
const VISITS_BY_HOUR: [u64; 24] = [
    12, 8, 6, 5, 6, 10, 20, 34, 46, 52, 54, 56, 58, 54, 52, 54, 58, 62, 68, 74, 76, 62, 45, 28,
];

/// Returns the day's requests in time order.
pub(super) fn day() -> Result<Trace, Failure> {
    let mut day = Day {
        trace: Trace::default(),
        random: Random(SEED),
    };
    for visitor in 0..VISITORS {
        let name = format!("192.0.2.{}", visitor + 1);
        for _ in 0..=day.random.below(3) {
            day.visit(&name)?;
        }
    }
    day.monitor()?;
    day.export()?;
    day.hammer(9 * HOUR_US, 10 * HOUR_US)?;
    day.game_the_windows(13 * HOUR_US, 17 * HOUR_US)?;
    day.hammer(20 * HOUR_US, 20 * HOUR_US + 30 * MINUTE_US)?;
    day.trace.sort();
    Ok(day.trace)
}

struct Day {
    trace: Trace,
    random: Random,
}

impl Day {
    /// Adds a request `after` midnight, unless it falls after the day's end.
    fn request(&mut self, client: &str, after: u64) -> Result<(), Failure> {
        if after >= DAY_US {
            return Ok(());
        }
        let at = Timestamp::saturating_from_micros(MIDNIGHT_US + after);
        self.trace.push(at, client.as_bytes()).map(drop)
    }

    /// A visitor views a few pages; each page loads several files at once.
    fn visit(&mut self, client: &str) -> Result<(), Failure> {
        let mut at = self.random.hour() * HOUR_US + self.random.below(HOUR_US);
        for _ in 0..self.random.between(2, 9) {
            self.request(client, at)?;
            for _ in 0..self.random.between(5, 22) {
                let late = self.random.between(50 * MS, 1_500 * MS);
                self.request(client, at + late)?;
            }
            at += self.random.between(8 * SECOND_US, 90 * SECOND_US);
        }
        Ok(())
    }

    fn monitor(&mut self) -> Result<(), Failure> {
        for turn in 0..DAY_US / (10 * SECOND_US) {
            let late = self.random.below(40 * MS);
            self.request(MONITOR, turn * 10 * SECOND_US + late)?;
        }
        Ok(())
    }

    fn export(&mut self) -> Result<(), Failure> {
        for quarter in 0..DAY_US / (15 * MINUTE_US) {
            let start = quarter * 15 * MINUTE_US + 20 * SECOND_US;
            for part in 0..self.random.between(20, 55) {
                self.request(EXPORTER, start + part * 20 * MS)?;
            }
        }
        Ok(())
    }

    /// Several requests per second, whether allowed or denied.
    fn hammer(&mut self, from: u64, to: u64) -> Result<(), Failure> {
        let mut at = from;
        while at < to {
            self.request(ABUSER, at)?;
            at += self.random.between(50 * MS, 500 * MS);
        }
        Ok(())
    }

    /// Bursts just before and after a minute begins, to exploit fixed windows.
    fn game_the_windows(&mut self, from: u64, to: u64) -> Result<(), Failure> {
        for turn in 0..(to - from) / (4 * MINUTE_US) {
            let boundary = from + turn * 4 * MINUTE_US;
            for step in 0..130 {
                let start = boundary.saturating_sub(1_950 * MS);
                self.request(ABUSER, start + step * 30 * MS)?;
            }
        }
        Ok(())
    }
}

/// SplitMix64: a small random generator with the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `end`, which must not be zero.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end - start)
    }

    /// Returns a random hour in which a visit begins.
    fn hour(&mut self) -> u64 {
        let mut left = self.below(VISITS_BY_HOUR.iter().sum());
        for (hour, visits) in (0..).zip(VISITS_BY_HOUR) {
            if left < visits {
                return hour;
            }
            left -= visits;
        }
        23
    }
}

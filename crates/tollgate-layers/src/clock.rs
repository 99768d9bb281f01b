//! The clocks of layers, unless a test sets another one.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tollgate_core::{Clock, Timestamp};

/// Starts at the system's time, and runs as what returns microseconds.
struct Running<F> {
    micros: F,
    /// The system's time at which that was zero.
    zero: u64,
}

impl<F: Fn() -> u64 + Send + Sync + 'static> Running<F> {
    fn by(micros: F) -> Arc<dyn Clock> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = Timestamp::UNIX_EPOCH.saturating_add(since_epoch.unwrap_or_default());
        let zero = now.as_micros().saturating_sub(micros());
        Arc::new(Self { micros, zero })
    }
}

impl<F: Fn() -> u64 + Send + Sync + 'static> Clock for Running<F> {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(self.zero.saturating_add((self.micros)()))
    }
}

/// Returns a clock that starts now, and never steps back.
pub(crate) fn running() -> Arc<dyn Clock> {
    let origin = Instant::now();
    Running::by(move || micros(origin.elapsed()))
}

/// Returns a clock that starts now, and goes on while the machine is suspended.
#[cfg(target_os = "linux")]
pub(crate) fn through_suspension() -> Arc<dyn Clock> {
    use rustix::time::{ClockId, clock_gettime};

    Running::by(|| {
        let since_boot = clock_gettime(ClockId::Boottime);
        let part = |of| u64::try_from(of).unwrap_or_default();
        part(since_boot.tv_sec) * 1_000_000 + part(since_boot.tv_nsec) / 1_000
    })
}

/// Returns a clock that starts now, and goes on while the machine is suspended: as the system's time does, which
/// may be set.
#[cfg(not(target_os = "linux"))]
pub(crate) fn through_suspension() -> Arc<dyn Clock> {
    let (origin, began) = (Instant::now(), SystemTime::now());
    Running::by(move || micros(origin.elapsed().max(began.elapsed().unwrap_or_default())))
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_clocks_start_at_the_systems_time_and_run() {
        const SHORT: Duration = Duration::from_millis(20);
        for clock in [running(), through_suspension()] {
            let system = Timestamp::try_from(SystemTime::now()).unwrap();
            let (began, start) = (Instant::now(), clock.now());
            assert!(start.saturating_duration_since(system) < Duration::from_secs(10));
            assert!(system.saturating_duration_since(start) < Duration::from_secs(10));
            sleep(SHORT);
            let passed = clock.now().saturating_duration_since(start);
            assert!(
                passed >= SHORT && passed <= began.elapsed() + SHORT,
                "{passed:?}"
            );
        }
    }
}

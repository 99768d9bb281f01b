//! Measures the processor time of a process.

use std::fs;
use std::time::Duration;

/// Returns the processor time of all threads of the process `pid`, to the nanosecond; `None` if the
/// system does not report it.
///
/// Linux counts the time up to a thread's last switch or tick in `/proc/PID/task/TID/schedstat`. To
/// compare two readings, wait before each until the process is idle.
#[must_use]
pub(crate) fn time(pid: u32) -> Option<Duration> {
    let threads = threads(pid);
    if threads.is_empty() {
        return None;
    }
    threads.into_iter().try_fold(Duration::ZERO, |sum, thread| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some(sum + ran(&text)?)
    })
}

/// Returns the thread ids of the process `pid`; empty if the system does not report them.
#[must_use]
pub(crate) fn threads(pid: u32) -> Vec<i32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Parses a thread's processor time from its `schedstat`.
fn ran(text: &str) -> Option<Duration> {
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time_that_a_thread_has_run() {
        let expected = Some(Duration::from_nanos(103_333));
        assert_eq!(ran("103333 12428252 2\n"), expected);
        assert_eq!(ran(""), None);
        assert_eq!(ran("none 1 2"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_busy_process_is_reported_as_running() {
        let mut command = std::process::Command::new("sh");
        let mut busy = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = time(busy.id());
        std::thread::sleep(Duration::from_millis(200));
        let after = time(busy.id());
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(after.unwrap() > before.unwrap());
        assert_eq!(time(u32::MAX), None);
    }
}

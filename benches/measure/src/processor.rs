//! The processor time of a process, and the cores that it runs on.

use std::fs;
use std::time::Duration;

/// Returns the processor time of all threads of the process `pid`, to the nanosecond; `None` if the
/// system does not report it.
///
/// Linux counts the time up to a thread's last switch or tick in `/proc/PID/task/TID/schedstat`. To
/// compare two readings, wait before each until the process is idle.
pub(crate) fn time(pid: u32) -> Option<Duration> {
    let threads = threads(pid);
    if threads.is_empty() {
        return None;
    }
    threads.into_iter().try_fold(Duration::ZERO, |sum, thread| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        Some(sum + Duration::from_nanos(nanoseconds))
    })
}

/// Returns the thread ids of the process `pid`; empty if the system does not report them.
fn threads(pid: u32) -> Vec<i32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Pins this process to its first core, and the server's process `pid` to the second one, and says so.
#[cfg(target_os = "linux")]
pub(crate) fn pin(pid: u32) -> String {
    use std::sync::LazyLock;

    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Those of this process before it was pinned: for a second server, too.
    static ALLOWED: LazyLock<CpuSet> =
        LazyLock::new(|| sched_getaffinity(None).unwrap_or_default());

    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| ALLOWED.is_set(core));
    let keep = |thread, core| {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(thread, &cores).is_ok()
    };
    let threads = threads(pid);
    match cores.next().zip(cores.next()) {
        Some((own, other))
            if !threads.is_empty()
                && threads
                    .iter()
                    .all(|&thread| keep(Pid::from_raw(thread), other))
                && keep(None, own) =>
        {
            format!("The server ran on core {other} alone, its client on core {own}.")
        }
        _ => unpinned(),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_: u32) -> String {
    unpinned()
}

fn unpinned() -> String {
    "The server and its client shared their cores: do not trust the numbers.".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_busy_process_is_reported_as_running() {
        let mut command = std::process::Command::new("sh");
        let mut busy = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = time(busy.id());
        std::thread::sleep(Duration::from_millis(200));
        let after = time(busy.id());
        // The first server pins this process, which must not hold for the second.
        assert_eq!(pin(busy.id()), pin(busy.id()));
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(after.unwrap() > before.unwrap());
        assert_eq!((time(u32::MAX), pin(u32::MAX)), (None, unpinned()));
    }
}

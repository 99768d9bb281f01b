//! Pins this process and the server to separate cores, if there are two.

/// The cores that this process may use; it pins itself to the first.
#[derive(Debug)]
pub(crate) struct Cores {
    /// This process's core and the server's.
    pair: Option<(usize, usize)>,
}

#[cfg(target_os = "linux")]
impl Cores {
    /// Pins this thread, and the threads that it starts, to the first core.
    #[must_use]
    pub(crate) fn take() -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity};

        let allowed = sched_getaffinity(None).unwrap_or_default();
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let pair = cores.next().zip(cores.next());
        Self {
            pair: pair.filter(|&(own, _)| keep(None, own)),
        }
    }

    /// Pins all threads of the server's process `pid` to the second core, and returns a description
    /// of the result.
    #[must_use]
    pub(crate) fn give(&self, pid: u32) -> String {
        use rustix::process::Pid;

        let threads = crate::processor::threads(pid);
        let keep = |core: usize| {
            let mut threads = threads.iter().map(|&thread| Pid::from_raw(thread));
            threads.all(|thread| thread.is_some() && keep(thread, core))
        };
        match self.pair {
            Some((own, other)) if !threads.is_empty() && keep(other) => {
                format!("The server ran on core {other} alone, its client on core {own}.")
            }
            _ => unpinned(),
        }
    }
}

#[cfg(target_os = "linux")]
fn keep(thread: Option<rustix::process::Pid>, core: usize) -> bool {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(thread, &cores).is_ok()
}

#[cfg(not(target_os = "linux"))]
impl Cores {
    pub(crate) fn take() -> Self {
        Self { pair: None }
    }

    pub(crate) fn give(&self, _pid: u32) -> String {
        match self.pair {
            Some(_) | None => unpinned(),
        }
    }
}

fn unpinned() -> String {
    "The server and its client were not kept to cores of their own: do not trust the numbers."
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_process_is_not_pinned() {
        let cores = Cores { pair: Some((0, 1)) };
        assert_eq!(cores.give(u32::MAX), unpinned());
    }
}

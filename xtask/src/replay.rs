//! `cargo xtask bench --replay`: measures how fast the program replays a log, and its memory
//! per line.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xshell::{Shell, cmd};

use crate::outcome::Outcome;

/// How often a log is replayed. The best time counts, because other programs use the machine too.
const RUNS: usize = 5;

/// The number of lines in the larger log; the smaller has half.
const LINES: usize = 2_000_000;

/// The promised minimum of lines per second, on one core.
const LEAST_LINES_A_SECOND: u128 = 1_000_000;

/// The promised maximum of bytes per line, without the distinct keys.
const MOST_BYTES_A_LINE: u64 = 64;

pub(crate) fn run(shell: &Shell) -> Outcome {
    cmd!(
        shell,
        "cargo build --release --quiet --package tollgate-cli"
    )
    .run()?;
    let root = shell.current_dir();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("release/tollgate");
    let sample = fs::read(root.join("crates/tollgate-cli/tests/data/access.log"))?;
    let folder = target.join("replay");
    fs::create_dir_all(&folder)?;

    let (half, whole) = (folder.join("half.log"), folder.join("whole.log"));
    write_log(&half, &sample, LINES / 2)?;
    write_log(&whole, &sample, LINES)?;
    // In turn, because the speed of a shared machine changes.
    let mut best = [&half, &whole].map(|log| (log, None));
    for _ in 0..RUNS {
        for (log, best) in &mut best {
            let taken = replay(&program, log)?;
            if best.is_none_or(|best: Taken| taken.time < best.time) {
                *best = Some(taken);
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    let [Some(half), Some(whole)] = best.map(|(_, best)| best) else {
        return Err("nothing was measured".into());
    };

    let lines = u128::try_from(LINES)?;
    let speed = lines * 1_000_000 / whole.time.as_micros().max(1);
    println!("{lines} lines in {:?}: {speed} lines a second", whole.time);
    if speed < LEAST_LINES_A_SECOND {
        return Err(format!("slower than {LEAST_LINES_A_SECOND} lines a second").into());
    }
    let (Some(half), Some(whole)) = (half.peak, whole.peak) else {
        println!("memory is not measured: this system has no /proc");
        return Ok(());
    };
    let bytes = whole.saturating_sub(half) / u64::try_from(LINES / 2)?;
    println!("{bytes} bytes of memory for each line");
    if bytes > MOST_BYTES_A_LINE {
        return Err(format!("more than {MOST_BYTES_A_LINE} bytes for each line").into());
    }
    Ok(())
}

/// Writes the lines of `sample` repeatedly.
fn write_log(path: &Path, sample: &[u8], lines: usize) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for line in sample
        .split_inclusive(|&byte| byte == b'\n')
        .cycle()
        .take(lines)
    {
        file.write_all(line)?;
    }
    file.flush()
}

/// The time and memory of one replay.
#[derive(Clone, Copy)]
struct Taken {
    time: Duration,
    /// The peak memory in bytes, if the system reports it.
    peak: Option<u64>,
}

fn replay(program: &Path, log: &Path) -> io::Result<Taken> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["replay", "--limit", "gcra:5/1m", "--json"])
        .arg(log)
        .stdout(Stdio::null())
        .spawn()?;
    let mut peak = None;
    let status = loop {
        peak = peak_of(&child).max(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(1));
    };
    if !status.success() {
        return Err(io::Error::other(format!("the replay ended with {status}")));
    }
    Ok(Taken {
        time: start.elapsed(),
        peak,
    })
}

/// Reads the peak memory of a process that is still running.
fn peak_of(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1_024)
}

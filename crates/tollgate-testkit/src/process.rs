//! `Process`: a server process, with a shell beside it that ends it when the test is gone.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The file in a server's folder that receives its output.
pub(crate) const LOG: &str = "server.log";

/// Runs the command `$2...` in the folder `$1`, until it ends or standard input closes or has a
/// line.
///
/// A line on standard input kills the server. If standard input closes, the test is gone, however
/// it ended: the shell kills the server and removes the folder. The shell reaps the server, so that
/// no signal reaches another process that has reused its id.
const WATCHDOG: &str = r#"
folder=$1
shift
exec 3<&0
"$@" </dev/null >>server.log 2>&1 3<&- &
server=$!
echo $server
exec >/dev/null
{
  read -r _ <&3
  told=$?
  trap '' TERM
  kill -9 $server
  exit $told
} &
watch=$!
wait $server
kill $watch
wait $watch
if [ $? -eq 1 ]; then
  rm -rf -- "$folder"
fi
"#;

/// A running server, killed when this is dropped or when the test process ends.
#[derive(Debug)]
pub(crate) struct Process {
    watchdog: Child,
    server: Pid,
}

impl Process {
    /// Starts `binary` in `folder`, which is removed if the test is killed.
    pub(crate) fn start(
        binary: &Path,
        arguments: &[impl AsRef<OsStr>],
        folder: &Path,
    ) -> io::Result<Self> {
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .args([folder, binary])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A signal to the test's process group, such as Ctrl-C, must not stop the watchdog.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = watchdog.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let server = line.trim().parse().ok().and_then(Pid::from_raw);
        let server = server.ok_or_else(|| io::Error::other("the shell named no process"))?;
        Ok(Self { watchdog, server })
    }

    /// Returns the server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.server.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns whether the server has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.watchdog.try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.server, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut input) = self.watchdog.stdin.take() {
            // The write fails if the server, and its watchdog with it, has already ended.
            let _ = input.write_all(b"\n");
        }
        let _ = self.watchdog.wait();
    }
}

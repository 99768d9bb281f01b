//! `Program`: a server that speaks another protocol than Redis's, such as nginx, for one test.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::flavor::find;
use crate::port::Port;
use crate::process::Process;
use crate::server::{PAUSE, read_log, tail};

/// How long a program may take to listen after its start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How many ports to try if other programs take them first.
const ATTEMPTS: usize = 5;

/// A server such as nginx that belongs to one test, on a loopback port and in a folder of its own.
///
/// It is killed when this is dropped, and also if the test's process ends in any other way. Its
/// configuration must keep it in the foreground, and in one process.
#[derive(Debug)]
pub struct Program {
    // Declared first, so that the process ends before its folder is removed.
    process: Mutex<Option<Process>>,
    path: PathBuf,
    arguments: Vec<String>,
    port: Port,
    folder: TempDir,
}

impl Program {
    /// Starts the program `name` with the arguments that `configure` returns, in a new folder, and
    /// waits until it listens. `configure` gets the port to listen on, at 127.0.0.1, and the folder,
    /// where it can write a configuration.
    #[track_caller]
    pub fn start(name: &str, configure: impl Fn(u16, &Path) -> Vec<String>) -> Self {
        let path = Self::path(name);
        let mut attempt = 1;
        loop {
            let port = Port::choose();
            let folder = tempfile::Builder::new()
                .prefix("tollgate-testkit-")
                .tempdir()
                .expect("a folder for the program");
            let program = Self {
                process: Mutex::default(),
                path: path.clone(),
                arguments: configure(port.number(), folder.path()),
                port,
                folder,
            };
            if program.run() {
                return program;
            }
            program.kill();
            let log = program.log();
            let is_taken = log.contains("already in use");
            assert!(
                attempt < ATTEMPTS && is_taken,
                "{name} does not listen; it says:\n{}",
                tail(&log)
            );
            attempt += 1;
        }
    }

    /// Starts the program, and returns whether it listens soon.
    fn run(&self) -> bool {
        let process = Process::start(&self.path, &self.arguments, self.folder.path());
        let mut process = process.expect("a shell that starts the program");
        let deadline = Instant::now() + PATIENCE;
        let listens = loop {
            if process.has_ended() || Instant::now() > deadline {
                break false;
            }
            if TcpStream::connect(self.address()).is_ok() {
                break true;
            }
            sleep(PAUSE);
        };
        *self.process() = Some(process);
        listens
    }

    /// Kills the program as in a crash. Its port stays reserved.
    pub fn kill(&self) {
        *self.process() = None;
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the program if it runs, and starts it again, on the same port and in the same folder.
    #[track_caller]
    pub fn restart(&self) {
        let deadline = Instant::now() + PATIENCE;
        self.kill();
        // Processes that it has left behind may need a moment to end.
        while !self.run() {
            let log = self.log();
            assert!(
                Instant::now() < deadline,
                "it does not listen again; it says:\n{}",
                tail(&log)
            );
        }
    }

    /// Returns the path of the program `name`.
    #[track_caller]
    pub fn path(name: &str) -> PathBuf {
        find(Path::new(name)).unwrap_or_else(|| {
            panic!(
                "there is no {name} on the search path: run `cargo xtask servers`, which installs it"
            )
        })
    }

    /// Returns the address that the program listens on.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    /// Returns everything that the program has written to its output.
    pub fn log(&self) -> String {
        read_log(self.folder.path())
    }
}

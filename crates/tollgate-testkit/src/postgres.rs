//! `Postgres`: a PostgreSQL server for one test.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use rustix::process::geteuid;

use crate::program::{PATIENCE, Program};
use crate::server::{PAUSE, tail};

/// The user as whom Debian runs the server, which refuses to run as root.
const USER: &str = "postgres";

/// A PostgreSQL server that belongs to one test, with an empty database, and no passwords.
#[derive(Debug)]
pub struct Postgres(Program);

impl Postgres {
    /// Starts a server on a free port, which does not wait for the disk.
    #[track_caller]
    pub fn start() -> Self {
        Self::with("fsync=off")
    }

    /// Starts a server on a free port with a setting, such as `fsync=on`.
    #[track_caller]
    pub fn with(setting: &str) -> Self {
        Self::in_folder(setting, |folder| {
            let arguments = ["--auth=trust", "--no-locale", "--no-sync", "-E", "UTF8"];
            run(
                "initdb",
                &[&arguments[..], &["-U", USER, "-D", &data(folder)]].concat(),
            );
        })
    }

    /// Starts a standby of this server, to which each commit of this server is sent before it is answered.
    #[track_caller]
    pub fn standby(&self) -> Self {
        Self::in_folder("fsync=off", |folder| {
            let url = self.url();
            run(
                "pg_basebackup",
                &["-d", &url, "-D", &data(folder), "-R", "-N", "-c", "fast"],
            );
        })
    }

    #[track_caller]
    fn in_folder(setting: &str, make: impl Fn(&Path)) -> Self {
        let (program, before) = as_user("postgres");
        let server = Self(Program::start(&program, |port, folder| {
            if geteuid().is_root() {
                let owner = Command::new("chown").arg(USER).arg(folder).status();
                assert!(
                    owner.is_ok_and(|status| status.success()),
                    "a folder of {USER}"
                );
            }
            make(folder);
            let mut arguments = before.clone();
            let data = data(folder);
            arguments.extend(["-D", &data, "-p", &port.to_string()].map(str::to_owned));
            let loopback = "listen_addresses=127.0.0.1";
            for setting in [loopback, "unix_socket_directories=", setting] {
                arguments.extend(["-c", setting].map(str::to_owned));
            }
            arguments
        }));
        server.wait(1);
        server
    }

    /// Waits until the server has said so many times that it answers: it listens before that.
    #[track_caller]
    fn wait(&self, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.times_ready() < times {
            assert!(
                Instant::now() < deadline,
                "it does not answer; it says:\n{}",
                tail(&self.0.log())
            );
            sleep(PAUSE);
        }
    }

    fn times_ready(&self) -> usize {
        self.0.log().matches("ready to accept").count()
    }

    /// Returns the URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.0.address())
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> String {
        self.0.address().to_string()
    }

    /// Kills the server as in a crash. Its port stays reserved.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Kills the server if it runs, and starts it again with what it had on disk.
    #[track_caller]
    pub fn restart(&self) {
        let before = self.times_ready();
        self.0.restart();
        self.wait(before + 1);
    }
}

fn data(folder: &Path) -> String {
    folder.join("data").display().to_string()
}

/// Returns the program that runs `name` as the right user, and its first arguments.
#[track_caller]
fn as_user(name: &str) -> (String, Vec<String>) {
    let path = Program::path(name).display().to_string();
    if !geteuid().is_root() {
        return (path, Vec::new());
    }
    let arguments = ["--reuid", USER, "--regid", USER, "--clear-groups", &path];
    ("setpriv".to_owned(), arguments.map(str::to_owned).to_vec())
}

#[track_caller]
fn run(name: &str, arguments: &[&str]) {
    let (program, before) = as_user(name);
    let output = Command::new(program)
        .args(before)
        .args(arguments)
        .current_dir("/")
        .output();
    let output = output.expect("a program that starts");
    assert!(
        output.status.success(),
        "{name} says:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

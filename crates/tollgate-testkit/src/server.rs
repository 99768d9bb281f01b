//! `Server`: a Redis or Valkey server that belongs to one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::connection::{Connection, Reply};
use crate::flavor::Flavor;
use crate::port::Port;
use crate::process::{LOG, Process};
use crate::tls::{Authority, Identity};
use crate::tls::{SOCKET, Tls};

/// How long a server may take to answer after its start.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two checks of a condition.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
/// How many ports to try if other programs take them first.
const ATTEMPTS: usize = 5;
/// The configuration file in a server's folder, if there is one.
const CONFIGURATION: &str = "server.conf";
/// How many lines of the log a panic shows.
const TAIL: usize = 20;

/// Options to start a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    binary: PathBuf,
    arguments: Vec<String>,
    /// `None` for a server without TLS.
    tls: Option<Tls>,
    /// The password that clients must send.
    password: Option<String>,
    /// The configuration that the server reads at its first start and may rewrite.
    configuration: Option<String>,
    /// A command sent at each start; errors, such as for an unknown command, are ignored.
    told: Vec<String>,
}

impl ServerOptions {
    /// Returns options for a sentinel with this configuration and optional password, which gets
    /// `command` at each start.
    #[track_caller]
    pub(crate) fn sentinel(
        flavor: Flavor,
        configuration: String,
        password: Option<String>,
        command: &[&str],
    ) -> Self {
        Self {
            binary: flavor.binary(),
            arguments: vec!["--sentinel".to_owned()],
            tls: None,
            password,
            configuration: Some(configuration),
            told: command.iter().map(|&word| word.to_owned()).collect(),
        }
    }

    /// Adds arguments, after the kit's own and earlier ones, such as `["--maxmemory", "1mb"]`.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(T::into));
        self
    }

    /// Makes the server accept only TLS, with a certificate of `authority` for 127.0.0.1 and
    /// localhost.
    ///
    /// The kit itself still talks to it through a Unix socket in its folder. Starting a server that
    /// was built without TLS fails.
    #[must_use]
    pub fn tls(self, authority: &Authority) -> Self {
        self.tls_as(authority, authority.certify())
    }

    /// Makes the server accept only TLS, with the certificate of `identity`.
    #[must_use]
    pub fn tls_as(mut self, authority: &Authority, identity: Identity) -> Self {
        self.tls = Some(Tls::new(authority, identity));
        self
    }

    /// Like [`tls`](Self::tls), and also refuses clients without a certificate of `authority`.
    #[must_use]
    pub fn mutual_tls(mut self, authority: &Authority) -> Self {
        self.tls = Some(Tls::new(authority, authority.certify()).asking_clients());
        self
    }

    /// Requires `password` from clients; the server also sends it to its own primary.
    ///
    /// Choose one without characters that are special in URLs, such as letters and digits only.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.password = Some(password.clone());
        self.args(["--requirepass", &password, "--masterauth", &password])
    }

    /// Starts the server on a free port, and waits until it answers.
    #[track_caller]
    pub fn start(self) -> Server {
        let mut attempt = 1;
        loop {
            let server = Server {
                process: Mutex::new(None),
                options: self.clone(),
                port: Port::choose(),
                folder: tempfile::Builder::new()
                    .prefix("tollgate-testkit-")
                    .tempdir()
                    .expect("a folder for the server"),
            };
            if let Some(configuration) = &server.options.configuration {
                fs::write(server.folder().join(CONFIGURATION), configuration)
                    .expect("a file for the configuration");
            }
            if let Some(tls) = &server.options.tls {
                tls.write(server.folder())
                    .expect("files for the certificates");
            }
            match server.run(Readiness::Serves) {
                Ok(()) => return server,
                Err(_) if attempt < ATTEMPTS && server.log().contains("already in use") => {}
                Err(error) => panic!("{error}"),
            }
            attempt += 1;
        }
    }
}

/// A server that belongs to one test, on a loopback port and in a folder of its own.
///
/// It is killed when this is dropped, and also if the process ends in any other way.
#[derive(Debug)]
pub struct Server {
    // Declared first, so that the process ends before its folder is removed.
    process: Mutex<Option<Process>>,
    options: ServerOptions,
    port: Port,
    folder: TempDir,
}

/// When a server counts as started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Readiness {
    /// It answers, even if only that it is still loading its data.
    Answers,
    /// It has loaded its data.
    Serves,
}

impl Server {
    /// Starts a server of `flavor` that writes nothing to disk.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::options(flavor).start()
    }

    /// Returns options for a server of `flavor` that writes nothing to disk.
    #[track_caller]
    pub fn options(flavor: Flavor) -> ServerOptions {
        let arguments = ["--save", "", "--appendonly", "no"];
        ServerOptions {
            binary: flavor.binary(),
            arguments: arguments.map(str::to_owned).to_vec(),
            tls: None,
            password: None,
            configuration: None,
            told: Vec::new(),
        }
    }

    /// Kills the server as in a crash, and waits until it has ended. Its port stays reserved.
    ///
    /// Does nothing if the server has already been killed.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Starts the server again on the same port, in the same folder and with the same arguments.
    ///
    /// Kills it first if it still runs.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        if let Err(error) = self.run(Readiness::Serves) {
            panic!("{error}");
        }
    }

    /// Like [`restart`](Self::restart), but does not wait until the server has loaded its data:
    /// until then it answers most commands with `LOADING`.
    #[track_caller]
    pub fn restart_loading(&self) {
        self.kill();
        if let Err(error) = self.run(Readiness::Answers) {
            panic!("{error}");
        }
    }

    /// Stops the server with `SIGSTOP`: connections stay open, but nothing is answered.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes a [paused](Self::pause) server, which first handles what it was sent meanwhile.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Runs one command on a new connection. An error from the server is also a [`Reply`].
    #[track_caller]
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        command(&self.door(), words)
    }

    /// Returns the value of a field in a section of `INFO`.
    #[track_caller]
    pub fn info(&self, section: &str, name: &str) -> Option<String> {
        let reply = self.command(&["INFO", section]);
        field(reply.text()?, name).map(str::to_owned)
    }

    /// Returns how often the server has run a command, such as `get` or `script|load`, sent or within
    /// a script, or refused to.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.info("commandstats", &format!("cmdstat_{command}"));
        let stats = stats.unwrap_or_default();
        let counts = stats
            .split(',')
            .filter_map(|count| match count.split_once('=')? {
                ("calls" | "rejected_calls", count) => count.parse::<u64>().ok(),
                _ => None,
            });
        counts.sum()
    }

    /// Returns the names of all keys.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let reply = self.command(&["KEYS", "*"]);
        let keys = reply.items().iter().filter_map(Reply::text);
        keys.map(str::to_owned).collect()
    }

    /// Connects to the server.
    #[track_caller]
    pub fn connection(&self) -> Connection {
        connect(&self.door())
    }

    /// Returns the server's address, such as `127.0.0.1:11000`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the server's port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the server's URL, such as `redis://127.0.0.1:11000`, or
    /// `rediss://:password@127.0.0.1:11000` with TLS and a password.
    pub fn url(&self) -> String {
        let scheme = match self.options.tls {
            Some(_) => "rediss",
            None => "redis",
        };
        let password = self.options.password.as_ref();
        let password = password.map_or_else(String::new, |password| format!(":{password}@"));
        format!("{scheme}://{password}{}", self.address())
    }

    /// Returns the password that clients must send.
    pub(crate) fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    /// Returns the address by which this kit connects to the server, as for [`Connection::open`].
    pub(crate) fn door(&self) -> String {
        let place = match self.options.tls {
            Some(_) => self.folder().join(SOCKET).display().to_string(),
            None => self.address(),
        };
        match &self.options.password {
            Some(password) => format!("{password}@{place}"),
            None => place,
        }
    }

    /// Returns the server's process id.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("a server that runs").pid()
    }

    /// Returns whether the server is running: not killed, and not ended by itself.
    pub(crate) fn is_running(&self) -> bool {
        let mut process = self.process();
        process.as_mut().is_some_and(|process| !process.has_ended())
    }

    /// Returns the server's working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns everything that the server has logged, across restarts.
    pub fn log(&self) -> String {
        read_log(self.folder())
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        let process = self.process();
        let process = process.as_ref().expect("a server that runs");
        process.signal(signal).expect("a signal to the server");
    }

    /// Starts the server's process, and waits until it is ready.
    fn run(&self, readiness: Readiness) -> Result<(), String> {
        let port = self.port().to_string();
        let file = self.options.configuration.as_ref().map(|_| CONFIGURATION);
        let own = match &self.options.tls {
            Some(tls) => tls.arguments(&port).to_vec(),
            None => vec!["--port", &port],
        };
        let arguments: Vec<&str> = file
            .into_iter()
            .chain(["--bind", "127.0.0.1"])
            .chain(own)
            .chain(self.options.arguments.iter().map(String::as_str))
            .collect();
        let binary = &self.options.binary;
        let mut process = Process::start(binary, &arguments, self.folder())
            .map_err(|error| format!("{} does not start: {error}", binary.display()))?;
        let deadline = Instant::now() + PATIENCE;
        while !is_ready(&self.door(), process.pid(), readiness) {
            let problem = if process.has_ended() && self.options.tls.is_some() {
                "ended at once, perhaps because it was built without TLS; Debian's redis-server has TLS"
            } else if process.has_ended() {
                "ended at once"
            } else if Instant::now() > deadline {
                "does not answer"
            } else {
                sleep(PAUSE);
                continue;
            };
            return Err(format!(
                "{} {problem}; it says:\n{}",
                binary.display(),
                tail(&self.log())
            ));
        }
        *self.process() = Some(process);
        if !self.options.told.is_empty() {
            self.command(&self.options.told);
        }
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // If a test panicked while it held the lock, its server must still be killed.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the server at `address` is ready and has the process id `pid`.
fn is_ready(address: &str, pid: u32, readiness: Readiness) -> bool {
    let Ok(mut connection) = Connection::open(address) else {
        return false;
    };
    match connection.command(&["PING"]) {
        Ok(Reply::Error(error)) if error.starts_with("LOADING") => {
            return readiness == Readiness::Answers;
        }
        Ok(_) => {}
        Err(_) => return false,
    }
    // Another program may have taken the port first. A server that requires a password does not
    // return its process id, so we assume that it is ours.
    match process_id(&mut connection) {
        Some(other) => other == pid,
        None => true,
    }
}

/// Returns the process id that the server reports.
pub(crate) fn process_id(connection: &mut Connection) -> Option<u32> {
    let reply = connection.command(&["INFO", "server"]).ok()?;
    field(reply.text()?, "process_id")?.parse().ok()
}

/// Returns the value of a field in the reply to `INFO` or `CLUSTER INFO`.
pub(crate) fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information
        .lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

#[track_caller]
pub(crate) fn connect(address: &str) -> Connection {
    match Connection::open(address) {
        Ok(connection) => connection,
        Err(error) => panic!("no connection to {address}: {error}"),
    }
}

#[track_caller]
pub(crate) fn command(address: &str, words: &[impl AsRef<[u8]>]) -> Reply {
    match connect(address).command(words) {
        Ok(reply) => reply,
        Err(error) => panic!("no reply from {address}: {error}"),
    }
}

pub(crate) fn read_log(folder: &Path) -> String {
    let bytes = fs::read(folder.join(LOG)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the last lines of `log`.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

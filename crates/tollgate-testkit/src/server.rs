//! A server of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::process::{LOG, Process};
use crate::tls::{SOCKET, Tls};
use crate::{Authority, Connection, Flavor, Identity, Reply};

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before looking again.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
/// How many ports are tried, should programs that are not of this kit take them.
const ATTEMPTS: usize = 5;
/// The file in a server's folder that it reads its configuration from, if it has one.
const CONFIGURATION: &str = "server.conf";
/// How many lines of a log a panic shows.
const TAIL: usize = 20;

/// How to start a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    binary: PathBuf,
    arguments: Vec<String>,
    /// None for a server that takes no TLS.
    tls: Option<Tls>,
    /// What the server asks its clients for.
    password: Option<String>,
    /// What the server reads at its first start, and may rewrite.
    configuration: Option<String>,
    /// What the server is told at each start, whether it knows the command or not.
    told: Vec<String>,
}

impl ServerOptions {
    /// Returns options for a server of `flavor` that keeps nothing on disk.
    ///
    /// # Panics
    ///
    /// Panics if the server's program is not there, and says what brings it.
    #[track_caller]
    pub fn new(flavor: Flavor) -> Self {
        Self::with_binary(flavor.binary())
    }

    /// Returns options for the server whose program is `binary`.
    pub fn with_binary(binary: impl Into<PathBuf>) -> Self {
        let arguments = ["--save", "", "--appendonly", "no"];
        Self {
            binary: binary.into(),
            arguments: arguments.map(str::to_owned).to_vec(),
            tls: None,
            password: None,
            configuration: None,
            told: Vec::new(),
        }
    }

    /// Returns options for a sentinel with this configuration, which asks for `password` if there is
    /// one, and which is told `command`.
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

    /// Adds an argument, which goes before the later ones and after the kit's own.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments, such as `["--maxmemory", "1mb"]`.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(T::into));
        self
    }

    /// Has the server take TLS and nothing else, with a certificate of `authority` for 127.0.0.1 and
    /// localhost.
    ///
    /// The kit itself goes on to speak to it, through a socket in its folder. Starting a server
    /// that was built without TLS fails.
    #[must_use]
    pub fn tls(self, authority: &Authority) -> Self {
        self.tls_as(authority, authority.certify())
    }

    /// Has the server take TLS and nothing else, as `identity`.
    #[must_use]
    pub fn tls_as(mut self, authority: &Authority, identity: Identity) -> Self {
        self.tls = Some(Tls::new(authority, identity));
        self
    }

    /// Does the same as [`tls`](Self::tls), and has the server refuse clients without a certificate
    /// of `authority`.
    #[must_use]
    pub fn mutual_tls(mut self, authority: &Authority) -> Self {
        self.tls = Some(Tls::new(authority, authority.certify()).asking_clients());
        self
    }

    /// Has the server ask for `password`, and give it to a server that it follows.
    ///
    /// Choose one that means nothing in a URL, such as letters and digits.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.password = Some(password.clone());
        self.args(["--requirepass", &password, "--masterauth", &password])
    }

    /// Starts the server on a free port, and waits until it answers.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer within ten seconds, with the tail of its log.
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

/// A server of a test's own, on a port of the loopback interface and in a folder for it alone.
///
/// It is killed when this is dropped, and when the process ends in any other way.
#[derive(Debug)]
pub struct Server {
    // Declared first: the process must have ended before its folder is removed.
    process: Mutex<Option<Process>>,
    options: ServerOptions,
    port: Port,
    folder: TempDir,
}

/// When a server counts as started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Readiness {
    /// It answers, if only that it is still loading its data.
    Answers,
    /// It has loaded its data too.
    Serves,
}

impl Server {
    /// Starts a server of `flavor` that keeps nothing on disk.
    ///
    /// # Panics
    ///
    /// Panics if the program is not there, or if the server does not answer within ten seconds.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::options(flavor).start()
    }

    /// Returns options for a server of `flavor`.
    ///
    /// # Panics
    ///
    /// Panics if the program is not there, and says what brings it.
    #[track_caller]
    pub fn options(flavor: Flavor) -> ServerOptions {
        ServerOptions::new(flavor)
    }

    /// Kills the server as a crash would, and waits until it is gone; its port stays reserved.
    ///
    /// Does nothing to a server that has been killed.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Starts the server again on the same port, in the same folder and with the same arguments;
    /// one that still runs is killed first.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer within ten seconds, with the tail of its log.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        if let Err(error) = self.run(Readiness::Serves) {
            panic!("{error}");
        }
    }

    /// Does the same as [`restart`](Self::restart) but for waiting until the server has loaded its
    /// data: until then it answers `LOADING` to most commands.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer at all within ten seconds, with the tail of its log.
    #[track_caller]
    pub fn restart_loading(&self) {
        self.kill();
        if let Err(error) = self.run(Readiness::Answers) {
            panic!("{error}");
        }
    }

    /// Stops the server in its tracks: connections stay open, and nothing is answered.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a server that was [paused](Self::pause) go on, with what it was sent meanwhile first.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Runs one command on a connection of its own; an error of the server's is a [`Reply`] too.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached, or does not answer within five seconds.
    #[track_caller]
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        command(&self.door(), words)
    }

    /// Connects to the server.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached.
    #[track_caller]
    pub fn connection(&self) -> Connection {
        connect(&self.door())
    }

    /// Returns where the server listens, such as `127.0.0.1:11000`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns where the server listens as a client takes it, such as `redis://127.0.0.1:11000`, or
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

    /// Returns what the server asks its clients for.
    pub(crate) fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    /// Returns how this kit gets to the server, as [`Connection::open`] takes it.
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

    /// Returns the number of the server's process.
    ///
    /// # Panics
    ///
    /// Panics if the server has been killed.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("a server that runs").pid()
    }

    /// Returns whether the server runs: it was not killed, and has not ended by itself.
    pub fn is_running(&self) -> bool {
        let mut process = self.process();
        process.as_mut().is_some_and(|process| !process.has_ended())
    }

    /// Returns the folder that the server keeps its files in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns everything that the server has logged, in all its lives.
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
                "ended at once, perhaps for it was built without TLS, which that of Debian's \
                 redis-server was not"
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
        // A test that panicked while it held the lock must still end its server.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the server at `address` is ready, and is the process `pid`.
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
    // Some other program may have taken the port first. A server that wants a password, and so
    // does not say who it is, is taken at its word.
    match process_id(&mut connection) {
        Some(other) => other == pid,
        None => true,
    }
}

/// Returns what the server says is the number of its process.
pub(crate) fn process_id(connection: &mut Connection) -> Option<u32> {
    let reply = connection.command(&["INFO", "server"]).ok()?;
    field(reply.text()?, "process_id")?.parse().ok()
}

/// Returns the value of a field in what `INFO` or `CLUSTER INFO` replies.
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

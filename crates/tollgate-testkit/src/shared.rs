//! Servers shared by all tests of all processes.
//!
//! The first test that asks for a server starts it. It stops a few seconds after its last user has
//! ended, in whatever way. Tests must leave a shared server unchanged: use keys of your own, and no
//! `FLUSHALL`, `SCRIPT FLUSH`, `CONFIG SET` or `SHUTDOWN`.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cluster::{ARGUMENTS, form, is_ok};
use crate::connection::{Connection, Reply};
use crate::flavor::Flavor;
use crate::folder;
use crate::port::Port;
use crate::server::{PAUSE, command, connect, process_id, read_log, tail};

/// How long a server may take to answer after its start.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an existing server may take to answer before it counts as hung.
const LIVELY: Duration = Duration::from_secs(2);
/// How many ports to try if other programs take them first.
const ATTEMPTS: usize = 5;

/// The number of masters in a cluster.
const MASTERS: usize = 3;

/// The file on which each user of a server holds a shared lock.
const USERS: &str = "users";
/// The file that is locked while a server is looked up or started.
const STARTING: &str = "starting";
/// The file with the server's port and process id; removed before the server is killed.
const STATE: &str = "state";

/// Runs the command `$3...` in the folder `$1`, until for three seconds no process has held a lock
/// on the file `users` in the folder `$2`.
///
/// It is a process of its own, so that the process that started it may end. It holds the exclusive
/// lock until it has killed the server, so that the next user does not find the old state. If the
/// file is gone, for example after `cargo clean`, there are no users.
const DAEMON: &str = r#"
cd "$1" || exit
users=$2/users
state=$2/state
shift 2
trap '' HUP INT TERM
(
  "$@" </dev/null >server.log 2>&1 &
  server=$!
  echo $server >pid.new && mv pid.new pid
  (
    while [ -e "$users" ]; do
      flock "$users" true
      sleep 3
      flock -n "$users" sh -c 'rm -f "$1"; kill -9 $2' kill "$state" $server && exit
    done
    kill -9 $server
  ) &
  watch=$!
  wait $server
  kill -9 $watch
) </dev/null >/dev/null 2>&1 &
"#;

/// Returns a server of `flavor` that is shared with all tests that ask for one.
#[track_caller]
pub fn standalone(flavor: Flavor) -> SharedServer {
    let binary = flavor.binary();
    let place = SharedFolder::new(flavor.name(), &binary);
    let (state, users) = place.share(
        |state| Node::parse(state).is_some_and(|node| node.is_alive()),
        || start(&binary, &[], &place.folder, "server").map(|node| node.to_string()),
    );
    let node = Node::parse(&state).expect("what was written");
    SharedServer {
        port: node.port,
        _users: users,
    }
}

/// Returns a cluster of three masters of `flavor` that is shared with all tests that ask for one.
///
/// It takes two seconds to start.
#[track_caller]
pub fn cluster(flavor: Flavor) -> SharedCluster {
    let binary = flavor.binary();
    let place = SharedFolder::new(&format!("{}_cluster", flavor.name()), &binary);
    let is_alive = |state: &str| {
        let mut nodes = state.lines().map(Node::parse);
        nodes.all(|node| node.is_some_and(|node| node.is_alive() && is_ok(&node.address())))
    };
    let (state, users) = place.share(is_alive, || start_cluster(&binary, &place.folder));
    let nodes = state.lines().filter_map(Node::parse);
    SharedCluster {
        addresses: nodes.map(Node::address).collect(),
        _users: users,
    }
}

fn start_cluster(binary: &Path, place: &Path) -> Result<String, String> {
    let mut state = String::new();
    let (mut addresses, mut ports) = (Vec::new(), Vec::new());
    for index in 0..MASTERS {
        let node = start(binary, &ARGUMENTS, place, &format!("server-{index}"))?;
        state.push_str(&format!("{node}\n"));
        addresses.push(node.address());
        ports.push(node.port);
    }
    form(&addresses, &ports, MASTERS)?;
    Ok(state)
}

/// A server that other tests use too; kept alive while this exists.
#[derive(Debug)]
pub struct SharedServer {
    port: u16,
    _users: File,
}

impl SharedServer {
    /// Returns the server's address, such as `127.0.0.1:11000`.
    pub fn address(&self) -> String {
        address(self.port)
    }

    /// Returns the server's URL, such as `redis://127.0.0.1:11000`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Connects to the server.
    #[track_caller]
    pub fn connection(&self) -> Connection {
        connect(&self.address())
    }

    /// Runs one command on a new connection. An error from the server is also a [`Reply`].
    #[track_caller]
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        command(&self.address(), words)
    }
}

/// A cluster that other tests use too; kept alive while this exists.
#[derive(Debug)]
pub struct SharedCluster {
    addresses: Vec<String>,
    _users: File,
}

impl SharedCluster {
    /// Returns the nodes' addresses, such as `127.0.0.1:11000`.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the nodes' URLs, such as `redis://127.0.0.1:11000`.
    pub fn urls(&self) -> Vec<String> {
        let addresses = self.addresses.iter();
        addresses
            .map(|address| format!("redis://{address}"))
            .collect()
    }
}

/// A folder with the files of one shared server or cluster.
#[derive(Debug)]
struct SharedFolder {
    folder: PathBuf,
}

impl SharedFolder {
    /// Returns the folder for `name` and servers that run `binary`.
    #[track_caller]
    fn new(name: &str, binary: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        binary.hash(&mut hasher);
        let name = format!("{name}-{:016x}", hasher.finish());
        let folder = folder::target().join("testkit/shared").join(name);
        fs::create_dir_all(&folder).expect("a folder for a shared server");
        Self { folder }
    }

    /// Returns the stored state if `is_alive` accepts it; otherwise calls `start` and stores its
    /// result. Also returns the lock that keeps the servers alive.
    #[track_caller]
    fn share(
        &self,
        is_alive: impl FnOnce(&str) -> bool,
        start: impl FnOnce() -> Result<String, String>,
    ) -> (String, File) {
        let starting = self.locked(STARTING, FlockOperation::LockExclusive);
        let users = self.locked(USERS, FlockOperation::LockShared);
        let state = self.folder.join(STATE);
        let found = fs::read_to_string(&state).ok();
        if let Some(found) = found.filter(|found| is_alive(found)) {
            return (found, users);
        }
        let started = match start() {
            Ok(started) => started,
            Err(error) => panic!("{error}"),
        };
        fs::write(state, &started).expect("a file for the state");
        drop(starting);
        (started, users)
    }

    #[track_caller]
    fn locked(&self, name: &str, operation: FlockOperation) -> File {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(name))
            .expect("a file to lock");
        loop {
            match flock(&file, operation) {
                Ok(()) => return file,
                Err(Errno::INTR) => {}
                Err(error) => panic!("no lock of {name} in {}: {error}", self.folder.display()),
            }
        }
    }
}

/// The port and process id of a shared server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Node {
    port: u16,
    pid: u32,
}

impl Node {
    fn parse(text: &str) -> Option<Self> {
        let (port, pid) = text.trim().split_once(' ')?;
        Some(Self {
            port: port.parse().ok()?,
            pid: pid.parse().ok()?,
        })
    }

    fn address(self) -> String {
        address(self.port)
    }

    /// Returns whether the process with this id answers on this port.
    fn is_alive(self) -> bool {
        let Ok(mut connection) = Connection::open(&self.address()) else {
            return false;
        };
        connection.set_timeout(LIVELY).is_ok() && process_id(&mut connection) == Some(self.pid)
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.port, self.pid)
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Starts a server in the folder `name` of `place`; it lives as long as `place` has users.
fn start(binary: &Path, arguments: &[&str], place: &Path, name: &str) -> Result<Node, String> {
    let mut attempt = 1;
    loop {
        match try_to_start(binary, arguments, place, name) {
            Err(error) if attempt < ATTEMPTS && error.contains("already in use") => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn try_to_start(
    binary: &Path,
    arguments: &[&str],
    place: &Path,
    name: &str,
) -> Result<Node, String> {
    let folder = &place.join(name);
    // Reserves the port until the server listens on it.
    let port = Port::choose();
    let number = port.number().to_string();
    let own = ["--bind", "127.0.0.1", "--port", &number];
    let stateless = ["--save", "", "--appendonly", "no"];
    daemon(
        binary,
        own.iter().chain(&stateless).chain(arguments),
        place,
        folder,
    )
    .map_err(|error| format!("{} does not start: {error}", binary.display()))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pid = fs::read_to_string(folder.join("pid")).unwrap_or_default();
        let node = Node::parse(&format!("{number} {pid}"));
        if let Some(node) = node.filter(|node| node.is_alive()) {
            return Ok(node);
        }
        let log = read_log(folder);
        if Instant::now() > deadline || log.contains("already in use") {
            let binary = binary.display();
            return Err(format!(
                "{binary} does not answer; it says:\n{}",
                tail(&log)
            ));
        }
        sleep(PAUSE);
    }
}

fn daemon(
    binary: &Path,
    arguments: impl Iterator<Item = impl AsRef<OsStr>>,
    place: &Path,
    folder: &Path,
) -> io::Result<()> {
    let available = Command::new("flock")
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if available.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Err(io::Error::other(
            "there is no program `flock`: install util-linux",
        ));
    }
    // Remove the files of an earlier server.
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(folder)?,
    }
    Command::new("sh")
        .args(["-c", DAEMON, "daemon"])
        .args([folder, place, binary])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A signal to the test's process group must not reach a server that others use too.
        .process_group(0)
        .status()?;
    Ok(())
}

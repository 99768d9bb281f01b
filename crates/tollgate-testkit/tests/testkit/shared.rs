//! A shared server is started once, and ends soon after its last user.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Connection, Flavor, shared};

/// The environment variable that is set in the child process of a test that runs itself.
const INNER: &str = "TOLLGATE_TESTKIT_INNER";
/// The environment variable that names the program of `Flavor::System`.
const VARIABLE: &str = "TOLLGATE_REDIS_SERVER";

/// A process that uses a shared server and prints its address, until it is killed.
struct User {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl User {
    /// Starts a process that uses the shared server of `binary`.
    fn start(binary: &std::path::Path) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "shared::a_server_lives_as_long_as_its_users",
                "--nocapture",
            ])
            .env(INNER, "1")
            .env(VARIABLE, binary)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Waits until the process has the server, and returns the server's address.
    fn address(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(address) = line.strip_prefix("server ") {
                return address.trim().to_owned();
            }
        }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn process_id(address: &str) -> String {
    let mut connection = Connection::open(address).unwrap();
    let reply = connection.command(&["INFO", "server"]).unwrap();
    let line = reply.text().unwrap().lines();
    let mut lines = line.filter_map(|line| line.strip_prefix("process_id:"));
    lines.next().unwrap().trim().to_owned()
}

#[test]
fn a_server_lives_as_long_as_its_users() {
    if env::var_os(INNER).is_some() {
        let server = shared::standalone(Flavor::System);
        let mut output = std::io::stdout();
        writeln!(output, "\nserver {}", server.address()).unwrap();
        output.flush().unwrap();
        loop {
            sleep(Duration::from_secs(1));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("redis-server");
    // A copy of the server program, so that no other test keeps the server alive.
    fs::copy(Flavor::System.binary(), &binary).unwrap();

    // All users start at once, and yet only one server is started.
    let mut users: Vec<User> = (0..4).map(|_| User::start(&binary)).collect();
    let addresses: Vec<String> = users.iter_mut().map(User::address).collect();
    let address = addresses[0].clone();
    let holds = addresses.iter().all(|other| *other == address);
    assert!(holds, "{addresses:?}");

    // The server outlives the process that started it, whichever that was.
    let last = users.pop().unwrap();
    users.into_iter().for_each(User::kill);
    sleep(Duration::from_millis(3_500));
    let first = process_id(&address);

    // A server that has crashed is replaced.
    assert!(
        Command::new("kill")
            .args(["-9", &first])
            .status()
            .unwrap()
            .success()
    );
    let mut next = User::start(&binary);
    let address = next.address();
    assert_ne!(process_id(&address), first);

    // The server stays for a moment after its last user, and then ends.
    last.kill();
    next.kill();
    let ended = Instant::now();
    assert!(TcpStream::connect(&address).is_ok());
    while TcpStream::connect(&address).is_ok() {
        assert!(ended.elapsed() < Duration::from_secs(8), "it stays");
        sleep(Duration::from_millis(20));
    }
    assert!(ended.elapsed() > Duration::from_secs(2), "it goes too soon");
}

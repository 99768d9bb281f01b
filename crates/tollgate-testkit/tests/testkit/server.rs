//! `Server`: a private server never outlives its test, and says why it cannot start.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Connection, Flavor, Server};

/// The environment variable that is set in the child process of a test that runs itself.
const INNER: &str = "TOLLGATE_TESTKIT_INNER";

/// Waits until `condition` holds.
#[track_caller]
fn eventually(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < deadline, "it never came true");
        sleep(Duration::from_millis(5));
    }
}

fn is_gone(address: &str) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let panic = catch_unwind(|| {
        Server::options(Flavor::System)
            .args(["--no-such-thing"])
            .start()
    });
    let message = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("ended at once"), "{message}");
    assert!(message.contains("no-such-thing"), "{message}");
}

#[test]
fn the_end_of_the_process_ends_the_server() {
    if env::var_os(INNER).is_some() {
        let server = Server::start(Flavor::System);
        let mut output = std::io::stdout();
        let folder = server.folder().display();
        writeln!(output, "\nserver {} {folder}", server.address()).unwrap();
        output.flush().unwrap();
        loop {
            sleep(Duration::from_secs(1));
        }
    }
    let mut inner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "server::the_end_of_the_process_ends_the_server"])
        .arg("--nocapture")
        .env(INNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(inner.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find(|line| line.starts_with("server "))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (address, folder) = (words[1], Path::new(words[2]));
    let mut connection = Connection::open(address).unwrap();
    connection.command(&["PING"]).unwrap();
    assert!(folder.exists());
    // This sends SIGKILL, which no process can catch.
    inner.kill().unwrap();
    inner.wait().unwrap();
    eventually(|| is_gone(address) && !folder.exists());
}

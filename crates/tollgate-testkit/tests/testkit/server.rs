//! `Server`: a private server answers, can be controlled, and never outlives its test.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Connection, Flavor, Reply, Server};

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

fn serves(flavor: Flavor, version: &str) {
    let server = Server::start(flavor);
    assert_eq!(server.command(&["PING"]), Reply::Simple("PONG".into()));
    let information = server.command(&["INFO", "server"]);
    let information = information.text().unwrap();
    assert!(information.contains(version), "{information}");
    assert!(information.contains(&format!("process_id:{}\r\n", server.pid())));
}

#[test]
fn redis_system_serves() {
    serves(Flavor::System, "redis_version:");
}

#[test]
fn redis_6_2_serves() {
    serves(Flavor::Redis62, "redis_version:6.2.");
}

#[test]
fn valkey_9_1_serves() {
    serves(Flavor::Valkey91, "valkey_version:9.1.");
}

#[test]
fn two_servers_share_no_data() {
    let (one, other) = (Server::start(Flavor::System), Server::start(Flavor::System));
    assert_ne!(one.port(), other.port());
    one.command(&["SET", "key", "value"]);
    assert_eq!(other.command(&["GET", "key"]), Reply::Nil);
}

#[test]
fn a_restarted_server_is_empty_at_the_same_address() {
    let server = Server::start(Flavor::System);
    let (address, url, pid) = (server.address(), server.url(), server.pid());
    server.command(&["SET", "key", "value"]);
    server.kill();
    assert!(is_gone(&address));
    server.kill();
    server.restart();
    assert_eq!(server.command(&["GET", "key"]), Reply::Nil);
    assert_eq!((server.address(), server.url()), (address, url));
    assert_ne!(server.pid(), pid);
    // `restart` works on a server that runs, and on one that ended by itself.
    server.restart();
    let ended = Connection::open(&server.address())
        .unwrap()
        .command(&["SHUTDOWN", "NOSAVE"]);
    assert!(ended.is_err(), "{ended:?}");
    server.restart();
    assert_eq!(server.command(&["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn a_paused_server_executes_once_it_is_resumed() {
    let server = Server::start(Flavor::System);
    let mut connection = server.connection();
    server.pause();
    connection.set_timeout(Duration::from_millis(50)).unwrap();
    assert!(connection.command(&["INCR", "count"]).is_err());
    server.resume();
    eventually(|| server.command(&["GET", "count"]) == Reply::Bulk(b"1".into()));
    // Dropping a paused server kills it too.
    server.pause();
}

#[test]
fn arguments_reach_the_server() {
    let server = Server::options(Flavor::System)
        .args(["--maxmemory", "12mb"])
        .arg("--requirepass")
        .arg("a secret")
        .start();
    let mut connection = server.connection();
    let refused = connection.command(&["GET", "key"]).unwrap();
    assert!(refused.error().unwrap().starts_with("NOAUTH "));
    connection.command(&["AUTH", "a secret"]).unwrap();
    let reply = connection.command(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(reply.items()[1].text(), Some("12582912"));
    // The server saves nothing to disk.
    let reply = connection.command(&["CONFIG", "GET", "save"]).unwrap();
    assert_eq!(reply.items()[1].text(), Some(""));
}

#[test]
fn a_server_can_be_seen_loading() {
    let server = Server::options(Flavor::System)
        .args(["--key-load-delay", "100"])
        .args(["--loading-process-events-interval-bytes", "1024"])
        .start();
    let fill = "for i = 1, 2999 do redis.call('SET', i, i) end";
    server.command(&["EVAL", fill, "0"]);
    assert_eq!(server.command(&["SAVE"]), Reply::Simple("OK".into()));
    server.restart_loading();
    let reply = server.command(&["GET", "1"]);
    assert!(reply.error().unwrap().starts_with("LOADING "), "{reply:?}");
    eventually(|| server.command(&["GET", "1"]) == Reply::Bulk(b"1".into()));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let panic = catch_unwind(|| {
        Server::options(Flavor::System)
            .arg("--no-such-thing")
            .start()
    });
    let message = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("ended at once"), "{message}");
    assert!(message.contains("no-such-thing"), "{message}");
}

#[test]
fn a_panic_ends_the_server() {
    let (sender, receiver) = mpsc::channel();
    let panic = catch_unwind(move || {
        let server = Server::start(Flavor::System);
        sender
            .send((server.address(), server.folder().to_owned()))
            .unwrap();
        panic!("on purpose");
    });
    assert!(panic.is_err());
    let (address, folder) = receiver.recv().unwrap();
    assert!(is_gone(&address));
    assert!(!folder.exists());
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

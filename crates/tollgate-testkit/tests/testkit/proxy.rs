//! `Proxy`: it forwards everything, except for the faults that a test requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Connection, FakeServer, Flavor, Proxy, Reply, shared};

/// Returns a proxy in front of a server, and a key that no other test has.
fn proxy(name: &str) -> (shared::SharedServer, Proxy, String) {
    let server = shared::standalone(Flavor::System);
    let proxy = Proxy::start(server.address());
    let key = format!("proxy:{name}:{}:{}", std::process::id(), proxy.port());
    (server, proxy, key)
}

fn open(proxy: &Proxy) -> Connection {
    Connection::open(&proxy.address()).unwrap()
}

fn simple(text: &str) -> Reply {
    Reply::Simple(text.to_owned())
}

#[test]
fn everything_is_passed_on_and_counted() {
    let (_server, proxy, key) = proxy("counted");
    let mut connection = open(&proxy);
    let large = vec![b'\n'; 1_000_000];
    let words = [b"SET", key.as_bytes(), &large];
    assert_eq!(connection.command(&words).unwrap(), simple("OK"));
    let reply = connection.command(&["GET", &key]).unwrap();
    assert_eq!(reply, Reply::Bulk(large));
    // Pipelined requests are answered in order.
    for number in 0..1_000 {
        connection.send(&["ECHO", &number.to_string()]).unwrap();
    }
    for number in 0..1_000 {
        let reply = connection.receive().unwrap();
        assert_eq!(reply.text(), Some(number.to_string().as_str()));
    }
    connection.command(&["DEL", &key]).unwrap();
    assert_eq!((proxy.requests(), proxy.replies()), (1_003, 1_003));
    assert_eq!((proxy.connections(), proxy.open_connections()), (1, 1));
    drop(connection);
    let _other = open(&proxy).command(&["PING"]).unwrap();
    assert_eq!(proxy.connections(), 2);
    assert!(proxy.url().starts_with("redis://127.0.0.1:"));
}

#[test]
fn only_new_connections_are_led_to_another_server() {
    let (_server, proxy, key) = proxy("led");
    let other = FakeServer::start(|_| "+another\r\n".into());
    let mut old = open(&proxy);
    old.command(&["SET", &key, "1"]).unwrap();
    proxy.lead_to(format!("127.0.0.1:{}", other.port()));
    assert_eq!(open(&proxy).command(&["PING"]).unwrap(), simple("another"));
    let kept = old.command(&["DEL", &key]).unwrap();
    assert_eq!(kept, Reply::Integer(1));
}

#[test]
fn pushes_of_the_newer_protocol_are_passed_on() {
    let (server, proxy, key) = proxy("pushes");
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout).unwrap();
    write!(stream, "HELLO 3\r\nSUBSCRIBE {key}\r\n").unwrap();
    let mut read = |end: &str| {
        let mut text = String::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            stream.read_exact(&mut byte).unwrap();
            text.push(byte[0].into());
        }
        text
    };
    assert!(read(":1\r\n").starts_with('%'));
    let told = server.command(&["PUBLISH", &key, "news"]);
    assert_eq!(told, Reply::Integer(1));
    assert!(read("news\r\n").contains(">3\r\n"));
    assert_eq!((proxy.requests(), proxy.replies()), (2, 1));
}

#[test]
fn replies_are_delayed_each_by_itself() {
    let (_server, proxy, _) = proxy("delayed");
    let mut connection = open(&proxy);
    proxy.delay_replies(Duration::from_millis(100));
    let sent = Instant::now();
    for _ in 0..10 {
        connection.send(&["PING"]).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(connection.receive().unwrap(), simple("PONG"));
    }
    let taken = sent.elapsed();
    let bounds = Duration::from_millis(100)..Duration::from_millis(600);
    assert!(bounds.contains(&taken), "{taken:?}");
    proxy.delay_replies(Duration::ZERO);
    let sent = Instant::now();
    connection.command(&["PING"]).unwrap();
    assert!(sent.elapsed() < Duration::from_millis(90));
}

#[test]
fn the_request_of_a_dropped_reply_was_executed() {
    let (server, proxy, key) = proxy("dropped");
    let mut connection = open(&proxy);
    connection.set_timeout(Duration::from_millis(100)).unwrap();
    proxy.drop_replies(1);
    assert!(connection.command(&["INCR", &key]).is_err());
    // A connection that lost a reply gets no more of them; other connections do.
    assert!(connection.command(&["INCR", &key]).is_err());
    let reply = open(&proxy).command(&["INCR", &key]).unwrap();
    assert_eq!(reply, Reply::Integer(3));

    proxy.drop_all_replies();
    let mut connection = open(&proxy);
    connection.set_timeout(Duration::from_millis(100)).unwrap();
    assert!(connection.command(&["INCR", &key]).is_err());
    proxy.deliver_replies();
    let reply = open(&proxy).command(&["INCR", &key]).unwrap();
    assert_eq!(reply, Reply::Integer(5));
    server.command(&["DEL", &key]);
}

#[test]
fn a_connection_is_cut_between_execution_and_reply() {
    let (server, proxy, key) = proxy("cut");
    let mut connection = open(&proxy);
    proxy.cut_after_next("INCR");
    assert!(connection.command(&["INCR", &key]).is_err());
    assert_eq!(server.command(&["GET", &key]).text(), Some("1"));
    assert!(connection.command(&["INCR", &key]).is_err());
    assert_eq!(server.command(&["GET", &key]).text(), Some("1"));

    // Earlier replies and other commands are still forwarded.
    let mut connection = open(&proxy);
    proxy.cut_after_next("incr");
    connection.send(&["PING"]).unwrap();
    connection.send(&["INCR", &key]).unwrap();
    assert_eq!(connection.receive().unwrap(), simple("PONG"));
    assert!(connection.receive().is_err());
    let reply = open(&proxy).command(&["INCR", &key]).unwrap();
    assert_eq!(reply, Reply::Integer(3));
    server.command(&["DEL", &key]);
}

#[test]
fn connections_are_cut_and_refused() {
    let (_server, proxy, _) = proxy("refused");
    let mut connection = open(&proxy);
    connection.command(&["PING"]).unwrap();
    proxy.refuse();
    proxy.refuse();
    assert!(Connection::open(&proxy.address()).is_err());
    assert_eq!(connection.command(&["PING"]).unwrap(), simple("PONG"));
    proxy.cut();
    assert!(connection.command(&["PING"]).is_err());
    assert_eq!(proxy.open_connections(), 0);
    proxy.accept();
    proxy.accept();
    assert_eq!(open(&proxy).command(&["PING"]).unwrap(), simple("PONG"));
}

#[test]
fn the_end_of_either_side_ends_the_other() {
    let (_server, proxy, key) = proxy("end");
    let mut connection = open(&proxy);
    let name = connection.command(&["CLIENT", "SETNAME", &key]).unwrap();
    assert_eq!(name, simple("OK"));
    connection.send(&["QUIT"]).unwrap();
    assert_eq!(connection.receive().unwrap(), simple("OK"));
    assert!(connection.receive().is_err());

    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while proxy.open_connections() > 0 {
        assert!(Instant::now() < deadline, "it stays open");
        sleep(Duration::from_millis(5));
    }
    // If no server listens, commands through the proxy fail.
    let nowhere = Proxy::start(format!("127.0.0.1:{}", closed_port()));
    assert!(open(&nowhere).command(&["PING"]).is_err());
    assert_eq!(nowhere.connections(), 0);
}

fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

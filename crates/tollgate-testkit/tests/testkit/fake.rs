//! Tests of servers whose replies a test chooses.

use std::time::Duration;

use tollgate_testkit::{Answer, Connection, FakeServer, Reply};

fn connect(server: &FakeServer) -> Connection {
    let connection = Connection::open(&format!("127.0.0.1:{}", server.port())).unwrap();
    connection.set_timeout(Duration::from_millis(200)).unwrap();
    connection
}

#[test]
fn a_fake_server_answers_as_the_test_says() {
    let server = FakeServer::start(|words| match &*words[0] {
        "SILENT" => Answer::Nothing,
        "LAST" => Answer::ReplyAndClose("+bye\r\n".to_owned()),
        name => format!("-ERR no {name}\r\n").into(),
    });
    let mut connection = connect(&server);
    assert_eq!(
        connection.command(&["GET", "key"]).unwrap().error(),
        Some("ERR no GET")
    );
    assert!(connection.command(&["SILENT"]).is_err());
    let last = connect(&server).command(&["LAST"]);
    assert_eq!(last.unwrap(), Reply::Simple("bye".to_owned()));

    server.cut();
    assert!(connection.command(&["GET", "key"]).is_err());
    assert!(connect(&server).command(&["GET", "key"]).is_ok());
    assert_eq!(server.count("GET"), 2);
    assert_eq!(server.commands()[0], ["GET", "key"]);
}

//! Tests of servers that do not speak Redis's protocol; Redis's stands for one.

use std::net::TcpStream;
use std::panic;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testkit::{Flavor, Program};

fn redis(port: &str) -> Program {
    let path = Flavor::System.binary().display().to_string();
    Program::start(&path, |free, _| {
        let port = port.replace("free", &free.to_string());
        ["--port", &port, "--save", ""].map(str::to_owned).to_vec()
    })
}

#[test]
fn a_program_listens_until_it_is_dropped_or_its_test_panics() {
    for panics in [false, true] {
        let program = redis("free");
        let address = program.address();
        drop(TcpStream::connect(address).unwrap());
        // A server may listen before it has written anything.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !program.log().contains(&address.port().to_string()) {
            assert!(Instant::now() < deadline, "{}", program.log());
            thread::sleep(Duration::from_millis(5));
        }
        let outcome = panic::catch_unwind(move || {
            let _program = program;
            assert!(!panics, "a test fails");
        });
        assert_eq!(outcome.is_err(), panics);
        let _ = TcpStream::connect(address).unwrap_err();
    }
}

#[test]
#[should_panic(expected = "cargo xtask servers")]
fn a_missing_program_fails_with_the_command_that_installs_it() {
    let _ = Program::start("no-such-program", |_, _| Vec::new());
}

#[test]
#[should_panic(expected = "does not listen; it says")]
fn a_program_that_ends_shows_what_it_said() {
    let _ = redis("wrong");
}

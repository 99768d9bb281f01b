//! Servers and clusters are reached over TLS, if a trusted authority certified them.

use std::process::Output;

use tollgate_testkit::{Authority, Cluster, Flavor, Server};

use crate::program::{SAMPLE, Scratch, fails, file, replay, run, stderr, stdout, tollgate, words};

const LOGIN: &str = "--limit login=gcra:10/1h --key alice";

/// Returns a server that accepts only TLS, and a file with its certificate authority.
fn secured() -> (Server, Scratch) {
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority);
    let server = server.password("secret").start();
    (server, file("authority.pem", authority.pem()))
}

/// Returns the URLs of `server`, one for each client.
fn stores(server: &Server) -> [String; 2] {
    ["rediss", "freds"].map(|scheme| format!("{scheme}://:secret@{}", server.address()))
}

fn check(store: &str, more: &str) -> Output {
    run(&format!("check --store {store} {LOGIN} {more}"))
}

#[track_caller]
fn is_allowed(output: &Output, remaining: u32) {
    let text = stdout(output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let row = text.lines().last().unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[2], remaining.to_string(), "{text}");
}

#[test]
fn a_server_is_reached_with_the_given_authority() {
    let (server, authority) = secured();
    let given = format!("--tls-ca '{}'", &*authority);
    let mut remaining = 10;
    for store in stores(&server) {
        for _ in 0..2 {
            remaining -= 1;
            is_allowed(&check(&store, &given), remaining);
        }
    }
}

#[test]
fn a_server_is_reached_with_the_systems_authorities() {
    let (server, authority) = secured();
    for (index, store) in (0..).zip(stores(&server)) {
        let mut command = tollgate();
        command.env("SSL_CERT_FILE", &*authority);
        command
            .args(["check", "--store", &store])
            .args(words(LOGIN));
        is_allowed(&command.output().unwrap(), 9 - index);
    }
}

#[test]
fn a_server_with_an_unknown_certificate_is_refused() {
    let (server, _) = secured();
    let other = file("other.pem", Authority::new().pem());
    for store in stores(&server) {
        for given in ["", &format!("--tls-ca '{}'", &*other)] {
            let output = check(&store, given);
            let hints = ["(misconfigured)", "certificate is not trusted", "--tls-ca"];
            fails(&output, &hints);
            let text = stderr(&output);
            assert!(!text.contains("secret") && !text.contains(" { "), "{text}");
        }
    }
    // Nothing was written to the server.
    assert_eq!(server.command(&["DBSIZE"]).integer(), Some(0));
}

#[test]
fn a_cluster_is_reached_with_the_given_authority() {
    let authority = Authority::new();
    let options = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = options.tls(&authority).password("secret").start();
    let authority = file("authority.pem", authority.pem());
    let expected = replay(SAMPLE, "--limit gcra:5/1m");
    for scheme in ["rediss-cluster", "freds-cluster"] {
        let store = format!("{scheme}://:secret@{}", cluster.addresses().join(","));
        let given = format!("--tls-ca '{}'", &*authority);
        let output = replay(
            SAMPLE,
            &format!("--limit gcra:5/1m --store {store} {given}"),
        );
        assert_eq!(stdout(&output), stdout(&expected), "{}", stderr(&output));
        let hints = ["certificate is not trusted", "--tls-ca"];
        fails(&check(&store, ""), &hints);
    }
}

#[test]
fn invalid_authorities_are_errors() {
    let (server, authority) = secured();
    let empty = file("empty.pem", "no certificate");
    let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let broken = file("broken.pem", text);
    let [store, _] = stores(&server);
    for (path, hint) in [
        (&*empty, "there is no certificate in it"),
        (&*broken, "give a PEM file"),
        ("/no/such/file", "give a PEM file"),
    ] {
        let output = check(&store, &format!("--tls-ca '{path}'"));
        fails(&output, &["--tls-ca", hint]);
    }
    let plain = format!("redis://:secret@{}", server.address());
    let given = format!("--tls-ca '{}'", &*authority);
    let output = check(&plain, &given);
    fails(&output, &["--tls-ca is for TLS", "rediss://"]);
    assert!(!stderr(&output).contains("secret"));
    let output = replay(SAMPLE, &format!("--limit gcra:5/1m {given}"));
    fails(&output, &["--tls-ca is for TLS", "memory"]);
}

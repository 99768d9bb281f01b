//! One stable address that leads to another server, while connections to the first stay open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::ErrorKind;
use tollgate_testkit::{Answer, FakeServer, Flavor, Proxy, Server};

use super::load::PATIENCE;
use super::scene::{BOUND, KEY, Scene, patient, suffering, wait};
use super::{Client, DEADLINE};

/// How long the address leads to the demoted server, as a service that is not quick would let it.
const STALE: Duration = Duration::from_millis(700);

/// Calls reach the new primary, whose replica the old one becomes, without a lost connection.
pub async fn primary_is_demoted_behind_one_address(client: &dyn Client) {
    let (old, new) = wait(|| (Server::start(Flavor::System), Server::start(Flavor::System)));
    wait(|| follow(&new, &old));
    let proxy = Proxy::start(old.address());
    let scene = Scene::on_server(client, &new, &proxy.url()).await;
    let load = scene.load().await;

    wait(|| new.command(&["REPLICAOF", "NO", "ONE"]));
    wait(|| follow(&old, &new));
    sleep(STALE).await;
    proxy.lead_to(new.address());
    load.mark();
    let (tally, resumed) = load.recovered().await;
    let counted = scene.counted(KEY).await;
    tally.fails_only_with(&[ErrorKind::Unavailable]);
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    // Calls that the new primary had not received when it was promoted are admitted again.
    let bound = BOUND + tally.allowed().saturating_sub(counted);
    let fault = "the primary behind one address is demoted, and keeps its connections";
    tally.print(fault, client, [counted, admitted, bound], Some(resumed));
    assert!(tally.errors(ErrorKind::Unavailable) > 0, "{tally}");
    assert!(counted <= tally.allowed(), "{counted}: {tally}");
    assert_eq!(admitted, bound, "{tally}");
    // One deadline, at most, passes until the store connects again.
    assert!(resumed < 10 * DEADLINE, "{resumed:?}");
}

/// Makes `replica` a replica of `primary`, and waits until it has its data.
fn follow(replica: &Server, primary: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let begun = Instant::now();
    while !is_linked(replica) {
        assert!(begun.elapsed() < PATIENCE, "it does not follow");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_linked(replica: &Server) -> bool {
    replica.info("replication", "master_link_status").as_deref() == Some("up")
}

/// What a server says that executes nothing now, while another may.
const ANSWERS: [&str; 4] = [
    "READONLY You can't write against a read only replica.",
    "ERR Error running script (call to f_ab): @user_script:1: -READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "LOADING Redis is loading the dataset in memory",
];

/// A server that goes on refusing every call is connected to again, once per deadline.
pub async fn server_that_refuses_calls_is_left(client: &dyn Client) {
    for answer in ANSWERS {
        let refusing = FakeServer::start(move |words| match &*words[0] {
            "EVALSHA" => format!("-{answer}\r\n").into(),
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            _ => "+OK\r\n".into(),
        });
        let server = wait(|| Server::start(Flavor::System));
        let proxy = Proxy::start(format!("127.0.0.1:{}", refusing.port()));
        let scene = Scene::on_server(client, &server, &proxy.url()).await;
        let connected = proxy.connections();

        let begun = Instant::now();
        while begun.elapsed() < 6 * DEADLINE {
            let error = scene.limiter().check(KEY).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{answer}: {error}");
            sleep(Duration::from_millis(2)).await;
        }
        let times = proxy.connections() - connected;
        let holds = (2..=6).contains(&times);
        assert!(holds, "{answer}: connected {times} times");

        proxy.lead_to(server.address());
        let led = Instant::now();
        while let Err(error) = scene.limiter().check(KEY).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{answer}: {error}");
            assert!(led.elapsed() < 20 * DEADLINE, "{answer}: it is not left");
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(scene.counted(KEY).await, 1);
    }
}

/// Calls follow a primary that Sentinels name anew, although the old one keeps its connections.
pub async fn sentinels_name_another_primary(client: &dyn Client) {
    let (old, new) = wait(|| (Server::start(Flavor::System), Server::start(Flavor::System)));
    let primary = Arc::new(AtomicU16::new(old.port()));
    let sentinel = {
        let primary = Arc::clone(&primary);
        FakeServer::start(move |words| named(words, primary.load(Ordering::SeqCst)))
    };
    let sentinels = [sentinel.url()];
    let store = client.sentinels(&sentinels, "primary", suffering(client));
    let auditor = client.server(&new.url(), patient(client)).await;
    let scene = Scene::with(store.await.unwrap(), auditor.unwrap());
    assert!(scene.limiter().check(KEY).await.unwrap().is_allowed());

    wait(|| old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]));
    primary.store(new.port(), Ordering::SeqCst);
    let named = Instant::now();
    while let Err(error) = scene.limiter().check(KEY).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(named.elapsed() < 20 * DEADLINE, "the primary is not left");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(scene.counted(KEY).await, 1);
}

/// Returns what a Sentinel says that has the primary at `port`.
fn named(words: &[String], port: u16) -> Answer {
    let asked = words.get(1).map(|word| word.to_ascii_lowercase());
    match (&*words[0], asked.as_deref()) {
        ("ROLE", _) => "*2\r\n$8\r\nsentinel\r\n*0\r\n".into(),
        ("SENTINEL", Some("masters")) => {
            let fields = "+name\r\n+primary\r\n+flags\r\n+master\r\n+ip\r\n+127.0.0.1\r\n+port\r\n";
            format!("*1\r\n*8\r\n{fields}+{port}\r\n").into()
        }
        ("SENTINEL", Some("get-master-addr-by-name")) => {
            format!("*2\r\n$9\r\n127.0.0.1\r\n$5\r\n{port}\r\n").into()
        }
        ("SENTINEL", _) => "*0\r\n".into(),
        _ => "+OK\r\n".into(),
    }
}

//! A server that hangs for longer than the deadline, and then resumes.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::ErrorKind;
use tollgate_testkit::{Flavor, Server};

use super::load::CALLERS;
use super::scene::{BOUND, KEY, Scene, each_run_counts, executed, wait};
use super::{Client, TOO_LONG};

/// A stopped process still receives calls, and executes each once when it resumes.
pub async fn hangs(client: &dyn Client) {
    hang(client, "SIGSTOP for 0.7 s", Server::pause, Server::resume).await;
}

/// The same with `CLIENT PAUSE`.
pub async fn is_told_to_pause(client: &dyn Client) {
    let time = TOO_LONG.as_millis().to_string();
    let pause = |server: &Server| {
        let reply = server.command(&["CLIENT", "PAUSE", &time, "ALL"]);
        assert_eq!(reply.text(), Some("OK"));
    };
    hang(client, "`CLIENT PAUSE` for 0.7 s", pause, |_| ()).await;
}

async fn hang(client: &dyn Client, fault: &str, begin: impl Fn(&Server), end: impl Fn(&Server)) {
    let server = wait(|| Server::start(Flavor::System));
    let scene = Scene::on_server(client, &server, &server.url()).await;
    let load = scene.load();
    load.allowed(300).await;
    wait(|| begin(&server));
    sleep(TOO_LONG).await;
    load.mark();
    wait(|| end(&server));
    let resumed = load.resumed().await;
    load.allowed(100).await;
    let tally = load.stop().await;

    // By then, the server has executed everything that was sent during the hang.
    sleep(Duration::from_millis(50)).await;
    let runs = executed(&server);
    let counted = scene.counted(KEY).await;
    let each = u64::try_from(CALLERS).expect("a small number");
    assert!(tally.errors(ErrorKind::Unknown) >= each, "{tally}");
    // A client that reconnects meanwhile reports that nothing was sent.
    tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    tally.accounts_for(counted);
    each_run_counts(client, runs, counted);
    assert_eq!(tally.denied(), 0);
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    assert!(admitted <= BOUND && admitted + tally.unknown() >= BOUND);
    tally.print(fault, client, [counted, admitted, BOUND], Some(resumed));
}

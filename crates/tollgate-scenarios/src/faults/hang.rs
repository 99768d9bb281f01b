//! A server that hangs for longer than the deadline, and then resumes.

use tokio::time::sleep;
use tollgate_testkit::{Flavor, Server};

use super::load::CALLERS;
use super::scene::{Scene, wait};
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
    let load = scene.load().await;
    wait(|| begin(&server));
    sleep(TOO_LONG).await;
    load.mark();
    wait(|| end(&server));
    let (tally, resumed) = load.recovered().await;
    tally.leaves_open(CALLERS.into());
    // A client that reconnects meanwhile reports that nothing was sent.
    scene
        .settle_runs(client, fault, &server, &tally, resumed)
        .await;
}

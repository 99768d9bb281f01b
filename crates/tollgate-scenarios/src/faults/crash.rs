//! A server that crashes and restarts, with or without its data.

use tollgate_core::ErrorKind;
use tollgate_testkit::{Flavor, Server, ServerOptions};

use super::Client;
use super::load::Load;
use super::scene::{BOUND, KEY, Scene, wait};

/// A server without persistence admits up to the bound before the crash, and again after it.
pub async fn forgets_in_a_crash(client: &dyn Client) {
    let server = Server::options(Flavor::System);
    crash(client, server, "kill -9, nothing on disk", false).await;
}

/// A server that writes to disk before it replies loses nothing.
pub async fn keeps_all_through_a_crash(client: &dyn Client) {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::options(Flavor::System).args(arguments);
    crash(client, server, "kill -9, `appendfsync always`", true).await;
}

async fn crash(client: &dyn Client, options: ServerOptions, fault: &str, keeps: bool) {
    let server = wait(|| options.start());
    let scene = Scene::on_server(client, &server, &server.url()).await;
    let load = scene.load();
    load.allowed(300).await;
    wait(|| server.kill());
    load.renewed().await;
    let before = load.so_far().allowed();
    load.mark();
    wait(|| server.restart());
    let resumed = load.resumed().await;
    load.allowed(100).await;
    let tally = load.stop().await;

    tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    let lost = if keeps { 0 } else { before };
    let counted = scene.counted(KEY).await;
    // Without persistence, the server has lost all calls before the crash, answered or not.
    tally.accounts_for(counted + lost);
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    assert!(admitted <= BOUND + lost, "{admitted} with {lost} lost");
    assert!(admitted + tally.unknown() >= BOUND + lost);
    let words = [counted, admitted, BOUND + lost];
    tally.print(fault, client, words, Some(resumed));
}

/// While a server is loading, it counts nothing; afterwards it has all its data.
pub async fn is_loading(client: &dyn Client) {
    let server = wait(|| {
        Server::options(Flavor::System)
            // Loading 3,000 keys takes 1.5 seconds.
            .args(["--key-load-delay", "500"])
            .args(["--loading-process-events-interval-bytes", "1024"])
            .start()
    });
    let scene = Scene::on_server(client, &server, &server.url()).await;
    let load = scene.load();
    load.allowed(300).await;
    let mut tally = load.stop().await;
    let counted = scene.counted(KEY).await;
    tally.accounts_for(counted);
    wait(|| {
        let fill = "for i = 1, 3000 do redis.call('SET', i, i) end";
        server.command(&["EVAL", fill, "0"]);
        assert_eq!(server.command(&["SAVE"]).text(), Some("OK"));
        server.restart_loading();
    });

    let load = Load::on(scene.limiter(), &[KEY]);
    let resumed = load.resumed().await;
    load.allowed(100).await;
    let after = load.stop().await;
    assert!(after.errors(ErrorKind::Unavailable) > 0, "{after}");
    after.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    after.accounts_for(scene.counted(KEY).await - counted);
    tally.add(after);
    let counted = scene.counted(KEY).await;
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    assert!(admitted <= BOUND && admitted + tally.unknown() >= BOUND);
    let fault = "restart, loading for 1.5 s";
    tally.print(fault, client, [counted, admitted, BOUND], Some(resumed));
}

//! A server that crashes and restarts, with or without its data.

use tollgate_core::ErrorKind;
use tollgate_testkit::{Flavor, Server, ServerOptions};

use super::Client;
use super::load::Load;
use super::scene::{KEY, Scene, wait};

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
    let load = scene.load().await;
    wait(|| server.kill());
    load.renewed().await;
    let before = load.so_far().allowed();
    load.mark();
    wait(|| server.restart());
    let (tally, resumed) = load.recovered().await;
    // Without persistence, the server has lost all calls before the crash, answered or not.
    let lost = if keeps { 0 } else { before };
    scene.settle(client, fault, &tally, lost, resumed).await;
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
    let load = scene.load().await;
    let mut tally = load.stop().await;
    wait(|| {
        let fill = "for i = 1, 3000 do redis.call('SET', i, i) end";
        server.command(&["EVAL", fill, "0"]);
        assert_eq!(server.command(&["SAVE"]).text(), Some("OK"));
        server.restart_loading();
    });

    let load = Load::on(scene.limiter(), &[KEY]);
    let (after, resumed) = load.recovered().await;
    assert!(after.errors(ErrorKind::Unavailable) > 0, "{after}");
    tally.add(after);
    let fault = "restart, loading for 1.5 s";
    scene.settle(client, fault, &tally, 0, resumed).await;
}

//! Network faults: lost and delayed replies, and cut connections.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::call::Left;
use tollgate_core::{CallId, Decision, ErrorKind};
use tollgate_testkit::{Cluster, Flavor, Proxy, Server};

use super::load::{CALLERS, Load, PATIENCE};
use super::scene::{BOUND, KEY, Scene, executed, wait};
use super::tally::Tally;
use super::{Client, TOO_LONG};

/// How often a connection is cut.
const CUTS: u64 = 20;
/// An idle time in which a client could detect a dead connection.
const IDLE: Duration = Duration::from_secs(2);

/// A server behind a proxy.
struct Network {
    server: Server,
    proxy: Proxy,
    scene: Scene,
}

impl Network {
    async fn start(client: &dyn Client) -> Self {
        let server = wait(|| Server::start(Flavor::System));
        let proxy = Proxy::start(server.address());
        let scene = Scene::on_server(client, &server, &proxy.url()).await;
        Self {
            server,
            proxy,
            scene,
        }
    }

    async fn settle(&self, client: &dyn Client, fault: &str, tally: &Tally, resumed: Duration) {
        let (scene, server) = (&self.scene, &self.server);
        scene
            .settle_runs(client, fault, server, tally, resumed)
            .await;
    }
}

/// Late replies are discarded, and their calls count once.
pub async fn replies_are_late(client: &dyn Client) {
    let network = Network::start(client).await;
    let load = network.scene.load().await;
    network.proxy.delay_replies(TOO_LONG);
    load.renewed().await;
    load.renewed().await;
    network.proxy.delay_replies(Duration::ZERO);
    load.mark();
    let (tally, resumed) = load.recovered().await;
    let fault = "replies are 0.7 s late";
    network.settle(client, fault, &tally, resumed).await;
    tally.leaves_open(CALLERS.into());
}

/// A call whose reply is cut off counts once, and is not sent again.
pub async fn replies_are_cut_off(client: &dyn Client) {
    let network = Network::start(client).await;
    let limiter = network.scene.limiter();
    let mut tally = Tally::default();
    let mut longest_absence = Duration::ZERO;
    for cut in 0..=CUTS {
        // The first call only loads the script.
        if cut > 0 {
            network.proxy.cut_after_next("EVALSHA");
        }
        let began = Instant::now();
        let outcome = limiter.check(KEY).await.map(Decision::into_verdicts);
        tally.record(KEY, &outcome, began.elapsed());
        // A reset runs no script, so it does not change the number of runs.
        let ended = Instant::now();
        while limiter.reset("another key").await.is_err() {
            assert!(ended.elapsed() < PATIENCE);
            sleep(Duration::from_millis(2)).await;
        }
        longest_absence = longest_absence.max(ended.elapsed());
    }
    assert_eq!(executed(&network.server), 1 + CUTS);
    assert_eq!(network.scene.counted(KEY).await, 1 + CUTS);
    assert_eq!((tally.allowed(), tally.unknown()), (1, CUTS), "{tally}");
    let admitted = 1 + network.scene.use_up(KEY).await;
    assert_eq!(admitted + CUTS, BOUND);
    tally.print(
        "the connection is cut before each reply, one call at a time",
        client,
        [1 + CUTS, admitted, BOUND],
        Some(longest_absence),
    );
}

/// Connections are cut while many calls are in flight.
pub async fn connections_are_cut(client: &dyn Client) {
    let network = Network::start(client).await;
    let load = network.scene.load().await;
    let mut longest_absence = Duration::ZERO;
    for _ in 0..CUTS {
        let connections = network.proxy.connections();
        network.proxy.cut_after_next("EVALSHA");
        load.until("a cut", |_| network.proxy.connections() > connections)
            .await;
        load.mark();
        longest_absence = longest_absence.max(load.resumed().await);
        load.allowed(20).await;
    }
    let tally = load.stop().await;
    let fault = format!("the connection is cut before a reply, {CUTS} times");
    network
        .settle(client, &fault, &tally, longest_absence)
        .await;
    tally.leaves_open(CUTS);
}

/// Connections are cut in a cluster, where client libraries may retry on their own.
pub async fn cluster_connections_are_cut(client: &dyn Client) {
    let cluster = wait(|| Cluster::masters_only(Flavor::System, 3));
    let scene = Scene::on_cluster(client, &cluster).await;
    let master = wait(|| cluster.master_of(Cluster::slot_of(KEY)));
    let load = scene.load().await;
    let mut longest_absence = Duration::ZERO;
    for _ in 0..CUTS {
        let mut control = wait(|| master.connection());
        wait(|| master.pause());
        // The server executes what was written when it resumes, but then has no client to reply to.
        sleep(Duration::from_millis(20)).await;
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        control.send(&kill).expect("a connection");
        wait(|| master.resume());
        wait(|| control.receive()).expect("a reply");
        load.mark();
        longest_absence = longest_absence.max(load.resumed().await);
        load.allowed(20).await;
    }
    let tally = load.stop().await;
    let fault = format!("cluster: the connection is cut before a reply, {CUTS} times");
    scene
        .settle_runs(client, &fault, master, &tally, longest_absence)
        .await;
    tally.leaves_open(1);
}

/// Without a connection, nothing is sent and calls fail immediately.
pub async fn connections_are_refused(client: &dyn Client) {
    let network = Network::start(client).await;
    let load = network.scene.load().await;
    network.proxy.refuse();
    network.proxy.cut();
    load.renewed().await;
    let (then, runs) = (load.so_far(), executed(&network.server));
    load.renewed().await;
    load.renewed().await;
    let now = load.so_far();
    // From now on, every call fails without being counted.
    assert_eq!(executed(&network.server), runs);
    let found = (now.unknown(), now.answered());
    assert_eq!(found, (then.unknown(), then.answered()));
    assert!(now.errors(ErrorKind::Unavailable) > then.errors(ErrorKind::Unavailable));
    load.mark();
    network.proxy.accept();
    let (tally, resumed) = load.recovered().await;
    let fault = "connections are refused";
    network.settle(client, fault, &tally, resumed).await;
}

/// Calls whose replies are dropped count, until there is a new connection.
pub async fn replies_are_dropped(client: &dyn Client) {
    let network = Network::start(client).await;
    let load = network.scene.load().await;
    network.proxy.drop_replies(u64::MAX);
    load.renewed().await;
    load.renewed().await;
    network.proxy.drop_replies(0);
    load.mark();
    network.proxy.cut();
    let (tally, resumed) = load.recovered().await;
    let fault = "all replies are dropped, then the connection is cut";
    network.settle(client, fault, &tally, resumed).await;
    tally.leaves_open(CALLERS.into());
}

/// A connection accepts requests but never replies, while a new one would work.
///
/// Prints whether a client detects this by itself: none does while it is busy.
pub async fn falls_silent(client: &dyn Client) {
    let network = Network::start(client).await;
    let load = network.scene.load().await;
    network.proxy.drop_replies(1);
    load.renewed().await;
    load.renewed().await;
    let mut tally = load.stop().await;
    sleep(IDLE).await;
    let load = Load::on(network.scene.limiter(), &[KEY]);
    load.renewed().await;
    let found = match load.so_far().answered() {
        0 => "kept",
        _ => "replaced when idle",
    };
    load.mark();
    network.proxy.cut();
    let (since, resumed) = load.recovered().await;
    tally.add(since);
    let fault = format!("the connection falls silent, is {found}, and is cut");
    network.settle(client, &fault, &tally, resumed).await;
    tally.leaves_open(CALLERS.into());
}

/// Calls and charges whose replies are cut off are repeated with their ids: all are allowed, and each is counted
/// once.
pub async fn cut_off_calls_are_repeated(client: &dyn Client) {
    let network = Network::start(client).await;
    let limiter = network.scene.limiter();
    let mut tally = Tally::default();
    let mut longest_absence = Duration::ZERO;
    for cut in 0..=CUTS {
        // The first call only loads the script.
        if cut > 0 {
            network.proxy.cut_after_next("EVALSHA");
        }
        let bytes = cut.to_le_bytes();
        let mut id = CallId::new(&bytes);
        // The store repeats every other call by itself, where it can connect in time.
        if cut % 2 == 0 {
            id = id.repeated();
        }
        let began = Instant::now();
        loop {
            let outcome = match cut % 3 {
                2 => limiter.charge(KEY).id(id).await.map(Left::into_verdicts),
                _ => limiter.check(KEY).id(id).await.map(Decision::into_verdicts),
            };
            let is_known = outcome.is_ok();
            tally.record(KEY, &outcome, began.elapsed());
            if is_known {
                break;
            }
            assert!(began.elapsed() < PATIENCE);
            sleep(Duration::from_millis(2)).await;
        }
        longest_absence = longest_absence.max(began.elapsed());
    }
    assert_eq!(network.scene.counted(KEY).await, 1 + CUTS);
    assert_eq!(tally.allowed(), 1 + CUTS, "{tally}");
    assert!(tally.unknown() >= CUTS / 2, "{tally}");
    let admitted = 1 + CUTS + network.scene.use_up(KEY).await;
    assert_eq!(admitted, BOUND);
    tally.print(
        "the connection is cut before each reply, and the call or charge is repeated with its id",
        client,
        [1 + CUTS, admitted, BOUND],
        Some(longest_absence),
    );
}

//! A server that runs out of memory, and gets more.

use tollgate_core::ErrorKind;
use tollgate_testkit::{Flavor, Server};

use super::Client;
use super::load::Load;
use super::scene::{BOUND, KEY, Scene, wait};

/// A key whose calls are denied before, during and after the fault.
const SPENT: &str = "spent";

/// Without memory, calls that write nothing are still answered; calls that would write fail and do
/// not count.
pub async fn has_no_memory_left(client: &dyn Client) {
    let server = wait(|| {
        Server::options(Flavor::System)
            .args(["--maxmemory-policy", "noeviction"])
            .start()
    });
    let scene = Scene::on_server(client, &server, &server.url()).await;
    assert_eq!(scene.use_up(SPENT).await, BOUND);
    let known = Load::on(scene.auditor(), &[KEY, SPENT]);
    let new = Load::on_new_keys(scene.auditor());
    known.allowed(100).await;
    new.allowed(100).await;
    let set = |value: &str| {
        let reply = wait(|| server.command(&["CONFIG", "SET", "maxmemory", value]));
        assert_eq!(reply.text(), Some("OK"));
    };
    let keys = || wait(|| server.command(&["DBSIZE"]).integer());

    set("1");
    known.renewed().await;
    new.renewed().await;
    let (known_then, new_then, keys_then) = (known.so_far(), new.so_far(), keys());
    let counted = scene.counted(KEY).await;
    known.renewed().await;
    new.renewed().await;
    let (known_now, new_now) = (known.so_far(), new.so_far());
    assert_eq!(known_now.allowed(), known_then.allowed());
    assert_eq!(new_now.answered(), new_then.answered());
    assert!(new_now.errors(ErrorKind::Full) > new_then.errors(ErrorKind::Full));
    assert!(known_now.of(SPENT).denied > known_then.of(SPENT).denied);
    assert_eq!(scene.counted(KEY).await, counted);
    assert_eq!(keys(), keys_then);

    new.mark();
    set("0");
    let resumed = new.resumed().await;
    known.allowed(100).await;
    let (mut tally, new) = (known.stop().await, new.stop().await);
    tally.fails_only_with(&[ErrorKind::Full]);
    new.fails_only_with(&[ErrorKind::Full]);
    assert_eq!((tally.of(SPENT).allowed, new.denied()), (0, 0));
    let counted = scene.counted(KEY).await;
    assert_eq!(tally.of(KEY).allowed, counted);
    let admitted = counted + scene.use_up(KEY).await;
    assert_eq!(admitted, BOUND);
    let made = new.allowed();
    tally.add(new);
    tally.print(
        "`maxmemory` reached, `noeviction`",
        client,
        [counted + made, admitted, BOUND],
        Some(resumed),
    );
}

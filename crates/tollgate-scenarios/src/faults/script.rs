//! A server whose script cache is flushed again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_testkit::{Flavor, Server};

use super::Client;
use super::load::Load;
use super::scene::{BOUND, KEY, Scene, wait};

/// How long the server keeps its scripts between two flushes.
const PAUSE: Duration = Duration::from_millis(5);

/// Clients load their scripts again, and each call counts once.
pub async fn forgets_its_scripts(client: &dyn Client) {
    let server = wait(|| Server::start(Flavor::System));
    let scene = Scene::on_server(client, &server, &server.url()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut control = server.connection();
    let flushing = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut count = 0;
            while !is_over.load(Ordering::SeqCst) {
                let reply = control.command(&["SCRIPT", "FLUSH"]).expect("a server");
                assert_eq!(reply.text(), Some("OK"));
                count += 1;
                thread::sleep(PAUSE);
            }
            count
        }
    });
    let load = Load::on(scene.auditor(), &[KEY]);
    load.allowed(3_000).await;
    let tally = load.stop().await;
    is_over.store(true, Ordering::SeqCst);
    let flushes: u64 = flushing.join().expect("a thread that does not panic");

    // On a busy machine, the server may flush a script again and again before it is called. The
    // error then says that nothing was counted.
    tally.fails_only_with(&[ErrorKind::Unavailable]);
    let counted = scene.counted(KEY).await;
    tally.accounts_for(counted);
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    assert_eq!(admitted, BOUND);
    let fault = format!("`SCRIPT FLUSH`, {flushes} times");
    tally.print(&fault, client, [counted, admitted, BOUND], None);
}

//! What nodes of a cluster say to a command that they do not run, and what the store sends then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_redis::redis::cluster::ClusterClientBuilder;
use tollgate_redis::redis::cluster_async::ClusterConnection;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_scenarios::refusals as shared;
use tollgate_testkit::{Answer, FakeServer};
use tollgate_wire::Options;

use shared::{DONE, greet, kind, replies};

/// Connects to the cluster of `node`, as the store does itself or as a program may.
async fn store(node: &FakeServer, is_its_own: bool) -> RedisStore<ClusterConnection> {
    let options = Options::default().with_deadline(Duration::from_secs(2));
    let builder = RedisStoreBuilder::from(options);
    let store = if is_its_own {
        builder.connect_cluster([node.url()]).await
    } else {
        // What a client of redis-rs does by itself is switched off.
        let client = ClusterClientBuilder::new([node.url()]).retries(16);
        builder.connect_cluster_with(client).await
    };
    store.unwrap()
}

async fn limiter(
    node: &FakeServer,
    is_its_own: bool,
) -> RateLimiter<RedisStore<ClusterConnection>> {
    shared::limiter(store(node, is_its_own).await)
}

/// Returns the nodes that the other one tells of. A connection of the program's own only reaches
/// those.
fn known(new: &FakeServer, is_its_own: bool) -> Vec<&FakeServer> {
    if is_its_own { vec![] } else { vec![new] }
}

#[tokio::test]
async fn a_cluster_that_is_down_for_now_is_asked_again() {
    let down = "-CLUSTERDOWN later\r\n".into();
    let node = FakeServer::start_node(&[], replies(&[down, DONE.into()]));
    let limiter = limiter(&node, true).await;
    limiter.reset("key").await.unwrap();
    assert_eq!(node.count("UNLINK"), 2);
}

/// redis-rs reads the slots again, and finds that they have not changed.
#[tokio::test]
async fn a_moved_slot_is_not_asked_for_elsewhere() {
    let node = Arc::new(Mutex::new(0));
    let port = Arc::clone(&node);
    let server = FakeServer::start_node(&[], move |words| match &*words[0] {
        "UNLINK" => {
            let mut port = port.lock().unwrap();
            match std::mem::take(&mut *port) {
                0 => DONE.into(),
                port => format!("-MOVED 1 127.0.0.1:{port}\r\n").into(),
            }
        }
        _ => greet(words),
    });
    *node.lock().unwrap() = server.port();
    let limiter = limiter(&server, true).await;
    limiter.reset("key").await.unwrap();
    assert_eq!((server.count("UNLINK"), server.count("ASKING")), (2, 0));
}

#[tokio::test]
async fn a_node_that_a_slot_migrates_to_is_asked_as_the_other_says() {
    let close = Answer::ReplyAndClose(String::new());
    for is_its_own in [true, false] {
        for (answers, expected, sent) in [
            (&[DONE.into()][..], None, 1),
            (&["-TRYAGAIN later\r\n".into(), DONE.into()], None, 2),
            (
                &["-OOM no\r\n".into(), DONE.into()],
                Some(ErrorKind::Full),
                1,
            ),
            // Without a script, there is none to load.
            (
                &["-NOSCRIPT no\r\n".into(), DONE.into()],
                Some(ErrorKind::Unavailable),
                1,
            ),
            // The node may have run it.
            (&[close.clone(), DONE.into()], Some(ErrorKind::Unknown), 1),
        ] {
            let new = FakeServer::start(replies(answers));
            let ask = format!("-ASK 1 127.0.0.1:{}\r\n", new.port());
            let old = FakeServer::start_node(&known(&new, is_its_own), replies(&[ask.into()]));
            let limiter = limiter(&old, is_its_own).await;
            let shown = format!("{is_its_own} {answers:?}");
            assert_eq!(kind(limiter.reset("key").await), expected, "{shown}");
            let found = (new.count("UNLINK"), new.count("ASKING"));
            assert_eq!(found, (sent, sent), "{shown}");
            let commands = new.commands().into_iter().map(|words| words[0].clone());
            let commands: Vec<_> = commands.collect();
            let asked = commands.iter().position(|name| name == "ASKING").unwrap();
            assert_eq!(commands[asked + 1], "UNLINK", "{shown}");
        }
    }
}

#[tokio::test]
async fn a_node_that_a_slot_migrates_to_is_given_the_script() {
    for is_its_own in [true, false] {
        let new = FakeServer::start(replies(&["-NOSCRIPT no\r\n".into(), DONE.into()]));
        let ask = format!("-ASK 1 127.0.0.1:{}\r\n", new.port());
        let old = FakeServer::start_node(&known(&new, is_its_own), replies(&[ask.into()]));
        let limiter = limiter(&old, is_its_own).await;
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        let commands = new.commands().into_iter().map(|words| words[0].clone());
        let about = ["ASKING", "EVALSHA", "SCRIPT"];
        let commands: Vec<_> = commands.filter(|name| about.contains(&&**name)).collect();
        let expected = ["ASKING", "EVALSHA", "SCRIPT", "ASKING", "EVALSHA"];
        assert_eq!(commands, expected);
        assert_eq!(old.count("SCRIPT"), 0);
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_has_run_nothing() {
    for is_its_own in [true, false] {
        for address in ["127.0.0.1:1", "?:1"] {
            let ask = format!("-ASK 1 {address}\r\n");
            let old = FakeServer::start_node(
                &[],
                replies(&[ask.as_str().into(), ask.into(), DONE.into()]),
            );
            let limiter = limiter(&old, is_its_own).await;
            limiter.reset("key").await.unwrap();
            assert_eq!(old.count("UNLINK"), 3, "{is_its_own} {address}");
        }
    }
}

#[tokio::test]
async fn a_call_that_no_node_runs_is_given_up_before_its_deadline() {
    let node = FakeServer::start_node(&[], replies(&["-TRYAGAIN later\r\n".into()]));
    let limiter = limiter(&node, true).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // The pauses grow to 50 ms.
    assert!(
        (10..60).contains(&node.count("EVALSHA")),
        "{}",
        node.count("EVALSHA")
    );
}

#[tokio::test]
async fn a_command_is_sent_once_if_its_reply_is_lost() {
    let close = Answer::ReplyAndClose(String::new());
    for is_its_own in [true, false] {
        let node = FakeServer::start_node(&[], replies(&[close.clone(), DONE.into()]));
        let limiter = limiter(&node, is_its_own).await;
        assert_eq!(kind(limiter.reset("key").await), Some(ErrorKind::Unknown));
        assert_eq!(node.count("UNLINK"), 1, "{is_its_own}");
    }
}

/// redis-rs has one password for all nodes, that of the first.
#[tokio::test]
async fn a_node_that_a_slot_migrates_to_is_greeted_as_the_others_are() {
    let new = FakeServer::start(replies(&[DONE.into()]));
    let ask = format!("-ASK 1 127.0.0.1:{}\r\n", new.port());
    let old = FakeServer::start_node(&[], replies(&[ask.into()]));
    let with_password = |word: &str| format!("redis://:{word}@127.0.0.1:{}", old.port());
    for urls in [
        [with_password("first"), with_password("first")],
        [old.url(), with_password("second")],
    ] {
        let store = RedisStore::connect_cluster(urls).await.unwrap();
        let limiter = shared::limiter(store);
        limiter.reset("key").await.unwrap();
        let greeting = |node: &FakeServer| {
            let mut commands = node.commands().into_iter().rev();
            commands.find(|words| words[0] == "HELLO").unwrap()
        };
        assert_eq!(greeting(&new), greeting(&old));
    }
}

#[tokio::test]
async fn only_a_missing_script_is_loaded_and_only_where_it_is_missing() {
    for (line, loads) in [("-NOSCRIPT no\r\n", 1), ("-OOM no\r\n", 0)] {
        let other = FakeServer::start(greet);
        let node = FakeServer::start_node(&[&other], replies(&[line.into(), DONE.into()]));
        limiter(&node, true).await.check("key").await.unwrap_err();
        assert_eq!((node.count("SCRIPT"), other.count("SCRIPT")), (loads, 0));

        let new = FakeServer::start(replies(&[line.into(), DONE.into()]));
        let ask = format!("-ASK 1 127.0.0.1:{}\r\n", new.port());
        let old = FakeServer::start_node(&[], replies(&[ask.into()]));
        limiter(&old, true).await.check("key").await.unwrap_err();
        assert_eq!((new.count("SCRIPT"), old.count("SCRIPT")), (loads, 0));
    }
}

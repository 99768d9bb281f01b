//! Leases while servers and holders die or stand still: never more than the amount is held, except
//! for what a server lost.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_testkit::{Flavor, SentinelGroup, Server};
use tollgate_tokio::LeaseGuard;
use tollgate_wire::Options;

use crate::client::{Client, Connected};

const TTL: Duration = Duration::from_secs(2);

type Limiter = ConcurrencyLimiter<Connected>;

/// Returns the options to connect with: calls fail long before a lease ends.
fn options() -> Options {
    Options::new().with_deadline(Duration::from_millis(200))
}

fn limiter(store: Connected, amount: u64) -> Limiter {
    ConcurrencyLimiter::new(store, "places", amount, TTL).unwrap()
}

async fn connect(client: &dyn Client, server: &Server) -> Connected {
    client.server(&server.url(), options()).await.unwrap()
}

async fn hold(limiter: &Limiter) -> LeaseGuard {
    LeaseGuard::acquire(limiter, "alice")
        .await
        .unwrap()
        .expect("a free place")
}

async fn is_full(limiter: &Limiter) -> bool {
    let place = LeaseGuard::acquire(limiter, "alice");
    place.await.unwrap().is_err()
}

/// Acquires a place as soon as there is one, and returns when that was.
async fn next_place(limiter: &Limiter) -> (LeaseGuard, Instant) {
    let begun = Instant::now();
    loop {
        let why = match LeaseGuard::acquire(limiter, "alice").await {
            Ok(Ok(guard)) => return (guard, Instant::now()),
            Ok(Err(denied)) => denied.to_string(),
            Err(error) => format!("{error:?}"),
        };
        let holds = begun.elapsed() < 10 * TTL;
        assert!(holds, "no place was free in time: {why}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks that holders hear of a lost lease before anybody else can acquire their places.
pub async fn holders_learn_of_a_hanging_server_before_others_get_their_places(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(client, &server).await, 2);
    let holders = [hold(&limiter).await, hold(&limiter).await];
    tokio::time::sleep(TTL / 2).await;
    server.pause();
    for holder in &holders {
        holder.lost().await;
    }
    let told = Instant::now();
    server.resume();
    let (first, since) = next_place(&limiter).await;
    assert!(since >= told);
    let (second, _) = next_place(&limiter).await;
    // Nobody else gets one, and each has a greater token than all before.
    assert!(is_full(&limiter).await);
    for holder in &holders {
        assert!(!holder.is_held());
        assert!(holder.token() < first.token().min(second.token()));
    }
}

/// Checks that a holder whose process stood still knows that its lease has ended, and ends no other.
pub async fn a_holder_that_stands_still_keeps_no_place(client: &'static dyn Client) {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(client, &server).await, 1);
    let (tell, told) = mpsc::channel();
    let (wake, woken) = mpsc::channel::<()>();
    let url = server.url();
    // The holder has a runtime of its own, which runs nothing while its thread waits.
    let holder = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let store = client.server(&url, options()).await.unwrap();
            let limiter = self::limiter(store, 1);
            let guard = LeaseGuard::acquire(&limiter, "alice");
            let guard = guard.await.unwrap().unwrap();
            tell.send(guard.token()).unwrap();
            woken.recv().unwrap();
            // It has not run since, so no task has told it.
            guard.is_held()
        })
    });
    let token = told.recv().unwrap();
    let (other, _) = next_place(&limiter).await;
    assert!(other.token() > token);
    wake.send(()).unwrap();
    let holds = !holder.join().unwrap();
    assert!(holds, "it believed in a lease that has ended");
    // It released nothing that is not its own.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(other.is_held());
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 1);
}

/// Checks what a server without persistence grants after a crash, and that old holders learn of it.
pub async fn a_server_that_forgets_leases_grants_at_most_as_many_more(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(client, &server).await, 3);
    let old = [hold(&limiter).await, hold(&limiter).await];
    server.kill();
    server.restart();
    // Nothing was on disk: all three places are free again, for new holders.
    let mut new = Vec::new();
    for _ in 0..3 {
        new.push(next_place(&limiter).await.0);
    }
    assert!(is_full(&limiter).await);
    let newest = new.iter().map(LeaseGuard::token).min();
    assert!(old.iter().all(|holder| Some(holder.token()) < newest));
    // The old ones learn of it at their next renewal, and end no lease of the new ones.
    for holder in old {
        holder.lost().await;
        assert!(!holder.release().await.unwrap());
    }
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 3);
    assert!(new.iter().all(LeaseGuard::is_held));
}

/// Checks that a server with an append-only file keeps the leases through crashes.
pub async fn leases_survive_a_server_that_has_them_on_disk(client: &dyn Client) {
    let server = Server::options(Flavor::System)
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .start();
    let limiter = limiter(connect(client, &server).await, 1);
    let holder = hold(&limiter).await;
    for _ in 0..3 {
        server.kill();
        server.restart();
        tokio::time::sleep(TTL).await;
        assert!(holder.is_held());
        assert!(!matches!(
            LeaseGuard::acquire(&limiter, "alice").await,
            Ok(Ok(_))
        ));
    }
}

/// As many more as the replica had not heard of can be held, and only until their holders learn of
/// it.
pub async fn a_promoted_replica_grants_again_what_it_had_not_heard_of(client: &dyn Client) {
    let group = tokio::task::block_in_place(|| SentinelGroup::start(Flavor::System));
    let ttl = Duration::from_secs(60);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let store = client.sentinels(&urls, name, options()).await.unwrap();
    let limiter = ConcurrencyLimiter::new(store, "places", 3, ttl).unwrap();
    let acquire = async |id: &str| limiter.acquire("alice", id).await;
    assert!(acquire("replicated").await.unwrap().is_granted());
    let primary = group.primary();
    tokio::task::block_in_place(|| {
        // `WAIT` waits for what its own connection wrote, and so for everything before that.
        let mut connection = primary.connection();
        connection.command(&["SET", "{alice}", "1"]).unwrap();
        let reply = connection.command(&["WAIT", "1", "4000"]).unwrap();
        assert!(reply.integer() >= Some(1), "{reply:?}");
        primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]);
        primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    });
    let lost = acquire("lost").await.unwrap().permit().unwrap();
    primary.kill();
    let begun = Instant::now();
    while limiter.peek("alice").await.is_err() {
        let holds = begun.elapsed() < Duration::from_secs(30);
        assert!(holds, "no replica was promoted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 1);
    assert!(limiter.renew("alice", &lost).await.unwrap().is_none());
    assert!(acquire("second").await.unwrap().is_granted());
    assert!(acquire("third").await.unwrap().is_granted());
    assert!(!acquire("fourth").await.unwrap().is_granted());
}

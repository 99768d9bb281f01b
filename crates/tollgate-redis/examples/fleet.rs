//! A fleet that shares one limit: every process connects to the same server and names the same limit.
//! Then the server cannot be reached for a while, and the service decides what that means.
//!
//! ```sh
//! cargo run -p tollgate-redis --example fleet -- 127.0.0.1:6379
//! ```

#![allow(clippy::print_stdout, reason = "it tells what it sees")]

use std::time::Duration;
use std::{env, io};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_redis::{RateLimiter, RedisStore};

type Error = Box<dyn std::error::Error + Send + Sync>;

const LIMITS: [&str; 1] = ["calls=sliding-log:20/1m"];
const CUSTOMER: &str = "alice";

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(&env::args().nth(1).ok_or("give HOST:PORT of a server")?).await
}

/// Runs the fleet on the server at `address`.
pub(crate) async fn run(address: &str) -> Result<(), Error> {
    let limiter = connect(address).await?;
    limiter.reset(CUSTOMER).await?; // An earlier run may have used the limit up.

    let mut fleet = JoinSet::new();
    for process in 1..=4 {
        let limiter = connect(address).await?;
        fleet.spawn(async move {
            let mut served = 0;
            for _ in 0..10 {
                served += u32::from(is_served(&limiter, CUSTOMER).await);
            }
            println!("process {process} served {served} of 10 calls");
            served
        });
    }
    let served: u32 = fleet.join_all().await.iter().sum();
    println!("together they served {served} of 40");
    assert_eq!(served, 20);

    // One more process, whose way to the server leads over a wire that can be cut.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let near = listener.local_addr()?;
    let wire = tokio::spawn(wire(listener, address.to_owned()));
    let limiter = connect(&near.to_string()).await?;
    assert!(!is_served(&limiter, CUSTOMER).await);
    wire.abort();
    let _ = wire.await;
    assert!(is_served(&limiter, CUSTOMER).await);

    // The store connects again by itself, and the server has forgotten nothing.
    tokio::spawn(self::wire(
        TcpListener::bind(near).await?,
        address.to_owned(),
    ));
    while is_served(&limiter, CUSTOMER).await {
        sleep(Duration::from_millis(100)).await;
    }
    println!("the server decides again");
    Ok(())
}

async fn connect(address: &str) -> Result<RateLimiter<RedisStore>, Error> {
    let store = RedisStore::connect(format!("redis://{address}")).await?;
    Ok(RateLimiter::new(store, LIMITS)?)
}

/// Returns whether to serve a call. Without an answer from the server, this service serves it: too
/// many calls do less harm here than none. A login would rather return `false`.
async fn is_served(limiter: &RateLimiter<RedisStore>, customer: &str) -> bool {
    match limiter.check(customer).await {
        Ok(decision) => decision.is_allowed(),
        Err(error) => {
            println!("served without a decision: {error} ({})", error.kind());
            true
        }
    }
}

/// Connects whoever comes to `listener` with the server, until this future is dropped.
async fn wire(listener: TcpListener, server: String) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await?;
        let mut far = TcpStream::connect(&server).await?;
        connections.spawn(async move { copy_bidirectional(&mut near, &mut far).await });
    }
}

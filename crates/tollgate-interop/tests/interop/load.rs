//! The layer in a service whose processor is busy with the requests of h2load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::any;
use tokio::process::Command;
use tokio::time::sleep;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_layers::{AllowAll, usual};
use tollgate_memory::RateLimiter;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Program, Server};

use crate::connections::*;

/// Sends a request on a connection of its own, and returns the status of its response.
fn guess(address: SocketAddr) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = b"GET /login HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    connection.write_all(request).unwrap();
    let mut response = String::new();
    let _ = connection.read_to_string(&mut response).unwrap();
    response.split(' ').nth(1).unwrap().to_owned()
}

/// The handlers use up the threads, so that the service reads the replies of a healthy server late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_guesses_while_a_service_is_busy_has_as_many_guesses_as_ever() {
    let server = Server::start(Flavor::System);
    let redis = RedisStore::connect(server.url()).await.unwrap();
    let store = Arc::new(usual(redis, AllowAll));
    let layer = |limit| {
        let limiter = RateLimiter::new(store.clone(), [limit]).unwrap();
        InboundLayer::new(limiter, ClientIp::peer())
    };
    let work = any(async || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
    });
    let app = Router::new()
        .route("/work", work.layer(layer("work=gcra:1000000/1s")))
        .route(
            "/login",
            any(async || "welcome").layer(layer("login=sliding-log:5/1m")),
        );
    let address = serve(app).await;
    let mut command = Command::new(Program::path("h2load"));
    let _ = command.args(["--h1", "--requests=1000000", "--clients=200"]);
    let _ = command
        .arg(format!("http://{address}/work"))
        .kill_on_drop(true);
    let mut others = command.stdout(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_secs(1)).await;
    let guessing = (0..24).map(|_| thread::spawn(move || [(); 5].map(|()| guess(address))));
    let guessing: Vec<_> = guessing.collect();
    let statuses = tokio::task::spawn_blocking(|| {
        let guesses = guessing
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        guesses.collect::<Vec<_>>()
    });
    let statuses = statuses.await.unwrap();
    let admitted = statuses.iter().filter(|status| *status == "200").count();
    let denied = statuses.iter().filter(|status| *status == "429").count();
    assert_eq!((admitted, denied), (5, 115));
    others.kill().await.unwrap();
}

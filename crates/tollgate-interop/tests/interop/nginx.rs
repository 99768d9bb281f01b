//! The layer behind nginx, which appends to a header's last line, or sets one of its own.

use std::iter::{repeat, repeat_n};
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::TcpListenerStream;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::{ErrorKind, MemoryStore, RateLimiter};
use tollgate_mock::{Fault, FaultyStore};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::client::*;
use crate::connections::*;
use crate::proxies::*;

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../../tollgate-http/examples/forward_auth.rs"]
mod forward_auth;

/// A client that calls past the proxy.
const CAROL: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

#[tokio::test]
async fn clients_of_one_proxy_are_counted_apart() {
    let server = Counting::serve(ClientIp::behind([NGINX]).unwrap()).await;
    let nginx = nginx(server.address, APPENDS);
    for client in [ALICE, BOB] {
        for _ in 0..AMOUNT {
            let answer = send_from(client, get(nginx.address(), "/")).await;
            assert_eq!(answer.status, 200);
        }
        let answer = send_from(client, get(nginx.address(), "/")).await;
        assert_eq!(answer.status, 429);
    }
}

#[tokio::test]
async fn no_client_chooses_the_address_that_it_is_counted_by() {
    let own = || ClientIp::header(HeaderName::from_static("x-real-ip"));
    let hops = || ClientIp::hops(1);
    let joined = r#"proxy_set_header Forwarded "$http_forwarded, for=$remote_addr";"#;
    for (client, settings) in [
        (ClientIp::behind([NGINX]), APPENDS),
        (hops().only_from([NGINX]), APPENDS),
        (ClientIp::behind([NGINX]).map(ClientIp::forwarded), joined),
        (hops().forwarded().only_from([NGINX]), joined),
        (
            own().only_from([NGINX]),
            "proxy_set_header X-Real-IP $remote_addr;",
        ),
    ] {
        let server = Counting::serve(client.unwrap()).await;
        let nginx = nginx(server.address, settings);
        let through = server.forge(ALICE, nginx.address()).await;
        // Past the proxy.
        let directly = server.forge(BOB, server.address).await;
        server.assert_counted(&[(ALICE, through), (BOB, directly)]);
    }
}

/// A connection through a Unix socket has no address.
#[tokio::test]
async fn a_server_without_addresses_counts_by_the_proxys_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (app, limiter) = counting(ClientIp::hops(1));
    drop(tokio::spawn(
        async move { axum::serve(listener, app).await },
    ));
    let location = format!("proxy_pass http://unix:{}; {APPENDS}", path.display());
    let nginx = nginx_with("", &location);
    let server = Counting {
        address: nginx.address(),
        limiter,
    };
    let count = server.forge(ALICE, nginx.address()).await;
    server.assert_counted(&[(ALICE, count)]);
}

/// What a client closes ends at the server, too.
#[tokio::test]
async fn clients_that_leave_a_proxy_give_their_places_back() {
    let server = Holding::serve(1, ClientIp::behind([NGINX]).unwrap()).await;
    let upgrades = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;";
    let nginx = nginx(server.address, &format!("{APPENDS} {upgrades}"));
    for leaving in Leaving::ALL {
        let silent = head("GET", "/silent") + "\r\n";
        let stream = open(nginx.address(), &silent).await;
        server.until_full().await;
        leaving.leave(stream);
        server.until_free().await;
        let stream = open_socket(nginx.address()).await;
        server.until_full().await;
        leaving.leave(stream);
        server.until_free().await;
    }
}

#[tokio::test]
async fn grpc_refusals_pass() {
    let (listener, address) = listener().await;
    drop(tokio::spawn(serve_grpc(listener)));
    let location = format!(
        "grpc_pass grpc://{address}; grpc_bind {NGINX};
        grpc_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
    );
    let nginx = nginx_with("http2", &location);
    let channel = tonic::transport::Endpoint::new(format!("http://{}", nginx.address())).unwrap();
    for client in [ALICE, BOB] {
        let channel = channel.clone().local_address(Some(client.into()));
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        let ask = HealthCheckRequest::default;
        let _ = client.check(ask()).await.unwrap();
        let denied = client.check(ask()).await.unwrap_err();
        assert_eq!(denied.code(), tonic::Code::ResourceExhausted);
        let delay = denied.get_details_retry_info();
        let delay = delay.unwrap().retry_delay.unwrap();
        assert!(delay.as_secs() > 3_000);
        assert!(denied.metadata().contains_key("grpc-retry-pushback-ms"));
    }
}

/// The configuration is that of `docs/recipes.md`.
#[tokio::test]
async fn services_behind_forward_auth_are_limited() {
    let service = any(async || (StatusCode::FORBIDDEN, "the service's own"));
    let service = serve(Router::new().route("/", service)).await;
    let (listener, limits) = listener().await;
    drop(tokio::spawn(async move {
        // It fails after the calls that must be counted.
        let faults = repeat_n(Fault::None, 209).chain(repeat(Fault::Fail(ErrorKind::Unavailable)));
        let store = Arc::new(FaultyStore::new(MemoryStore::new(), faults));
        let served = forward_auth::serve(listener, store, &format!("192.0.2.1,{NGINX}")).await;
        served.map_err(|error| error.to_string()).unwrap();
    }));
    let page = include_str!("../../../../docs/recipes.md");
    let (_, locations) = page.split_once("```nginx\nlocation / {").unwrap();
    let (locations, _) = locations.split_once("}\n```").unwrap();
    let locations = locations
        .replace("127.0.0.1:8080", &service.to_string())
        .replace(
            "http://127.0.0.1:3000/nginx;",
            &format!("http://{limits}/nginx; proxy_bind {NGINX};"),
        );
    let nginx = nginx_with("", &locations);
    for client in [ALICE, BOB] {
        for call in 0..102 {
            let mut request = get(nginx.address(), "/");
            let forged = HeaderValue::try_from(format!("203.0.113.{call}")).unwrap();
            let _ = request.headers_mut().insert("x-forwarded-for", forged);
            let answer = send_from(client, request).await;
            let wait: u64 = answer.header("retry-after").parse().unwrap_or(0);
            if call < 100 {
                assert_eq!((answer.status, wait), (403, 0));
                assert_eq!(answer.body, "the service's own");
            } else {
                assert!(answer.status == 429 && (30..=60).contains(&wait));
            }
        }
    }
    // Who comes past nginx is not believed; Traefik and Caddy pass the answer on.
    for (path, method) in [("/traefik", Method::POST), ("/nginx", Method::GET)] {
        let mut request = get(limits, path);
        *request.method_mut() = method;
        let alice = HeaderValue::try_from(ALICE.to_string()).unwrap();
        let _ = request.headers_mut().insert("x-forwarded-for", alice);
        assert_eq!(send_from(CAROL, request).await.status, 204);
    }
    let mut grpc = get(limits, "/traefik");
    *grpc.method_mut() = Method::POST;
    let content_type = HeaderValue::from_static("application/grpc");
    let _ = grpc.headers_mut().insert("content-type", content_type);
    for request in [grpc, get(limits, "/traefik")] {
        assert_eq!(send_from(ALICE, request).await.status, 429);
    }
    assert_eq!(send_from(ALICE, get(limits, "/nginx")).await.status, 403);
    for (address, path, status) in [
        (limits, "/traefik", 503),
        (limits, "/nginx", 503),
        (nginx.address(), "/", 500),
    ] {
        assert_eq!(send_from(ALICE, get(address, path)).await.status, status);
    }
}

/// Serves each address once an hour.
async fn serve_grpc(listener: TcpListener) {
    let limiter = RateLimiter::new(MemoryStore::new(), ["calls=sliding-log:1/1h"]).unwrap();
    let client = ClientIp::behind([NGINX]).unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder()
        .layer(InboundLayer::new(limiter, client))
        .add_service(health);
    let incoming = TcpListenerStream::new(listener);
    server.serve_with_incoming(incoming).await.unwrap();
}

//! nginx and HAProxy in front of a server that counts its requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tollgate_core::Timestamp;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::{ManualClock, MemoryStore, RateLimiter};
use tollgate_testkit::Program;

use crate::client::*;
use crate::connections::serve;

/// The addresses that the proxies call from.
pub(crate) const HAPROXY: &str = "127.0.0.8";
pub(crate) const NGINX: &str = "127.0.0.9";
/// Makes nginx append the address that it was called from.
pub(crate) const APPENDS: &str = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;";
/// A client, and another.
pub(crate) const ALICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
pub(crate) const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// How many requests a client may send; the server's clock stands still.
pub(crate) const AMOUNT: u64 = 100;

/// A server that counts its requests.
pub(crate) struct Counting {
    pub(crate) address: SocketAddr,
    pub(crate) limiter: RateLimiter<Arc<MemoryStore>>,
}

impl Counting {
    pub(crate) async fn serve(client: ClientIp) -> Self {
        let (app, limiter) = counting(client);
        let address = serve(app).await;
        Self { address, limiter }
    }

    /// Asserts that each of these clients was counted this number of times, and nobody else.
    #[track_caller]
    pub(crate) fn assert_counted(&self, clients: &[(Ipv4Addr, usize)]) {
        for (client, count) in clients {
            let decision = self.limiter.peek(client.to_string().as_str()).run();
            let count = u64::try_from(*count).unwrap();
            assert_eq!(AMOUNT - decision.unwrap().remaining(), count, "{client}");
        }
        assert_eq!(self.limiter.store().len(), clients.len());
    }

    /// Sends a request from `client` through the proxy at `address` with each set of headers that it
    /// could write to be counted for another. Returns their number.
    pub(crate) async fn forge(&self, client: Ipv4Addr, address: SocketAddr) -> usize {
        let forged = forged();
        for headers in &forged {
            let mut request = get(address, "/");
            for (name, value) in headers {
                let name = HeaderName::from_static(name);
                let _ = request
                    .headers_mut()
                    .append(name, HeaderValue::from_bytes(value).unwrap());
            }
            let answer = send_from(client, request).await;
            let found = (answer.status, &*answer.body);
            assert_eq!(found, (200, "welcome"), "{headers:?}");
        }
        forged.len()
    }
}

/// Returns an app that counts by `client`, and its limiter.
pub(crate) fn counting(client: ClientIp) -> (Router, RateLimiter<Arc<MemoryStore>>) {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000).unwrap());
    let store = Arc::new(MemoryStore::builder().clock(clock).build());
    let limiter = RateLimiter::new(store, [format!("calls=sliding-log:{AMOUNT}/1h")]).unwrap();
    let layer = InboundLayer::new(limiter.clone(), client);
    let app = Router::new().route("/", any(async || "welcome"));
    (app.layer(layer), limiter)
}

/// Returns sets of headers that a client could write.
pub(crate) fn forged() -> Vec<Vec<(&'static str, &'static [u8])>> {
    let in_a_chain: [&[&[u8]]; 12] = [
        &[b"203.0.113.7"],
        // Several lines.
        &[b"203.0.113.7", b"198.51.100.1, 192.0.2.1", b"127.0.0.3"],
        // The proxies' addresses, and another client's.
        &[b"127.0.0.9"],
        &[b"127.0.0.3, 127.0.0.8, 127.0.0.9"],
        &[b"127.0.0.3", b"127.0.0.8", b"127.0.0.9"],
        // No addresses.
        &[b"unknown"],
        &[b""],
        &[b",,,,", b",", b" , "],
        &[b"203.0.113.7,"],
        &[b"\"203.0.113.7, "],
        &[b"203.0.113.7\\"],
        &[b"\xff\xfe, 203.0.113.7\t"],
    ];
    let in_elements: [&[&[u8]]; 8] = [
        &[b"for=203.0.113.7"],
        &[b"for=203.0.113.7;proto=https", b"for=127.0.0.9"],
        &[b"for=127.0.0.3, for=127.0.0.8, for=127.0.0.9"],
        // Quotes that never end.
        &[b"for=\"203.0.113.7"],
        &[b"for=203.0.113.7;host=\"a"],
        &[b"for=\"[2001:db8::1]\\\""],
        &[b"for=203.0.113.7;"],
        &[b"\\"],
    ];
    let of = |name: &'static str, lines: &&'static [&'static [u8]]| {
        lines.iter().map(|line| (name, *line)).collect()
    };
    let mut sets: Vec<Vec<_>> = Vec::new();
    sets.extend(in_a_chain.iter().map(|lines| of("x-forwarded-for", lines)));
    sets.extend(in_elements.iter().map(|lines| of("forwarded", lines)));
    sets.push(vec![("x-real-ip", b"203.0.113.7")]);
    sets.push(vec![
        ("x-real-ip", b"127.0.0.3"),
        ("x-real-ip", b"127.0.0.3"),
    ]);
    // Asks the proxy to leave out what it adds.
    sets.push(vec![
        (
            "connection",
            b"close, x-forwarded-for, forwarded, x-real-ip",
        ),
        ("x-forwarded-for", b"203.0.113.7"),
        ("forwarded", b"for=203.0.113.7"),
        ("x-real-ip", b"203.0.113.7"),
    ]);
    sets
}

/// Starts nginx in front of the server at `address`.
pub(crate) fn nginx(address: SocketAddr, settings: &str) -> Program {
    let location = format!("proxy_pass http://{address}; proxy_bind {NGINX}; {settings}");
    nginx_with("", &location)
}

/// Starts nginx, which listens with these parameters.
pub(crate) fn nginx_with(parameters: &str, location: &str) -> Program {
    Program::start("nginx", |port, folder| {
        let temporary = ["client_body", "proxy", "fastcgi", "scgi", "uwsgi"];
        let temporary = temporary.map(|of| format!("{of}_temp_path {of};")).concat();
        let configuration = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;
            events {{}}
            http {{
                access_log off; {temporary}
                server {{
                    listen 127.0.0.1:{port} {parameters};
                    location / {{ {location} }}
                }}
            }}"
        );
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        ["-e", "stderr", "-p", ".", "-c", "nginx.conf"]
            .map(str::to_owned)
            .to_vec()
    })
}

/// Starts haproxy in front of the server at `address`.
pub(crate) fn haproxy(address: SocketAddr, settings: &str) -> Program {
    Program::start("haproxy", |port, folder| {
        let configuration = format!(
            "defaults\n mode http\n timeout connect 10s\n timeout client 1m\n timeout server 1m\n\
            listen all\n bind 127.0.0.1:{port}\n server backend {address} source {HAPROXY}\n \
            {settings}\n"
        );
        std::fs::write(folder.join("haproxy.cfg"), configuration).unwrap();
        ["-db", "-f", "haproxy.cfg"].map(str::to_owned).to_vec()
    })
}

/// What the layer writes reaches the client through each proxy, and through both.
#[tokio::test]
async fn answers_pass_proxies_unchanged() {
    let server = Counting::serve(ClientIp::behind([HAPROXY, NGINX]).unwrap()).await;
    let nginx = nginx(server.address, APPENDS);
    let [outer, haproxy] =
        [nginx.address(), server.address].map(|address| haproxy(address, "option forwardfor"));
    for _ in 0..AMOUNT {
        let answer = send_from(ALICE, get(outer.address(), "/")).await;
        assert_eq!(answer.status, 200);
    }
    let refusal = send_from(ALICE, get(server.address, "/")).await;
    assert_eq!(refusal.header("retry-after"), "3600");
    for proxy in [&nginx, &haproxy, &outer] {
        let answer = send_from(ALICE, get(proxy.address(), "/")).await;
        assert_eq!((answer.status, &answer.body), (429, &refusal.body));
        for name in [
            "content-type",
            "ratelimit",
            "ratelimit-policy",
            "retry-after",
        ] {
            assert_ne!(refusal.header(name), "");
            assert_eq!(answer.header(name), refusal.header(name), "{name}");
        }
    }
    server.assert_counted(&[(ALICE, 100)]);
}

/// Without what the layer reads of a refused request, a proxy that is still sending it answers with 502.
#[tokio::test]
async fn refusals_of_uploads_pass_proxies() {
    let server = Counting::serve(ClientIp::behind([HAPROXY, NGINX]).unwrap()).await;
    for _ in 0..AMOUNT {
        let answer = send_from(ALICE, get(server.address, "/")).await;
        assert_eq!(answer.status, 200);
    }
    let buffers = nginx(server.address, APPENDS);
    let streams = "proxy_request_buffering off; proxy_http_version 1.1;";
    let streams = nginx(server.address, &format!("{APPENDS} {streams}"));
    let [outer, haproxy] =
        [buffers.address(), server.address].map(|address| haproxy(address, "option forwardfor"));
    // Nginx takes a megabyte by default.
    let body = Bytes::from(vec![0; 1_000_000]);
    for proxy in [&buffers, &streams, &haproxy, &outer] {
        for _ in 0..10 {
            let request = request("POST", proxy.address(), "/");
            let answer = send_from(ALICE, request.body(body.clone().into()).unwrap()).await;
            let wait = answer.header("retry-after");
            assert_eq!((answer.status, &*wait), (429, "3600"));
        }
    }
}

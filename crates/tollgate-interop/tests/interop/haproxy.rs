//! The layer behind haproxy, which appends a line of its own, and behind haproxy and nginx.

use tollgate_http::inbound::ClientIp;

use crate::proxies::*;

/// As `option forwarded` does since haproxy 2.8.
const FORWARDED: &str = "http-request add-header Forwarded proto=http;for=%[src]";

#[tokio::test]
async fn no_client_chooses_the_address_that_it_is_counted_by() {
    let hops = || ClientIp::hops(1);
    let behind = || ClientIp::behind([HAPROXY]);
    let both = format!("option forwardfor\n {FORWARDED}");
    for (client, settings) in [
        (behind(), "option forwardfor"),
        (hops().only_from([HAPROXY]), "option forwardfor"),
        (behind().map(ClientIp::forwarded), FORWARDED),
        (hops().forwarded().only_from([HAPROXY]), FORWARDED),
        (behind(), &both),
        (behind().map(ClientIp::forwarded), &both),
    ] {
        let server = Counting::serve(client.unwrap()).await;
        let haproxy = haproxy(server.address, settings);
        let through = server.forge(ALICE, haproxy.address()).await;
        // Past the proxy.
        let directly = server.forge(BOB, server.address).await;
        server.assert_counted(&[(ALICE, through), (BOB, directly)]);
    }
}

#[tokio::test]
async fn the_client_is_found_behind_two_proxies() {
    for client in [
        ClientIp::behind([HAPROXY, NGINX]),
        ClientIp::behind(["127.0.0.8/31"]),
        ClientIp::hops(2).only_from([NGINX]),
    ] {
        let server = Counting::serve(client.unwrap()).await;
        let nginx = nginx(server.address, APPENDS);
        let haproxy = haproxy(nginx.address(), "option forwardfor");
        let through = server.forge(ALICE, haproxy.address()).await;
        server.assert_counted(&[(ALICE, through)]);
    }
}

/// Whoever is called by a proxy that nobody trusts knows that proxy only.
#[tokio::test]
async fn a_proxy_that_is_not_trusted_is_the_client() {
    let server = Counting::serve(ClientIp::behind([NGINX]).unwrap()).await;
    let nginx = nginx(server.address, APPENDS);
    let haproxy = haproxy(nginx.address(), "option forwardfor");
    let through = server.forge(ALICE, haproxy.address()).await;
    server.assert_counted(&[(HAPROXY.parse().unwrap(), through)]);
}

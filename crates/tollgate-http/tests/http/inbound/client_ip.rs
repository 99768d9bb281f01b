//! Whom a request is from, whatever its headers say.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::{HeaderName, Request};
use tollgate_core::RateLimiter;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::MemoryStore;

use super::support::*;

pub(crate) fn from(peer: &str, headers: &[(&str, &str)]) -> Request<Body> {
    with(request_from(peer.parse::<IpAddr>().unwrap()), headers)
}

/// Returns the key that the request is counted for, or the status of its refusal.
async fn key_of(client: &ClientIp, request: Request<Body>) -> Result<String, u16> {
    Counted::by(client.clone()).key_of(request).await
}

const XFF: &str = "x-forwarded-for";

#[tokio::test]
async fn clients_without_an_address_share_no_key() {
    for client in [ClientIp::peer(), ClientIp::behind(["10.0.0.0/8"]).unwrap()] {
        let mut request = from("203.0.113.7", &[(XFF, "6.6.6.6")]);
        request.extensions_mut().clear();
        assert_eq!(key_of(&client, request).await, Err(500));
    }
}

#[tokio::test]
async fn the_address_of_the_connection_is_found_where_servers_put_it() {
    let client = ClientIp::peer();
    let socket = SocketAddr::from((ALICE, 4711));
    let mut requests = [(); 3].map(|()| Request::new(Body::default()));
    let _ = requests[0].extensions_mut().insert(socket);
    let _ = requests[1].extensions_mut().insert(socket.ip());
    let _ = requests[2].extensions_mut().insert(ConnectInfo(socket));
    for request in requests {
        assert_eq!(key_of(&client, request).await.unwrap(), "203.0.113.7");
    }
    let client = client.peer_by(|parts| parts.headers.get("peer")?.to_str().ok()?.parse().ok());
    let request = from("203.0.113.7", &[("peer", "192.0.2.1")]);
    assert_eq!(key_of(&client, request).await.unwrap(), "192.0.2.1");
}

/// Behind proxies, the last address counts that is not theirs; `hostile` tries all notations.
#[tokio::test]
async fn addresses_are_read_from_the_end_of_one_list() {
    let client = ClientIp::behind(["10.0.0.0/8", "2001:db8:ff::/48"]).unwrap();
    for (lines, expected) in [
        (&["6.6.6.6", "203.0.113.7"][..], "203.0.113.7"),
        (&["6.6.6.6", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        (&["6.6.6.6,203.0.113.7", "10.0.0.2"], "203.0.113.7"),
        (&["6.6.6.6, 203.0.113.7, "], "203.0.113.7"),
        (&["6.6.6.6, 203.0.113.7", ""], "203.0.113.7"),
        (&["203.0.113.7,,\t,", " , ", "", "10.0.0.2,"], "203.0.113.7"),
        (&["", ", ,"], "10.0.0.1"),
        // Of proxies alone, the first.
        (&["10.0.0.2"], "10.0.0.2"),
        (&[], "10.0.0.1"),
        // What is no address is not skipped: what comes before it is never reached.
        (&["6.6.6.6, unknown"], "10.0.0.1"),
        (&["6.6.6.6, unknown, 10.0.0.2"], "10.0.0.2"),
        (&["6.6.6.6, \"203.0.113.7"], "10.0.0.1"),
        (&["6.6.6.6, \"203.0.113.7\\\""], "10.0.0.1"),
        (&["1.2.3.4.5, 999.1.1.1"], "10.0.0.1"),
        (&["\"1::5\""], "1::/48 1::/64"),
        (&["\"203.0.113\\.7:4711\""], "203.0.113.7"),
    ] {
        let headers: Vec<_> = lines.iter().map(|line| (XFF, *line)).collect();
        let key = key_of(&client, from("10.0.0.1", &headers)).await;
        assert_eq!(key.as_deref(), Ok(expected), "{lines:?}");
    }
}

#[tokio::test]
async fn forwarded_is_read_from_its_end() {
    let client = ClientIp::behind(["10.0.0.0/8"]).unwrap().forwarded();
    for (line, expected) in [
        ("for=6.6.6.6, for=203.0.113.7", "203.0.113.7"),
        ("for=6.6.6.6, for=203.0.113.7, ,", "203.0.113.7"),
        ("for=6.6.6.6, for=\"203.0.113\\.7\"", "203.0.113.7"),
        (
            "for=6.6.6.6, For=\"203.0.113.7:4711\";proto=https;by=10.0.0.1",
            "203.0.113.7",
        ),
        ("proto=https;for=\"[1::5]:80\"", "1::/48 1::/64"),
        // A quote that the client never ended.
        ("for=\"6.6.6.6, for=203.0.113.7", "203.0.113.7"),
        ("for=6.6.6.6;host=\"a, for=203.0.113.7", "203.0.113.7"),
        // A comma in quotes, and an escaped quote.
        ("for=203.0.113.7;host=\"a,for=6.6.6.6\"", "203.0.113.7"),
        ("for=203.0.113.7;host=\"a\\\",for=6.6.6.6\"", "203.0.113.7"),
        // Semicolons in quotes: a client chooses the name of the host.
        ("host=\"a;for=6.6.6.6;\";for=203.0.113.7", "203.0.113.7"),
        ("host=\"a\\\";for=6.6.6.6\";for=203.0.113.7", "203.0.113.7"),
        ("for=6.6.6.6, for=_hidden", "10.0.0.1"),
        ("for=6.6.6.6, for=unknown", "10.0.0.1"),
        ("for=6.6.6.6, proto=https", "10.0.0.1"),
        ("for=6.6.6.6, for=\"203.0.113.7", "10.0.0.1"),
        ("for=6.6.6.6, xfor=203.0.113.7", "10.0.0.1"),
    ] {
        let key = key_of(&client, from("10.0.0.1", &[("forwarded", line)])).await;
        assert_eq!(key.as_deref(), Ok(expected), "{line}");
    }
    let ignored = from("10.0.0.1", &[(XFF, "203.0.113.7")]);
    assert_eq!(key_of(&client, ignored).await.unwrap(), "10.0.0.1");
}

#[tokio::test]
async fn hops_count_from_the_end() {
    let one = ClientIp::hops(1);
    let two = ClientIp::hops(2);
    let lines = ["6.6.6.6, 203.0.113.7,", "10.0.0.2, ", ""].map(|line| (XFF, line));
    let request = || from("10.0.0.1", &lines);
    assert_eq!(key_of(&one, request()).await.unwrap(), "10.0.0.2");
    assert_eq!(key_of(&two, request()).await.unwrap(), "203.0.113.7");
    let direct = || from("10.0.0.1", &[(XFF, "203.0.113.7")]);
    assert_eq!(key_of(&two, direct()).await, Err(500));
    let garbage = from("10.0.0.1", &[(XFF, "6.6.6.6, unknown")]);
    assert_eq!(key_of(&one, garbage).await, Err(500));
    let found = key_of(&ClientIp::hops(0), direct()).await.unwrap();
    assert_eq!(found, "10.0.0.1");
    // A server on a socket of Unix has no address of its connection.
    let mut on_socket = direct();
    on_socket.extensions_mut().clear();
    assert_eq!(key_of(&one, on_socket).await.unwrap(), "203.0.113.7");
}

/// CloudFront writes no brackets around an IPv6 address, so one with a port may look like another.
#[tokio::test]
async fn cloudfronts_header_ends_with_a_port() {
    let name = "cloudfront-viewer-address";
    let client = ClientIp::header(HeaderName::from_static(name)).ipv6_prefix(128);
    for (value, expected) in [
        ("198.51.100.10:46532", Ok("198.51.100.10")),
        ("2001:db8::9:46532", Ok("2001:db8::/48 2001:db8::9/128")),
        ("2001:db8::9:4653", Ok("2001:db8::/48 2001:db8::9/128")),
        ("1:2:3:4:5:6:7:8:80", Ok("1:2:3::/48 1:2:3:4:5:6:7:8/128")),
        ("1:2:3:4:5:6:7:8", Err(500)),
        ("2001:db8::9:65536", Err(500)),
        ("2001:db8::9:", Err(500)),
        ("198.51.100.10", Err(500)),
    ] {
        let key = key_of(&client, from("192.0.2.1", &[(name, value)])).await;
        let found = key.as_deref().map_err(|status| *status);
        assert_eq!(found, expected, "{value}");
    }
    // No other header is read so.
    let name = "x-real-ip";
    let client = ClientIp::header(HeaderName::from_static(name));
    let request = from("192.0.2.1", &[(name, "2001:db8::9:4653")]);
    let key = key_of(&client, request).await.unwrap();
    assert_eq!(key, "2001:db8::/48 2001:db8::/64");
}

#[tokio::test]
async fn a_proxys_header_must_occur_once_and_come_from_it() {
    let name = HeaderName::from_static("x-real-ip");
    let anywhere = ClientIp::header(name.clone());
    let client = ClientIp::header(name).only_from(["10.0.0.0/8"]).unwrap();
    let real = |peer, values: &[&str]| {
        let headers: Vec<_> = values.iter().map(|value| ("x-real-ip", *value)).collect();
        from(peer, &headers)
    };
    for (peer, values, expected) in [
        ("10.0.0.1", &["203.0.113.7"][..], Ok("203.0.113.7")),
        ("10.0.0.1", &["\"203.0.113.7\""], Ok("203.0.113.7")),
        ("10.0.0.1", &["\"203.0.113.7"], Err(500)),
        ("10.0.0.1", &["[fe80::1%3]:80"], Err(500)),
        ("10.0.0.1", &["203.0.113.7", "6.6.6.6"], Err(500)),
        ("10.0.0.1", &["203.0.113.7, 6.6.6.6"], Err(500)),
        ("10.0.0.1", &[], Err(500)),
        ("10.0.0.1", &["unknown"], Err(500)),
        // Nobody else locks a victim out, or evades.
        ("192.0.2.1", &["203.0.113.7"], Ok("192.0.2.1")),
    ] {
        let key = key_of(&client, real(peer, values)).await;
        let found = key.as_deref().map_err(|status| *status);
        assert_eq!(found, expected, "{peer} {values:?}");
    }
    let key = key_of(&anywhere, real("192.0.2.1", &["203.0.113.7"])).await;
    assert_eq!(key.unwrap(), "203.0.113.7");
}

/// A range of IPv6 holds no IPv4 address, and one behind NAT64 is that of IPv4.
#[tokio::test]
async fn addresses_are_allowed_or_denied_by_range() {
    let (v4, v6) = (["6.6.6.6", "::ffff:6.6.6.6"], ["2001:db8::1"]);
    let nat64 = ["64:ff9b::cb00:7107", "203.0.113.7"];
    for (range, denied, others) in [
        ("::/0", &v6[..], &v4[..]),
        ("::/1", &v6, &v4),
        ("2001:db8::/48", &v6, &["2001:db8:1::1"]),
        ("0.0.0.0/0", &v4, &v6),
        ("::ffff:0:0/96", &v4, &v6),
        ("64:ff9b::203.0.113.0/120", &nat64, &["64:ff9b::c633:6401"]),
    ] {
        let client = ClientIp::peer().allow(["10.0.0.0/8", "::1"]).unwrap();
        let client = client.deny([range, "10.0.0.0/24"]).unwrap();
        let limiter = RateLimiter::new(MemoryStore::new(), ["a=fixed-window:0/1m"]).unwrap();
        let layer = InboundLayer::new(limiter, client);
        let allowed = ["10.0.0.1", "::1", "::ffff:10.9.9.9"];
        for (addresses, status) in [(denied, 403), (others, 429), (&allowed, 200)] {
            for address in addresses {
                let found = send(&layer, from(address, &[])).await.status;
                assert_eq!(found, status, "{range} {address}");
            }
        }
    }
}

#[test]
fn wrong_prefixes_say_what_to_write() {
    for (text, part) in [
        ("10.0.0.1/8", "ones after its length"),
        ("2001:db8::1/64", "ones after its length"),
        ("10.0.0.0/33", "from 0 to 32"),
        ("::/129", "from 0 to 128"),
        ("10.0.0.0/", "from 0 to 32"),
        ("10.0.0.0/-1", "from 0 to 32"),
        ("10.0.0", "write it like"),
        ("", "write it like"),
        ("example.com", "write it like"),
        ("10.0.0.0/8, 10.1.0.0/16", "from 0 to 32"),
    ] {
        let error = ClientIp::behind([text]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for text in [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.1",
        "10.0.0.1/32",
        "::1/128",
        "::ffff:10.0.0.0/104",
    ] {
        assert!(ClientIp::behind([text]).is_ok(), "{text}");
    }
    let none: [&str; 0] = [];
    for empty in [ClientIp::behind(none), ClientIp::hops(1).only_from(none)] {
        let error = empty.unwrap_err().to_string();
        assert!(error.contains("name their addresses"), "{error}");
    }
    assert!(ClientIp::peer().allow(none).unwrap().deny(none).is_ok());
}

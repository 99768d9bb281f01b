//! What requests are counted by.

use http::header::AUTHORIZATION;
use http::{HeaderName, Request};
use tollgate_http::inbound::{ClientIp, InboundLayer, KeyBy, Peer};

use super::support::*;

fn request_with(headers: &[(&'static str, &str)]) -> Request<Body> {
    with(request_from(ALICE), headers)
}

/// Returns whether the two requests count for one key.
async fn are_one(key: &KeyBy, requests: [Request<Body>; 2]) -> bool {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), key.clone());
    let [first, second] = requests;
    assert_eq!(send(&layer, first).await.status, 200);
    send(&layer, second).await.status == 429
}

#[tokio::test]
async fn every_spelling_of_credentials_is_one_key() {
    let spellings = (0..64_u8).map(|capitals| {
        let letters = "bearer".chars().zip(0..);
        let spell = |(letter, bit): (char, u8)| match capitals >> bit & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        };
        letters.map(spell).collect::<String>()
    });
    let schemes: Vec<String> = spellings.collect();
    let of = |value: &str| request_with(&[("authorization", value)]);
    for key in [KeyBy::header(AUTHORIZATION), KeyBy::bearer()] {
        let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:3/1m"]), key);
        let mut admitted = 0;
        for (scheme, spaces) in schemes.iter().zip((1..=60).cycle()) {
            let value = format!("{scheme}{}x", " ".repeat(spaces));
            admitted += u32::from(send(&layer, of(&value)).await.status == 200);
        }
        assert_eq!(admitted, 3);
    }
    for (name, one, other, is_one) in [
        ("authorization", "Bearer abc", " bearer \t abc ", true),
        ("authorization", "Basic YWJj", "BASIC  YWJj", true),
        ("authorization", "Token abc", "token  abc", true),
        ("proxy-authorization", "Bearer abc", "bearer abc", true),
        (
            "x-forwarded-authorization",
            "Bearer abc",
            "bearer abc",
            true,
        ),
        ("x-api-key", "abc", " abc\t", true),
        ("authorization", "Bearer abc", "Bearer Abc", false),
        ("authorization", "Bearer abc", "Basic abc", false),
        ("authorization", "Bearer abc", "Bearerabc", false),
        ("authorization", "abc", "Abc", false),
        ("x-api-key", "my key", "My key", false),
        ("x-api-key", "my key", "my  key", false),
    ] {
        let key = KeyBy::header(name.parse().unwrap());
        let found = [one, other].map(|value| {
            let (parts, _) = request_with(&[(name, value)]).into_parts();
            key.key_of(&parts).unwrap()
        });
        assert_eq!(found[0] == found[1], is_one, "{name}: {one} {other}");
        // An operator may paste what a client sent.
        let known = [one, other].map(|value| KeyBy::key_of_header(format!("{value}\r\n")));
        assert_eq!(known[0], found[0], "{one}");
        let is_known = found[1] == known[1];
        assert!(
            is_known || name == "authorization" && other == "token  abc",
            "{other}"
        );
    }
}

#[tokio::test]
async fn a_bearer_token_is_that_of_the_standard() {
    for (values, token) in [
        (&["Bearer abc"][..], Some("abc")),
        (&["bEARER  a.b-c_d~e+f/9=="], Some("a.b-c_d~e+f/9==")),
        (&[], None),
        (&["abc"], None),
        (&["Bearer"], None),
        (&["Bearer "], None),
        (&["Basic abc"], None),
        (&["Bearer ="], None),
        (&["Bearer a=b"], None),
        (&["Bearer a b"], None),
        (&["Bearer \"a\""], None),
        (&["Bearer abc", "Bearer abd"], None),
    ] {
        let headers = values.iter().map(|value| ("authorization", *value));
        let headers: Vec<_> = headers.collect();
        let (parts, _) = request_with(&headers).into_parts();
        let found = KeyBy::bearer().key_of(&parts);
        assert_eq!(found, token.map(KeyBy::key_of_header), "{values:?}");
    }
    let layer = InboundLayer::new(limiter(store().0, ["a=gcra:1/1m"]), KeyBy::bearer());
    let answer = send(&layer, request_with(&[])).await;
    let found = (answer.status, answer.header("www-authenticate"));
    assert_eq!(found, (401, "Bearer".to_owned()));
}

#[derive(Clone)]
struct User(&'static str);

/// Otherwise, all who send it would share one limit.
#[test]
fn what_is_blank_is_no_key() {
    let header = |name| KeyBy::header(HeaderName::from_static(name));
    for key in [
        header("x-api-key"),
        KeyBy::header(AUTHORIZATION),
        KeyBy::bearer(),
        by_user(),
        KeyBy::extension(|user: &User| user.0),
    ] {
        let key = key.or(ClientIp::peer());
        let of = |value: &'static str| {
            let names = ["x-api-key", "authorization", "user"];
            let mut request = request_with(&names.map(|name| (name, value)));
            let _ = request.extensions_mut().insert(User(value));
            key.key_of(&request.into_parts().0)
        };
        assert_ne!(of("Bearer abc"), of(""));
        for blank in ["", " ", "\t \t"] {
            assert_eq!(
                text_of(of(blank).unwrap().as_key()),
                "203.0.113.7 2|",
                "{key:?}"
            );
        }
    }
    // A scheme without credentials is none, either.
    for scheme in ["Bearer", "basic "] {
        let (parts, _) = request_with(&[("authorization", scheme)]).into_parts();
        assert_eq!(KeyBy::header(AUTHORIZATION).key_of(&parts), None);
    }
}

#[tokio::test]
async fn parts_never_flow_into_each_other() {
    let part = |name: &'static str| {
        KeyBy::function(move |parts| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        })
    };
    let two = part("a").and(part("b"));
    let three = part("a").and(part("b")).and(part("c"));
    let nested = part("a").and(part("b").and(part("c")));
    let texts = ["x", "xy", "|", "1|", "0|1|", "0|0|", "2|x", "1|1|x", "y"];
    let mut all = Vec::new();
    for a in texts {
        for b in texts {
            for c in texts {
                all.push([("a", a), ("b", b), ("c", c)]);
            }
        }
    }
    for (key, parts) in [(two, 2), (three, 3), (nested, 3)] {
        let store = store().0;
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), key);
        let mut seen = std::collections::HashSet::new();
        for headers in &all {
            let is_new = seen.insert(&headers[..parts]);
            let status = if is_new { 200 } else { 429 };
            let answer = send(&layer, request_with(headers)).await;
            assert_eq!(answer.status, status, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn long_parts_are_stored_as_hashes() {
    let key = KeyBy::function(|parts| Some(parts.uri.path().to_owned()));
    let limiter = limiter(store().0, ["a=sliding-log:1/1m"]);
    let layer = InboundLayer::new(limiter.clone(), key);
    let to = |path: &str| {
        let mut request = request_from(ALICE);
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    let (short, long) = (
        format!("/{}", "a".repeat(127)),
        format!("/{}", "a".repeat(128)),
    );
    let longer = format!("/{}", "a".repeat(60_000));
    for path in [&short, &long, &longer] {
        assert_eq!(send(&layer, to(path)).await.status, 200);
        assert_eq!(send(&layer, to(path)).await.status, 429);
    }
    assert_eq!(limiter.peek(&short).run().unwrap().remaining(), 0);
    assert_eq!(limiter.peek(&long).run().unwrap().remaining(), 1);
}

#[tokio::test]
async fn no_header_makes_an_address_another() {
    let by_key = || KeyBy::header(HeaderName::from_static("x-api-key"));
    let listed = ClientIp::peer().allow(["203.0.113.7"]).unwrap();
    let listed = listed.deny(["203.0.113.0/24"]).unwrap();
    let listed = || KeyBy::client_ip(listed.clone());
    for key in [
        by_key().or(listed()),
        by_user().or(by_key()).or(listed()),
        by_key().or(listed().and(by_user())),
        by_key().or(KeyBy::client_ip(ClientIp::peer()).and(listed())),
        by_key().and(listed()).or(by_user()),
        by_key().and(by_user()).and(listed()),
    ] {
        let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), key);
        for headers in [&[][..], &[("x-api-key", "a")][..], &[("user", "a")][..]] {
            for (peer, statuses) in [(7, [200, 200]), (8, [403, 403])] {
                for status in statuses {
                    let mut request = request_with(headers);
                    let peer = Peer([203, 0, 113, peer].into());
                    let _ = request.extensions_mut().insert(peer);
                    assert_eq!(send(&layer, request).await.status, status);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_name_that_spells_a_hash_is_not_the_name_that_it_spells() {
    // As `printf 'a%.0s' {1..200} | sha256sum` prints it.
    let spelled = "sha256-c2a908d98f5df987ade41b5fce213067";
    let of = |name: &str| request_with(&[("user", name)]);
    assert!(!are_one(&by_user(), [of(spelled), of(&"a".repeat(200))]).await);
    assert!(are_one(&by_user(), [of(spelled), of(spelled)]).await);
}

/// These texts are in stores, and in the table of docs/http.md.
#[test]
fn the_key_of_an_address_or_a_header_is_known_without_a_request() {
    let of = |address: &str, bits| {
        let client = ClientIp::peer().ipv6_prefix(bits);
        text_of(client.key_of(address.parse().unwrap()).as_key())
    };
    for (address, bits, text) in [
        ("203.0.113.7", 64, "203.0.113.7"),
        ("203.0.113.7", 0, "203.0.113.7"),
        ("::ffff:203.0.113.7", 64, "203.0.113.7"),
        ("::ffff:cb00:7107", 0, "203.0.113.7"),
        ("2001:db8::1.2.3.4", 64, "2001:db8::/48 2001:db8::/64"),
        ("64:ff9b::203.0.113.7", 64, "203.0.113.7"),
        ("2001:db8:1:2::9", 64, "2001:db8:1::/48 2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", 56, "2001:db8:1::/48 2001:db8:1::/56"),
        (
            "2001:db8:1:2::9",
            128,
            "2001:db8:1::/48 2001:db8:1:2::9/128",
        ),
        (
            "2001:db8:1:2::9",
            255,
            "2001:db8:1::/48 2001:db8:1:2::9/128",
        ),
        ("2001:db8:1:2::9", 48, "2001:db8:1::/48"),
        ("2001:db8:1:2::9", 32, "2001:db8::/32"),
    ] {
        assert_eq!(of(address, bits), text, "{address} {bits}");
        let request = request_from(address.parse::<std::net::IpAddr>().unwrap());
        let (parts, _) = with(request, &[("user", "bob")]).into_parts();
        let client = || ClientIp::peer().ipv6_prefix(bits);
        let (partition, rest) = text.split_once(' ').unwrap_or((text, ""));
        for (key, text) in [
            (KeyBy::client_ip(client()), text.to_owned()),
            (
                KeyBy::client_ip(client()).and(by_user()),
                format!("{partition} {}|3|{rest}bob", rest.len()),
            ),
            (
                by_user().and(client()),
                format!("bob 0|{}|{partition}{rest}", partition.len()),
            ),
            (
                KeyBy::client_ip(client()).or(by_user()),
                format!("{partition} 1|{rest}"),
            ),
            (
                KeyBy::header(HeaderName::from_static("none")).or(client()),
                format!("{partition} 2|{rest}"),
            ),
        ] {
            let found = key.key_of(&parts).unwrap();
            assert_eq!(text_of(found.as_key()), text);
            // No log shows it.
            assert_eq!(format!("{found:?}"), format!("{:?}", found.as_key()));
        }
    }
    let found = KeyBy::key_of_header("a".repeat(200));
    let seen = text_of(found.as_key());
    assert_eq!(seen, "sha256-c2a908d98f5df987ade41b5fce213067");
    let key = KeyBy::header(HeaderName::from_static("x-api-key"));
    let (parts, _) = request_with(&[("x-api-key", &"a".repeat(200))]).into_parts();
    assert_eq!(key.key_of(&parts), Some(found));
    let allowed = ClientIp::peer().allow(["203.0.113.7"]).unwrap();
    for key in [key, KeyBy::client_ip(allowed)] {
        assert_eq!(key.key_of(&request_with(&[]).into_parts().0), None);
    }
}

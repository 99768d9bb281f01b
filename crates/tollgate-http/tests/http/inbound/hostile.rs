//! Whatever clients write into headers, they never choose the address that they are counted by.
//!
//! There are eight times as many cases as `PROPTEST_CASES` says, 256 by default, of [`REQUESTS`]
//! requests each. Ten million requests take about a minute:
//!
//! ```sh
//! PROPTEST_CASES=57000 cargo test --release -p tollgate-http --features axum --test http hostile
//! ```

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::FutureExt;
use http::header::{FORWARDED, HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tollgate_http::inbound::ClientIp;

use super::support::*;

/// How many requests a case sends.
const REQUESTS: u32 = 18;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

const PROXIES: [&str; 2] = ["10.0.0.0/8", "2001:db8:ff::/48"];
const INNER_PROXY: [u8; 4] = [10, 1, 2, 3];
/// What the proxies write for one of them, which clients reach, and its key.
const OUTER_PROXY: [(&str, &str); 4] = [
    ("10.0.0.1", "10.0.0.1"),
    ("::ffff:10.0.0.1", "10.0.0.1"),
    ("[::ffff:a00:1]:4711", "10.0.0.1"),
    ("2001:db8:ff::1", "2001:db8:ff::/48 2001:db8:ff::/64"),
];

/// What a proxy writes that does not know who called it.
const UNKNOWN: [&str; 8] = [
    "unknown",
    "_hidden",
    "fe80::1%eth0",
    "[fe80::1%25eth0]:80",
    "[6.6.6.6]",
    "6.6.6.6:99999",
    "6.6.6.6.6",
    "::ffff:6.6.6",
];

/// What hostile clients write, beside random bytes, between bars.
const PIECES: [&str; 4] = [
    r#",|, |,,|;|; |"|""|\|\"|\\|=| |:|:80|[|]|%|for=|For=|FOR="|for="[|]"|by=|host="|proto=https"#,
    "unknown|_hidden|6.6.6.6|198.51.100.1|for=6.6.6.6|10.0.0.1|10.9.9.9|::ffff:10.0.0.1",
    "[::ffff:a00:1]:1|::ffff:6.6.6.6|0:0:0:0:0:FFFF:606:606|64:ff9b::6.6.6.6|2001:db8:6::6",
    "[2001:db8:ff::9]:80|::|fe80::1%eth0|010.0.0.1",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces = PIECES.iter().flat_map(|pieces| pieces.split('|'));
    let pieces: Vec<&[u8]> = pieces.map(str::as_bytes).collect();
    let text = select(pieces).prop_map(<[u8]>::to_vec);
    let byte = prop_oneof![9 => b' '..=b'~', 3 => 0x80..=0xff_u8, 1 => Just(b'\t')];
    let many = (text.clone(), 1_usize..20_000).prop_map(|(piece, count)| {
        let count = count.min((64 << 10) / piece.len());
        piece.repeat(count)
    });
    prop_oneof![
        400 => text,
        100 => prop::collection::vec(byte, 0..16),
        1 => many,
    ]
}

/// The lines of a header.
fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = prop::collection::vec(piece(), 0..10).prop_map(|pieces| pieces.concat());
    prop_oneof![
        400 => prop::collection::vec(line, 0..4),
        1 => prop::collection::vec(piece(), 1_000..3_000),
    ]
}

/// A client that is no proxy: the address of its connection, what proxies write for it, and its key.
#[derive(Debug)]
struct Client {
    peer: IpAddr,
    entry: String,
    key: String,
}

fn client() -> impl Strategy<Value = Client> {
    let v4 = (
        any::<[u8; 4]>(),
        any::<bool>(),
        any::<prop::sample::Index>(),
    );
    let v6 = (any::<[u16; 8]>(), any::<prop::sample::Index>());
    prop_oneof![
        v4.prop_map(|(mut octets, is_mapped, notation)| {
            if octets[0] == 10 {
                octets[0] = 11;
            }
            let v4 = Ipv4Addr::from(octets);
            let [a, b, c, d] = octets;
            let mapped = v4.to_ipv6_mapped();
            let entry = notation
                .get(&[
                    format!("{v4}"),
                    format!(" {v4}\t"),
                    format!("{v4}:4711"),
                    format!("{mapped}"),
                    format!("[{mapped}]:80"),
                    format!("::ffff:{a:x}{b:02x}:{c:x}{d:02x}"),
                    format!("0:0:0:0:0:FFFF:{v4}"),
                    format!("64:ff9b::{v4}"),
                ])
                .clone();
            let peer = if is_mapped { mapped.into() } else { v4.into() };
            Client {
                peer,
                entry,
                key: v4.to_string(),
            }
        }),
        v6.prop_map(|(mut segments, notation)| {
            segments[0] = 0x2a00;
            let v6 = Ipv6Addr::from(segments);
            let [a, b, c, d, e, f, g, h] = segments;
            let [.., w, x, y, z] = v6.octets();
            let entry = notation
                .get(&[
                    format!("{v6}"),
                    format!("[{v6}]"),
                    format!("[{v6}]:4711"),
                    format!("{a:04X}:{b:04X}:{c:04X}:{d:04X}:{e:04X}:{f:04X}:{g:04X}:{h:04X}"),
                    format!("{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{w}.{x}.{y}.{z}"),
                ])
                .clone();
            let partition = Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0);
            let rest = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0);
            Client {
                peer: v6.into(),
                entry,
                key: format!("{partition}/48 {rest}/64"),
            }
        }),
    ]
}

/// How a proxy adds its entry to the lines that it was sent.
#[derive(Clone, Copy, Debug)]
enum Adds {
    Line,
    ToLastLine(&'static str),
    ToAllInOneLine,
}

impl Adds {
    const ALL: [Self; 4] = [
        Self::Line,
        Self::ToLastLine(", "),
        Self::ToLastLine(","),
        Self::ToAllInOneLine,
    ];

    /// Adds an entry, and then some that are empty.
    fn add(self, lines: &mut Vec<Vec<u8>>, entry: &[u8], empty: &str) {
        let entry = &*[entry, empty.as_bytes()].concat();
        if matches!(self, Self::ToAllInOneLine) && !lines.is_empty() {
            *lines = vec![lines.join(&b", "[..])];
        }
        match (self, lines.last_mut()) {
            (Self::ToLastLine(separator), Some(last)) => {
                last.extend([separator.as_bytes(), entry].concat());
            }
            (Self::ToAllInOneLine, Some(all)) => all.extend([b", ", entry].concat()),
            (Self::Line, _) | (_, None) => lines.push(entry.to_vec()),
        }
    }
}

/// Returns an element of `Forwarded`, with the name of the host that the client asked for.
fn element(address: &str, host: &[u8], order: usize) -> Vec<u8> {
    let address = address.trim();
    let is_token = !address.is_empty() && !address.contains([':', '[', '%']);
    let address = if is_token && order == 0 {
        address.to_owned()
    } else {
        format!("\"{address}\"")
    };
    let mut quoted = b"\"".to_vec();
    for byte in host {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    let host = [b"host=", &*quoted].concat();
    match order {
        0 => format!("for={address}").into_bytes(),
        1 => format!("FOR={address};proto=https;by=10.0.0.1").into_bytes(),
        2 => [format!("For={address};").as_bytes(), &host].concat(),
        _ => [&host, format!("; by=_proxy;for={address}").as_bytes()].concat(),
    }
}

#[derive(Debug)]
struct Case {
    lines: Vec<Vec<u8>>,
    client: Client,
    outer: (&'static str, &'static str),
    unknown: &'static str,
    adds: [Adds; 2],
    empty: &'static str,
    order: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let adds = || select(&Adds::ALL[..]);
    let proxies = (select(&OUTER_PROXY[..]), select(&UNKNOWN[..]));
    (
        lines(),
        client(),
        proxies,
        ([adds(), adds()], select(vec!["", "", ",", ", \t,"])),
        0..4_usize,
    )
        .prop_map(
            |(lines, client, (outer, unknown), (adds, empty), order)| Case {
                lines,
                client,
                outer,
                unknown,
                adds,
                empty,
                order,
            },
        )
}

fn request(peer: IpAddr, headers: &[(HeaderName, &[Vec<u8>])]) -> http::Request<Body> {
    let mut request = request_from(peer);
    for (name, lines) in headers {
        for line in *lines {
            let value = HeaderValue::from_bytes(line).unwrap();
            let _ = request.headers_mut().append(name, value);
        }
    }
    request
}

/// The layers that read a chain of addresses.
struct Chain {
    name: HeaderName,
    behind: Counted,
    one_hop: Counted,
    two_hops: Counted,
}

impl Chain {
    fn new(name: HeaderName, model: impl Fn(ClientIp) -> ClientIp) -> Self {
        let hops = |count| ClientIp::hops(count).only_from(PROXIES).unwrap();
        Self {
            name,
            behind: Counted::by(model(ClientIp::behind(PROXIES).unwrap())),
            one_hop: Counted::by(model(hops(1))),
            two_hops: Counted::by(model(hops(2))),
        }
    }
}

struct Layers {
    peer: Counted,
    chains: [Chain; 2],
    header: Counted,
    requests: RefCell<u32>,
}

impl Layers {
    fn new() -> Self {
        let header = ClientIp::header(X_REAL_IP).only_from(PROXIES).unwrap();
        Self {
            peer: Counted::by(ClientIp::peer()),
            chains: [
                Chain::new(X_FORWARDED_FOR, |model| model),
                Chain::new(FORWARDED, ClientIp::forwarded),
            ],
            header: Counted::by(header),
            requests: RefCell::default(),
        }
    }

    fn key_of(&self, layer: &Counted, request: http::Request<Body>) -> Result<String, u16> {
        *self.requests.borrow_mut() += 1;
        layer.key_of(request).now_or_never().unwrap()
    }

    /// Past the proxies, no header says anything.
    fn past_the_proxies(&self, case: &Case) -> TestCaseResult {
        let [x_forwarded_for, forwarded] = &self.chains;
        for layer in [
            &self.peer,
            &x_forwarded_for.behind,
            &forwarded.behind,
            &x_forwarded_for.one_hop,
            &forwarded.two_hops,
            &self.header,
        ] {
            let names = [X_FORWARDED_FOR, FORWARDED, X_REAL_IP];
            let headers = names.map(|name| (name, &*case.lines));
            let key = self.key_of(layer, request(case.client.peer, &headers));
            prop_assert_eq!(key.as_ref(), Ok(&case.client.key));
        }
        Ok(())
    }

    /// Through proxies, only what they added counts.
    fn through_proxies(&self, case: &Case, chain: &Chain) -> TestCaseResult {
        let [first, second] = case.adds;
        let host = case.lines.first().map_or(&b""[..], |line| line);
        let entry = |address: &str| {
            if chain.name == FORWARDED {
                element(address, host, case.order)
            } else {
                address.as_bytes().to_vec()
            }
        };
        let (outer, outer_key) = case.outer;
        let outer_peer = outer.trim_start_matches('[').split("]:").next().unwrap();
        let from = |peer: IpAddr, lines: &[Vec<u8>]| request(peer, &[(chain.name.clone(), lines)]);
        let from_outer = |lines: &[Vec<u8>]| from(outer_peer.parse().unwrap(), lines);

        let mut lines = case.lines.clone();
        first.add(&mut lines, &entry(&case.client.entry), case.empty);
        for layer in [&chain.behind, &chain.one_hop] {
            let key = self.key_of(layer, from_outer(&lines));
            prop_assert_eq!(key.as_ref(), Ok(&case.client.key));
        }
        second.add(&mut lines, &entry(outer), case.empty);
        for layer in [&chain.behind, &chain.two_hops] {
            let key = self.key_of(layer, from(INNER_PROXY.into(), &lines));
            prop_assert_eq!(key.as_ref(), Ok(&case.client.key));
        }
        // A proxy that does not know its client is the last whose address is known.
        let mut lines = case.lines.clone();
        first.add(&mut lines, &entry(case.unknown), case.empty);
        let key = self.key_of(&chain.behind, from_outer(&lines));
        prop_assert_eq!(key.as_deref(), Ok(outer_key));
        Ok(())
    }

    /// A proxy's own header counts if it stands alone.
    fn by_header(&self, case: &Case) -> TestCaseResult {
        let entry = case.client.entry.as_bytes().to_vec();
        let replaced = [entry.clone()];
        let added = [&case.lines[..], &[entry]].concat();
        let is_alone = case.lines.is_empty();
        for (lines, is_alone) in [(&replaced[..], true), (&added[..], is_alone)] {
            let from_proxy = request(INNER_PROXY.into(), &[(X_REAL_IP, lines)]);
            let expected = if is_alone {
                Ok(&case.client.key)
            } else {
                Err(&500)
            };
            let key = self.key_of(&self.header, from_proxy);
            prop_assert_eq!(key.as_ref(), expected);
        }
        Ok(())
    }
}

#[test]
fn hostile_headers_choose_no_address() {
    let config = ProptestConfig::default();
    let cases = 8 * config.cases;
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        source_file: Some(file!()),
        ..config
    });
    let layers = Layers::new();
    let outcome = runner.run(&case(), |case| {
        layers.past_the_proxies(&case)?;
        for chain in &layers.chains {
            layers.through_proxies(&case, chain)?;
        }
        layers.by_header(&case)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    // Failures of earlier runs are tried again, too.
    assert!(*layers.requests.borrow() >= cases * REQUESTS);
}

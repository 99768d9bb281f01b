//! `Prefixes`: ranges of IP addresses.

use std::net::{IpAddr, Ipv6Addr};

/// The prefix of IPv4 addresses in IPv6 notation, `::ffff:0:0/96`.
const MAPPED: u128 = 0xffff << 32;
/// The well-known prefix by which IPv6 clients and servers reach each other through IPv4,
/// `64:ff9b::/96` (RFC 6052).
const NAT64: u128 = 0x0064_ff9b << 96;

/// Returns the address that stands for a client: an IPv4 address in IPv6 notation, or behind the
/// well-known prefix of NAT64, is that IPv4 address.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let bits = v6.to_bits();
    match bits >> 32 {
        prefix if prefix == MAPPED >> 32 || prefix == NAT64 >> 32 => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::from([a, b, c, d])
        }
        _ => address,
    }
}

/// Returns the address's bits in one space, in which IPv4 has its range of IPv6.
fn bits(address: IpAddr) -> u128 {
    match canonical(address) {
        IpAddr::V4(v4) => MAPPED | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Returns the first address that shares the first `length` bits of `address`.
pub(super) fn first_of(address: Ipv6Addr, length: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & mask(length))
}

/// Returns a number of `length` ones and then zeros.
fn mask(length: u8) -> u128 {
    u128::MAX
        .checked_shl(u32::from(128_u8.saturating_sub(length)))
        .unwrap_or(0)
}

/// Ranges of IP addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes(Vec<(u128, u8)>);

impl Prefixes {
    /// Reads addresses and prefixes, such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`.
    pub(super) fn read<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        let prefixes = texts.into_iter().map(|text| read(text.as_ref()));
        prefixes.collect::<Result<_, _>>().map(Self)
    }

    /// Reads the addresses of proxies: at least one.
    pub(super) fn read_proxies<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        let proxies = Self::read(texts)?;
        if proxies.is_empty() {
            return Err(PrefixError(Reason::NoProxies));
        }
        Ok(proxies)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contain(&self, address: IpAddr) -> bool {
        // No range of IPv6 holds IPv4 addresses, except within their own.
        let shortest = if canonical(address).is_ipv4() { 96 } else { 0 };
        let bits = bits(address);
        let mut prefixes = self.0.iter();
        prefixes.any(|(first, length)| *length >= shortest && bits & mask(*length) == *first)
    }

    /// Returns whether they hold all IPv4 or all IPv6 addresses.
    pub(super) fn hold_everything(&self) -> bool {
        let all = [(MAPPED, 96), (0, 0)];
        self.0.iter().any(|prefix| all.contains(prefix))
    }
}

fn read(text: &str) -> Result<(u128, u8), PrefixError> {
    let wrong = |reason: fn(String) -> Reason| PrefixError(reason(text.to_owned()));
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong(Reason::Address))?;
    let (longest, offset) = if address.is_ipv4() {
        (32, 96)
    } else {
        (128, 0)
    };
    let length = length.map_or(Ok(longest), str::parse);
    let length = length.ok().filter(|length| *length <= longest);
    let wrong_length = || PrefixError(Reason::Length(text.to_owned(), longest));
    let length = length.ok_or_else(wrong_length)? + offset;
    let bits = match address {
        IpAddr::V4(_) => bits(address),
        // Of clients behind NAT64, the IPv4 address is compared.
        IpAddr::V6(_) if length >= 96 => bits(address),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    if bits & mask(length) == bits {
        return Ok((bits, length));
    }
    Err(wrong(Reason::HostBits))
}

/// A text that is no prefix of IP addresses, or a list of proxies that is empty.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct PrefixError(Reason);

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
enum Reason {
    #[error(
        "{0:?} is no range of addresses: write it like `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`"
    )]
    Address(String),
    #[error("{0:?} is no range of addresses: after `/` comes a length from 0 to {1}")]
    Length(String, u8),
    #[error(
        "{0:?} is no range of addresses: its address has ones after its length; write the first address of the \
         range, or the address alone"
    )]
    HostBits(String),
    #[error(
        "the list of proxies is empty: name their addresses, like `10.0.0.0/8`, or use `ClientIp::peer()` if there \
         is no proxy"
    )]
    NoProxies,
}

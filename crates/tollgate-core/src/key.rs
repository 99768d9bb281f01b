//! `Key`: who or what a limit is counted for.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

/// Who or what a limit is counted for, such as a user or an address: any bytes, in a partition and
/// a rest.
///
/// States of one partition are stored together, so one request can decide them together; in a
/// cluster, the partition is the hash tag. Keys are equal if both parts are. Moving a byte from one
/// part to the other makes another key, so callers need no separator and no escaping.
///
/// A number or an IP address is the key of its text, without an allocation. An IPv4 address in IPv6
/// notation is another key than the IPv4 address: convert it first
/// ([`to_canonical`](Ipv6Addr::to_canonical)).
///
/// # Examples
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use tollgate_core::Key;
///
/// let ip = Key::from("203.0.113.7");
/// let ip_and_endpoint = ip.with_rest("/login");
/// assert_eq!(*ip_and_endpoint.partition(), *b"203.0.113.7");
/// assert_ne!(Key::from("a:b"), Key::from("a").with_rest(":b"));
///
/// assert_eq!(Key::from(IpAddr::from(Ipv4Addr::new(203, 0, 113, 7))), ip);
/// assert_eq!(Key::from(42_u64), Key::from("42"));
/// assert_eq!(Key::from((42_u64, "/login")), Key::from("42").with_rest("/login"));
/// ```
// Of plain fields, not an enum of texts: those of an inlined call stay in registers, and a key of
// bytes costs nothing more.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    kind: Kind,
    /// Of a key of bytes.
    bytes: &'a [u8],
    /// Of a number or an address: its value, the low half first.
    value: [u64; 2],
    rest: &'a [u8],
}

/// What a partition is the text of.
#[expect(
    clippy::exhaustive_enums,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The bytes themselves.
    Bytes,
    /// A number without a sign.
    Unsigned,
    /// A number with a sign.
    Signed,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
}

/// A partition before a number or an address is written as text.
#[expect(
    clippy::exhaustive_enums,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug)]
pub enum RawPartition<'a> {
    /// The bytes.
    Bytes(&'a [u8]),
    /// The value of a number or an address, the low half first.
    Value(Kind, [u64; 2]),
}

impl<'a> Key<'a> {
    /// Returns a key with this partition and an empty rest.
    #[inline]
    #[must_use]
    pub fn new(partition: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            kind: Kind::Bytes,
            bytes: partition.as_ref(),
            value: [0; 2],
            rest: &[],
        }
    }

    fn of_value(kind: Kind, value: u128) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the two halves are the whole"
        )]
        let value = [value as u64, (value >> 64) as u64];
        Self {
            kind,
            bytes: &[],
            value,
            rest: &[],
        }
    }

    /// Returns a key with the same partition and this `rest`.
    #[inline]
    #[must_use]
    pub fn with_rest(self, rest: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            rest: rest.as_ref(),
            ..self
        }
    }

    /// Returns the partition, which decides where the key's states are stored.
    #[inline]
    #[must_use]
    pub fn partition(&self) -> Partition<'a> {
        match self.raw_partition() {
            RawPartition::Bytes(bytes) => Partition(Part::Bytes(bytes)),
            RawPartition::Value(kind, value) => Partition::of_value(kind, value),
        }
    }

    /// See [`inside::raw_partition`](crate::inside::raw_partition).
    #[inline(always)]
    pub(crate) fn raw_partition(&self) -> RawPartition<'a> {
        match self.kind {
            Kind::Bytes => RawPartition::Bytes(self.bytes),
            kind => RawPartition::Value(kind, self.value),
        }
    }

    /// Returns the rest, which is empty by default.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl PartialEq for Key<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // The rest usually is empty. glibc's `memcmp` then reads its pointer, which is invalid, under a
        // mask; the processor takes 80 ns to suppress that fault.
        let is_same_rest = self.rest.len() == other.rest.len()
            && (self.rest.is_empty() || self.rest == other.rest);
        is_same_rest && self.partition() == other.partition()
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.partition().hash(hasher);
        self.rest.hash(hasher);
    }
}

/// The bytes of a key's partition, to which it dereferences.
#[derive(Clone, Copy)]
pub struct Partition<'a>(Part<'a>);

#[derive(Clone, Copy)]
enum Part<'a> {
    Bytes(&'a [u8]),
    Written(Written),
}

impl Partition<'_> {
    /// Returns the text of a number or an address.
    #[cold]
    pub(crate) fn of_value(kind: Kind, [low, high]: [u64; 2]) -> Self {
        let value = u128::from(low) | u128::from(high) << 64;
        let mut written = Written {
            length: 0,
            text: [0; LONGEST],
        };
        // None is longer than there is room.
        let _ = match kind {
            Kind::Bytes => Ok(()),
            Kind::Unsigned if high == 0 => written.write_number(low),
            Kind::Unsigned => write!(written, "{value}"),
            Kind::Signed => write!(written, "{}", value.cast_signed()),
            Kind::Ipv4 => written.write_ipv4(low),
            Kind::Ipv6 => written.write_ipv6(Ipv6Addr::from_bits(value)),
        };
        Self(Part::Written(written))
    }
}

impl Deref for Partition<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Part::Bytes(bytes) => bytes,
            Part::Written(written) => &written.text[..usize::from(written.length)],
        }
    }
}

impl PartialEq for Partition<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Partition<'_> {}

/// Shows the length only: it may be an address, a name or a secret.
impl fmt::Debug for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({} bytes)", self.len())
    }
}

/// The longest text of a number or an address: an IPv6 address in full, or a number of 128 bits.
const LONGEST: usize = 40;

/// What a number or an address has written so far.
#[derive(Clone, Copy)]
struct Written {
    length: u8,
    text: [u8; LONGEST],
}

// What `fmt` does for numbers takes ten times as long.
impl Written {
    fn write_number(&mut self, number: u64) -> fmt::Result {
        if number > 9 {
            self.write_number(number / 10)?;
        }
        self.write_byte(b'0' + (number % 10).to_le_bytes()[0])
    }

    fn write_byte(&mut self, byte: u8) -> fmt::Result {
        let room = self.text.get_mut(usize::from(self.length));
        *room.ok_or(fmt::Error)? = byte;
        self.length += 1;
        Ok(())
    }

    /// Writes an IPv4 address, to nothing before it.
    fn write_ipv4(&mut self, address: u64) -> fmt::Result {
        let mut length = 0;
        for octet in address.to_be_bytes().into_iter().skip(4).map(u32::from) {
            let (tens, hundreds) = (octet / 10, octet / 100);
            let digits = hundreds + ((tens - 10 * hundreds) << 8) + ((octet - 10 * tens) << 16);
            let text = digits + u32::from_le_bytes(*b"000.");
            // Without a branch that depends on the address.
            let zeros = u8::from(octet < 10) + u8::from(octet < 100);
            let room = self.text[usize::from(length)..].first_chunk_mut();
            *room.ok_or(fmt::Error)? = (text >> (8 * zeros)).to_le_bytes();
            length += 4 - zeros;
        }
        self.length = length - 1;
        Ok(())
    }

    fn write_ipv6(&mut self, address: Ipv6Addr) -> fmt::Result {
        if address.to_ipv4_mapped().is_some() {
            return write!(self, "{address}");
        }
        let segments = address.segments();
        // The first of the longest runs of zeros is left out, unless it is one zero.
        let zeros = |from: usize| segments[from..].iter().take_while(|it| **it == 0).count();
        let first = (0..8).rev().max_by_key(|from| zeros(*from)).unwrap_or(8);
        let left_out = match zeros(first) {
            0 | 1 => 8..8,
            length => first..first + length,
        };
        for (index, segment) in segments.into_iter().enumerate() {
            if index == left_out.start {
                self.write_str("::")?;
            }
            if left_out.contains(&index) {
                continue;
            }
            if index != 0 && index != left_out.end {
                self.write_byte(b':')?;
            }
            for bits in [12, 8, 4, 0] {
                if bits == 0 || segment >> bits > 0 {
                    self.write_byte(b"0123456789abcdef"[usize::from(segment >> bits & 0xf)])?;
                }
            }
        }
        Ok(())
    }
}

impl Write for Written {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let end = start + more.len();
        let room = self.text.get_mut(start..end).ok_or(fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.length = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl<'a> From<&'a String> for Key<'a> {
    #[inline]
    fn from(text: &'a String) -> Self {
        Self::new(text)
    }
}

/// Such as the bytes of a UUID.
impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::new(bytes)
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

macro_rules! of_value {
    ($($type:ty: $kind:ident, $value:expr;)*) => {
        $(
            /// The key of its text.
            impl From<$type> for Key<'_> {
                #[inline]
                fn from(value: $type) -> Self {
                    let value_of: fn($type) -> u128 = $value;
                    Self::of_value(Kind::$kind, value_of(value))
                }
            }

            impl sealed::Partition for $type {}
        )*
    };
}

of_value! {
    u8: Unsigned, u128::from;
    u16: Unsigned, u128::from;
    u32: Unsigned, u128::from;
    u64: Unsigned, u128::from;
    u128: Unsigned, u128::from;
    usize: Unsigned, |value| u128::try_from(value).unwrap_or(u128::MAX);
    i8: Signed, |value| i128::from(value).cast_unsigned();
    i16: Signed, |value| i128::from(value).cast_unsigned();
    i32: Signed, |value| i128::from(value).cast_unsigned();
    i64: Signed, |value| i128::from(value).cast_unsigned();
    i128: Signed, i128::cast_unsigned;
    isize: Signed, |value| i128::try_from(value).unwrap_or(i128::MAX).cast_unsigned();
    Ipv4Addr: Ipv4, |address| address.to_bits().into();
    Ipv6Addr: Ipv6, Ipv6Addr::to_bits;
}

/// The key of its text.
impl From<IpAddr> for Key<'_> {
    #[inline]
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl sealed::Partition for IpAddr {}
impl sealed::Partition for &str {}
impl sealed::Partition for &String {}
impl sealed::Partition for &[u8] {}
impl<const N: usize> sealed::Partition for &[u8; N] {}

/// A partition and a rest.
impl<'a, P, R> From<(P, &'a R)> for Key<'a>
where
    P: Into<Self> + sealed::Partition,
    R: AsRef<[u8]> + ?Sized,
{
    fn from((partition, rest): (P, &'a R)) -> Self {
        partition.into().with_rest(rest)
    }
}

mod sealed {
    /// What is a partition without a rest.
    #[expect(unnameable_types, reason = "a key in a pair would lose its own rest")]
    pub trait Partition {}
}

/// Shows the lengths only: a key may be an address, a name or a secret.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Key({} + {} bytes)",
            self.partition().len(),
            self.rest.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_keys_of_their_text() {
        let v6 = Ipv6Addr::from([0xabcd; 8]);
        let scoped = Ipv6Addr::from(0x0000_ffff_cb00_7107_u128);
        for (key, text) in [
            (Key::from(u128::MAX), u128::MAX.to_string()),
            (Key::from(i128::MIN), i128::MIN.to_string()),
            (Key::from(i64::MIN), i64::MIN.to_string()),
            (Key::from(-7_i8), "-7".to_owned()),
            (Key::from(-7_isize), "-7".to_owned()),
            (Key::from(usize::MAX), usize::MAX.to_string()),
            (Key::from(0_u8), "0".to_owned()),
            (Key::from(v6), v6.to_string()),
            (
                Key::from(IpAddr::from(scoped)),
                "::ffff:203.0.113.7".to_owned(),
            ),
            (Key::from(Ipv4Addr::BROADCAST), "255.255.255.255".to_owned()),
        ] {
            assert_eq!(*key.partition(), *text.as_bytes());
            assert_eq!(key, Key::from(&text));
            assert_eq!(key.with_rest("r"), Key::from(&text).with_rest("r"));
            assert_ne!(key, Key::from(&text).with_rest("r"));
        }
        assert_eq!(i128::MIN.to_string().len(), LONGEST);
        for bits in 0..=u16::MAX {
            let v4 = Ipv4Addr::from(u32::from(bits).rotate_right(8) ^ 0x0a_64_00);
            // Each segment is zero or not, and the others have all lengths.
            let segment = |index: usize| (bits >> index & 1) * (0xfedc >> (bits >> 8 & 0xf));
            let v6 = Ipv6Addr::from(std::array::from_fn::<_, 8, _>(segment));
            for address in [IpAddr::from(v4), v6.into()] {
                assert_eq!(Key::from(address), Key::from(&address.to_string()));
            }
        }
    }

    #[test]
    fn pairs_are_a_partition_and_a_rest() {
        let expected = Key::from("7").with_rest("/login");
        let path = "/login".to_owned();
        assert_eq!(Key::from(("7", "/login")), expected);
        assert_eq!(Key::from((7, &path)), expected);
        assert_eq!(Key::from((b"7", b"/login")), expected);
        assert_ne!(Key::from(("7/", "login")), expected);
    }
}

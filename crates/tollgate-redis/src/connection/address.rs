//! `Address`: where a server is, in whatever form a program has it.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisResult};

/// The address of a server: text such as `redis://127.0.0.1:6379` (a `&str`, `String`, `&String` or
/// a reference to a `Url`), a host and a port, or a [`ConnectionInfo`] or [`ConnectionAddr`].
///
/// A `protocol` in text is kept to; in a [`ConnectionInfo`] it has no effect, because redis-rs does
/// not say whether it was set.
pub trait Address {
    /// Returns what redis-rs needs to connect, and the version of the protocol if the address names
    /// one.
    #[doc(hidden)]
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)>;
}

impl<T: AsRef<str> + ?Sized> Address for &T {
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)> {
        let text = self.as_ref();
        let info = text.into_connection_info()?;
        let (_, query) = text.split_once('?').unwrap_or_default();
        let names_one = query.split('&').any(|pair| pair.starts_with("protocol="));
        let protocol = names_one.then(|| info.redis_settings().protocol());
        Ok((info, protocol))
    }
}

impl Address for String {
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)> {
        self.as_str().read()
    }
}

impl<T: Into<String>> Address for (T, u16) {
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)> {
        Ok((self.into_connection_info()?, None))
    }
}

impl Address for ConnectionAddr {
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)> {
        Ok((self.into_connection_info()?, None))
    }
}

impl Address for ConnectionInfo {
    fn read(self) -> RedisResult<(ConnectionInfo, Option<ProtocolVersion>)> {
        Ok((self, None))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        let text = "redis://127.0.0.1:7001/2".to_owned();
        let info = text.as_str().into_connection_info().unwrap();
        let read = [
            text.as_str().read(),
            (&text).read(),
            text.clone().read(),
            info.clone().read(),
        ];
        for read in read {
            let (read, protocol) = read.unwrap();
            assert_eq!(read.addr(), info.addr());
            assert_eq!(read.redis_settings().db(), 2);
            assert_eq!(protocol, None);
        }
        for read in [("127.0.0.1", 7001).read(), info.addr().clone().read()] {
            assert_eq!(read.unwrap().0.addr(), info.addr());
        }
        assert!("redis:/".read().is_err());
    }

    #[test]
    fn the_protocol_that_text_names_is_kept_to() {
        for (text, expected) in [
            ("redis://h?protocol=resp2", Some(ProtocolVersion::RESP2)),
            (
                "redis://h/1?a=b&protocol=resp3",
                Some(ProtocolVersion::RESP3),
            ),
            ("redis://protocol=resp2@h/", None),
            ("redis://h", None),
        ] {
            assert_eq!(text.read().unwrap().1, expected, "{text}");
        }
    }
}

//! Why there is no connection, and what to do about it.

use super::engine::Source;
use super::redact;
use crate::error::{ErrorKind, StoreError};

/// Why a client crate could not connect to a server.
///
/// What will not heal by itself is [`ErrorKind::Misconfigured`], the rest is
/// [`ErrorKind::Unavailable`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NoConnection {
    /// The server refused a certificate, or what this client says over TLS.
    AlertedTls,
    /// The server asks for a password, and got none.
    MissingPassword,
    /// No Sentinel let this client in.
    NoSentinel,
    /// The user may not do what connecting takes.
    NotPermitted,
    /// The server said nothing, or hung up.
    NotGreeted,
    /// The server is not there, or something else went wrong.
    Unreachable,
    /// The settings are none to connect with.
    UnusableSettings,
    /// The server's certificate is refused.
    UntrustedCertificate,
    /// The server refused the user or password.
    WrongPassword,
}

impl NoConnection {
    /// Returns what `text`, a client crate's error, comes down to: what the server said, or the
    /// first of `words`, which are the client crate's own, that stands in it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::wire::NoConnection;
    ///
    /// let words = [("connection reset", NoConnection::NotGreeted)];
    /// let told = |text| NoConnection::told(text, &words);
    /// assert_eq!(told("WRONGPASS invalid pair"), Some(NoConnection::WrongPassword));
    /// assert_eq!(told("connection reset by peer"), Some(NoConnection::NotGreeted));
    /// assert_eq!(told("something else"), None);
    /// ```
    #[must_use]
    pub fn told(text: &str, words: &[(&str, Self)]) -> Option<Self> {
        const SERVERS: [(&str, NoConnection); 3] = [
            ("NOAUTH", NoConnection::MissingPassword),
            ("WRONGPASS", NoConnection::WrongPassword),
            ("NOPERM", NoConnection::NotPermitted),
        ];
        let mut all = SERVERS.iter().chain(words);
        all.find(|(word, _)| text.contains(word))
            .map(|(_, told)| *told)
    }

    /// Returns what to tell the caller, with the client crate's error as the source.
    pub fn error(self, source: impl Into<Source>) -> StoreError {
        use ErrorKind::{Misconfigured, Unavailable};
        let (kind, advice) = match self {
            Self::AlertedTls => (
                Misconfigured,
                "the server refused TLS as this client speaks it: see whether it asks for a \
                 certificate, and whether its port is for TLS",
            ),
            Self::MissingPassword => (
                Misconfigured,
                "the server asks for a password: connect with one",
            ),
            Self::NoSentinel => (
                Unavailable,
                "no Sentinel let this client in: are they running, are their addresses right, and \
                 is what they ask for, be it a password or TLS?",
            ),
            Self::NotPermitted => (
                Misconfigured,
                "the server's user may not do what connecting takes: grant it the commands that \
                 the documentation lists",
            ),
            // A server that waits for the one kind of greeting, and was sent the other, says
            // nothing or hangs up.
            Self::NotGreeted => (
                Unavailable,
                "the server did not greet back: is it well, and does it speak TLS if, and only \
                 if, the address says so?",
            ),
            Self::Unreachable => (
                Unavailable,
                "no connection to the server: is it running, and is the address right?",
            ),
            Self::UnusableSettings => (
                Misconfigured,
                "the server cannot be used with these settings: see the source of this error",
            ),
            Self::UntrustedCertificate => (
                Misconfigured,
                "the server's certificate is refused: trust the authority that signed it, and \
                 connect by a name that it is for",
            ),
            Self::WrongPassword => (
                Misconfigured,
                "the server refused the user or password: connect with the right ones",
            ),
        };
        // A server that does not know `HELLO` or `AUTH` repeats the password.
        StoreError::new(kind, advice).with_source(redact::source(source.into(), &[]))
    }
}

//! `NoConnection`: why connecting failed, and what to do about it.

use std::fmt::Display;

use tollgate_core::{ErrorKind, StoreError};

use super::redact;
use super::redact::Source;

/// Why a client crate could not connect to a server.
///
/// Causes that do not go away by themselves are [`ErrorKind::Misconfigured`], the others
/// [`ErrorKind::Unavailable`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NoConnection {
    /// The TLS handshake failed: the server wants a client certificate, say, or the port is not for
    /// TLS.
    AlertedTls,
    /// The address is not a URL that the client understands.
    InvalidAddress,
    /// The server asks for a password, and got none.
    MissingPassword,
    /// No Sentinel accepted this client.
    NoSentinel,
    /// The server has no database of the number in the address.
    NoSuchDatabase,
    /// The user may not run a command that connecting needs.
    NotPermitted,
    /// The server did not answer the first command, or closed the connection.
    NotGreeted,
    /// The server cannot be reached, or something else went wrong.
    Unreachable,
    /// The settings are not valid.
    UnusableSettings,
    /// This client does not trust the server's certificate.
    UntrustedCertificate,
    /// The server refuses `HELLO`, with which a client asks for RESP3.
    WithoutResp3,
    /// The address asks for TLS, and the client was built without it.
    WithoutTls {
        /// The feature of the client crate that builds it with TLS.
        feature: &'static str,
    },
    /// The server refused the user or password.
    WrongPassword,
}

impl NoConnection {
    /// Finds the cause in a client crate's error `text`: a server's error code, or else the first
    /// of `words`, the client crate's own phrases, that the text contains.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_wire::inside::NoConnection;
    ///
    /// let words = [("connection reset", NoConnection::NotGreeted)];
    /// let told = |text| NoConnection::told(text, &words);
    /// assert_eq!(told("WRONGPASS invalid pair"), Some(NoConnection::WrongPassword));
    /// assert_eq!(told("connection reset by peer"), Some(NoConnection::NotGreeted));
    /// assert_eq!(told("something else"), None);
    /// ```
    #[must_use]
    pub fn told(text: &str, words: &[(&str, Self)]) -> Option<Self> {
        const SERVERS: [(&str, NoConnection); 11] = [
            ("DB index is out of range", NoConnection::NoSuchDatabase),
            ("invalid DB index", NoConnection::NoSuchDatabase),
            (
                "SELECT is not allowed in cluster mode",
                NoConnection::NoSuchDatabase,
            ),
            ("NOAUTH", NoConnection::MissingPassword),
            ("WRONGPASS", NoConnection::WrongPassword),
            ("NOPROTO", NoConnection::WithoutResp3),
            ("'HELLO'", NoConnection::WithoutResp3),
            ("'hello'", NoConnection::WithoutResp3),
            ("`HELLO`", NoConnection::WithoutResp3),
            ("`hello`", NoConnection::WithoutResp3),
            ("NOPERM", NoConnection::NotPermitted),
        ];
        let mut all = SERVERS.iter().chain(words);
        all.find(|(word, _)| text.contains(word))
            .map(|(_, told)| *told)
    }

    /// Returns the error for the caller, with the client crate's error as its source.
    pub fn error(self, source: impl Into<Source>) -> StoreError {
        self.error_of::<&str>([], source)
    }

    /// Returns the same error, which also names the servers: their addresses, without passwords.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_wire::inside::NoConnection;
    ///
    /// let error = NoConnection::Unreachable.error_of(["10.0.0.1:6379"], "refused");
    /// assert!(error.to_string().starts_with("10.0.0.1:6379: no connection to the server: "));
    /// ```
    pub fn error_of<T: Display>(
        self,
        servers: impl IntoIterator<Item = T>,
        source: impl Into<Source>,
    ) -> StoreError {
        use ErrorKind::{Misconfigured, Unavailable};
        let (kind, advice) = match self {
            Self::AlertedTls => (
                Misconfigured,
                "the TLS handshake failed: check whether the server requires a client certificate, and whether its port is for TLS",
            ),
            Self::InvalidAddress => (
                Misconfigured,
                "the server's address is not valid: write it like redis://user:password@host:6379",
            ),
            Self::MissingPassword => (
                Misconfigured,
                "the server requires a password: connect with one",
            ),
            Self::NoSentinel => (
                Unavailable,
                "no Sentinel accepted the connection: check that they are running, and check their addresses, passwords and TLS settings",
            ),
            Self::NoSuchDatabase => (
                Misconfigured,
                "the server refuses the number of the database at the end of the address: give one below the server's `databases`, 16 by default, or none for a cluster",
            ),
            Self::NotPermitted => (
                Misconfigured,
                "the server's user may not run a command that connecting needs: grant the commands that `docs/internals/server.md` lists",
            ),
            // A TLS port that gets plain text stays silent or hangs up, and so does the reverse.
            Self::NotGreeted => (
                Unavailable,
                "the server did not reply to the handshake: check that it is healthy, and that the address asks for TLS if and only if the server's port uses it",
            ),
            Self::Unreachable => (
                Unavailable,
                "no connection to the server: check that it is running, and that the address is right",
            ),
            Self::UnusableSettings => (
                Misconfigured,
                "the client cannot connect with these settings: correct what it names here",
            ),
            Self::UntrustedCertificate => (
                Misconfigured,
                "the server's certificate is not trusted: trust the authority that signed it, and connect by a host name that it covers",
            ),
            Self::WithoutResp3 => (
                Misconfigured,
                "the server refuses the command `HELLO`, which asks for RESP3: connect with RESP2",
            ),
            Self::WithoutTls { .. } => (
                Misconfigured,
                "the address asks for TLS, and this program was built without it: enable the feature",
            ),
            Self::WrongPassword => (
                Misconfigured,
                "the server refused the user or password: connect with the right ones",
            ),
        };
        // A server that does not know `HELLO` or `AUTH` repeats the password in its error.
        let source = redact::source(source.into(), &[]);
        let message = match self {
            Self::NoSuchDatabase | Self::UnusableSettings => format!("{advice} ({source})"),
            Self::WithoutTls { feature } => format!("{advice} `{feature}`"),
            _ => advice.to_owned(),
        };
        let servers = servers.into_iter();
        let servers: Vec<_> = servers.map(|server| server.to_string()).collect();
        let message = if servers.is_empty() {
            message
        } else {
            format!("{}: {message}", servers.join(", "))
        };
        StoreError::new(kind, message).with_source(source)
    }
}

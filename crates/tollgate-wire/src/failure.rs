//! `Failure`: why a command got no usable reply.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::redact::{self, Source};

/// Why a command got no usable reply.
///
/// Servers may repeat a command's arguments or keys in an error. A store cuts the text off before
/// those when it shows a line or a source.
#[non_exhaustive]
pub enum Failure {
    /// Nothing was sent, because too many calls are in flight.
    Crowded(Source),
    /// Nothing was sent, and nothing will be: the connection has ended for good.
    Ended(Source),
    /// Nothing was sent, so nothing was executed.
    NotSent(Source),
    /// The command was sent, or may have been, and no reply came: it may have been executed.
    Lost(Source),
    /// The server answered with an error.
    Refused {
        /// The error as the server wrote it, its code first: `NOSCRIPT No matching script.`
        line: String,
        /// The error of the client crate.
        source: Source,
    },
    /// The reply has the wrong type.
    Malformed(Source),
}

impl Failure {
    /// Returns a [`Crowded`](Self::Crowded) failure: too many calls are in flight.
    pub fn crowded(source: impl Into<Source>) -> Self {
        Self::Crowded(source.into())
    }

    /// Returns an [`Ended`](Self::Ended) failure: the connection has ended for good.
    pub fn ended(source: impl Into<Source>) -> Self {
        Self::Ended(source.into())
    }

    /// Returns a [`NotSent`](Self::NotSent) failure: nothing was executed.
    pub fn not_sent(source: impl Into<Source>) -> Self {
        Self::NotSent(source.into())
    }

    /// Returns a [`Lost`](Self::Lost) failure: the command may have been executed.
    pub fn lost(source: impl Into<Source>) -> Self {
        Self::Lost(source.into())
    }

    /// Returns a [`Refused`](Self::Refused) failure: the server answered with the error `line`.
    pub fn refused(line: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Refused {
            line: line.into(),
            source: source.into(),
        }
    }

    /// Returns a [`Malformed`](Self::Malformed) failure: the reply has the wrong type.
    pub fn malformed(source: impl Into<Source>) -> Self {
        Self::Malformed(source.into())
    }
}

impl Failure {
    /// Returns this failure without the arguments and the `keys` that a server repeated.
    pub(super) fn redacted(self, keys: &[Vec<u8>]) -> Self {
        self.redacted_of(keys, &[])
    }

    /// Returns this failure without the arguments, the `keys` and the `ids` of events that a server
    /// repeated.
    pub(super) fn redacted_of(mut self, keys: &[Vec<u8>], ids: &[&[u8]]) -> Self {
        if let Self::Refused { line, .. } = &mut self {
            *line = redact::text_of(line, keys, ids).into_owned();
        }
        let source = self.take_source();
        self.with(redact::source_of(source, keys, ids))
    }

    /// Makes it one that can be told to several callers.
    pub(super) fn share(mut self) -> SharedFailure {
        SharedFailure {
            source: self.take_source().into(),
            failure: self,
        }
    }

    /// Takes the source, and leaves an empty one.
    fn take_source(&mut self) -> Source {
        let (Self::Crowded(source)
        | Self::Ended(source)
        | Self::NotSent(source)
        | Self::Lost(source)
        | Self::Refused { source, .. }
        | Self::Malformed(source)) = self;
        mem::replace(source, "".into())
    }

    /// Returns the same failure with another source.
    fn with(&self, source: Source) -> Self {
        match self {
            Self::Crowded(_) => Self::Crowded(source),
            Self::Ended(_) => Self::Ended(source),
            Self::NotSent(_) => Self::NotSent(source),
            Self::Lost(_) => Self::Lost(source),
            Self::Refused { line, .. } => Self::refused(line, source),
            Self::Malformed(_) => Self::Malformed(source),
        }
    }
}

/// A failure of several calls.
#[derive(Debug)]
pub(super) struct SharedFailure {
    failure: Failure,
    source: Arc<dyn Error + Send + Sync>,
}

impl SharedFailure {
    /// Returns the failure of one of the calls.
    pub(super) fn again(&self) -> Failure {
        let source = SharedSource(Arc::clone(&self.source));
        self.failure.with(Box::new(source))
    }
}

/// An error of the client crate that several callers get.
struct SharedSource(Arc<dyn Error + Send + Sync>);

impl fmt::Display for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SharedSource {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Leaves out arguments that a server repeated.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::Crowded(source) => ("Crowded", source.to_string()),
            Self::Ended(source) => ("Ended", source.to_string()),
            Self::NotSent(source) => ("NotSent", source.to_string()),
            Self::Lost(source) => ("Lost", source.to_string()),
            Self::Refused { line, .. } => ("Refused", line.clone()),
            Self::Malformed(source) => ("Malformed", source.to_string()),
        };
        f.debug_tuple(name)
            .field(&redact::text(&text, &[]))
            .finish()
    }
}

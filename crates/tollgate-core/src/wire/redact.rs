//! Keeps keys out of error messages: a key may be an address, a name or a secret.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::engine::{Failure, Source};

/// What servers write before they repeat the arguments of an unknown command.
const ARGUMENTS: &str = ", with args beginning with";

/// Ids of events are hidden from this length on: a shorter one is found in other words.
const SHORTEST_ID: usize = 4;

/// Returns `failure` without the arguments and the `keys` that a server repeated.
pub(super) fn failure(failure: Failure, keys: &[Vec<u8>]) -> Failure {
    failure_of(failure, keys, &[])
}

/// Returns `failure` without the arguments, the `keys` and the `ids` of events that a server
/// repeated.
pub(super) fn failure_of(failure: Failure, keys: &[Vec<u8>], ids: &[&[u8]]) -> Failure {
    let source = |error| source_of(error, keys, ids);
    match failure {
        Failure::NotSent(error) => Failure::NotSent(source(error)),
        Failure::Lost(error) => Failure::Lost(source(error)),
        Failure::Malformed(error) => Failure::Malformed(source(error)),
        Failure::Refused {
            line,
            source: error,
        } => Failure::Refused {
            line: text_of(&line, keys, ids).into_owned(),
            source: source(error),
        },
    }
}

/// Returns `error` if it shows neither arguments nor `keys`, or else an error with the shortened
/// text.
pub(super) fn source(error: Source, keys: &[Vec<u8>]) -> Source {
    source_of(error, keys, &[])
}

fn source_of(error: Source, keys: &[Vec<u8>], ids: &[&[u8]]) -> Source {
    let mut chain: Option<&dyn Error> = Some(&*error);
    while let Some(link) = chain {
        for shown in [link.to_string(), format!("{link:?}")] {
            if matches!(text_of(&shown, keys, ids), Cow::Owned(_)) {
                let text = text_of(&error.to_string(), keys, ids).into_owned();
                return Box::new(Redacted(text));
            }
        }
        chain = link.source();
    }
    error
}

/// Returns `text` up to the first arguments or `keys` that it repeats.
pub(super) fn text<'a>(text: &'a str, keys: &[Vec<u8>]) -> Cow<'a, str> {
    text_of(text, keys, &[])
}

fn text_of<'a>(text: &'a str, keys: &[Vec<u8>], ids: &[&[u8]]) -> Cow<'a, str> {
    let arguments = text.find(ARGUMENTS).map(|at| (at, ""));
    let keys = keys.iter().filter_map(|key| {
        // Look for the key up to the brace before the user's part: a server that shortens or
        // escapes a key still repeats that much.
        let brace = key.iter().position(|&byte| byte == b'{')?;
        let head = str::from_utf8(&key[..=brace]).ok()?;
        Some((text.find(head)?, "..."))
    });
    // The first word is the error's code, which says what kind of error it is.
    let code = text.find(' ').unwrap_or(text.len());
    let ids = ids.iter().filter(|id| id.len() >= SHORTEST_ID);
    let ids = ids.filter_map(|id| {
        let at = text[code..].find(str::from_utf8(id).ok()?)?;
        Some((code + at, "..."))
    });
    match arguments.into_iter().chain(keys).chain(ids).min() {
        Some((at, end)) => Cow::Owned(format!("{}{end}", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// The text of a client crate's error, without arguments and keys.
struct Redacted(String);

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redacted").field(&self.0).finish()
    }
}

impl Error for Redacted {}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"tollgate:login:gcra:v1:{203.0.113.7}:/x";

    #[test]
    fn texts_are_cut_before_text_of_a_caller() {
        let keys = [KEY.to_vec()];
        for (said, expected) in [
            (
                "ERR unknown command 'EVALSHA', with args beginning with: 'ab' '1' '203.0.113.7'",
                "ERR unknown command 'EVALSHA'",
            ),
            (
                "NOPERM no permissions to access the 'tollgate:login:gcra:v1:{203.0.113.7}:/x' key",
                "NOPERM no permissions to access the '...",
            ),
            (
                // A server may cut a long key off.
                "ERR undeclared key tollgate:login:gcra:v1:{203.0.1",
                "ERR undeclared key ...",
            ),
            ("OOM command not allowed", "OOM command not allowed"),
            // Whichever comes first.
            (
                "ERR unknown command 'GET', with args beginning with: 'tollgate:login:gcra:v1:{20'",
                "ERR unknown command 'GET'",
            ),
            (
                "ERR at tollgate:login:gcra:v1:{203.0.113.7}:/x, with args beginning with: '1'",
                "ERR at ...",
            ),
        ] {
            assert_eq!(text(said, &keys), expected);
        }
    }

    #[test]
    fn texts_end_before_the_id_of_an_event() {
        for (said, id, expected) in [
            (
                "ERR no such member 'esecret-7'",
                "secret-7",
                "ERR no such member 'e...",
            ),
            (
                "ERR no such member 'abcd'",
                "abcd",
                "ERR no such member '...",
            ),
            // Shorter ids are parts of other words, and the code is never hidden.
            (
                "ERR no such member 'abc'",
                "abc",
                "ERR no such member 'abc'",
            ),
            ("NOPERM this user", "NOPERM", "NOPERM this user"),
            ("LOADING", "LOADING", "LOADING"),
        ] {
            assert_eq!(text_of(said, &[], &[id.as_bytes()]), expected);
        }
    }

    #[test]
    fn only_sources_that_show_a_key_are_replaced() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outer")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let keys = [KEY.to_vec()];
        let shows = Outer(std::io::Error::other(String::from_utf8_lossy(KEY)));
        let replaced = source(Box::new(shows), &keys);
        assert!(replaced.is::<Redacted>() && replaced.source().is_none());
        assert_eq!(replaced.to_string(), "outer");
        assert_eq!(format!("{replaced:?}"), r#"Redacted("outer")"#);
        let hides = Outer(std::io::Error::other("broken"));
        assert!(source(Box::new(hides), &keys).is::<Outer>());
    }
}

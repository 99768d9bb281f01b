//! Makes texts of servers fit for error messages: without keys, each of which may be an address, a
//! name or a secret; without control characters, which a terminal or a log would obey; and short.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What servers write before they repeat the arguments of an unknown command.
const ARGUMENTS: &str = ", with args beginning with";

/// Ids of events are hidden from this length on: a shorter one is found in other words.
const SHORTEST_ID: usize = 4;

/// The most characters of a text that are shown; servers may send megabytes.
const LONGEST: usize = 2_000;

/// The error of a client crate.
pub(super) type Source = Box<dyn Error + Send + Sync>;

/// Returns `error` if its text may be shown as it is, or else an error with the text that may be.
pub(super) fn source(error: Source, keys: &[Vec<u8>]) -> Source {
    source_of(error, keys, &[])
}

pub(super) fn source_of(error: Source, keys: &[Vec<u8>], ids: &[&[u8]]) -> Source {
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

/// Returns `text` up to the first arguments or `keys` that it repeats, and up to [`LONGEST`], with
/// control characters escaped.
pub(super) fn text<'a>(text: &'a str, keys: &[Vec<u8>]) -> Cow<'a, str> {
    text_of(text, keys, &[])
}

pub(super) fn text_of<'a>(text: &'a str, keys: &[Vec<u8>], ids: &[&[u8]]) -> Cow<'a, str> {
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
        Some((at, end)) => Cow::Owned(legible(&format!("{}{end}", &text[..at])).into_owned()),
        None => legible(text),
    }
}

/// Returns `text` with control characters escaped, and cut off if it is long.
fn legible(text: &str) -> Cow<'_, str> {
    let is_plain = |character: char| {
        let quotes = matches!(character, '"' | '\'' | '\\');
        quotes || character.escape_debug().len() == 1
    };
    let count = text.chars().take(LONGEST + 1).count();
    if count <= LONGEST && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut left) = (String::new(), LONGEST);
    for character in text.chars() {
        let escaped = match is_plain(character) {
            true => character.to_string(),
            false => character.escape_debug().to_string(),
        };
        // An escaped character has only ASCII characters.
        left = match left.checked_sub(escaped.chars().count()) {
            Some(left) => left,
            None => return Cow::Owned(shown + "..."),
        };
        shown += &escaped;
    }
    Cow::Owned(shown)
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
        self.0.fmt(f)
    }
}

impl Error for Redacted {}

#[cfg(test)]
mod tests {
    use tollgate_core::{ErrorKind, StoreError};

    use super::*;
    use crate::failure::Failure;

    const KEY: &[u8] = b"tollgate:login:gcra:v1:{203.0.113.7}:/x";

    /// What a server says, and what is shown of it. It may cut a long key off.
    const CUT_BEFORE_KEYS: &str = "\
ERR unknown command 'EVALSHA', with args beginning with: 'ab' '203.0.113.7' => ERR unknown command 'EVALSHA'
NOPERM no access to the 'tollgate:login:gcra:v1:{203.0.113.7}:/x' key => NOPERM no access to the '...
ERR undeclared key tollgate:login:gcra:v1:{203.0.1 => ERR undeclared key ...
OOM command not allowed => OOM command not allowed
ERR unknown command 'GET', with args beginning with: 'tollgate:login:gcra:v1:{20' => ERR unknown command 'GET'
ERR at tollgate:login:gcra:v1:{203.0.113.7}:/x, with args beginning with: '1' => ERR at ...
";
    /// The same for an id. Shorter ids are parts of other words, and the code is never hidden.
    const CUT_BEFORE_IDS: &str = "\
secret-7: ERR no such member 'esecret-7' => ERR no such member 'e...
abcd: ERR no such member 'abcd' => ERR no such member '...
abc: ERR no such member 'abc' => ERR no such member 'abc'
NOPERM: NOPERM this user => NOPERM this user
LOADING: LOADING => LOADING
";

    #[test]
    fn texts_are_cut_before_text_of_a_caller() {
        let keys = [KEY.to_vec()];
        for row in CUT_BEFORE_KEYS.lines() {
            let (said, expected) = row.split_once(" => ").unwrap();
            assert_eq!(text(said, &keys), expected);
        }
        for row in CUT_BEFORE_IDS.lines() {
            let (said, expected) = row.split_once(" => ").unwrap();
            let (id, said) = said.split_once(": ").unwrap();
            assert_eq!(text_of(said, &[], &[id.as_bytes()]), expected);
        }
    }

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        for (said, expected) in [
            (
                "ERR \u{1b}[2J\u{7}gone\r\nERR forged",
                "ERR \\u{1b}[2J\\u{7}gone\\r\\nERR forged",
            ),
            (
                "ERR \u{9b}1m \u{202e}drawkcab",
                "ERR \\u{9b}1m \\u{202e}drawkcab",
            ),
            ("ERR 'a' \"b\" \\c größe 限", "ERR 'a' \"b\" \\c größe 限"),
        ] {
            let shown = text(said, &[]);
            assert_eq!(shown, expected);
            assert_eq!(text(&shown, &[]), expected, "again");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = format!("ERR {}", "ß".repeat(LONGEST - 4));
        assert_eq!(text(&long, &[]), long);
        for more in ["ß", "\u{1b}"] {
            let (longer, cut) = (format!("{long}{more}"), format!("{long}..."));
            assert_eq!(text(&longer, &[]), cut);
            assert_eq!(text(&cut, &[]), cut, "again");
        }
        let escaped = text(&"\0".repeat(5_000), &[]).into_owned();
        assert_eq!(escaped, format!("{}...", "\\0".repeat(LONGEST / 2)));
    }

    #[test]
    fn sources_of_servers_are_legible_too() {
        let line = format!("ERR \u{1b}]0;title\u{7}{}", "x".repeat(3_000_000));
        let failure = Failure::refused(line.clone(), std::io::Error::other(line));
        let failure = failure.redacted(&[]);
        let Failure::Refused { line, source } = failure else {
            panic!("{failure:?}");
        };
        for shown in [line, source.to_string(), format!("{source:?}")] {
            assert!(shown.len() < 3 * LONGEST, "{} bytes", shown.len());
            assert!(!shown.contains(char::is_control), "{shown}");
        }
    }

    #[test]
    fn only_sources_that_show_a_key_are_replaced() {
        let outer = |inner: &str| {
            let error = StoreError::new(ErrorKind::Unavailable, "outer");
            Box::new(error.with_source(std::io::Error::other(inner)))
        };
        let keys = [KEY.to_vec()];
        let replaced = source(outer(&String::from_utf8_lossy(KEY)), &keys);
        assert!(replaced.is::<Redacted>() && replaced.source().is_none());
        assert_eq!(replaced.to_string(), "outer");
        assert_eq!(format!("{replaced:?}"), r#""outer""#);
        assert!(source(outer("broken"), &keys).is::<StoreError>());
    }
}

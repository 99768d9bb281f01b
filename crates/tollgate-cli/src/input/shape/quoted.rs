//! Reads single words and quoted texts from the start of a line.

use memchr::{memchr, memchr2};

/// Splits `text` at the first space; `None` if there is nothing before it.
#[inline]
pub(super) fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    match memchr(b' ', text)? {
        0 => None,
        end => Some((&text[..end], &text[end + 1..])),
    }
}

/// Returns the quoted text at the start, and what follows it.
#[inline]
pub(super) fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let found = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[found] == b'"' {
            return Some((&text[..found], &text[found + 1..]));
        }
        // The next character is escaped, and may be a quote.
        from = found + 2;
    }
}

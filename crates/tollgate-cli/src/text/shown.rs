//! Makes text that others wrote fit for a terminal: harmless, and not too long.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// Returns `bytes` as text without characters that could manipulate a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    if !text.contains(manipulates) {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if manipulates(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns `text`, of several lines, without other characters that could manipulate a terminal.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines = text.split('\n');
    let lines: Vec<_> = lines.map(|line| printable(line.as_bytes())).collect();
    lines.join("\n")
}

/// Returns a list of `texts`, one a line.
pub(crate) fn bullets<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let line = |text: T| format!("- {}\n", printable(text.as_ref().as_bytes()));
    texts.into_iter().map(line).collect()
}

/// Returns the key as one text, on one line.
pub(crate) fn readable(key: &str, rest: &str) -> String {
    match rest {
        "" => printable(key.as_bytes()),
        _ => printable(format!("{key} {rest}").as_bytes()),
    }
}

/// Returns `value` as JSON on one line, with escapes for characters that could manipulate a terminal.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Serialization cannot fail: answers contain only text and numbers.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    let mut shown = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if manipulates(c) {
            // Such characters are in strings only, and have at most 16 bits.
            shown += &format!("\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.push('\n');
    shown
}

/// How many characters of an argument a message shows, and of a key a row.
pub(crate) const LONGEST_SHOWN: usize = 100;

/// An argument of the command line, at most a hundred characters of it.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.char_indices().skip(LONGEST_SHOWN);
        match rest.next() {
            Some((end, _)) => write!(f, "{}...", printable(&self.0.as_bytes()[..end])),
            None => f.write_str(&printable(self.0.as_bytes())),
        }
    }
}

/// Returns texts as one: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<_> = texts.into_iter().collect();
    match &texts[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => texts.concat(),
    }
}

/// Returns at most `most` characters of `text`; the last one is an ellipsis if there are more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Returns whether a character controls a terminal, or the direction in which text is shown.
fn manipulates(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_listed() {
        let of = |texts: &[&str]| listed(texts.iter().map(|&text| text.to_owned()));
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["a"]), "a");
        assert_eq!(of(&["a", "b"]), "a and b");
        assert_eq!(of(&["a", "b", "c"]), "a, b and c");
    }
}

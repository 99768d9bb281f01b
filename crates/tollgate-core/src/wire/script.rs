//! The scripts that servers run, assembled once and known by their SHA-1.

use std::fmt::Write;
use std::sync::OnceLock;

use super::twin::{TWINS, Twin};
use crate::request::{Operation, Request};

/// What a request to consume of one limit runs, which is what nearly every request is.
const ALONE: &str = include_str!("alone.lua");
/// What every other request runs.
const TOGETHER: &str = include_str!("together.lua");
/// What one algorithm is in a script that may hold several.
const MACHINE: &str = include_str!("machine.lua");

/// What scripts use of Lua and the server, by the names that they use.
const NAMES: [(&str, &str); 11] = [
    ("call", "redis.call"),
    ("ceil", "math.ceil"),
    ("concat", "table.concat"),
    ("floor", "math.floor"),
    ("max", "math.max"),
    ("min", "math.min"),
    ("pack", "struct.pack"),
    ("rep", "string.rep"),
    ("sub", "string.sub"),
    ("table_unpack", "unpack"),
    ("unpack", "struct.unpack"),
];

/// A script, and the name it is called by.
#[derive(Debug)]
pub struct Script {
    text: String,
    sha1: String,
}

impl Script {
    fn new(text: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { text, sha1 }
    }

    /// Returns the text, to be loaded.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the SHA-1 of the text in lower-case hexadecimal, to be called by.
    #[must_use]
    pub fn sha1(&self) -> &str {
        &self.sha1
    }

    /// Returns the script that decides `request`.
    ///
    /// There is one for each algorithm alone, and one for each set of algorithms together, so
    /// however many limits there are, a server holds few scripts.
    pub(super) fn of(request: &Request<'_>) -> &'static Self {
        static ALONE: [OnceLock<Script>; TWINS.len()] = [const { OnceLock::new() }; TWINS.len()];
        static TOGETHER: [OnceLock<Script>; 1 << TWINS.len()] =
            [const { OnceLock::new() }; 1 << TWINS.len()];
        let codes = request
            .checks()
            .iter()
            .map(|check| check.limit().algorithm().code());
        if is_alone(request) {
            let code = codes.sum::<usize>();
            return ALONE[code].get_or_init(|| Self::new(alone(&TWINS[code])));
        }
        let set = codes.fold(0, |set, code| set | 1 << code);
        TOGETHER[set].get_or_init(|| Self::new(together(set)))
    }
}

/// Returns whether a request consumes of one limit.
pub(super) fn is_alone(request: &Request<'_>) -> bool {
    matches!(request.operation(), Operation::Consume)
        && matches!(request.checks(), [check] if check.cost() > 0)
}

fn alone(twin: &Twin) -> String {
    let text = fill(ALONE, twin).replace("@formats", &"d".repeat(twin.parameters().count()));
    with_names(&text)
}

fn together(set: usize) -> String {
    let used = || {
        let all = TWINS.iter().enumerate();
        all.filter(move |(code, _)| set & 1 << code != 0)
    };
    let machines: String = used().map(|(_, twin)| fill(MACHINE, twin)).collect();
    let names: Vec<_> = used()
        .map(|(code, twin)| format!("[{code}] = {}", twin.name))
        .collect();
    let text = TOGETHER
        .replace("@machines", machines.trim_end())
        .replace("@names", &names.join(", "));
    with_names(&text)
}

/// Puts the sections of an algorithm's script in their places.
fn fill(frame: &str, twin: &Twin) -> String {
    let mut text = frame.replace("@name", twin.name);
    let parameters: Vec<_> = twin.parameters().collect();
    text = text.replace("@parameters", &parameters.join(", "));
    for section in ["read", "fits", "answer", "commit", "refund", "remaining"] {
        text = text.replace(&format!("@{section}"), twin.section(section));
    }
    text
}

/// Puts what `text` uses of Lua before it, under local names.
fn with_names(text: &str) -> String {
    let used = || NAMES.iter().filter(|(name, _)| calls(text, name));
    let mut whole = String::new();
    let (names, meanings): (Vec<_>, Vec<_>) = used().copied().unzip();
    let _ = writeln!(
        whole,
        "local {} = {}",
        names.join(", "),
        meanings.join(", ")
    );
    whole.push_str(text);
    whole
}

/// Returns whether `text` calls the function `name`.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = text[..at].bytes().next_back();
        !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_left_open() {
        let texts = TWINS.iter().map(alone);
        for text in texts.chain((1..1 << TWINS.len()).map(together)) {
            assert!(!text.contains('@'), "{text}");
        }
    }

    #[test]
    fn only_what_is_called_is_named() {
        let text = with_names("local x = floor(1) + my_ceil(2) + a.max(3)\n");
        assert!(text.starts_with("local floor = math.floor\n"), "{text}");
    }
}

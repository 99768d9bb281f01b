//! The scripts that servers run, assembled once and known by their SHA-1.

use std::fmt::Write;
use std::sync::OnceLock;

use super::twin::{TWINS, Twin};
use crate::request::{Operation, Request};

/// What a request about few limits runs: one straight line, all of its numbers in local variables.
const FEW: &str = include_str!("few.lua");
/// What a request about many limits runs, or one that takes or gives back.
const MANY: &str = include_str!("many.lua");
/// What one algorithm is in a script about many limits.
const MACHINE: &str = include_str!("machine.lua");

/// The most limits that a script of their own is assembled for.
const MOST_OF_FEW: u32 = 4;

/// What scripts use of Lua and the server, by the names that they use.
const NAMES: [(&str, &str); 12] = [
    ("call", "redis.call"),
    ("ceil", "math.ceil"),
    ("concat", "table.concat"),
    ("floor", "math.floor"),
    ("max", "math.max"),
    ("min", "math.min"),
    ("pack", "struct.pack"),
    ("pcall", "redis.pcall"),
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
    /// There is one for each sequence of few algorithms, to consume and to peek, and one for each
    /// set of algorithms: as many as a program has kinds of requests, however many limits it has.
    pub(super) fn of(request: &Request<'_>) -> &'static Self {
        const SEQUENCES: usize = (TWINS.len() + 1).pow(MOST_OF_FEW);
        const SETS: usize = 1 << TWINS.len();
        static FEW: [[OnceLock<Box<Script>>; SEQUENCES]; 2] =
            [const { [const { OnceLock::new() }; SEQUENCES] }; 2];
        static MANY: [OnceLock<Box<Script>>; SETS] = [const { OnceLock::new() }; SETS];
        let codes = request
            .checks()
            .iter()
            .map(|check| check.limit().algorithm().code());
        match Form::of(request) {
            Form::Few { commits } => {
                let sequence = codes
                    .clone()
                    .fold(0, |sequence, code| sequence * (TWINS.len() + 1) + code + 1);
                FEW[usize::from(commits)][sequence].get_or_init(|| {
                    let twins: Vec<_> = codes.map(|code| &TWINS[code]).collect();
                    Box::new(Self::new(few(&twins, commits)))
                })
            }
            Form::Many => {
                let set = codes.fold(0, |set, code| set | 1 << code);
                MANY[set].get_or_init(|| Box::new(Self::new(many(set))))
            }
        }
    }
}

/// Which of the two forms of a script decides a request, which says what its argument holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// Straight: looks at few limits, and then commits or not.
    Few { commits: bool },
    /// A loop over any limits, for any operation.
    Many,
}

impl Form {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let few = u32::try_from(request.checks().len()).is_ok_and(|checks| checks <= MOST_OF_FEW);
        match request.operation() {
            Operation::Consume if few => Self::Few { commits: true },
            Operation::Peek if few => Self::Few { commits: false },
            _ => Self::Many,
        }
    }
}

/// Returns the script about one limit of each of `twins`, in this order.
fn few(twins: &[&Twin], commits: bool) -> String {
    let (mut arguments, mut reads, mut recorded) = (Vec::new(), String::new(), String::new());
    for (index, twin) in twins.iter().enumerate() {
        let own = |text: &str| rename(text, index);
        arguments.extend(["cost", "counted"].map(own));
        arguments.extend(twin.parameters().map(own));
        let read = format!(
            "local key = KEYS[{}]\n{}\nlocal fits = cost == 0 or {}\n{}\n",
            index + 1,
            twin.section("read"),
            twin.section("fits"),
            twin.section("answer"),
        );
        reads.push_str(&own(&read));
        if commits {
            let commit = format!(
                "if cost > 0 and (all or counted == 1) then\nlocal amount = cost\n{}\nend\n",
                twin.section("commit"),
            );
            recorded.push_str(&own(&commit));
        }
    }
    let each = |what: &str, between: &str| {
        let each: Vec<_> = (0..twins.len()).map(|index| rename(what, index)).collect();
        each.join(between)
    };
    let text = FEW
        .replace("@formats", &"d".repeat(arguments.len()))
        .replace("@arguments", &arguments.join(", "))
        .replace("@reads", reads.trim_end())
        .replace("@allowed", &each("fits", " and "))
        .replace("@commits", recorded.trim_end())
        .replace("@raws", &each("pack('<I2', #raw) .. raw", " .. "));
    with_names(&text)
}

/// Returns the script about any number of limits of the algorithms in `set`.
fn many(set: usize) -> String {
    let used = || {
        let all = TWINS.iter().enumerate();
        all.filter(move |(code, _)| set & 1 << code != 0)
    };
    let machines: String = used().map(|(_, twin)| fill(MACHINE, twin)).collect();
    let names: Vec<_> = used()
        .map(|(code, twin)| format!("[{code}] = {}", twin.name))
        .collect();
    let text = MANY
        .replace("@machines", machines.trim_end())
        .replace("@names", &names.join(", "));
    with_names(&text)
}

/// Gives the names in `text` that belong to one limit a suffix, so that no other limit's are meant.
fn rename(text: &str, index: usize) -> String {
    /// What all limits of a script share, beside the [`NAMES`].
    const SHARED: [&str; 5] = ["KEYS", "all", "error", "now", "slack"];
    const KEYWORDS: [&str; 21] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in",
        "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
    ];
    let is_own = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && !KEYWORDS.contains(&word)
            && !SHARED.contains(&word)
            && !NAMES.iter().any(|(name, _)| *name == word)
    };
    let mut renamed = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        if line.trim_start().starts_with("--") {
            continue;
        }
        // What is quoted is not a name.
        for (part, code) in line.split('\'').enumerate() {
            if part > 0 {
                renamed.push('\'');
            }
            if part % 2 == 1 {
                renamed.push_str(code);
                continue;
            }
            let mut rest = code;
            while let Some(start) = rest.find(is_in_name) {
                renamed.push_str(&rest[..start]);
                rest = &rest[start..];
                let end = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
                let word = &rest[..end];
                renamed.push_str(word);
                if is_own(word) {
                    let _ = write!(renamed, "_{index}");
                }
                rest = &rest[end..];
            }
            renamed.push_str(rest);
        }
        renamed.push('\n');
    }
    renamed.truncate(renamed.trim_end().len());
    if text.ends_with('\n') {
        renamed.push('\n');
    }
    renamed
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Puts the sections of an algorithm's script in their places.
fn fill(frame: &str, twin: &Twin) -> String {
    let mut text = frame.replace("@name", twin.name);
    let parameters: Vec<_> = twin.parameters().collect();
    text = text.replace("@parameters", &parameters.join(", "));
    for section in [
        "read",
        "fits",
        "answer",
        "commit",
        "locate",
        "refund",
        "remaining",
    ] {
        text = text.replace(&format!("@{section}"), &twin.section(section));
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
        !before.is_some_and(|byte| is_in_name(char::from(byte)) || byte == b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_left_open() {
        let twins: Vec<_> = TWINS.iter().collect();
        let texts = [few(&twins, true), few(&twins, false)];
        for text in texts.into_iter().chain((1..1 << TWINS.len()).map(many)) {
            assert!(!text.contains('@'), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_one_limit_is_renamed() {
        let text = "-- a note\nlocal at = max(now, x3) -- call\nif at then call('GET', key) end";
        let expected = "local at_2 = max(now, x3_2) -- call\nif at_2 then call('GET', key_2) end";
        assert_eq!(rename(text, 2), expected);
    }

    #[test]
    fn only_what_is_called_is_named() {
        let text = with_names("local x = floor(1) + my_ceil(2) + a.max(3)\n");
        assert!(text.starts_with("local floor = math.floor\n"), "{text}");
    }
}

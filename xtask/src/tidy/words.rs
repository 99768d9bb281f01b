//! Checks for markers of unfinished work, paths of one machine, phrases that read like riddles, and
//! microseconds without their letter.

use crate::project::Files;

/// Written in two parts, so that this file does not contain them.
const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!"),
];
/// Folders that exist only on one machine.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Phrases that make a sentence a riddle, each in two parts, with what to write instead.
const RIDDLES: [(&str, &str); 5] = [
    (concat!(", of wh", "ich"), "start a new sentence"),
    (concat!(" be ", "it "), "name the cases"),
    (concat!("is to", "ld "), "say who says what"),
    (concat!("are to", "ld "), "say who says what"),
    (concat!("what is as", "ked"), "say request, or call"),
];
/// What one of them is a part of, and is plain.
const PLAIN: [&str; 1] = [concat!("are to", "ld apart")];

/// Returns the places of such words, phrases and paths.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter() {
        for (index, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            let unfinished = UNFINISHED.iter().find(|word| has_word(line, word));
            let folder = FOLDERS.iter().find(|folder| has_path(line, folder));
            findings.extend(unfinished.map(|word| format!("{place} says {word}")));
            findings.extend(folder.map(|folder| format!("{place} names {folder}")));
            let riddle = RIDDLES.iter().find(|(phrase, _)| {
                is_prose(path, line)
                    && line.contains(phrase)
                    && !PLAIN.iter().any(|plain| line.contains(plain))
            });
            let riddle =
                riddle.map(|(phrase, advice)| format!("{place} says {phrase:?}: {advice}"));
            findings.extend(riddle);
            if has_plain_micro(line) {
                findings.push(format!("{place} counts microseconds in u: write \u{b5}s"));
            }
        }
    }
    findings
}

/// Returns whether `line` of the file at `path` is a comment, or a line of a document.
fn is_prose(path: &str, line: &str) -> bool {
    path.ends_with(".md") || path.ends_with(".rs") && line.trim_start().starts_with("//")
}

/// Returns whether `line` counts microseconds in `u`, after a number or a value that is formatted.
fn has_plain_micro(line: &str) -> bool {
    line.match_indices(concat!(" u", "s")).any(|(at, unit)| {
        let after = line[at + unit.len()..].chars().next();
        let is_number = line[..at].ends_with(|c: char| c.is_ascii_digit() || c == '}');
        is_number && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Returns whether `line` contains `word` on its own, not as part of another word.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends = word.ends_with('!') || !after.is_some_and(inside);
        !before.is_some_and(inside) && ends
    })
}

/// Returns whether `line` contains a path that begins with `folder`, not one that contains it
/// further on.
fn has_path(line: &str, folder: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}');
    line.match_indices(folder)
        .any(|(at, _)| !line[..at].chars().next_back().is_some_and(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_found_with_its_line() {
        for word in UNFINISHED {
            let text = format!("fine\n// {word}: later\n");
            let found = findings(&Files::of(&[("a.rs", &text)]));
            assert_eq!(found, [format!("a.rs:2 says {word}")]);
        }
        for folder in FOLDERS {
            let text = format!("see {folder}main\n");
            assert_eq!(findings(&Files::of(&[("a.md", &text)])).len(), 1);
        }
    }

    #[test]
    fn riddles_are_found_in_prose_alone() {
        for (phrase, _) in RIDDLES {
            let line = format!("one{phrase}two one {phrase} two");
            let found = |path: &str, line: &str| findings(&Files::of(&[(path, line)])).len();
            assert_eq!(found("a.md", &line), 1, "{line}");
            assert_eq!(found("a.rs", &format!("    /// {line}")), 1, "{line}");
            assert_eq!(
                found("a.rs", &format!("let text = \"{line}\";")),
                0,
                "{line}"
            );
        }
        for plain in PLAIN {
            let line = format!("they {plain} by name");
            assert_eq!(findings(&Files::of(&[("a.md", &line)])), [""; 0]);
        }
    }

    #[test]
    fn microseconds_are_written_with_their_letter() {
        let found = |line: &str| findings(&Files::of(&[("a.rs", line)])).len();
        for before in ["takes 3", "takes {time:.2}"] {
            assert_eq!(found(&format!("{before} u{}", "s.")), 1);
            assert_eq!(found(&format!("{before} u{}", "ser")), 0);
        }
        assert_eq!(found("takes 3 µs, or 3us, of us"), 0);
    }

    #[test]
    fn other_words_that_hold_them_are_fine() {
        let text = [
            concat!("PHO", "TO", "DO"),
            concat!("a_dbg", "!_b"),
            concat!("src/wo", "rk/mod.rs"),
            concat!("https://example.org/wo", "rk/"),
        ];
        for line in text {
            assert_eq!(findings(&Files::of(&[("a.md", line)])), [""; 0]);
        }
    }
}

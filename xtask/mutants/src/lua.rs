//! Generates the mutants of a Lua file.

use super::mutant::{Mutant, Mutants};

/// Returns the mutants of the file `path` with the text `source`.
pub(super) fn generate(path: &str, source: &str) -> Vec<Mutant> {
    let mut mutants = Mutants::of(path, source);
    let mut place = String::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        if let Some(section) = line.strip_prefix("--@ ") {
            section.trim().clone_into(&mut place);
        } else {
            for change in changes(line) {
                let (from, to) = (start + change.start, start + change.end);
                let text = [&source[..from], &change.text, &source[to..]].concat();
                let shown = [&line[..change.start], &change.text, &line[change.end..]].concat();
                mutants.add_text(from, &place, [line.trim(), shown.trim()], text);
            }
        }
        start += line.len();
    }
    mutants.into_vec()
}

/// The replacement of a part of a line.
#[derive(Debug, Eq, PartialEq)]
struct Change {
    start: usize,
    end: usize,
    text: String,
}

fn changes(line: &str) -> Vec<Change> {
    let tokens = tokens(line);
    let mut changes = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_called = tokens.get(index + 1).is_some_and(|next| next.text == "(");
        let replaced = if token.text == "-" && is_sign(index.checked_sub(1).map(|at| tokens[at])) {
            vec![String::new()]
        } else {
            replaced(token.text, is_called)
        };
        for text in replaced {
            changes.push(Change {
                start: token.start,
                end: token.start + token.text.len(),
                text,
            });
        }
    }
    changes.extend(conditions(&tokens));
    changes.extend(statements(&tokens));
    changes
}

#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    start: usize,
    text: &'t str,
}

/// Splits a line into tokens; a quoted text is one token, and comments are skipped.
fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = line[at..].chars().next() {
        let rest = &line[at..];
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if rest.starts_with("--") {
            break;
        } else if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else if first == '@' || in_word(first) {
            rest[1..]
                .find(|c| !in_word(c))
                .map_or(rest.len(), |end| end + 1)
        } else {
            let two = ["<=", ">=", "==", "~=", ".."];
            let is_two = two.iter().any(|operator| rest.starts_with(operator));
            if is_two { 2 } else { first.len_utf8() }
        };
        tokens.push(Token {
            start: at,
            text: &rest[..length],
        });
        at += length;
    }
    tokens
}

/// Returns whether a minus after `before` is unary.
fn is_sign(before: Option<Token<'_>>) -> bool {
    before.is_none_or(|before| {
        let last = before.text.chars().next_back();
        let ends_value = last.is_some_and(|c| c.is_ascii_alphanumeric() || "_)]'".contains(c));
        !ends_value || before.text == "return"
    })
}

/// Returns the replacements of a single token.
fn replaced(token: &str, is_called: bool) -> Vec<String> {
    let others: &[&str] = match token {
        "<" => &["<=", ">="],
        "<=" => &["<", ">"],
        ">" => &[">=", "<="],
        ">=" => &[">", "<"],
        "==" => &["~="],
        "~=" => &["=="],
        "+" => &["-"],
        "-" => &["+"],
        "*" | "/" | "%" => &["+"],
        "and" => &["or"],
        "or" => &["and"],
        "not" => &[""],
        "true" => &["false"],
        "false" => &["true"],
        "min" if is_called => &["max"],
        "max" if is_called => &["min"],
        "ceil" if is_called => &["floor"],
        "floor" if is_called => &["ceil"],
        _ => &[],
    };
    if let Ok(number) = token.parse::<u64>() {
        let near = [number.checked_add(1), number.checked_sub(1)];
        return near.into_iter().flatten().map(|n| n.to_string()).collect();
    }
    others.iter().map(|&other| other.to_owned()).collect()
}

/// Returns changes that make a condition of the line always true or always false.
fn conditions<'t>(tokens: &'t [Token<'t>]) -> impl Iterator<Item = Change> + 't {
    tokens.iter().enumerate().flat_map(|(index, token)| {
        let constants: &[&str] = match token.text {
            "if" | "elseif" => &["true", "false"],
            // A loop that never ends would only time out.
            "while" => &["false"],
            _ => &[],
        };
        let after = &tokens[index + 1..];
        let end = after
            .iter()
            .position(|token| matches!(token.text, "then" | "do"))
            .filter(|&end| end > 0);
        end.into_iter().flat_map(move |end| {
            let last = after[end - 1];
            constants.iter().map(move |&constant| Change {
                start: after[0].start,
                end: last.start + last.text.len(),
                text: constant.to_owned(),
            })
        })
    })
}

/// Returns the change that deletes the line's statement: an assignment or a call, also as the only
/// statement of a one-line `if`.
fn statements<'t>(tokens: &'t [Token<'t>]) -> Option<Change> {
    let (mut first, mut end) = (0, tokens.len());
    if tokens.first()?.text == "if" {
        first = tokens.iter().position(|token| token.text == "then")? + 1;
        end -= usize::from(tokens.last()?.text == "end");
    }
    let statement = tokens.get(first..end)?;
    let (start, last) = (statement.first()?, statement.last()?);
    let is_name = start.text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_keyword = matches!(
        start.text,
        "local" | "return" | "if" | "for" | "while" | "end" | "else" | "elseif" | "function"
    );
    let count = |text: &str| statement.iter().filter(|token| token.text == text).count();
    let is_whole = count("(") == count(")") && count("{") == count("}") && count("function") == 0;
    let is_call = statement.get(1)?.text == "(" && last.text == ")";
    let is_assignment = statement.iter().any(|token| token.text == "=");
    if !is_name || is_keyword || !is_whole || !(is_call || is_assignment) {
        return None;
    }
    Some(Change {
        start: start.start,
        end: last.start + last.text.len(),
        text: String::new(),
    })
}

//! The mutants of a Lua script: a comparison is reversed, a number is one more, a statement is left out.

use std::collections::HashMap;

/// One change of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mutant {
    /// The file, the section and the change; no line, so that it stays the same when code moves.
    pub(crate) name: String,
    /// The whole changed script.
    pub(crate) text: String,
}

/// Returns the mutants of the script `path`.
pub(crate) fn mutants(path: &str, source: &str) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let (mut place, mut start) = (path.to_owned(), 0);
    for line in source.split_inclusive('\n') {
        if let Some(section) = line.strip_prefix("--@ ") {
            place = format!("{path} {}", section.trim());
        } else {
            for change in changes(line) {
                let (from, to) = (start + change.start, start + change.end);
                let text = [&source[..from], &change.text, &source[to..]].concat();
                let after = [&line[..change.start], &change.text, &line[change.end..]].concat();
                let (before, after) = (squeezed(line), squeezed(&after));
                let mut name = match &*after {
                    "" => format!("{place}: `{before}` left out"),
                    after => format!("{place}: `{before}` → `{after}`"),
                };
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                if *count > 1 {
                    name += &format!(" (no. {count})");
                }
                mutants.push(Mutant { name, text });
            }
        }
        start += line.len();
    }
    mutants
}

/// Joins the words of a line by one space each.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `source`, with a syntax error of the same length in each line that has code.
pub(crate) fn nonsense(source: &str) -> String {
    let lines = source.split_inclusive('\n').map(|line| {
        let at = tokens(line).first().map(|token| token.start);
        match at.filter(|&at| line.is_char_boundary(at + 1) && !line[at..].starts_with('@')) {
            Some(at) => [&line[..at], "!", &line[at + 1..]].concat(),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// Returns `source` with one space that is a tab, which changes nothing but the script's hash.
pub(crate) fn harmless(source: &str) -> String {
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let end = tokens(line)
            .first()
            .map(|token| token.start + token.text.len());
        if let Some(end) = end.filter(|&end| line[end..].starts_with(' ')) {
            let at = start + end;
            return [&source[..at], "\t", &source[at + 1..]].concat();
        }
        start += line.len();
    }
    source.to_owned()
}

/// Returns a script that does the same as `source` and has this length: with more spaces at its end, or with
/// shorter comments and less indentation. Returns `None` if there are too few of these.
pub(crate) fn fitted(source: &str, length: usize) -> Option<String> {
    if source.len() <= length {
        let end = source.trim_end_matches('\n').len();
        let spaces = " ".repeat(length - source.len());
        return Some([&source[..end], &spaces, &source[end..]].concat());
    }
    let mut spare = source.len() - length;
    let lines = source.split_inclusive('\n').map(|line| {
        let code = line.trim_start();
        let is_comment = code.starts_with("--") && !code.starts_with("--@");
        let (from, cut) = match is_comment {
            true => (line.trim_end_matches('\n').len(), code.trim_end().len() - 2),
            false => (line.len() - code.len(), line.len() - code.len()),
        };
        // Only whole characters, and never more than is spare.
        let mut at = from - cut.min(spare).min(from);
        while !line.is_char_boundary(at) {
            at += 1;
        }
        spare -= from - at;
        [&line[..at], &line[from..]].concat()
    });
    let shorter: String = lines.collect();
    (shorter.len() == length).then_some(shorter)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the changes of a line, without the file and the section.
    fn lua(line: &str) -> Vec<String> {
        let names = mutants("a.lua", line).into_iter().map(|mutant| mutant.name);
        let changes = names.map(|name| name.rsplit(": ").next().unwrap_or_default().to_owned());
        changes
            .map(|change| change.rsplit("→ ").next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn lines_are_changed() {
        assert_eq!(
            lua("if a < 1 then b = c + d end -- 2 > 1"),
            [
                "`if a <= 1 then b = c + d end -- 2 > 1`",
                "`if a >= 1 then b = c + d end -- 2 > 1`",
                "`if a < 2 then b = c + d end -- 2 > 1`",
                "`if a < 0 then b = c + d end -- 2 > 1`",
                "`if a < 1 then b = c - d end -- 2 > 1`",
                "`if true then b = c + d end -- 2 > 1`",
                "`if false then b = c + d end -- 2 > 1`",
                "`if a < 1 then end -- 2 > 1`",
            ]
        );
        assert_eq!(lua("a = -b")[0], "`a = b`");
        assert_eq!(
            lua("call('SET', key, 'a < 1')"),
            ["`call('SET', key, 'a < 1')` left out"]
        );
        assert_eq!(lua("@reads"), [""; 0]);
        let equal = mutants("a.lua", "--@ fits\na == b\na == b\n");
        assert_eq!(equal[0].name, "a.lua fits: `a == b` → `a ~= b`");
        assert_eq!(equal[1].name, "a.lua fits: `a == b` → `a ~= b` (no. 2)");
        assert_eq!(equal[1].text, "--@ fits\na == b\na ~= b\n");
    }

    #[test]
    fn scripts_are_made_longer_and_shorter() {
        assert_eq!(
            nonsense("--@ a\n  b = 1 -- c\n@d\n"),
            "--@ a\n  ! = 1 -- c\n@d\n"
        );
        assert_eq!(
            harmless("--@ a b\n@c\n  d = 1\n"),
            "--@ a b\n@c\n  d\t= 1\n"
        );
        let source = "-- a µ\n--@ b\n  c()\n";
        assert_eq!(fitted(source, 22).unwrap(), "-- a µ\n--@ b\n  c()  \n");
        assert_eq!(fitted(source, 19).unwrap(), "-- a µ\n--@ b\n c()\n");
        assert_eq!(fitted(source, 18).unwrap(), "-- a \n--@ b\n  c()\n");
        assert_eq!(fitted(source, 13).unwrap(), "--\n--@ b\nc()\n");
        assert_eq!(fitted(source, 12), None);
    }
}

//! Hides the passwords of addresses on the command line, wherever in it they stand.

use std::env;

use crate::text::printable;

/// A shorter beginning of a secret is not looked for: it could be the end of any word.
const SHORTEST: usize = 4;

/// Returns `text`, a message for the terminal, without the credentials and queries of addresses that
/// are arguments of this program.
///
/// An address belongs after `--store`, whose value no message shows as it is. In any other place it
/// is not known to be an address, and an error about it quotes it.
pub(crate) fn without_secrets(text: &str) -> String {
    let arguments = env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    hide(text, arguments)
}

fn hide(text: &str, arguments: impl Iterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for argument in arguments {
        for (secret, hidden) in secrets(&argument) {
            // As it is, escaped for a terminal, and quoted in an error of the library.
            let quoted = format!("{secret:?}");
            let quoted = quoted.trim_start_matches('"').trim_end_matches('"');
            for secret in [secret, &printable(secret.as_bytes()), quoted] {
                text = text.replace(secret, hidden);
                text = without_beginnings(text, secret);
            }
        }
    }
    text
}

/// Returns `text` without beginnings of `secret` where a message shows only the start of an
/// argument, with dots after it.
fn without_beginnings(mut text: String, secret: &str) -> String {
    let ends = secret.char_indices().map(|(end, _)| end).rev();
    for end in ends.take_while(|&end| end >= SHORTEST) {
        for dots in ["...", "\"..."] {
            text = text.replace(&format!("{}{dots}", &secret[..end]), dots);
        }
    }
    text
}

/// Returns the parts of `argument` that hold passwords if it is, or contains, an address: what is
/// before `@`, the same without the user's name, and what is after `?`; each with what to show.
fn secrets(argument: &str) -> Vec<(&str, &'static str)> {
    let (address, has_scheme) = match argument.split_once("://") {
        Some((_, address)) => (address, true),
        // Of an option, only its value.
        None => match argument.strip_prefix("--") {
            Some(option) => (option.split_once('=').map_or("", |(_, value)| value), false),
            None => (argument, false),
        },
    };
    let mut secrets = Vec::new();
    if let Some(at) = address.rfind('@') {
        let credentials = &address[..=at];
        if has_scheme || credentials.contains(':') && !is_limit(address) {
            secrets.push((credentials, "...@"));
        }
        // A message may quote only a part of the argument.
        if !is_limit(address)
            && let Some((_, password)) = credentials.rsplit_once(':')
        {
            secrets.push((password, "...@"));
        }
    }
    if has_scheme && let Some(query) = address.find('?') {
        secrets.push((&address[query..], "?..."));
    }
    // Without a password, there is nothing to hide.
    secrets.retain(|(secret, _)| secret.len() > 1);
    secrets
}

/// Returns whether `argument` is a limit with a time zone, such as `fixed-window:5/day@UTC`, or closed
/// times, such as `closed 22:00-08:00@UTC`, even if it is misspelled: no address without a scheme has a
/// slash before its `@`, or begins with this word and a space.
fn is_limit(argument: &str) -> bool {
    let (before, _) = argument.rsplit_once('@').unwrap_or((argument, ""));
    let (_, unnamed) = before.split_once('=').unwrap_or(("", before));
    before.contains("fixed-window:") && before.contains('/') || unnamed.starts_with("closed ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An argument, a text about it, and what is shown: "=" is the text itself.
    const HIDDEN: &str = r#"
redis://u:sesame@h:1 => no redis://u:sesame@h:1 => no redis://...@h:1
--limit=redis://u:sesame@h => no redis://u:sesame@h => no redis://...@h
a=redis://u:se?same@h => "://u:se?same@h" => "://...@h"
u:sesame@h => 'u:sesame@h' found => '...@h' found
--cost=u:sesame@h => 'u:sesame@h' found => '...@h' found
u:sesame@h => wrong at sesame@h => wrong at ...@h
redis://:x@h => no redis://:x@h => no redis://...@h
redis://h?p=sesame => no redis://h?p=sesame => no redis://h?...
redis://u:ses"am@h => "redis://u:ses\"am@h" => "redis://...@h"
redis://u:sESCam@h => redis://u:s\u{1b}am@h => redis://...@h
redis://u:sesame-same@h => redis://u:sesame-s... => redis://...
redis://u:sesame-same@h => "redis://u:sesame-"... => "redis://"...
u:secret@h => u:secret@h => ...@h
bill=fixed-window:300/days@Europe/Berlin => bill=fixed-window:300/days@Europe/Berlin => =
--limit=fixed-window:5/month@UTC => --limit=fixed-window:5/month@UTC is wrong => =
closed 22:00 - 08:00@Europe/Berlin => closed 22:00 - 08:00@Europe/Berlin is wrong => =
--quota=night=closed 22:00 - 08:00@Europe/Berlin => --quota=night=closed 22:00 - 08:00@Europe/Berlin is wrong => =
alice@example.com => 'alice@example.com' found => =
http://example.com/a:b => http://example.com/a:b => =
redis://h:1 => redis://h:1 => =
--key=a => --key=a => =
--wait-up-to => --wait-up-to => =
"#;

    #[test]
    fn only_credentials_and_queries_are_hidden() {
        for case in HIDDEN.trim().lines() {
            let case = case.replace("ESC", "\u{1b}");
            let parts: Vec<_> = case.split(" => ").collect();
            let [argument, text, expected] = parts.try_into().unwrap();
            let expected = if expected == "=" { text } else { expected };
            let hidden = hide(text, std::iter::once(argument.to_owned()));
            assert_eq!(hidden, expected, "{argument}");
        }
    }
}

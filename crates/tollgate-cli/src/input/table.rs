//! The formats that are read: a pattern for each kind of line, and for what may stand before it.

use super::options::Format;
use super::pattern::Pattern;

/// The lines of each format, and how the program names them. Of the lines of one format, the first
/// that fits counts.
///
/// JSON lines and W3C logs name their own fields, so they are read apart from these.
const LINES: [(Format, &str, &[&str]); 4] = [
    (
        Format::AccessLog,
        "combined",
        &[
            r#"{host} - {user} [{time}] "{path}" {status} {number}"#,
            // Older ingress controllers of nginx write the address twice.
            r#"{host} - [{address}] - {user} [{time}] "{path}" {status} {number}"#,
        ],
    ),
    (
        Format::AccessLog,
        "vhost_combined",
        &[
            r#"{site} {address} - {user} [{time}] "{path}" {status} {number}"#,
            r#"{word}:{number} {host} - {user} [{time}] "{path}" {status} {number}"#,
        ],
    ),
    // The words are the target, three times, two statuses and two sizes.
    (
        Format::LoadBalancer,
        "elb",
        &[
            r#"{word} {time} {word} {peer} {word} {word} {word} {word} {status} {word} {word} {word} "{path}""#,
            r#"{time} {word} {peer} {word} {word} {word} {word} {status} {word} {word} {word} "{path}""#,
        ],
    ),
    // Five timers and a status tell a request from a connection.
    (
        Format::Haproxy,
        "haproxy",
        &[
            r#"{peer} [{time}] {word} {word}/{word} {word}/{word}/{word}/{word}/{word} {status} {}"{path}""#,
        ],
    ),
];

/// What stands before a line, or around it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Prefix {
    None,
    /// Syslog: `<190>May 17 10:05:03 web1 nginx: `, and as RFC 5424 has it.
    Syslog,
    /// Kubernetes, CRI and Docker Compose: `[pod/web/nginx] `, `web-1  | `, a time, `stdout F `.
    Container,
    /// A JSON object with the line in a field, as Docker keeps it, and collectors of logs.
    #[serde(rename = "json")]
    Wrapped,
}

impl Prefix {
    /// All prefixes. An object with a request in a field may also look like a request itself, so it
    /// comes first.
    pub(super) const ALL: [Self; 4] = [Self::Wrapped, Self::None, Self::Syslog, Self::Container];
}

/// How syslog begins: with nothing, with a priority, or with the length of the message as well.
const SYSLOG_STARTS: [&str; 3] = ["", "<{number}>", "{number} <{number}>"];

const SYSLOG: [&str; 6] = [
    "{word} {number} {word} {word} {word}: ",
    "{word} {number} {word} {word}: ",
    "{time} {word} {word}: ",
    "{time} {word}: ",
    "1 {word} {word} {word} {word} {word} - ",
    "1 {word} {word} {word} {word} {word} [{}] ",
];

const CONTAINERS: [&str; 7] = [
    "[{word}/{word}] {time} ",
    "[{word}/{word}] ",
    "{time} stdout {word} ",
    "{time} stderr {word} ",
    "{time} ",
    "{word} | {time} ",
    "{word} | ",
];

/// The patterns of the table.
#[derive(Clone)]
pub(super) struct Table {
    /// Each with its format and its name.
    pub(super) lines: Vec<(Format, &'static str, Pattern)>,
    pub(super) prefixes: Vec<(Prefix, Pattern)>,
}

impl Table {
    /// Returns the table, with the user's own pattern, if there is one.
    pub(super) fn new(own: Option<Pattern>) -> Self {
        // The patterns above are well-formed: every one is tested.
        let lines = LINES.into_iter().flat_map(|(format, name, texts)| {
            let patterns = texts.iter().filter_map(|text| text.parse().ok());
            patterns.map(move |pattern| (format, name, pattern))
        });
        let own = own.map(|own| (Format::Pattern, "pattern", own));
        let syslog = SYSLOG_STARTS
            .iter()
            .flat_map(|start| SYSLOG.map(|rest| (Prefix::Syslog, format!("{start}{rest}"))));
        let containers = CONTAINERS.map(|text| (Prefix::Container, text.to_owned()));
        let prefixes = syslog
            .chain(containers)
            .filter_map(|(prefix, text)| Some((prefix, text.parse().ok()?)));
        Self {
            lines: lines.chain(own).collect(),
            prefixes: prefixes.collect(),
        }
    }
}

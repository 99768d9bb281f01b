//! `LogOptions`: which logs to read, and by what to count their requests.

use std::path::PathBuf;

use clap::Args;

use super::table::Format;

/// What to read, and by what to count it.
#[derive(Args, Debug)]
pub(crate) struct LogOptions {
    /// Access logs, plain or gzip; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Whom to count for: ip, client, user, path, or several joined, such as ip+path
    ///
    /// An ip is an address, without its port; a client may also have the name of a host instead.
    /// Paths are counted without their query strings. Requests without a user are counted together,
    /// under `-`.
    #[arg(long, default_value = "ip", value_name = "KEY")]
    pub(crate) key: String,

    /// The format of the log lines
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,

    /// What the lines look like, with {ip}, {time}, {user} and {path} in them, and {} for anything
    /// else, such as '{ip} {} [{time}] "{path}"'
    ///
    /// A field ends where the text after it begins for the first time. A space is one or more spaces
    /// or tabs. {date} is for a date apart from its time, {{ and }} are braces.
    #[arg(long, value_name = "PATTERN", conflicts_with = "format")]
    pub(crate) pattern: Option<String>,

    #[command(flatten)]
    pub(crate) fields: FieldNames,
}

/// The name of the field with the time, unless the user gives another.
pub(crate) const TIME_FIELD: &str = "time";

/// The names of the fields in JSON lines: `a.b` is the field `b` of the object `a`, and `a.0` the
/// first element of the list `a`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fields of JSON lines, columns of W3C logs")]
pub(crate) struct FieldNames {
    /// The field with the time: RFC 3339, Unix seconds (also with decimals or an exponent),
    /// milliseconds, microseconds or nanoseconds
    #[arg(long, default_value = TIME_FIELD, value_name = "NAME")]
    pub(crate) time_field: String,

    /// The field with the client's address; a.0 is the first element of the list a
    #[arg(long, default_value = "ip", value_name = "NAME")]
    pub(crate) ip_field: String,

    /// The field with the user
    #[arg(long, default_value = "user", value_name = "NAME")]
    pub(crate) user_field: String,

    /// The field with the path, or with the whole request line
    #[arg(long, default_value = "path", value_name = "NAME")]
    pub(crate) path_field: String,
}

//! `LogOptions`: which logs to read, and by what to count their requests.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::key::{IPV6_PREFIX, KeyParts};
use crate::failure::Failure;

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

    /// How many of the first bits of an IPv6 address a client may choose nothing of
    ///
    /// Clients usually have a network of 64 bits for themselves, so that all addresses in it are one
    /// key, as in the HTTP layer; 128 makes each address a key of its own.
    #[arg(long, default_value_t = IPV6_PREFIX, value_name = "BITS", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub(crate) ipv6_prefix: u8,

    #[command(flatten)]
    pub(crate) filters: Filters,

    /// The format of the log lines
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,

    /// What the lines look like, with {ip}, {time}, {user}, {path}, {method}, {status} and {agent} in
    /// them, and {} for anything else, such as '{ip} {} [{time}] "{path}"'
    ///
    /// A field ends where the text after it begins for the first time; a time only where it is one. A space is one or more spaces
    /// or tabs. {date} is for a date apart from its time, {{ and }} are braces.
    #[arg(long, value_name = "PATTERN", conflicts_with = "format")]
    pub(crate) pattern: Option<String>,

    #[command(flatten)]
    pub(crate) fields: FieldNames,
}

impl LogOptions {
    pub(crate) fn key_parts(&self) -> Result<KeyParts, Failure> {
        let parts: KeyParts = self.key.parse()?;
        Ok(parts.with_ipv6_prefix(self.ipv6_prefix))
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// Recognized from the first lines; besides, lines that start with `{` are JSON
    Auto,
    /// Apache and nginx: common, combined or vhost_combined, which start alike; the rest is not needed
    #[value(name = "combined", aliases = ["common", "vhost_combined"])]
    AccessLog,
    /// HAProxy's HTTP log
    Haproxy,
    /// One JSON object per line
    Json,
    /// AWS load balancers, application (ALB) or classic (ELB)
    #[value(name = "elb", alias = "alb")]
    LoadBalancer,
    #[value(skip)]
    Pattern,
    /// The W3C extended format of IIS and CloudFront
    #[value(aliases = ["iis", "cloudfront"])]
    W3c,
}

/// Which requests are counted: those that are like one of each list, or of any list that is empty.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Which requests to count")]
pub(crate) struct Filters {
    /// Count only requests of this path, in which each * stands for any text, such as '/api/*';
    /// repeat for several
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,

    /// Count only requests with this method, such as POST; repeat for several
    #[arg(long = "method", value_name = "METHOD", value_delimiter = ',')]
    pub(crate) methods: Vec<String>,

    /// Count only requests that were answered with this status, such as 401 or 4xx; repeat for several
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',')]
    pub(crate) statuses: Vec<String>,
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

    /// The field with the method, if the path is not a whole request line
    #[arg(long, default_value = "method", value_name = "NAME")]
    pub(crate) method_field: String,

    /// The field with the status
    #[arg(long, default_value = "status", value_name = "NAME")]
    pub(crate) status_field: String,

    /// The field with the user agent
    #[arg(long, default_value = "user_agent", value_name = "NAME")]
    pub(crate) agent_field: String,
}

impl FieldNames {
    /// Returns whether the field with the client's address is CloudFront's header
    /// `CloudFront-Viewer-Address`, which always has a port after the last colon, also without brackets
    /// around an IPv6 address.
    pub(super) fn ip_has_port(&self) -> bool {
        let name = self.ip_field.to_ascii_lowercase().replace('_', "-");
        name.contains("cloudfront-viewer-address")
    }
}

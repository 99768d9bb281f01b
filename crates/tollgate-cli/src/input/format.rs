//! `Format` and `Shape`: the format that the user names, and the one that a line has.

use std::fmt;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

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
    /// The W3C extended format of IIS and CloudFront
    #[value(aliases = ["iis", "cloudfront"])]
    W3c,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    /// Apache and nginx, common or combined.
    Combined,
    /// The same after the name of the site.
    Vhost,
    Json,
    W3c,
    LoadBalancer,
    Haproxy,
    Pattern,
}

impl Shape {
    /// Returns the formats that the lines of a log may have, if the user says `format`.
    ///
    /// JSON is not among those of [`Format::Auto`]: beside any of these, lines that start with a
    /// brace are JSON.
    pub(super) fn candidates(format: Format, has_pattern: bool) -> &'static [Self] {
        if has_pattern {
            return &[Self::Pattern];
        }
        match format {
            Format::Auto => &[Self::Combined, Self::W3c, Self::LoadBalancer, Self::Haproxy],
            Format::AccessLog => &[Self::Combined],
            Format::Haproxy => &[Self::Haproxy],
            Format::Json => &[Self::Json],
            Format::LoadBalancer => &[Self::LoadBalancer],
            Format::W3c => &[Self::W3c],
        }
    }
}

/// Formats the name as `--format` takes it, where it does.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Combined => "combined",
            Self::Haproxy => "haproxy",
            Self::Json => "json",
            Self::LoadBalancer => "elb",
            Self::Pattern => "pattern",
            Self::Vhost => "vhost_combined",
            Self::W3c => "w3c",
        })
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

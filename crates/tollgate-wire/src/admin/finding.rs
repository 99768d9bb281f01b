//! `Diagnosis`: what endangers limits on the servers of a store.

use std::fmt;

use tollgate_core::{ErrorKind, StoreError};

/// How much a [`Finding`] endangers limits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Severity {
    /// All is well.
    Ok,
    /// Worth knowing, but harmless by itself.
    Note,
    /// Unclear, because the server does not say.
    Unknown,
    /// Limits will be exceeded, or calls will fail, once something else goes wrong.
    Warning,
    /// Limits are exceeded, or calls fail, now or with certainty.
    Serious,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Serious => "serious",
        })
    }
}

/// What one check found on one server.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it endangers limits.
    pub severity: Severity,
    /// What was checked, such as `eviction`: a fixed word or phrase.
    pub check: &'static str,
    /// The cluster node, by its address if that is known; `server` for a single server; `cluster`
    /// for the whole cluster.
    pub server: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if there is nothing to do.
    pub advice: String,
}

/// What [`Operate::diagnose`](super::Operate::diagnose) found on the servers of a store.
///
/// # Examples
///
/// ```
/// use tollgate_wire::operate::{Diagnosis, Severity};
///
/// assert_eq!(Diagnosis::default().worst(), Severity::Ok);
/// assert!(Severity::Warning < Severity::Serious);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Diagnosis {
    pub(super) findings: Vec<Finding>,
}

impl Diagnosis {
    /// Returns what was found, server by server.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the greatest severity of all findings.
    #[must_use]
    pub fn worst(&self) -> Severity {
        let severities = self.findings.iter().map(|finding| finding.severity);
        severities.max().unwrap_or(Severity::Ok)
    }

    /// Adds the `findings` about `server`.
    pub(super) fn add(&mut self, server: &str, findings: impl IntoIterator<Item = Finding>) {
        self.findings
            .extend(findings.into_iter().map(|finding| Finding {
                server: server.to_owned(),
                ..finding
            }));
    }
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            check,
            server: String::new(),
            found: found.into(),
            advice: advice.into(),
        }
    }

    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, found, "")
    }

    /// Returns the finding that a server could not be checked.
    pub(super) fn lost(error: &StoreError) -> Self {
        const CHECK: &str = "connection";
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown => Self::new(
                Severity::Serious,
                CHECK,
                format!("the server does not answer ({error})"),
                "check that it is running, and that no firewall blocks it",
            ),
            _ => Self::new(
                Severity::Serious,
                CHECK,
                "the server refused a command of the diagnosis",
                error.to_string(),
            ),
        }
    }
}

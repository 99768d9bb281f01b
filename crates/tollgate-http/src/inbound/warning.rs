//! Logs what is set up wrongly, once.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is set up wrongly. Each has a section in `docs/http.md`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Warning {
    NoPeer,
    MissingHop,
    MissingClientHeader,
    UnusedForwarded,
    UnknownProxy,
    MissingAddress,
    EverythingTrusted,
    UnknownPlan,
    NoZone,
    CountedTwice,
    LayerPerRequest,
    StoreFailed,
    NotDecidable,
    NotSettled,
}

impl Warning {
    /// Logs the warning.
    pub(super) fn log(self, message: impl fmt::Display) {
        tracing::warn!(
            name: "tollgate.inbound",
            warning = self.name(),
            "{message} (see \"{}\" in docs/http.md of tollgate)",
            self.name()
        );
    }

    /// Returns the name of the section about it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoPeer => "no-peer",
            Self::MissingHop => "missing-hop",
            Self::MissingClientHeader => "missing-client-header",
            Self::UnusedForwarded => "unused-forwarded",
            Self::UnknownProxy => "unknown-proxy",
            Self::MissingAddress => "missing-address",
            Self::EverythingTrusted => "everything-trusted",
            Self::UnknownPlan => "unknown-plan",
            Self::NoZone => "no-zone",
            Self::CountedTwice => "counted-twice",
            Self::LayerPerRequest => "layer-per-request",
            Self::StoreFailed => "store-failed",
            Self::NotDecidable => "not-decidable",
            Self::NotSettled => "not-settled",
        }
    }
}

/// Which warnings have been logged.
#[derive(Debug, Default)]
pub(super) struct Warnings(AtomicU32);

impl Warnings {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Logs `warning`, unless it has been logged.
    #[cold]
    pub(super) fn log_once(&self, warning: Warning, message: impl fmt::Display) {
        let bit = 1 << warning as u32;
        if !self.have_logged(warning) && self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            warning.log(message);
        }
    }

    pub(super) fn have_logged(&self, warning: Warning) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << warning as u32 != 0
    }
}

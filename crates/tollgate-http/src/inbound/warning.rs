//! Tells once, in the log, what is set up wrongly.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is set up wrongly. Each has a section in `docs/http.md`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Warning {
    NoPeer,
    MissingHop,
    MissingClientHeader,
    UnusedForwarded,
    EverythingTrusted,
    UnknownPlan,
    CountedTwice,
    LayerPerRequest,
    StoreFailed,
    NotDecidable,
    NotSettled,
}

impl Warning {
    /// Returns the name of the section about it.
    fn name(self) -> &'static str {
        match self {
            Self::NoPeer => "no-peer",
            Self::MissingHop => "missing-hop",
            Self::MissingClientHeader => "missing-client-header",
            Self::UnusedForwarded => "unused-forwarded",
            Self::EverythingTrusted => "everything-trusted",
            Self::UnknownPlan => "unknown-plan",
            Self::CountedTwice => "counted-twice",
            Self::LayerPerRequest => "layer-per-request",
            Self::StoreFailed => "store-failed",
            Self::NotDecidable => "not-decidable",
            Self::NotSettled => "not-settled",
        }
    }
}

/// Which warnings have been told.
#[derive(Debug, Default)]
pub(super) struct Told(AtomicU32);

impl Told {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Tells `warning`, unless it has been told.
    #[cold]
    pub(super) fn tell(&self, warning: Warning, message: fmt::Arguments<'_>) {
        let bit = 1 << warning as u32;
        if self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tracing::warn!(
                name: "tollgate.inbound",
                warning = warning.name(),
                "{message} (see \"{}\" in docs/http.md of tollgate)",
                warning.name()
            );
        }
    }

    pub(super) fn has_told(&self, warning: Warning) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << warning as u32 != 0
    }
}

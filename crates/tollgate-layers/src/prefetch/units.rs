//! `Units`: counts units by what became of them.

#[cfg(feature = "metrics")]
use std::sync::OnceLock;

/// What became of units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Granted,
    Used,
    GivenBack,
    Lost,
}

#[derive(Default)]
pub(super) struct Units {
    #[cfg(feature = "metrics")]
    counters: OnceLock<[metrics::Counter; 4]>,
}

impl Units {
    #[cfg(feature = "metrics")]
    pub(super) fn count(&self, outcome: Outcome, units: u64) {
        if units == 0 {
            return;
        }
        // All of them at once: a rate needs the zero before the first.
        let [granted, used, given_back, lost] = self.counters.get_or_init(|| {
            ["granted", "used", "given_back", "lost"].map(|outcome| {
                let counter =
                    metrics::counter!("tollgate_prefetched_units_total", "outcome" => outcome);
                counter.increment(0);
                counter
            })
        });
        let counter = match outcome {
            Outcome::Granted => granted,
            Outcome::Used => used,
            Outcome::GivenBack => given_back,
            Outcome::Lost => lost,
        };
        counter.increment(units);
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn count(&self, _: Outcome, _: u64) {}
}

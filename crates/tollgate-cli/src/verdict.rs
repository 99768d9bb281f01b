//! `LimitVerdict`: what one limit says of a call, as JSON or as a row.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::Limit;
use tollgate_core::store::{Verdict, Verdicts};

use crate::text::{Table, grouped, micros, wait};

#[derive(Clone, Serialize)]
pub(crate) struct LimitVerdict {
    pub(crate) limit: Limit,
    pub(crate) allowed: bool,
    pub(crate) capacity: u64,
    pub(crate) remaining: u64,
    /// How many units more were used than the limit allows.
    #[serde(skip_serializing_if = "crate::text::is_zero")]
    owed: u64,
    #[serde(serialize_with = "micros", rename = "retry_after_us")]
    pub(crate) retry_after: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "reset_after_us")]
    pub(crate) reset_after: Option<Duration>,
}

impl LimitVerdict {
    /// The headings of [`cells`](Self::cells).
    pub(crate) const HEADER: [&str; 6] = [
        "LIMIT",
        "VERDICT",
        "REMAINING",
        "OF",
        "RETRY AFTER",
        "RESET AFTER",
    ];

    pub(crate) fn new(limit: &Limit, verdict: &Verdict) -> Self {
        Self {
            limit: limit.clone(),
            allowed: verdict.is_allowed(),
            capacity: verdict.capacity(),
            remaining: verdict.remaining(),
            owed: verdict.owed(),
            retry_after: verdict.retry_after().duration(),
            reset_after: verdict.reset_after().duration(),
        }
    }

    pub(crate) fn all(limits: &[Limit], verdicts: &Verdicts) -> Vec<Self> {
        let pairs = limits.iter().zip(verdicts.as_slice());
        pairs
            .map(|(limit, verdict)| Self::new(limit, verdict))
            .collect()
    }

    pub(crate) fn cells(&self) -> [String; 6] {
        let verdict = match self.allowed {
            true => "allowed",
            false if self.limit.is_shadow() => "would be denied",
            false => "denied",
        };
        // A block has no amount.
        let amount = |units: u64| match self.limit.algorithm().can_block() {
            true => String::new(),
            false => grouped(units),
        };
        [
            self.limit.to_string(),
            verdict.to_owned(),
            match self.owed {
                0 => amount(self.remaining),
                owed => format!("0, owes {}", grouped(owed)),
            },
            amount(self.capacity),
            wait(self.retry_after),
            wait(self.reset_after),
        ]
    }

    pub(crate) fn table<'v>(verdicts: impl IntoIterator<Item = &'v Self>) -> Table {
        let mut table = Table::new(&Self::HEADER, Self::HEADER.len());
        for verdict in verdicts {
            table.row(verdict.cells());
        }
        table
    }
}

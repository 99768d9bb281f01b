//! How a limit is written: `ALGORITHM:N/WINDOW[,option=value...]`.

use std::fmt;
use std::str::FromStr;

use super::{Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog};
use crate::error::LimitError;
use crate::quota::Quota;

const EXPECTED: &str = "one of fixed-window:20/1h[,anchored][,count-denied], \
     sliding-log:5/1m[,count-denied], sliding-counter:20/1h, sliding-buckets:20/1h,buckets=12, \
     gcra:10/1m[,burst=3]";

impl FromStr for Algorithm {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let bad = || LimitError::Syntax {
            text: text.to_owned(),
            expected: EXPECTED,
        };
        let (name, rest) = text.split_once(':').ok_or_else(bad)?;
        let mut parts = rest.split(',');
        let quota: Quota = parts.next().ok_or_else(bad)?.parse()?;
        let mut options = Options::read(parts).ok_or_else(bad)?;
        let algorithm = match name {
            "fixed-window" => {
                let mut machine = if options.flag("anchored") {
                    FixedWindow::anchored(quota)
                } else {
                    FixedWindow::aligned(quota)
                };
                if options.flag("count-denied") {
                    machine = machine.count_denied();
                }
                machine.into()
            }
            "gcra" => match options.number("burst") {
                Some(burst) => Gcra::with_burst(quota, burst)?.into(),
                None => Gcra::new(quota)?.into(),
            },
            "sliding-buckets" => {
                let buckets = options.number("buckets").ok_or_else(bad)?;
                SlidingBuckets::new(quota, buckets)?.into()
            }
            "sliding-counter" => SlidingCounter::new(quota)?.into(),
            "sliding-log" => {
                let mut machine = SlidingLog::new(quota)?;
                if options.flag("count-denied") {
                    machine = machine.count_denied();
                }
                machine.into()
            }
            _ => return Err(bad()),
        };
        if options.is_used_up() {
            Ok(algorithm)
        } else {
            Err(bad())
        }
    }
}

/// The options that have not been asked for yet.
struct Options<'a>(Vec<(&'a str, Option<u64>)>);

impl<'a> Options<'a> {
    fn read(parts: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut options = Vec::new();
        for part in parts {
            match part.split_once('=') {
                Some((_, value)) if value.starts_with('+') => return None,
                Some((name, value)) => options.push((name, Some(value.parse().ok()?))),
                None => options.push((part, None)),
            }
        }
        Some(Self(options))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name, |value| value.is_none()).is_some()
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name, |value| value.is_some()).flatten()
    }

    fn take(&mut self, name: &str, fits: impl Fn(Option<u64>) -> bool) -> Option<Option<u64>> {
        let index = self
            .0
            .iter()
            .position(|&(given, value)| given == name && fits(value))?;
        Some(self.0.swap_remove(index).1)
    }

    fn is_used_up(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.quota();
        match self {
            Self::FixedWindow(machine) => {
                write!(f, "fixed-window:{quota}")?;
                if machine.is_anchored() {
                    f.write_str(",anchored")?;
                }
            }
            Self::Gcra(machine) => {
                write!(f, "gcra:{quota}")?;
                if machine.burst() != quota.amount() {
                    write!(f, ",burst={}", machine.burst())?;
                }
            }
            Self::SlidingBuckets(machine) => {
                write!(f, "sliding-buckets:{quota},buckets={}", machine.buckets())?;
            }
            Self::SlidingCounter(_) => write!(f, "sliding-counter:{quota}")?,
            Self::SlidingLog(_) => write!(f, "sliding-log:{quota}")?,
        }
        if self.counts_denied() {
            f.write_str(",count-denied")?;
        }
        Ok(())
    }
}

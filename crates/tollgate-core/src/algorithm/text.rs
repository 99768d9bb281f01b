//! The text of an algorithm: `ALGORITHM:N/WINDOW[,OPTION...]`.

use std::fmt;
use std::str::FromStr;

use super::{Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog};
use crate::error::LimitError;
use crate::quota::Quota;
use crate::text::Reader;

const ALGORITHM: &str =
    "an algorithm: fixed-window, gcra, sliding-buckets, sliding-counter or sliding-log";

impl FromStr for Algorithm {
    type Err = LimitError;

    /// Reads `ALGORITHM:N/WINDOW[,OPTION...]`, such as `gcra:10/1m,burst=3`.
    ///
    /// | algorithm | options |
    /// |---|---|
    /// | `fixed-window` | `anchored`, `count-denied` |
    /// | `gcra` | `burst=NUMBER` |
    /// | `sliding-buckets` | `buckets=NUMBER`, which it needs |
    /// | `sliding-counter` | none |
    /// | `sliding-log` | `count-denied` |
    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::read(Reader::new(text, 0))
    }
}

impl Algorithm {
    /// Reads an algorithm up to the end of the text.
    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, LimitError> {
        let start = reader.at();
        let name = reader.word();
        let options = match name {
            "fixed-window" => "an option: `anchored` or `count-denied`, each once",
            "gcra" => "the option `burst=NUMBER`, once",
            "sliding-buckets" => "the option `buckets=NUMBER`, once",
            "sliding-counter" => "the end: a sliding counter has no options",
            "sliding-log" => "the option `count-denied`, once",
            _ => return Err(reader.expected(start, ALGORITHM)),
        };
        if !reader.skip(':') {
            return Err(reader.expected(reader.at(), "`:` and a quota, such as `:20/1h`"));
        }
        let quota = Quota::read(&mut reader)?;
        let (mut anchored, mut count_denied) = (false, false);
        let (mut burst, mut buckets) = (None, None);
        while !reader.is_at_end() {
            if !reader.skip(',') {
                return Err(reader.expected(reader.at(), "`,` and an option, or the end"));
            }
            let start = reader.at();
            let option = reader.word();
            let number = if reader.skip('=') {
                Some(reader.number("a number")?)
            } else {
                None
            };
            match (name, option, number) {
                ("fixed-window", "anchored", None) if !anchored => anchored = true,
                ("fixed-window" | "sliding-log", "count-denied", None) if !count_denied => {
                    count_denied = true;
                }
                ("gcra", "burst", Some(_)) if burst.is_none() => burst = number,
                ("sliding-buckets", "buckets", Some(_)) if buckets.is_none() => buckets = number,
                _ => return Err(reader.expected(start, options)),
            }
        }
        Ok(match name {
            "fixed-window" => {
                let window = if anchored {
                    FixedWindow::anchored(quota)
                } else {
                    FixedWindow::aligned(quota)
                };
                if count_denied {
                    window.count_denied().into()
                } else {
                    window.into()
                }
            }
            "gcra" => match burst {
                Some(burst) => Gcra::with_burst(quota, burst)?.into(),
                None => Gcra::new(quota)?.into(),
            },
            "sliding-buckets" => {
                let needed = "`,buckets=NUMBER`, such as `,buckets=12`";
                let buckets = buckets.ok_or_else(|| reader.expected(reader.at(), needed))?;
                SlidingBuckets::new(quota, buckets)?.into()
            }
            "sliding-counter" => SlidingCounter::new(quota)?.into(),
            _ => {
                let log = SlidingLog::new(quota)?;
                if count_denied {
                    log.count_denied().into()
                } else {
                    log.into()
                }
            }
        })
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

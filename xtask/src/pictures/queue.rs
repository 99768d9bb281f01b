//! Draws the starts that reservations get, as an SVG picture.

use std::fmt::Write;
use std::time::Duration;

use tollgate_core::store::{Check, Request, State};
use tollgate_core::{Limit, LimitError, Timestamp};

use super::drawing::STYLE;

/// A picture of calls that start later than they arrive.
pub(super) struct Queue {
    /// The file's name without its extension.
    pub(super) name: &'static str,
    title: &'static str,
    limit: &'static str,
    /// Decides the calls on a state.
    decide: fn(&Limit, &mut State) -> Vec<Delayed>,
}

pub(super) const QUEUES: [Queue; 2] = [
    Queue {
        name: "gcra-reserve",
        title: "Reservations",
        limit: "mail=gcra:4/1s,burst=1",
        decide: reserved,
    },
    Queue {
        name: "waiting",
        title: "Calls that wait in line",
        limit: "mail=sliding-log:4/1s",
        decide: in_line,
    },
];

/// The longest delay that the calls accept.
const WITHIN_MS: u64 = 1_000;
/// When the calls arrive.
const ARRIVALS_MS: [u64; 14] = [
    100, 110, 120, 130, 140, 150, 400, 900, 1_000, 2_100, 2_700, 2_710, 2_900, 3_050,
];
const END_MS: u64 = 4_000;
/// The heights of the two rows of dots.
const ARRIVE: i64 = 110;
const START: i64 = 190;

/// When a call arrives, and after how many milliseconds it starts if it is admitted.
type Delayed = (u64, Option<u64>);

/// Reserves a start for each call as it arrives.
fn reserved(limit: &Limit, state: &mut State) -> Vec<Delayed> {
    let decide = |&ms: &u64| {
        let within = Duration::from_millis(WITHIN_MS);
        let request = Request::reserve(Check::new(limit, "alice", 1), within);
        let verdicts = request.decide_on(state, instant(ms));
        let delay = verdicts.delay().as_micros().map(|micros| micros / 1_000);
        (ms, delay.filter(|_| verdicts.is_allowed()))
    };
    ARRIVALS_MS.iter().map(decide).collect()
}

/// Lets each call wait for those before it, and until the limit admits it, unless that takes too
/// long.
fn in_line(limit: &Limit, state: &mut State) -> Vec<Delayed> {
    let check = Check::new(limit, "alice", 1);
    let mut last = 0;
    let decide = |&ms: &u64| {
        let first = last.max(ms);
        let wait = Request::peek(check).decide_on(state, instant(first));
        let start = first + wait.retry_after().as_micros().unwrap_or(0).div_ceil(1_000);
        if start - ms > WITHIN_MS {
            return (ms, None);
        }
        last = start;
        let admitted = Request::consume(check).decide_on(state, instant(start));
        (ms, admitted.is_allowed().then_some(start - ms))
    };
    ARRIVALS_MS.iter().map(decide).collect()
}

fn instant(ms: u64) -> Timestamp {
    Timestamp::saturating_from_micros(ms * 1_000)
}

impl Queue {
    /// Returns the calls, as the state machine decides them.
    fn calls(&self) -> Result<Vec<Delayed>, LimitError> {
        let limit: Limit = self.limit.parse()?;
        Ok((self.decide)(&limit, &mut State::default()))
    }

    /// Returns the picture.
    pub(super) fn draw(&self) -> Result<String, LimitError> {
        let Self { title, limit, .. } = self;
        let calls = self.calls()?;
        let admitted = calls.iter().filter(|(_, delay)| delay.is_some()).count();
        let of = calls.len();
        let mut svg = String::new();
        let mut line = |text: &str| {
            svg.push_str(text);
            svg.push('\n');
        };
        line(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="252" viewBox="0 0 900 252" role="img" aria-labelledby="t d">"#,
        );
        line(&format!(r#"<title id="t">{title} under {limit}</title>"#));
        line(&format!(
            r#"<desc id="d">{admitted} of {of} calls admitted, each with a start.</desc>"#
        ));
        line(&format!("<style>{STYLE}</style>"));
        line(
            r##"<rect x="0.5" y="0.5" width="899" height="251" rx="8" fill="#fff" stroke="#d0d7de"/>"##,
        );
        line(&format!(r#"<text x="24" y="33" class="t">{title}</text>"#));
        line(&format!(
            r#"<text x="24" y="54" class="m">{limit}, within {WITHIN_MS} ms</text>"#
        ));
        line(&format!(
            r#"<text x="876" y="33" class="w e">{admitted} of {of} admitted</text>"#
        ));
        for ms in (0..=END_MS).step_by(250) {
            let at = x(ms);
            line(&format!(r#"<path class="g" d="M{at} 84V216"/>"#));
            if ms % 500 == 0 {
                line(&format!(
                    r#"<text x="{at}" y="236" class="c">{ms} ms</text>"#
                ));
            }
        }
        line(&format!(
            r#"<text x="66" y="{}" class="e">arrives</text>"#,
            ARRIVE + 4
        ));
        line(&format!(
            r#"<text x="66" y="{}" class="e">starts</text>"#,
            START + 4
        ));
        let (mut paths, mut starts, mut denied) = (String::new(), String::new(), String::new());
        for (ms, delay) in &calls {
            let from = x(*ms);
            match delay {
                Some(delay) => {
                    let to = x(ms + delay);
                    let _ = write!(paths, "M{from} {ARRIVE}L{to} {START}");
                    for (at, row) in [(&from, ARRIVE), (&to, START)] {
                        let _ = write!(starts, r#"<circle cx="{at}" cy="{row}" r="3"/>"#);
                    }
                }
                None => {
                    let _ = write!(denied, r#"<circle cx="{from}" cy="{ARRIVE}" r="3"/>"#);
                }
            }
        }
        line(&format!(r#"<path class="k" d="{paths}"/>"#));
        line(&format!(r#"<g class="a">{starts}</g>"#));
        line(&format!(r#"<g class="d">{denied}</g>"#));
        line("</svg>");
        Ok(svg)
    }
}

/// Returns the position of an instant; every instant of the picture is a multiple of 10 ms.
fn x(ms: u64) -> u64 {
    76 + ms / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_keep_to_the_limit_and_are_within_their_longest_delay() {
        for queue in &QUEUES {
            let calls = queue.calls().unwrap();
            let starts = calls.iter().filter_map(|(ms, delay)| Some(ms + (*delay)?));
            let starts: Vec<_> = starts.collect();
            assert!(starts.is_sorted());
            // Both limits admit four a second.
            assert!(starts.windows(5).all(|five| five[4] >= five[0] + 1_000));
            let is_soon = |delay: &Option<u64>| delay.is_none_or(|delay| delay <= WITHIN_MS);
            assert!(calls.iter().all(|(_, delay)| is_soon(delay)));
            assert!(calls.iter().any(|(_, delay)| delay.is_none()));
            let dots = queue.draw().unwrap().matches("<circle").count();
            assert_eq!(dots, starts.len() + calls.len());
        }
    }
}

//! Draws the starts that reservations get, as an SVG picture.

use std::fmt::Write;
use std::time::Duration;

use tollgate_core::store::{Check, Request, State};
use tollgate_core::{Limit, LimitError, Timestamp};
use tollgate_report::{Canvas, Mark};

use super::drawing::decimal;

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
/// How far apart the two rows of dots are.
const ROWS: u32 = 90;

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
        let most = WITHIN_MS / 1_000;
        let summary =
            format!("{admitted} of {of} calls are admitted; none waits for more than {most} s.");
        let mut canvas = Canvas::new(title, format!("{limit}. {summary}"));
        canvas.code(limit);
        canvas.note(summary);
        canvas.legend(&[
            (Mark::Dot, "blue", "a call, and its start"),
            (Mark::Ring, "red", "denied"),
        ]);
        let arrive = canvas.top() + 24;
        let start = arrive + ROWS;
        for ms in (0..=END_MS).step_by(500) {
            let at = x(ms);
            let (top, bottom) = (arrive - 18, start + 16);
            canvas.path("edge thin dots", format!("M{at} {top}V{bottom}"));
            let seconds = decimal(ms / 100);
            canvas.text(at, start + 36, "c soft", format!("{seconds} s"));
        }
        canvas.text(66, arrive + 5, "e soft", "arrives");
        canvas.text(66, start + 5, "e soft", "starts");
        let (mut paths, mut starts, mut denied) = (String::new(), String::new(), String::new());
        for (ms, delay) in &calls {
            let from = x(*ms);
            match delay {
                Some(delay) => {
                    let to = x(ms + delay);
                    let _ = write!(paths, "M{from} {arrive}L{to} {start}");
                    for (at, row) in [(&from, arrive), (&to, start)] {
                        let _ = write!(starts, r#"<circle cx="{at}" cy="{row}" r="3"/>"#);
                    }
                }
                None => {
                    // Above the row, where it covers no other call.
                    let above = arrive - 10;
                    let _ = write!(denied, r#"<circle cx="{from}" cy="{above}" r="3"/>"#);
                }
            }
        }
        canvas.path("blue thin", paths);
        canvas.line(format!(r#"<g class="blue fill">{starts}</g>"#));
        canvas.line(format!(r#"<g class="red line">{denied}</g>"#));
        Ok(canvas.finish(start + 52))
    }
}

/// Returns the position of an instant.
fn x(ms: u64) -> String {
    decimal(760 + ms * 5 / 4)
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
            // Two are in the legend.
            assert_eq!(dots, starts.len() + calls.len() + 2);
        }
    }
}

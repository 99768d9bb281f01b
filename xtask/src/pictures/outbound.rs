//! The picture of a day of outbound calls: urgent and background calls under another service's
//! limit, and a pause that the service asked for.

use std::time::Duration;

use tollgate_core::store::{BlockSpan, Check, Operation, Request, State};
use tollgate_core::{Limit, LimitError, Timestamp};
use tollgate_report::{Canvas, Mark};

use super::drawing::decimal;

/// The limits that an `Outbound` keeps to if its margin is zero and its reserve is 400.
const URGENT: [&str; 2] = ["api=gcra:1000/1h,burst=200", "api-paused=block:1s"];
const BACKGROUND: &str = "api-background=gcra:600/1h,burst=1";
/// The calls of the background job, which starts at midnight.
const JOB: u64 = 9_000;
/// When the service asks for a pause, in minutes of the day, and for how long.
const PAUSE: (u64, u64) = (13 * 60, 60);

/// The minutes of the day.
const DAY: u64 = 24 * 60;
/// Calls come at so many instants in each minute.
const STEPS: u64 = 10;
/// The minutes of one bar.
const BAR: u64 = 15;

const LEFT: u64 = 720;
/// Hundredths of pixels.
const PER_MINUTE: u64 = 350;
const ZERO: u64 = 340;
const CALLS_PER_PIXEL: u64 = 3;

/// The calls that were admitted in a quarter of an hour.
#[derive(Clone, Copy, Default)]
struct Bar {
    urgent: u64,
    background: u64,
}

/// What happened in the day.
struct Day {
    bars: Vec<Bar>,
    /// The minute after the background job's last call.
    done: u64,
    /// The most urgent calls that waited at a time.
    most_waited: u64,
}

fn at(step: u64) -> Timestamp {
    Timestamp::saturating_from_micros(step * 60_000_000 / STEPS)
}

/// Returns how many urgent calls come at this step of the day.
fn urgent_at(step: u64) -> u64 {
    let an_hour = match step / (60 * STEPS) {
        0..6 | 22.. => 60,
        6..8 | 19..22 => 300,
        8..10 | 16..19 => 600,
        10..16 => 840,
    };
    let until = |step: u64| step * an_hour / (60 * STEPS);
    until(step + 1) - until(step)
}

/// Runs the day through the state machines, urgent calls first at each instant.
fn run() -> Result<Day, LimitError> {
    let mut limits: Vec<Limit> = Vec::new();
    for limit in URGENT.iter().chain([&BACKGROUND]) {
        limits.push(limit.parse()?);
    }
    let mut states = vec![State::default(); limits.len()];
    let mut decide = |operation: Operation<'static>, count: usize, step: u64| {
        let checks = limits.iter().take(count);
        let checks = checks.map(|limit| Check::new(limit, "api.example.com", 1));
        let request = Request::new(operation, checks);
        request.decide_on(&mut states[..count], at(step))
    };
    let mut bars = vec![Bar::default(); usize::try_from(DAY / BAR).unwrap_or_default()];
    let (mut waiting, mut job, mut done, mut most_waited) = (0, JOB, DAY, 0);
    for step in 0..DAY * STEPS {
        let minute = step / STEPS;
        if step == PAUSE.0 * STEPS {
            let pause = BlockSpan::Lasting(Duration::from_secs(60 * PAUSE.1));
            let _ = decide(Operation::Block(pause), URGENT.len(), step);
        }
        let bar = &mut bars[usize::try_from(minute / BAR).unwrap_or_default()];
        waiting += urgent_at(step);
        while waiting > 0 && decide(Operation::Consume, URGENT.len(), step).is_allowed() {
            waiting -= 1;
            bar.urgent += 1;
        }
        while job > 0 && decide(Operation::Consume, limits.len(), step).is_allowed() {
            job -= 1;
            bar.background += 1;
            done = minute + 1;
        }
        most_waited = most_waited.max(waiting);
    }
    Ok(Day {
        bars,
        done,
        most_waited,
    })
}

fn x(minute: u64) -> String {
    decimal(LEFT + minute * PER_MINUTE / 100)
}

/// Returns a height in tenths of pixels.
fn height(calls: u64) -> u64 {
    10 * calls / CALLS_PER_PIXEL
}

/// Returns the picture.
pub(super) fn draw() -> Result<String, LimitError> {
    let day = run()?;
    let mut canvas = Canvas::new(
        "A day of calls, at most 1,000 an hour",
        "From midnight on, a background job makes 600 calls an hour. During the day, urgent calls use what they need, and the job gets the rest. At 13:00 the service asks for a pause of an hour: no call is made. Then the urgent calls that waited go first.",
    );
    canvas.code(format!("{}, reserve of 400", URGENT[0]));
    canvas.note("Each bar is a quarter of an hour.");
    canvas.legend(&[
        (Mark::Bar, "blue", "urgent"),
        (Mark::Bar, "azure", "background"),
        (Mark::Bar, "rose", "pause that the service asked for"),
    ]);
    let top = canvas.top();
    for hour in (0..=24).step_by(3) {
        let at = x(60 * hour);
        canvas.path("edge thin dots", format!("M{at} {}V{ZERO}", top + 48));
        canvas.text(&at, ZERO + 20, "c soft", format!("{hour}:00"));
    }
    for (number, bar) in (0..).zip(&day.bars) {
        draw_bar(&mut canvas, number * BAR, *bar);
    }
    let limit = 10 * ZERO - height(250);
    let (start, end) = (x(0), x(DAY));
    canvas.path(
        "soft thin dash",
        format!("M{start} {}H{end}", decimal(limit)),
    );
    canvas.path("soft thin", format!("M{start} {ZERO}H{end}"));
    canvas.text(62, limit / 10 + 2, "e soft", "1,000");
    canvas.text(62, limit / 10 + 18, "e soft", "an hour");
    let (from, until) = (x(PAUSE.0), x(PAUSE.0 + PAUSE.1));
    canvas.path(
        "rose fill",
        format!("M{from} {}H{until}V{ZERO}H{from}Z", top + 44),
    );
    let (before, after) = (x(PAUSE.0 - 20), x(PAUSE.0 + PAUSE.1 + 20));
    let middle = x(PAUSE.0 + PAUSE.1 / 2);
    let done = format!("the job is done at {}:{:02}", day.done / 60, day.done % 60);
    let waited = format!("{} calls waited", day.most_waited);
    for (x, line, class, text) in [
        (&middle, 18, "w c ink", "429, Retry-After: 1 hour"),
        (&middle, 36, "c soft", "all processes pause"),
        (&before, 62, "w e ink", "a job of 9,000 calls starts"),
        (&before, 80, "e soft", "400 an hour stay for urgent calls"),
        (&after, 62, "w ink", &waited),
        (&after, 80, "soft", "urgent ones go first"),
        (&end, 104, "e soft", &done),
    ] {
        canvas.text(x, top + line, class, text);
    }
    Ok(canvas.finish(u32::try_from(ZERO).unwrap_or(0) + 36))
}

/// Draws the urgent calls, and the background calls on top of them.
fn draw_bar(canvas: &mut Canvas, minute: u64, bar: Bar) {
    let left = x(minute);
    let width = decimal(BAR * PER_MINUTE / 100 - 8);
    let mut bottom = 10 * ZERO;
    for (class, calls) in [("blue", bar.urgent), ("azure", bar.background)] {
        let top = bottom - height(calls);
        if calls > 0 {
            let (y, height) = (decimal(top), decimal(bottom - top));
            canvas.line(format!(
                r#"<rect class="{class} fill" x="{left}" y="{y}" width="{width}" height="{height}"/>"#
            ));
        }
        bottom = top;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_keeps_to_the_limits() {
        let day = run().unwrap();
        let wanted: u64 = (0..DAY * STEPS).map(urgent_at).sum();
        let urgent: u64 = day.bars.iter().map(|bar| bar.urgent).sum();
        let background: u64 = day.bars.iter().map(|bar| bar.background).sum();
        assert_eq!((urgent, background), (wanted, JOB));
        let first = usize::try_from(PAUSE.0 / BAR).unwrap();
        for (number, bar) in day.bars.iter().enumerate() {
            let is_paused = (first..first + 4).contains(&number);
            assert_eq!(bar.urgent + bar.background == 0, is_paused, "{number}");
            // The rate of a quarter of an hour, and the burst.
            assert!(bar.urgent + bar.background <= 250 + 200, "{number}");
            assert!(bar.background <= 150 + 1, "{number}");
        }
        assert!(day.most_waited > 800, "{}", day.most_waited);
    }
}

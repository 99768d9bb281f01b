//! The picture of settlements: what remains while calls are settled below and above their
//! estimates.

use std::fmt::Write;

use tollgate_core::store::{Check, Operation, Request, State, Verdicts};
use tollgate_core::{Limit, LimitError, Receipt, Timestamp};
use tollgate_report::{Canvas, Mark};

use super::drawing::decimal;

const LIMIT: &str = "tokens=gcra:1000/1m";
const CAPACITY: i64 = 1_000;
/// The time in which one token comes back.
const TOKEN_US: u64 = 60_000;
const ESTIMATE: u64 = 400;
const END: u64 = 120;

/// What a caller does, and when, in seconds.
#[derive(Clone, Copy)]
enum Step {
    /// Checks the estimate.
    Check,
    /// Settles the latest call at this cost.
    Settle(u64),
}

const STEPS: [(u64, Step); 7] = [
    (10, Step::Check),
    (16, Step::Settle(150)),
    (30, Step::Check),
    (36, Step::Settle(1_400)),
    (48, Step::Check),
    (84, Step::Check),
    (90, Step::Settle(350)),
];

const LEFT: u64 = 900;
const TENTHS_PER_SECOND: u64 = 40;
/// The height of zero, and how many tokens one pixel is.
const ZERO: i64 = 268;
const TOKENS_PER_PIXEL: i64 = 7;

/// A step, and the balance before and after it.
struct Event {
    second: u64,
    step: Step,
    allowed: bool,
    before: i64,
    after: i64,
}

/// What happened, and the balance at each second.
struct Run {
    events: Vec<Event>,
    /// The curve: seconds and balances.
    balances: Vec<(u64, i64)>,
}

fn at(second: u64) -> Timestamp {
    Timestamp::saturating_from_micros(second * 1_000_000)
}

/// Returns what remains, or, below zero, what is owed beyond the capacity.
fn balance(verdicts: &Verdicts) -> i64 {
    let owed = verdicts.as_slice()[0]
        .reset_after()
        .as_micros()
        .unwrap_or(0);
    CAPACITY - i64::try_from(owed.div_ceil(TOKEN_US)).unwrap_or(i64::MAX)
}

/// Runs the steps through the state machine.
fn run() -> Result<Run, LimitError> {
    let limit: Limit = LIMIT.parse()?;
    let mut state = State::default();
    let mut receipt: Option<Receipt> = None;
    let (mut events, mut balances) = (Vec::new(), Vec::new());
    for second in 0..=END {
        let check = |cost| Check::new(&limit, "alice", cost);
        let peek =
            |state: &mut State| balance(&Request::peek(check(0)).decide_on(state, at(second)));
        let before = peek(&mut state);
        balances.push((second, before));
        for (_, step) in STEPS.into_iter().filter(|(when, _)| *when == second) {
            let verdicts = match (step, receipt.take()) {
                (Step::Settle(cost), Some(receipt)) => {
                    let checks = [check(cost)];
                    let settle = Request::new(Operation::Settle(&receipt), checks);
                    settle.decide_on(&mut state, at(second))
                }
                _ => Request::consume(check(ESTIMATE)).decide_on(&mut state, at(second)),
            };
            let after = peek(&mut state);
            balances.push((second, after));
            events.push(Event {
                second,
                step,
                allowed: verdicts.is_allowed(),
                before,
                after,
            });
            receipt = verdicts.into_receipt();
        }
    }
    Ok(Run { events, balances })
}

fn tenths(second: u64) -> u64 {
    LEFT + second * TENTHS_PER_SECOND
}

fn x(second: u64) -> String {
    decimal(tenths(second))
}

/// Returns the height of a balance in whole pixels, for text and dots.
fn y(balance: i64) -> i64 {
    ZERO - balance / TOKENS_PER_PIXEL
}

/// Returns the height of a balance in tenths of pixels, for the curve.
fn exact_y(balance: i64) -> String {
    let tenths = 10 * ZERO - 10 * balance / TOKENS_PER_PIXEL;
    decimal(u64::try_from(tenths).unwrap_or_default())
}

/// Returns the picture.
pub(super) fn draw() -> Result<String, LimitError> {
    let run = run()?;
    let mut canvas = Canvas::new(
        "Settlements: what remains",
        "Each call is checked at 400 tokens. One is settled at 150, which gives back what has not come back by itself. The next is settled at 1,400, more than remains: calls are denied until the debt is gone.",
    );
    canvas.code(LIMIT);
    canvas.note("Each call is checked at 400, and settled later at what it used.");
    canvas.legend(&[
        (Mark::Bar, "sky", "remains"),
        (Mark::Bar, "rose", "owed"),
        (Mark::Dot, "blue", "allowed"),
        (Mark::Ring, "red", "denied"),
    ]);
    for second in (0..=END).step_by(15) {
        let at = x(second);
        let (top, bottom) = (y(CAPACITY) - 6, y(-500) + 6);
        canvas.path("edge thin dots", format!("M{at} {top}V{bottom}"));
        canvas.text(&at, bottom + 20, "c soft", format!("{second} s"));
    }
    for (balance, label) in [(CAPACITY, "1,000"), (0, "0"), (-500, "500 owed")] {
        canvas.text(82, y(balance) + 5, "e soft", label);
    }
    draw_curve(&mut canvas, &run);
    for event in &run.events {
        draw_event(&mut canvas, event);
    }
    let height = y(-500) + 42;
    Ok(canvas.finish(u32::try_from(height).unwrap_or(0)))
}

fn draw_curve(canvas: &mut Canvas, run: &Run) {
    let area = |least: i64, most: i64| {
        let mut path = format!("M{} {ZERO}", x(0));
        for &(second, balance) in &run.balances {
            let _ = write!(
                path,
                "L{} {}",
                x(second),
                exact_y(balance.clamp(least, most))
            );
        }
        let _ = write!(path, "V{ZERO}Z");
        path
    };
    for (class, least, most) in [("sky fill", 0, CAPACITY), ("rose fill", -CAPACITY, 0)] {
        canvas.path(class, area(least, most));
    }
    canvas.path("soft thin", format!("M{} {ZERO}H{}", x(0), x(END)));
    let mut path = String::new();
    for (index, &(second, balance)) in run.balances.iter().enumerate() {
        let to = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{to}{} {}", x(second), exact_y(balance));
    }
    canvas.path("blue line", path);
}

fn draw_event(canvas: &mut Canvas, event: &Event) {
    let (cx, after) = (x(event.second), y(event.after));
    match event.step {
        Step::Check => {
            let class = if event.allowed {
                "blue fill"
            } else {
                "red line"
            };
            // A ring is drawn on the card's colour, not on that of the debt.
            canvas.line(format!(
                r#"<circle class="card fill" cx="{cx}" cy="{after}" r="6"/>"#
            ));
            canvas.line(format!(
                r#"<circle class="{class}" cx="{cx}" cy="{after}" r="4"/>"#
            ));
            if !event.allowed {
                // Below the debt.
                canvas.text(cx, after + 46, "c soft", "not enough remains");
            }
        }
        Step::Settle(cost) => {
            let change = event.after - event.before;
            let tokens = grouped(change.unsigned_abs());
            let effect = match change {
                0 => "nothing comes back".to_owned(),
                1.. => format!("{tokens} come back"),
                _ => format!("{tokens} more are counted"),
            };
            // Where the curve leaves room.
            let (x, anchor, top) = match change {
                0 => (x(END), "e", ZERO + 6),
                1.. => (cx, "c", y(420)),
                _ => (decimal(tenths(event.second) + 80), "", y(event.before) - 14),
            };
            let title = format!("settled at {}", grouped(cost));
            canvas.text(&x, top + 12, format!("w {anchor} ink").trim(), title);
            canvas.text(&x, top + 30, format!("{anchor} soft").trim(), effect);
        }
    }
}

/// Formats a number below a million.
fn grouped(number: u64) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlements_give_back_and_count_more() {
        let run = run().unwrap();
        let changes: Vec<_> = run
            .events
            .iter()
            .map(|e| (e.allowed, e.after - e.before))
            .collect();
        let expected = [
            (true, -400),
            // 250 less were used, and 100 of them came back by themselves in 6 seconds.
            (true, 150),
            (true, -400),
            (true, -1_000),
            (false, 0),
            (true, -400),
            (true, 0),
        ];
        assert_eq!(changes, expected);
        assert_eq!(run.events[3].after, -300);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 12_034].map(grouped),
            ["0", "999", "1,000", "12,034"]
        );
    }
}

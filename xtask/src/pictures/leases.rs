//! The picture of leases: who holds a place, and who is denied one.

use std::time::Duration;

use tollgate_core::lease::{self, Acquisition, Lease};
use tollgate_core::{LimitError, Timestamp};
use tollgate_report::{Canvas, Mark, cross};

use super::drawing::decimal;

const AMOUNT: u64 = 2;
const TTL: u64 = 30;
const END: u64 = 120;

/// What a holder does, and when, in seconds.
#[derive(Clone, Copy)]
enum Step {
    Acquire,
    Renew,
    Release,
}

use Step::{Acquire, Release, Renew};

/// The holders' steps by time: the second one dies after its first renewal.
const STEPS: [(u64, usize, Step); 17] = [
    (5, 0, Acquire),
    (10, 1, Acquire),
    (15, 0, Renew),
    (20, 1, Renew),
    (22, 2, Acquire),
    (25, 0, Renew),
    (35, 0, Renew),
    (40, 2, Acquire),
    (45, 0, Renew),
    (54, 2, Acquire),
    (64, 2, Renew),
    (68, 3, Acquire),
    (70, 0, Release),
    (74, 2, Renew),
    (78, 3, Acquire),
    (84, 2, Release),
    (88, 3, Renew),
];
const HOLDERS: [&str; 4] = ["alice", "bob (dies)", "carol", "dave"];

const LEFT: u64 = 1_080;
const TENTHS_PER_SECOND: u64 = 39;
const ROW: u32 = 46;
const BAR: u32 = 22;

/// A time for which a lease was held, and whether it ended by itself.
struct Held {
    holder: usize,
    from: u64,
    until: u64,
    by_itself: bool,
}

/// What happened: leases, renewals and denials.
#[derive(Default)]
struct Run {
    held: Vec<Held>,
    renewed: Vec<(u64, usize)>,
    denied: Vec<(u64, usize, u64)>,
}

/// Runs the steps through the state machine.
fn run() -> Result<Run, LimitError> {
    let terms = lease::Terms::new("places", AMOUNT, Duration::from_secs(TTL))?;
    let mut state = lease::State::default();
    let mut current: [Option<(u64, Lease)>; 4] = [None, None, None, None];
    let mut run = Run::default();
    for (second, holder, step) in STEPS {
        let id = HOLDERS[holder].as_bytes();
        let token = current[holder]
            .as_ref()
            .map_or(0, |(_, lease)| lease.token());
        let operation = match step {
            Acquire => lease::Operation::Acquire { id, weight: 1 },
            Renew => lease::Operation::Renew { id, token },
            Release => lease::Operation::Release { id, token },
        };
        let request = lease::Request::new(&terms, "key", operation);
        match request.decide_on(&mut state, at(second)) {
            lease::Answer::Acquired(Acquisition::Granted { lease, .. }) => {
                current[holder] = Some((second, lease));
            }
            lease::Answer::Acquired(Acquisition::Denied(denied)) => {
                let within = denied.ends_within().as_secs_ceil().unwrap_or(0);
                run.denied.push((second, holder, within));
            }
            lease::Answer::Renewed(Some(lease)) => {
                run.renewed.push((second, holder));
                if let Some((_, held)) = &mut current[holder] {
                    *held = lease;
                }
            }
            lease::Answer::Released(true) => {
                if let Some((from, _)) = current[holder].take() {
                    run.held.push(Held {
                        holder,
                        from,
                        until: second,
                        by_itself: false,
                    });
                }
            }
            other => unreachable!("{other:?}"),
        }
    }
    for (holder, held) in current.into_iter().enumerate() {
        if let Some((from, lease)) = held {
            run.held.push(Held {
                holder,
                from,
                until: lease.expires_at().as_micros() / 1_000_000,
                by_itself: true,
            });
        }
    }
    Ok(run)
}

fn at(second: u64) -> Timestamp {
    Timestamp::saturating_from_micros(second * 1_000_000)
}

fn x(second: u64) -> String {
    decimal(LEFT + second.min(END) * TENTHS_PER_SECOND)
}

/// Returns the picture.
pub(super) fn draw() -> Result<String, LimitError> {
    let run = run()?;
    let mut canvas = Canvas::new(
        "Leases: two places, four callers",
        "At most two leases are held at any time. Bob dies, and his lease ends 30 seconds after its last renewal. Calls while both places are held are denied.",
    );
    canvas.code("2 at once, 30s to live");
    canvas.legend(&[
        (Mark::Bar, "sky", "held"),
        (Mark::Line, "blue", "acquired or renewed"),
        (
            Mark::Cross,
            "red",
            "denied; a place is free within so many seconds",
        ),
    ]);
    let start = canvas.top() + 8;
    let top = |holder: usize| start + ROW * u32::try_from(holder).unwrap_or(0);
    let bottom = top(HOLDERS.len());
    for second in (0..=END).step_by(15) {
        let at = x(second);
        canvas.path("edge thin dots", format!("M{at} {start}V{bottom}"));
        canvas.text(&at, bottom + 18, "c soft", format!("{second} s"));
    }
    for (holder, name) in HOLDERS.into_iter().enumerate() {
        canvas.text(98, top(holder) + 16, "w e ink", name);
    }
    for held in &run.held {
        let (from, until) = (held.from, held.until.min(END));
        let width = decimal((until - from) * TENTHS_PER_SECOND);
        let (at, y) = (x(from), top(held.holder));
        canvas.line(format!(
            r#"<rect class="sky fill" x="{at}" y="{y}" width="{width}" height="{BAR}"/>"#
        ));
        canvas.path("blue line", format!("M{at} {y}v{BAR}"));
        if held.by_itself {
            let anchor = if until > END - 10 { "e soft" } else { "c soft" };
            canvas.text(x(until), y + BAR + 15, anchor, "ends by itself");
        }
    }
    for (second, holder) in run.renewed {
        canvas.path("blue line", format!("M{} {}v{BAR}", x(second), top(holder)));
    }
    for (second, holder, within) in run.denied {
        let y = top(holder) + BAR / 2;
        let center = (LEFT + second * TENTHS_PER_SECOND) / 10;
        canvas.line(cross("red", u32::try_from(center).unwrap_or(0), y));
        canvas.text(x(second), y + 22, "c soft", format!("{within} s"));
    }
    Ok(canvas.finish(bottom + 34))
}

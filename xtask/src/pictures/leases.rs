//! The picture of leases: who holds a place, and who is denied one.

use std::time::Duration;

use tollgate_core::lease::{self, Acquisition, Lease};
use tollgate_core::{LimitError, Timestamp};

use super::drawing::{STYLE, Svg, decimal};

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

const LEFT: u64 = 1_300;
const TENTHS_PER_SECOND: u64 = 62;
const TOP: i64 = 96;
const ROW: i64 = 44;
const BAR: i64 = 22;

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
    let mut svg = Svg::default();
    svg.line(r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="312" viewBox="0 0 900 312" role="img" aria-labelledby="t d">"#);
    svg.line(r#"<title id="t">Leases: two places, four callers</title>"#);
    svg.line(r#"<desc id="d">At most two leases are held at any time. Bob dies, and his lease ends 30 seconds after its last renewal. Calls while both places are held are denied.</desc>"#);
    svg.line(format!("<style>{STYLE}</style>"));
    // A background of its own, because the page may be light or dark.
    svg.line(
        r##"<rect x="0.5" y="0.5" width="899" height="311" rx="8" fill="#fff" stroke="#d0d7de"/>"##,
    );
    svg.text("24", 33, "t", "Leases: two places, four callers");
    svg.text("24", 54, "m", "2 at once, 30s to live");
    svg.text("876", 33, "w e", "never more than 2 at once");
    svg.text("876", 54, "e", "| renewed   \u{d7} denied");
    for second in (0..=END).step_by(15) {
        let at = x(second);
        svg.line(format!(r#"<path class="g" d="M{at} {}V276"/>"#, TOP - 12));
        svg.text(&at, 294, "c", &format!("{second} s"));
    }
    let top = |holder: usize| TOP + ROW * i64::try_from(holder).unwrap_or(0);
    for (holder, name) in HOLDERS.into_iter().enumerate() {
        svg.text("118", top(holder) + 15, "w e", name);
    }
    for held in &run.held {
        let (from, until) = (held.from, held.until.min(END));
        let width = decimal((until - from) * TENTHS_PER_SECOND);
        let y = top(held.holder);
        svg.line(format!(
            r##"<rect x="{}" y="{y}" width="{width}" height="{BAR}" rx="3" class="u" stroke="#0969da"/>"##,
            x(from)
        ));
        if held.by_itself {
            let anchor = if until > END - 10 { "e" } else { "c" };
            svg.text(x(until), y + BAR + 14, anchor, "ends by itself");
        }
    }
    for (second, holder) in run.renewed {
        let (at, y) = (x(second), top(holder));
        svg.line(format!(
            r#"<path class="k" d="M{at} {}V{}"/>"#,
            y + 4,
            y + BAR - 4
        ));
    }
    for (second, holder, within) in run.denied {
        let y = top(holder) + BAR / 2;
        let center = LEFT + second * TENTHS_PER_SECOND;
        let (left, right) = (decimal(center - 40), decimal(center + 40));
        svg.line(format!(
            r#"<path class="d" d="M{left} {}L{right} {}M{left} {}L{right} {}"/>"#,
            y - 4,
            y + 4,
            y + 4,
            y - 4
        ));
        svg.text(x(second), y + 22, "c", &format!("room within {within} s"));
    }
    svg.line("</svg>");
    Ok(svg.finish())
}

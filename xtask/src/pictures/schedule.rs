//! The picture of a schedule: which times each of its quotas forbids, and which one is free.

use std::fmt::Write;

use tollgate_core::schedule::{self, Event};
use tollgate_core::{LimitError, Timestamp};

use super::drawing::{STYLE, Svg, decimal};

const QUOTAS: [&str; 3] = ["1/1h", "2/4h", "4/12h"];

/// The planned events, in minutes from the beginning of Monday.
const EVENTS: [u64; 7] = [
    of(1, 7, 0),
    of(1, 9, 0),
    of(1, 11, 0),
    of(1, 16, 0),
    of(1, 22, 0),
    of(2, 2, 0),
    of(2, 4, 30),
];
/// The time that is asked for.
const WANTED: u64 = of(1, 9, 30);
const START: u64 = of(1, 0, 0);
const END: u64 = of(2, 12, 0);

/// What the last quota forbids.
const WIDEST: (u64, u64) = (of(1, 4, 0), of(1, 19, 0));
/// Where that begins and ends: the last of four events less the window, and the first and the window.
const WHY: &str = "16:00 \u{2212} 12 h to 07:00 + 12 h";

/// Styles that the other pictures do not have: bars of one quota, and of all.
const BARS: &str =
    ".q{fill:#ffc1bc;stroke:#fff}.f{fill:#cf222e}.p{stroke:#0969da;stroke-width:1.6}";

/// The position of the start, and the length of an hour, in tenths of pixels.
const LEFT: u64 = 940;
const TENTHS_PER_HOUR: u64 = 210;
const LINE: i64 = 112;
const ROW: i64 = 32;
const BAR: i64 = 20;

const fn of(day: u64, hour: u64, minute: u64) -> u64 {
    (day * 24 + hour) * 60 + minute
}

/// The events of one key, and what the state machine answers about them.
struct Scene {
    state: schedule::State,
    now: Timestamp,
}

impl Scene {
    /// Plans the events, within all of the quotas.
    fn new() -> Result<Self, LimitError> {
        let mut scene = Self {
            state: schedule::State::default(),
            now: at(START),
        };
        let terms = terms(&QUOTAS)?;
        for (number, time) in EVENTS.iter().enumerate() {
            let id = number.to_string();
            let event = Event::new(&id, at(*time));
            let request =
                schedule::Request::new(&terms, "key", schedule::Operation::Add(vec![event]));
            let answer = request.decide_on(&mut scene.state, scene.now);
            assert_eq!(answer, schedule::Answer::Added(1), "an event does not fit");
        }
        Ok(scene)
    }

    /// Returns the free time that an operation finds, in minutes.
    fn find(&self, terms: &schedule::Terms, operation: schedule::Operation<'_>) -> Option<u64> {
        let request = schedule::Request::new(terms, "key", operation);
        match request.decide_on(&mut self.state.clone(), self.now) {
            schedule::Answer::Found(time) => time.map(|time| time.as_micros() / MINUTE_US),
            _ => None,
        }
    }

    fn next_free(&self, terms: &schedule::Terms, from: u64) -> u64 {
        let (from, weight) = (at(from), 1);
        let found = self.find(terms, schedule::Operation::NextFree { from, weight });
        found.unwrap_or(END)
    }

    fn latest_free(&self, terms: &schedule::Terms, until: u64) -> u64 {
        let (until, weight) = (at(until), 1);
        let found = self.find(terms, schedule::Operation::LatestFree { until, weight });
        found.unwrap_or(START)
    }

    /// Returns the intervals without a free time: after the first, and until before the second.
    fn forbidden(&self, terms: &schedule::Terms) -> Vec<(u64, u64)> {
        let mut forbidden = Vec::new();
        let mut minute = START;
        while minute < END {
            let free = self.next_free(terms, minute);
            if free > minute {
                forbidden.push((minute.saturating_sub(1).max(START), free.min(END)));
            }
            minute = free.max(minute) + 1;
        }
        forbidden
    }
}

const MINUTE_US: u64 = 60_000_000;

fn at(minutes: u64) -> Timestamp {
    Timestamp::saturating_from_micros(minutes * MINUTE_US)
}

fn terms(quotas: &[&str]) -> Result<schedule::Terms, LimitError> {
    schedule::Terms::new("picture", quotas.iter().copied())
}

/// Returns the picture.
pub(super) fn draw() -> Result<String, LimitError> {
    let scene = Scene::new()?;
    let all = terms(&QUOTAS)?;
    let next = scene.next_free(&all, WANTED);
    let latest = scene.latest_free(&all, WANTED);
    let mut svg = Svg::default();
    svg.line(r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="312" viewBox="0 0 900 312" role="img" aria-labelledby="t d">"#);
    svg.line(r#"<title id="t">A schedule: which times are free</title>"#);
    let (wanted, free, before) = (clock(WANTED), clock(next), clock(latest));
    svg.line(format!(
        r#"<desc id="d">Seven planned events, and the times that three quotas forbid for another one. {wanted} is forbidden; the next free time is {free}, the latest before it {before}.</desc>"#
    ));
    svg.line(format!("<style>{STYLE}{BARS}</style>"));
    svg.line(
        r##"<rect x="0.5" y="0.5" width="899" height="311" rx="8" fill="#fff" stroke="#d0d7de"/>"##,
    );
    svg.text("24", 33, "t", "A schedule: which times are free");
    svg.text("24", 54, "m", &QUOTAS.join(" "));
    svg.text(
        "876",
        33,
        "w e",
        &format!("next free after {wanted}: {free}"),
    );
    svg.text("876", 54, "e", &format!("latest free before: {before}"));
    let bottom = rows(&mut svg, &scene, &all)?;
    for minute in (START..=END).step_by(6 * 60) {
        if minute % of(1, 0, 0) == 0 {
            svg.line(format!(
                r#"<path class="g" d="M{} 92V{bottom}"/>"#,
                x(minute)
            ));
        }
        svg.text(x(minute), 292, "c", &clock(minute));
    }
    for (minute, class, label) in [
        (WANTED, "n", "asked for"),
        (next, "p", "next free"),
        (latest, "p", "latest free"),
    ] {
        let at = x(minute);
        svg.line(format!(r#"<path class="{class}" d="M{at} 92V{bottom}"/>"#));
        svg.text(at, 84, "w c", label);
    }
    let mut dots = String::from(r#"<g class="a">"#);
    for event in EVENTS {
        let _ = write!(dots, r#"<circle cx="{}" cy="{LINE}" r="4.5"/>"#, x(event));
    }
    svg.line(dots + "</g>");
    svg.line("</svg>");
    Ok(svg.finish())
}

/// Draws the line of events, and a row of forbidden times for each quota and for all of them.
/// Returns where the last row ends.
fn rows(svg: &mut Svg, scene: &Scene, all: &schedule::Terms) -> Result<i64, LimitError> {
    let (left, right) = (x(START), x(END));
    svg.text("86", LINE + 4, "e", "planned");
    svg.line(format!(r#"<path class="x" d="M{left} {LINE}H{right}"/>"#));
    let mut top = LINE + 22;
    for quota in QUOTAS {
        let forbidden = scene.forbidden(&terms(&[quota])?);
        bars(svg, top, quota, &forbidden, "q");
        top += ROW;
    }
    let middle = decimal(tenths(WANTED).midpoint(tenths(WIDEST.1)));
    svg.text(middle, top - ROW + 14, "c", WHY);
    bars(svg, top, "all", &scene.forbidden(all), "f");
    Ok(top + BAR)
}

fn bars(svg: &mut Svg, top: i64, label: &str, forbidden: &[(u64, u64)], class: &str) {
    svg.text("86", top + 14, "w e", label);
    for (from, to) in forbidden {
        let width = decimal(tenths(*to) - tenths(*from));
        svg.line(format!(
            r#"<rect class="{class}" x="{}" y="{top}" width="{width}" height="{BAR}"/>"#,
            x(*from)
        ));
    }
}

fn tenths(minute: u64) -> u64 {
    LEFT + (minute - START) * TENTHS_PER_HOUR / 60
}

fn x(minute: u64) -> String {
    decimal(tenths(minute))
}

/// Writes a time as `Tue 10:00`.
fn clock(minute: u64) -> String {
    let day = match minute / of(1, 0, 0) {
        0 => "Mon",
        1 => "Tue",
        _ => "Wed",
    };
    format!("{day} {:02}:{:02}", minute / 60 % 24, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quota_forbids_times_around_runs_of_events() {
        let scene = Scene::new().unwrap();
        let forbidden = |quota| scene.forbidden(&terms(&[quota]).unwrap());
        assert_eq!(forbidden("1/1h")[0], (of(1, 6, 0), of(1, 8, 0)));
        // Around 07:00 and 09:00, 09:00 and 11:00, and in the night 02:00 and 04:30.
        let four = [(of(1, 5, 0), of(1, 13, 0)), (of(2, 0, 30), of(2, 6, 0))];
        assert_eq!(forbidden("2/4h"), four);
        assert_eq!(forbidden("4/12h"), [WIDEST]);
    }

    #[test]
    fn the_free_times_are_the_ends_of_what_the_widest_quota_forbids() {
        let scene = Scene::new().unwrap();
        let all = terms(&QUOTAS).unwrap();
        let found = (
            scene.latest_free(&all, WANTED),
            scene.next_free(&all, WANTED),
        );
        assert_eq!(found, WIDEST);
        assert_eq!(clock(WANTED), "Tue 09:30");
    }
}

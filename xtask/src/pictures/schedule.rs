//! The picture of a schedule: which times each of its quotas forbids, and which one is free.

use std::fmt::Write;

use tollgate_core::schedule::{self, Event};
use tollgate_core::{LimitError, Timestamp};
use tollgate_report::{Canvas, Mark};

use super::drawing::decimal;

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

/// The position of the start, and the length of an hour, in tenths of pixels.
const LEFT: u64 = 720;
const TENTHS_PER_HOUR: u64 = 140;
const ROW: u32 = 32;
const BAR: u32 = 20;

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
    let (wanted, free, before) = (clock(WANTED), clock(next), clock(latest));
    let summary = format!(
        "{wanted} is forbidden; the next free time is {free}, the latest before it {before}."
    );
    let mut canvas = Canvas::new(
        "A schedule: which times are free",
        format!(
            "Seven planned events, and the times that three quotas forbid for another one. {summary}"
        ),
    );
    canvas.code(QUOTAS.join(" "));
    canvas.note(summary);
    canvas.legend(&[
        (Mark::Dot, "blue", "planned"),
        (Mark::Bar, "rose", "forbidden by one quota"),
        (Mark::Bar, "red", "by any"),
        (Mark::Line, "green", "free"),
        (Mark::Dashed, "ink", "wanted"),
    ]);
    let top = canvas.top();
    let line = top + 42;
    let bottom = rows(&mut canvas, line, &scene, &all)?;
    for minute in (START..=END).step_by(6 * 60) {
        let is_midnight = minute % of(1, 0, 0) == 0;
        let (day, time) = clock(minute)
            .split_once(' ')
            .map(|(day, time)| (day.to_owned(), time.to_owned()))
            .unwrap_or_default();
        canvas.text(x(minute), bottom + 20, "c soft", time);
        if is_midnight {
            canvas.path("edge thin dots", format!("M{} {line}V{bottom}", x(minute)));
            canvas.text(x(minute), bottom + 38, "w c ink", day);
        }
    }
    for (minute, class, label) in [
        (WANTED, "ink line dash", "wanted"),
        (next, "green line", "next free"),
        (latest, "green line", "latest free"),
    ] {
        let at = x(minute);
        canvas.path(class, format!("M{at} {}V{bottom}", top + 22));
        canvas.text(at, top + 16, "w c ink", label);
    }
    let mut dots = String::from(r#"<g class="blue fill">"#);
    for event in EVENTS {
        let _ = write!(dots, r#"<circle cx="{}" cy="{line}" r="4.5"/>"#, x(event));
    }
    canvas.line(dots + "</g>");
    Ok(canvas.finish(bottom + 54))
}

/// Draws the line of events, and a row of forbidden times for each quota and for all of them.
/// Returns where the last row ends.
fn rows(
    canvas: &mut Canvas,
    line: u32,
    scene: &Scene,
    all: &schedule::Terms,
) -> Result<u32, LimitError> {
    let (left, right) = (x(START), x(END));
    canvas.text(62, line + 5, "e soft", "planned");
    canvas.path("soft thin", format!("M{left} {line}H{right}"));
    let mut top = line + 22;
    for quota in QUOTAS {
        let forbidden = scene.forbidden(&terms(&[quota])?);
        bars(canvas, top, quota, &forbidden, "rose");
        top += ROW;
    }
    let after = decimal(tenths(WIDEST.1) + 80);
    canvas.text(after, top - ROW + 15, "soft", WHY);
    bars(canvas, top, "all", &scene.forbidden(all), "red");
    Ok(top + BAR)
}

fn bars(canvas: &mut Canvas, top: u32, label: &str, forbidden: &[(u64, u64)], class: &str) {
    canvas.text(62, top + 15, "w e ink", label);
    for (from, to) in forbidden {
        // A gap, so that two that touch can be told apart.
        let width = decimal(tenths(*to) - tenths(*from) - 8);
        canvas.line(format!(
            r#"<rect class="{class} fill" x="{}" y="{top}" width="{width}" height="{BAR}"/>"#,
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

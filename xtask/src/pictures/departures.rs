//! Draws when calls leave that are sent together, as an SVG picture.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::store::{Check, Request};
use tollgate_core::{Limit, LimitError};
use tollgate_report::{Canvas, Mark};
use tollgate_wire::{Engine, Failure, Options, Runtime, ScriptCall, WireStore};

use super::drawing::decimal;

/// How many calls leave by themselves.
const ALONE: usize = 16;
/// How many calls there are.
const CALLS: usize = 40;
/// How long a script is on its way.
const TRAVELS_US: u64 = 300;
const END_US: u64 = 1_400;
/// The height of each call.
const ROW: u32 = 7;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    static BASE: Instant = Instant::now();
    static NOW_US: Cell<u64> = const { Cell::new(0) };
    static TASKS: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
}

/// A server that admits every call, and writes down when scripts are sent to it.
#[derive(Default)]
struct Server(Mutex<Vec<Departure>>);

/// A script on its way.
struct Departure {
    left_us: u64,
    /// The calls that it decides, each by its own key.
    keys: Vec<Vec<u8>>,
}

impl Engine for Server {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let left_us = NOW_US.get();
        let keys = call.keys().to_vec();
        let count = keys.len();
        if let Ok(mut departures) = self.0.lock() {
            departures.push(Departure { left_us, keys });
        }
        poll_fn(|_| match NOW_US.get() {
            now if now < left_us + TRAVELS_US => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        // The call is admitted, at some instant, and the limit had no state.
        let one = [&[1][..], &1.0_f64.to_le_bytes(), &[0; 2]].concat();
        if !call.script().text().contains("protected(") {
            return Ok(one);
        }
        let header = [&[1][..], &1_u32.to_le_bytes(), &11_u32.to_le_bytes()].concat();
        Ok([header, one].concat().repeat(count))
    }

    async fn load(&self, _: &ScriptCall<'_>) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget(&self, _: &[Vec<u8>]) -> Result<(), Failure> {
        Ok(())
    }

    async fn within<F>(&self, _: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn is_clustered(&self) -> bool {
        false
    }

    fn runtime(&self) -> Option<Runtime> {
        let now = || BASE.with(|base| *base + Duration::from_micros(NOW_US.get()));
        Some(Runtime::new(
            (),
            |task| TASKS.with_borrow_mut(|tasks| tasks.push(task)),
            now,
        ))
    }
}

/// When a call was made, left and was answered, in microseconds, and with how many others it left.
#[derive(Clone, Copy, Debug, Default)]
struct Journey {
    made: u64,
    left: u64,
    answered: u64,
    others: usize,
}

/// Returns when a call is made, in microseconds: the first ones one right after the other, the last one
/// when nothing is on its way.
fn made_us(call: usize) -> u64 {
    let call = call as u64;
    match call {
        0..=16 => 20 + 10 * call,
        39 => 1_080,
        _ => 180 + 20 * (call - 16),
    }
}

/// Makes the calls at a store, with time that only this function moves on.
fn journeys() -> Result<Vec<Journey>, LimitError> {
    let limit: Limit = "l=gcra:100/1s".parse()?;
    let store = WireStore::new(Server::default(), Options::new().with_batches(true));
    let keys: Vec<String> = (0..CALLS).map(|call| format!("key-{call}")).collect();
    let requests = keys
        .iter()
        .map(|key| Request::consume(Check::new(&limit, key, 1)));
    let requests: Vec<_> = requests.collect();
    let mut calls: Vec<_> = requests
        .iter()
        .map(|request| Some(Box::pin(store.execute(request))))
        .collect();
    let mut journeys: Vec<_> = (0..CALLS)
        .map(|call| Journey {
            made: made_us(call),
            ..Journey::default()
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    for now in (0..=END_US).step_by(10) {
        NOW_US.set(now);
        // Tasks answer calls, and calls start tasks.
        for _ in 0..4 {
            let mut tasks = TASKS.take();
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            TASKS.with_borrow_mut(|started| started.splice(0..0, tasks).for_each(drop));
            let made = calls.iter_mut().zip(&mut journeys);
            for (call, journey) in made.filter(|(_, journey)| journey.made <= now) {
                let answer = call.as_mut().map(|call| call.as_mut().poll(&mut context));
                if answer.is_some_and(|answer| answer.is_ready()) {
                    journey.answered = now;
                    *call = None;
                }
            }
        }
    }
    drop(calls);
    let departures = store.engine().0.lock();
    for departure in departures.iter().flat_map(|departures| departures.iter()) {
        for key in &departure.keys {
            let is_its = |call: &String| {
                key.windows(call.len() + 1)
                    .any(|part| part == format!("{call}}}").as_bytes())
            };
            if let Some(call) = keys.iter().position(is_its) {
                journeys[call].left = departure.left_us;
                journeys[call].others = departure.keys.len() - 1;
            }
        }
    }
    Ok(journeys)
}

/// Returns the picture.
pub(super) fn draw() -> Result<String, LimitError> {
    let journeys = journeys()?;
    let mut left: Vec<(u64, usize)> = journeys
        .iter()
        .map(|call| (call.left, call.others))
        .collect();
    left.dedup();
    let (calls, scripts) = (journeys.len(), left.len());
    let summary = format!(
        "{calls} calls in {scripts} scripts: the first {ALONE} leave by themselves, later ones wait for each other."
    );
    let mut canvas = Canvas::new("Calls that are sent together", &summary);
    canvas.note(summary);
    canvas.legend(&[
        (Mark::Dot, "ink", "a call"),
        (Mark::Dashed, "orange", "it waits"),
        (Mark::Line, "blue", "it is on its way"),
    ]);
    let top = canvas.top() + 12;
    let y = |row: usize| top + ROW * u32::try_from(row).unwrap_or(0);
    let bottom = y(calls) + 4;
    for us in (0..=END_US).step_by(200) {
        let at = x(us);
        canvas.path("edge thin dots", format!("M{at} {}V{bottom}", top - 10));
        canvas.text(at, bottom + 20, "c soft", format!("{us} \u{b5}s"));
    }
    let (mut waits, mut travels, mut made) = (String::new(), String::new(), String::new());
    for (row, call) in journeys.iter().enumerate() {
        let y = y(row);
        let [from, leaves, to] = [call.made, call.left, call.answered].map(x);
        if call.left > call.made {
            let _ = write!(waits, "M{from} {y}H{leaves}");
        }
        let _ = write!(travels, "M{leaves} {y}H{to}");
        let _ = write!(made, r#"<circle cx="{from}" cy="{y}" r="2"/>"#);
    }
    canvas.path("orange line dash", waits);
    canvas.path("blue line", travels);
    canvas.line(format!(r#"<g class="ink fill">{made}</g>"#));
    let mut first = 0;
    for together in journeys.chunk_by(|one, next| one.left == next.left) {
        let last = first + together.len() - 1;
        if let [call, _, ..] = together {
            let (at, y) = (x(call.answered + 20), y(first).midpoint(y(last)) + 5);
            canvas.text(at, y, "w ink", format!("{} together", together.len()));
        }
        first = last + 1;
    }
    Ok(canvas.finish(bottom + 36))
}

/// Returns the position of an instant.
fn x(us: u64) -> String {
    decimal(400 + us * 37 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_wait_leave_together_and_nothing_waits_for_a_quiet_server() {
        let journeys = journeys().unwrap();
        assert!(
            journeys
                .iter()
                .all(|call| call.answered >= call.left + TRAVELS_US)
        );
        assert!(
            journeys[..ALONE]
                .iter()
                .all(|call| call.others == 0 && call.left == call.made)
        );
        assert!(
            journeys
                .iter()
                .any(|call| call.others > 3 && call.left > call.made)
        );
        let last = journeys.last().unwrap();
        assert_eq!((last.others, last.left), (0, last.made));
    }
}

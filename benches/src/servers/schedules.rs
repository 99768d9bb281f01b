//! The points of schedules: an event that is moved, and one that is refused.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event, Placement, Schedule};

use super::clients::{Client, options};
use super::keys::Keys;
use super::measure::{KEYS, Plan, Point, row};
use super::run::{Subject, erase};
use crate::{Outcome, Problem};

const SCHEDULE: &str = "schedule with 10 events in reach";

const QUOTAS: [&str; 3] = ["1/1m", "5/1h", "10/1d"];
const HOUR: Duration = Duration::from_secs(3_600);
/// The ids of the events in reach.
const IDS: [&str; 10] = [
    "msg-0", "msg-1", "msg-2", "msg-3", "msg-4", "msg-5", "msg-6", "msg-7", "msg-8", "msg-9",
];
/// The event that is moved back and forth.
const MOVED: &str = "msg-moved";

/// Returns the names of the rows.
pub(crate) fn rows() -> [String; 2] {
    [Outcome::Allowed, Outcome::Denied].map(|outcome| row(SCHEDULE, outcome))
}

/// Adds a schedule's points through one client.
///
/// Added events would pile up, so allowed calls move one event of each key between two times. That
/// runs the same commands as adding an event.
pub(crate) async fn add<C: Client>(
    points: &mut Vec<Point>,
    client: &C,
    plan: &Plan,
) -> Result<(), Problem> {
    let keys = Arc::new(Keys::new(KEYS));
    let times = Times::tomorrow()?;
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        let name = format!("{outcome:?}-{}", C::NAME).to_lowercase();
        let terms = schedule::Terms::new(&name, QUOTAS)?;
        fill(client, &terms, &times, &keys).await?;
        let subject = Plans {
            schedule: Schedule::with_terms(client.store(options(false))?, terms),
            outcome,
            times: times.clone(),
            keys: Arc::clone(&keys),
        };
        points.push(Point {
            row: row(SCHEDULE, outcome),
            client: C::NAME,
            runs: erase(subject),
            keys: Arc::clone(&keys),
            warm_up: plan.warm_up,
            expected: Some(outcome),
        });
    }
    Ok(())
}

/// The times of a key's events.
#[derive(Clone)]
struct Times {
    events: [Timestamp; 10],
    /// Two times with all of the events within a day. The moved event is at the second first.
    free: [Timestamp; 2],
    taken: Timestamp,
}

impl Times {
    fn tomorrow() -> Result<Self, Problem> {
        let first = Timestamp::try_from(SystemTime::now() + 24 * HOUR)?;
        let after = |minutes: u64| first.saturating_add(Duration::from_secs(60 * minutes));
        let mut minutes = (0..).step_by(240);
        let events = std::array::from_fn(|_| after(minutes.next().unwrap_or_default()));
        Ok(Self {
            events,
            free: [after(4 * 240 + 60), after(4 * 240 + 120)],
            taken: after(4 * 240),
        })
    }
}

/// Plans the events of every key.
async fn fill(
    client: &impl Client,
    terms: &schedule::Terms,
    times: &Times,
    keys: &Keys,
) -> Result<(), Problem> {
    let schedule = Schedule::with_terms(client.store(options(false))?, terms.clone());
    for name in keys.names() {
        let events = IDS.into_iter().zip(times.events);
        let events = events.map(|(id, time)| Event::new(id, time));
        let moved = Event::new(MOVED, times.free[1]);
        let added = schedule
            .add_all(name.as_str(), events.chain([moved]))
            .await?;
        added.permit()?;
    }
    Ok(())
}

/// Calls of a schedule through the library.
struct Plans<S> {
    schedule: Schedule<S>,
    outcome: Outcome,
    times: Times,
    keys: Arc<Keys>,
}

impl<S: schedule::Store + 'static> Subject for Plans<S> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let name = self.keys.name(turn);
        let round = turn / self.keys.names().len() % self.times.free.len();
        let placement = match self.outcome {
            Outcome::Denied => self.schedule.add(name, "msg-new", self.times.taken).await?,
            _ => {
                let time = self.times.free[round];
                self.schedule.reschedule(name, MOVED, time).await?
            }
        };
        // An event that is where it should go already was not moved.
        Ok(match std::hint::black_box(placement) {
            Placement::Planned { is_new, .. } => is_new,
            _ => false,
        })
    }
}

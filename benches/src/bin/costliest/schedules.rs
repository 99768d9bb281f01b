//! The costliest calls to schedules.

use std::sync::Arc;
use std::time::Duration;

use tollgate_benches::Problem;
use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event, Schedule};

use crate::{RedisStore, Table};

const KEY: &str = "alice";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
/// Every call is decided at this instant.
const NOW: u64 = 1_800_000_000_000_000;
/// One in so many events weighs 2, where some do.
const HEAVY: usize = 256;
/// The place of the last event before the next that weighs 2.
const LAST: usize = HEAVY - 1;

/// A time and a weight.
type Planned = (Timestamp, u64);

pub(crate) async fn measure(table: &Table) -> Result<(), Problem> {
    let minutes: Vec<_> = (1..=32).map(|n| format!("{n}/{n}m")).collect();
    let minutes: Vec<_> = minutes.iter().map(|quota| &**quota).collect();
    for (label, quotas, gap, longest) in [
        ("`50000/1d`", &["50000/1d"][..], DAY / 50_000, DAY),
        ("`1/1m`", &["1/1m"], MINUTE, MINUTE),
        ("3 quotas", &["1/1m", "5/5m", "60/1h"], MINUTE, 60 * MINUTE),
        ("32 quotas", &minutes, MINUTE, 32 * MINUTE),
    ] {
        let terms = schedule::Terms::new("plans", quotas.iter().copied())?;
        let all = every(gap, longest, &terms)?;
        full(table, label, &terms, &all).await?;
    }

    let terms = schedule::Terms::new("plans", ["2/1m"])?;
    let light = every(MINUTE / 2, MINUTE, &terms)?;
    let all = light
        .into_iter()
        .enumerate()
        .filter_map(|(index, (time, _))| {
            // A weight of 2 leaves no room for an event beside it.
            match index % HEAVY {
                0 => Some((time, 2)),
                1 | LAST => None,
                _ => Some((time, 1)),
            }
        });
    let all: Vec<_> = all.collect();
    let label = "`2/1m`, one in 256 of weight 2";
    full(table, label, &terms, &all).await?;

    for (label, quotas, amount) in [
        ("`250/day`", 1, 250),
        ("3 quotas of `180/day`", 3, 180),
        ("32 quotas of `16/day`", 32, 16),
    ] {
        let days = vec![format!("{amount}/day@UTC"); quotas];
        let terms = schedule::Terms::new("plans", days)?;
        let all = every(DAY / amount, DAY, &terms)?;
        full(table, label, &terms, &all).await?;
    }

    // Little is open, and what is open is full.
    for (label, quotas, rules) in [
        ("one quota and 31 rules of closed times", 1, 31),
        ("16 quotas and 16 rules of closed times", 16, 16),
    ] {
        let gap = DAY / rules;
        let time = |seconds: u64| {
            format!(
                "{:02}:{:02}:{:02}",
                seconds / 3_600 % 24,
                seconds / 60 % 60,
                seconds % 60
            )
        };
        let closed = (0..u64::from(rules)).map(|rule| {
            let at = rule * gap.as_secs();
            format!("closed {}-{}@UTC", time(at + 10), time(at + gap.as_secs()))
        });
        let counting = (0..quotas).map(|quota| format!("1/{}s", 600 + quota));
        let terms = schedule::Terms::new("plans", counting.chain(closed))?;
        let start = Timestamp::from_micros(NOW / 86_400_000_000 * 86_400_000_000)?;
        let days = u32::try_from(terms.horizon().as_secs() / 86_400)?;
        let open = (0..days * rules).map(|slot| {
            let of_day = u64::from(slot % rules) * gap.as_secs() + 5;
            let after = DAY * (slot / rules) + Duration::from_secs(of_day);
            (start.saturating_add(after), 1)
        });
        let open: Vec<_> = open.filter(|(time, _)| time.as_micros() > NOW).collect();
        Held::new(&terms, &open).search(table, label).await?;
    }

    // The calls that are made most, where no window is full.
    let terms = schedule::Terms::new("plans", ["50000/1d"])?;
    let spread = every(2 * SECOND, DAY, &terms)?;
    let together = vec![spread[spread.len() * 3 / 4]; 49_999];
    for (label, held) in [("with room", &spread), ("at one time", &together)] {
        let held = Held::new(&terms, held);
        held.plan_one(table, label).await?;
    }
    Ok(())
}

fn now() -> Result<Timestamp, Problem> {
    Ok(Timestamp::from_micros(NOW)?)
}

/// Returns events at this distance, from the longest window before now up to the horizon.
fn every(
    gap: Duration,
    longest: Duration,
    terms: &schedule::Terms,
) -> Result<Vec<Planned>, Problem> {
    let first = Timestamp::from_micros(NOW - u64::try_from(longest.as_micros())?)?;
    let count = (longest + terms.horizon()).as_micros() / gap.as_micros();
    Ok((1..=u32::try_from(count)?)
        .map(|event| (first.saturating_add(gap * event), 1))
        .collect())
}

/// Measures the costliest calls to a key that holds all events for which it has room.
async fn full(
    table: &Table,
    label: &str,
    terms: &schedule::Terms,
    all: &[Planned],
) -> Result<(), Problem> {
    let held = Held::new(terms, all);
    held.search(table, label).await?;
    held.list(table, label).await?;
    held.plan_later(table, label).await?;
    held.plan_many(table, label).await
}

/// A key with events.
struct Held<'e> {
    terms: &'e schedule::Terms,
    events: &'e [Planned],
}

impl<'e> Held<'e> {
    fn new(terms: &'e schedule::Terms, events: &'e [Planned]) -> Self {
        Self { terms, events }
    }

    fn schedule(&self, store: &RedisStore) -> Schedule<RedisStore> {
        Schedule::with_terms(Arc::clone(store), self.terms.clone())
    }

    fn called(&self, label: &str) -> String {
        format!("{} events, {label}", self.events.len())
    }

    /// Plans these events, a hundred with each call, which is made before the first of them.
    async fn plan(&self, store: &RedisStore, events: &[Planned]) -> Result<(), Problem> {
        let schedule = self.schedule(store);
        for (batch, planned) in events.chunks(100).enumerate() {
            let ids: Vec<_> = (0..planned.len())
                .map(|event| format!("msg-{batch}-{event}"))
                .collect();
            let events = ids.iter().zip(planned);
            let events =
                events.map(|(id, (time, weight))| Event::new(id, *time).with_weight(*weight));
            let at = now()?.min(planned[0].0);
            schedule.add_all(KEY, events).at(at).await?.permit()?;
        }
        Ok(())
    }

    /// Prints a row for a call to a key that holds `events`.
    #[expect(clippy::future_not_send, reason = "all calls are made on one thread")]
    async fn row(
        &self,
        table: &Table,
        name: &str,
        events: &[Planned],
        call: impl AsyncFn(Schedule<RedisStore>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let fill = async |store: &RedisStore| self.plan(store, events).await;
        let call = async |store: &RedisStore| call(self.schedule(store)).await;
        table.row(&format!("schedule: {name}"), fill, call).await
    }

    async fn search(&self, table: &Table, label: &str) -> Result<(), Problem> {
        let at = now()?;
        let events = self.called(label);
        // The first period of a calendar and its last one may have room.
        let first = self.events[self.events.len() / 40].0;
        let middle = self.events[self.events.len() / 2].0;
        let name = format!("find the next free time behind {events}");
        self.row(table, &name, self.events, async |schedule| {
            schedule.next_free(KEY, first).at(at).await?;
            Ok(())
        })
        .await?;
        let name = format!("refuse an event amid {events}");
        self.row(table, &name, self.events, async |schedule| {
            let call = schedule.add(KEY, "new", middle).at(at);
            assert!(!call.await?.is_planned());
            Ok(())
        })
        .await
    }

    async fn list(&self, table: &Table, label: &str) -> Result<(), Problem> {
        let [(first, _), .., (last, _)] = self.events else {
            return Ok(());
        };
        let until = last.saturating_add(MINUTE);
        let name = format!("a part of the list of {}", self.called(label));
        self.row(table, &name, self.events, async |schedule| {
            let listed = schedule.list(KEY, *first, until).at(now()?).await?;
            assert_eq!(listed.len(), self.events.len());
            Ok(())
        })
        .await
    }

    /// Measures a call after which no event counts that was held before.
    async fn plan_later(&self, table: &Table, label: &str) -> Result<(), Problem> {
        let later = now()?.saturating_add(3 * self.terms.horizon() + 40 * DAY);
        let name = format!("plan an event when {} are over", self.called(label));
        self.row(table, &name, self.events, async |schedule| {
            let placement = schedule.add(KEY, "new", later).at(later).await?;
            assert!(placement.is_planned());
            Ok(())
        })
        .await
    }

    async fn plan_one(&self, table: &Table, label: &str) -> Result<(), Problem> {
        let (time, _) = self.events[self.events.len() / 2];
        let name = format!("plan one event amid {}", self.called(label));
        self.row(table, &name, self.events, async |schedule| {
            let placement = schedule.add(KEY, "new", time).at(now()?).await?;
            assert!(placement.is_planned());
            Ok(())
        })
        .await
    }

    /// Measures calls with a hundred events, one in each neighborhood.
    async fn plan_many(&self, table: &Table, label: &str) -> Result<(), Problem> {
        let now = now()?;
        let light = |event: &&Planned| event.0 > now && event.1 == 1;
        let ahead: Vec<_> = self.events.iter().filter(light).copied().collect();
        let gaps = ahead.iter().step_by(ahead.len() / 101);
        let gaps: Vec<_> = gaps.take(100).copied().collect();
        let others = self.events.iter().filter(|event| !gaps.contains(event));
        let others: Vec<_> = others.copied().collect();
        let events = self.called(label);
        for (refused, name) in [(false, ""), (true, ", the last one refused")] {
            let mut added: Vec<_> = gaps.iter().map(|(time, _)| *time).collect();
            if refused {
                // There is room for one event, and the hundredth is the second.
                added[99] = added[50];
            }
            let name = format!("add 100 events scattered among {events}{name}");
            self.row(table, &name, &others, async |schedule| {
                let ids: Vec<_> = (0..100).map(|event| format!("new-{event}")).collect();
                let events = ids.iter().zip(&added);
                let events = events.map(|(id, time)| Event::new(id, *time));
                let call = schedule.add_all(KEY, events).at(now);
                assert_eq!(call.await?.is_planned(), !refused);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

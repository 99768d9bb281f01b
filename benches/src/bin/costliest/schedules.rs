//! The costliest calls to schedules.

use std::sync::Arc;
use std::time::Duration;

use tollgate_benches::Problem;
use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event, Placement, Schedule};

use crate::{RedisStore, Table};

const KEY: &str = "alice";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Every call is decided at this instant.
const NOW: u64 = 1_800_000_000_000_000;

pub(crate) async fn measure(table: &Table) -> Result<(), Problem> {
    calendars(table).await?;
    batches(table).await?;
    searches(table).await
}

/// Returns so many quotas, each of which has room for 1,000 in an hour.
fn alike(count: u64) -> Vec<String> {
    let hours = (0..count).map(|quota| 3_600 + quota);
    hours.map(|seconds| format!("1000/{seconds}s")).collect()
}

fn now() -> Result<Timestamp, Problem> {
    Ok(Timestamp::from_micros(NOW)?)
}

/// Plans events at these times, a hundred with each call, the first of one weight and the others of
/// another.
async fn plan(
    store: &RedisStore,
    terms: &schedule::Terms,
    times: &[Timestamp],
    (first, others): (u64, u64),
) -> Result<(), Problem> {
    let schedule = Schedule::with_terms(store, terms.clone());
    for (batch, times) in times.chunks(100).enumerate() {
        let ids: Vec<_> = (0..times.len())
            .map(|event| format!("msg-{batch}-{event}"))
            .collect();
        let events = ids.iter().zip(times).enumerate();
        let events = events.map(|(event, (id, time))| {
            let is_first = (batch, event) == (0, 0);
            Event::new(id, *time).with_weight(if is_first { first } else { others })
        });
        let added = schedule.add_all(KEY, events).at(now()?).await?;
        added.permit()?;
    }
    Ok(())
}

/// Returns so many times, each this long after the one before.
fn every(gap: Duration, count: u32) -> Result<Vec<Timestamp>, Problem> {
    let now = now()?;
    Ok((1..=count)
        .map(|event| now.saturating_add(gap * event))
        .collect())
}

async fn batches(table: &Table) -> Result<(), Problem> {
    for quotas in [1, 4] {
        for (name, count, allowed) in [
            ("add 100 events", 900, true),
            ("add 100 events, the last refused", 901, false),
        ] {
            let Ok(terms) = schedule::Terms::new("plans", alike(quotas)) else {
                continue;
            };
            let times = every(HOUR / 1_000, 1_000)?;
            let (held, added) = times.split_at(900);
            let mut held = held.to_vec();
            held.extend(times.last().into_iter().filter(|_| count > 900));
            let added: Vec<_> = added
                .iter()
                .map(|time| time.saturating_add(MINUTE / 1_000))
                .collect();
            let name = format!(
                "schedule: {name}, to {count} within an hour, {quotas} quotas of `1000/1h`"
            );
            table
                .row(
                    &name,
                    async |store| plan(store, &terms, &held, (1, 1)).await,
                    async |store| {
                        let schedule = Schedule::with_terms(store, terms.clone());
                        let ids: Vec<_> = (0..100).map(|event| format!("new-{event}")).collect();
                        let events = ids.iter().zip(&added);
                        let events = events.map(|(id, time)| Event::new(id, *time));
                        let placement = schedule
                            .add_all(KEY, events)
                            .at(now()?)
                            .with_latest()
                            .await?;
                        assert_eq!(placement.is_planned(), allowed);
                        Ok(())
                    },
                )
                .await?;
        }
    }
    Ok(())
}

/// The most events that a key can hold under so many quotas, all of them in the way.
async fn searches(table: &Table) -> Result<(), Problem> {
    let (one, three) = (&["1/1m"][..], &["1/1m", "5/5m", "60/1h"][..]);
    let (one_of_two, three_of_two) = (&["2/1m"][..], &["2/1m", "10/5m", "120/1h"][..]);
    for (label, quotas, gap, (heaviest, weight)) in [
        ("1 quota", one, MINUTE, (1, 1)),
        ("1 quota, weights of 2", one_of_two, MINUTE, (2, 2)),
        ("1 quota, one weight of 2", one_of_two, MINUTE / 2, (2, 1)),
        ("3 quotas", three, MINUTE, (1, 1)),
        ("3 quotas, weights of 2", three_of_two, MINUTE, (2, 2)),
        (
            "3 quotas, one weight of 2",
            three_of_two,
            MINUTE / 2,
            (2, 1),
        ),
        ("32 quotas", &[], MINUTE, (1, 1)),
    ] {
        let quotas: Vec<String> = if quotas.is_empty() {
            (1..=32)
                .map(|minutes| format!("{minutes}/{minutes}m"))
                .collect()
        } else {
            quotas.iter().map(|&quota| quota.to_owned()).collect()
        };
        let terms = schedule::Terms::new("plans", quotas)?;
        let most = terms.horizon().as_secs() / gap.as_secs();
        let mut times = every(gap, u32::try_from(most)?)?;
        if heaviest > weight {
            times.remove(1);
        }
        let count = times.len();
        let events = format!("{count} events, {label}");
        let weights = (heaviest, weight);
        let fill = async |store: &RedisStore| plan(store, &terms, &times, weights).await;
        let (first, last) = (times[0], times[count - 1]);
        let middle = times[count / 2];
        let at = now()?;
        let schedule = |store: &RedisStore| Schedule::with_terms(Arc::clone(store), terms.clone());
        table
            .row(
                &format!("schedule: find the next free time behind {events}"),
                fill,
                async |store: &RedisStore| {
                    schedule(store)
                        .next_free(KEY, first)
                        .weight(weight)
                        .at(at)
                        .await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: find the latest free time before {events}"),
                fill,
                async |store: &RedisStore| {
                    schedule(store)
                        .latest_free(KEY, last)
                        .weight(weight)
                        .at(at)
                        .await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: refuse one among {events}"),
                fill,
                async |store: &RedisStore| {
                    let refused = schedule(store)
                        .add(KEY, "new", middle)
                        .weight(weight)
                        .at(at)
                        .with_latest()
                        .await?;
                    assert!(!refused.is_planned());
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: reserve behind {events}"),
                fill,
                async |store: &RedisStore| {
                    let _ = schedule(store)
                        .reserve_next(KEY, "new", first)
                        .weight(weight)
                        .at(at)
                        .await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: list {events}"),
                fill,
                async |store: &RedisStore| {
                    let listed = schedule(store)
                        .list(KEY, first, last.saturating_add(MINUTE))
                        .at(at)
                        .await?;
                    assert_eq!(listed.len(), count);
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: plan one once {events} are over"),
                fill,
                async |store: &RedisStore| {
                    let later = last.saturating_add(terms.horizon());
                    let planned = schedule(store)
                        .add(KEY, "new", later)
                        .weight(weight)
                        .at(later)
                        .await?;
                    assert!(matches!(planned, Placement::Planned { .. }));
                    Ok(())
                },
            )
            .await?;
        // One in each neighborhood.
        let gaps: Vec<_> = times
            .iter()
            .skip(2)
            .step_by(count / 101)
            .take(100)
            .copied()
            .collect();
        let without: Vec<_> = times
            .iter()
            .filter(|time| !gaps.contains(time))
            .copied()
            .collect();
        for (name, is_planned) in [("", true), (", the last refused", false)] {
            let mut added = gaps.clone();
            if let Some(time) = added.last_mut().filter(|_| !is_planned) {
                // Just after the event before the gap, so that the latest free time is far away.
                let before = times.iter().rfind(|other| *other < time).unwrap_or(time);
                *time = before.saturating_add(Duration::from_millis(1));
            }
            table
                .row(
                    &format!("schedule: add 100 events scattered among {events}{name}"),
                    async |store: &RedisStore| plan(store, &terms, &without, weights).await,
                    async |store: &RedisStore| {
                        let ids: Vec<_> = (0..100).map(|event| format!("new-{event}")).collect();
                        let events = ids.iter().zip(&added);
                        let events =
                            events.map(|(id, time)| Event::new(id, *time).with_weight(weight));
                        let schedule = schedule(store);
                        let call = schedule.add_all(KEY, events).at(at).with_latest();
                        assert_eq!(call.await?.is_planned(), is_planned);
                        Ok(())
                    },
                )
                .await?;
        }
    }
    Ok(())
}

/// The most full days that a key can hold under so many quotas.
async fn calendars(table: &Table) -> Result<(), Problem> {
    for (quotas, amount, heaviest) in [(32, 1, 1), (3, 10, 1), (3, 10, 2)] {
        let days: Vec<_> = (0..quotas).map(|_| format!("{amount}/day@UTC")).collect();
        let terms = schedule::Terms::new("plans", days)?;
        let gap = 24 * HOUR / amount;
        let most = terms.horizon().as_secs() / gap.as_secs();
        let mut times = every(gap, u32::try_from(most)?)?;
        if heaviest > 1 {
            times.remove(1);
        }
        // The first day and the last one may have room.
        let (first, last) = (times[10], times[times.len() - 11]);
        let at = now()?;
        let events = format!(
            "{} events, {quotas} quotas of `{amount}/day`{}",
            times.len(),
            if heaviest > 1 {
                ", one weight of 2"
            } else {
                ""
            }
        );
        let fill = async |store: &RedisStore| plan(store, &terms, &times, (heaviest, 1)).await;
        let schedule = |store: &RedisStore| Schedule::with_terms(Arc::clone(store), terms.clone());
        table
            .row(
                &format!("schedule: find the next free time behind {events}"),
                fill,
                async |store: &RedisStore| {
                    schedule(store).next_free(KEY, first).at(at).await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("schedule: find the latest free time before {events}"),
                fill,
                async |store: &RedisStore| {
                    schedule(store).latest_free(KEY, last).at(at).await?;
                    Ok(())
                },
            )
            .await?;
        let gaps: Vec<_> = times
            .iter()
            .skip(2)
            .step_by(times.len() / 101)
            .take(100)
            .copied()
            .collect();
        let without: Vec<_> = times
            .iter()
            .filter(|time| !gaps.contains(time))
            .copied()
            .collect();
        table
            .row(
                &format!("schedule: add 100 events scattered among {events}"),
                async |store: &RedisStore| plan(store, &terms, &without, (heaviest, 1)).await,
                async |store: &RedisStore| {
                    let ids: Vec<_> = (0..100).map(|event| format!("new-{event}")).collect();
                    let events = ids.iter().zip(&gaps);
                    let events = events.map(|(id, time)| Event::new(id, *time));
                    let placement = schedule(store).add_all(KEY, events).at(at).await?;
                    assert!(placement.is_planned());
                    Ok(())
                },
            )
            .await?;
    }
    Ok(())
}

//! Reminders for many people, each in the own time zone: at most one a minute, five an hour and ten a
//! day, and never at night.
//!
//! `cargo run --release -p tollgate-redis --example reminders -- PEOPLE [URL]` plans six for each of so
//! many people, in memory or on the server at `URL`, and says how long that took.

#![allow(clippy::print_stdout, reason = "it tells what it measures")]

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;
use tokio::task::JoinSet;
use tollgate_memory::MemoryStore;
use tollgate_redis::schedule::{self, Schedule};
use tollgate_redis::{RedisStore, Timestamp, redis};

type Error = Box<dyn std::error::Error + Send + Sync>;

const QUOTAS: [&str; 4] = ["1/1m", "5/1h", "10/day@local", "closed 22:00-08:00@local"];
const REMINDERS: usize = 6;
/// How many reminders are planned at once.
const CALLERS: usize = 64;
const ZONES: [&str; 12] = [
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Europe/London",
    "Europe/Berlin",
    "Africa/Lagos",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let people = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let begins = Instant::now();
    let bytes = match arguments.next() {
        None => in_memory(people).await?,
        Some(url) => on_server(people, &url).await?,
    };
    let (took, count) = (begins.elapsed(), people * REMINDERS);
    println!(
        "{count} reminders for {people} people: {:.1} s, {} ns each, {} bytes a person",
        took.as_secs_f64(),
        took.as_nanos() / u128::try_from(count.max(1))?,
        bytes / people.max(1),
    );
    Ok(())
}

/// Plans the reminders in memory, and returns how many bytes they take.
pub(crate) async fn in_memory(people: usize) -> Result<usize, Error> {
    let store = Arc::new(MemoryStore::builder().max_keys(people).build());
    plan(Arc::clone(&store), people).await?;
    Ok(store.bytes())
}

/// Plans the reminders on the server at `url`, and returns how many bytes they take there.
pub(crate) async fn on_server(people: usize, url: &str) -> Result<usize, Error> {
    let before = used_memory(url).await?;
    plan(Arc::new(RedisStore::connect(url).await?), people).await?;
    Ok(used_memory(url).await?.saturating_sub(before))
}

/// Plans the reminders of all people. All of them are wanted at the same instant.
async fn plan<S: schedule::Store + 'static>(store: Arc<S>, people: usize) -> Result<(), Error> {
    let schedule = Schedule::new(store, "reminders", QUOTAS)?;
    let zones = ZONES.iter().map(|name| TimeZone::get(name));
    let zones = Arc::new(zones.collect::<Result<Vec<_>, _>>()?);
    let wanted = Timestamp::try_from(SystemTime::now() + Duration::from_secs(3_600))?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (schedule, zones) = (schedule.clone(), Arc::clone(&zones));
        callers.spawn(async move {
            for person in (caller..people).step_by(CALLERS) {
                let zone = &zones[person % zones.len()];
                remind(&schedule, person, zone, wanted).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

/// Plans the reminders of one person, and checks their times.
async fn remind<S: schedule::Store>(
    schedule: &Schedule<S>,
    person: usize,
    zone: &TimeZone,
    wanted: Timestamp,
) -> Result<(), Error> {
    let key = format!("user-{person}");
    schedule.reset(&*key).await?; // An earlier run may have planned the same ids.
    let mut times = [Timestamp::UNIX_EPOCH; REMINDERS];
    for (index, time) in times.iter_mut().enumerate() {
        let id = format!("reminder-{index}");
        let call = schedule.reserve_next(&*key, &id, wanted);
        *time = call.zone(zone.clone()).await?.permit()?;
        let hour = jiff::Timestamp::from(*time).to_zoned(zone.clone()).hour();
        if *time < wanted {
            return Err(format!("{key} is reminded too early, at {time}").into());
        }
        if !(8..22).contains(&hour) {
            return Err(format!("{key} is woken at {time}").into());
        }
    }
    let apart = |first: usize, last: usize| times[last].saturating_duration_since(times[first]);
    let is_minute = (1..REMINDERS).all(|last| apart(last - 1, last) >= Duration::from_secs(60));
    if !is_minute || apart(0, 5) < Duration::from_secs(3_600) {
        return Err(format!("{key} gets too many: {times:?}").into());
    }
    Ok(())
}

/// Returns how many bytes the server uses.
async fn used_memory(url: &str) -> Result<usize, Error> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await?;
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    Ok(used
        .ok_or("the server does not tell its memory")?
        .trim()
        .parse()?)
}

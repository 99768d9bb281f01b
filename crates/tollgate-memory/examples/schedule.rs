//! A scheduler of messages: at most one a minute, five an hour and ten a day for each recipient.
//!
//! ```sh
//! cargo run -p tollgate-memory --example schedule
//! ```
//!
//! The example `reminders` of `tollgate-redis` does this on a server, with time zones and quiet nights.

#![allow(clippy::print_stdout, reason = "it tells what it plans")]

use std::error::Error;
use std::time::{Duration, SystemTime};

use tollgate_memory::schedule::{Placement, Schedule};
use tollgate_memory::{MemoryStore, Timestamp};

fn main() -> Result<(), Box<dyn Error>> {
    run()
}

/// Plans messages, and says which are due.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let schedule = Schedule::new(MemoryStore::new(), "messages", ["1/1m", "5/1h", "10/1d"])?;
    let first = Timestamp::try_from(SystemTime::now() + Duration::from_secs(3_600))?;
    let minutes = |time: Timestamp| time.saturating_duration_since(first).as_secs() / 60;

    // Twelve messages want the same minute. Each gets the first time that is free.
    let mut planned = Vec::new();
    for number in 1..=12 {
        let id = format!("message-{number}");
        let time = schedule.reserve_next("alice", &id, first).run()?.permit()?;
        println!("{id:<10} {:>4} minutes after the first", minutes(time));
        planned.push(minutes(time));
    }
    assert_eq!(planned, [0, 1, 2, 3, 4, 60, 61, 62, 63, 64, 1440, 1441]);

    // Whoever does not know whether a call arrived repeats it: the same id keeps its time.
    let again = schedule.reserve_next("alice", "message-3", first).run()?;
    assert_eq!(minutes(again.permit()?), 2);

    // A message that must leave at a certain time may be refused, and hears when there is room.
    let wanted = first.saturating_add(Duration::from_secs(150));
    match schedule.add("alice", "flash", wanted).run()? {
        Placement::Refused(refusal) => println!("flash: {refusal}"),
        planned => return Err(format!("flash is {planned:?}").into()),
    }

    // What is cancelled makes room for another.
    let _ = schedule.cancel("alice", "message-3").run()?;
    let time = schedule.reserve_next("alice", "flash", wanted).run()?;
    println!("flash: {} minutes after the first", minutes(time.permit()?));

    // What is due: a sender asks for this every minute, and sends it.
    let now = first.saturating_add(Duration::from_secs(61));
    let due = schedule.list("alice", first, now).run()?;
    for message in &due {
        println!("send {}", String::from_utf8_lossy(message.id()));
    }
    assert_eq!(due.len(), 2);
    Ok(())
}

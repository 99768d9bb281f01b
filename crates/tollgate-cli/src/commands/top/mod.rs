//! `tollgate top`: the keys of a live server that are nearest to their limits.

mod answer;
mod options;

pub(super) use options::TopOptions;

use std::time::SystemTime;

use jiff::tz::TimeZone;
use tokio::select;
use tokio::time::sleep;
use tollgate_core::{Limit, Timestamp};
use tollgate_wire::{FoundState, Search};

use self::answer::Answer;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signal;
use crate::store::{Remote, wait_for};
use crate::text::json;
use crate::time::length;

/// Runs `tollgate top`.
pub(super) fn run(options: &TopOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let limits = options.limits.separate()?;
    let every = options.every.as_deref();
    let every = every.map(|every| length("--every", every)).transpose()?;
    let zone = options.zone.zone()?;
    let settings = options.server.settings(options.time_source)?;
    wait_for(async {
        let store = server.connect(settings).await?;
        let look = async {
            let mut looks = 0;
            loop {
                let answer = look(&*store, options, &limits).await?;
                print(&answer, options, &zone, output)?;
                looks += 1;
                match every {
                    Some(every) if options.count.is_none_or(|count| looks < count) => {
                        sleep(every).await;
                    }
                    _ => return Ok(()),
                }
            }
        };
        select! {
            biased;
            signal = Signal::received() => Err(Failure::Interrupted(signal)),
            looked = look => looked,
        }
    })
}

/// Looks at the keys once.
async fn look<'o>(
    store: &dyn Remote,
    options: &'o TopOptions,
    limits: &'o [Limit],
) -> Result<Answer<'o>, Failure> {
    let mut search = Search::new();
    for (index, limit) in limits.iter().enumerate() {
        let before = &limits[..index];
        if before.iter().all(|other| other.name() != limit.name()) {
            search = search.with_limit(limit.name());
        }
    }
    let clock = options.time_source;
    let mut answer = Answer::new(&options.server.prefix, limits);
    while let Some(states) = store.find(&mut search).await? {
        for (index, limit) in limits.iter().enumerate() {
            let is_of = |state: &&FoundState| state.is_of(limit, clock.into());
            let mut own: Vec<_> = states.iter().filter(is_of).cloned().collect();
            own.truncate(answer.room(options.sample));
            let verdicts = store.peek_at(limit, &own).await?;
            answer.add(index, limit, own.iter().zip(verdicts));
        }
        let is_read = |state: &FoundState| {
            state.is_answer() || limits.iter().any(|it| state.is_of(it, clock.into()))
        };
        answer.add_others(states.iter().filter(|state| !is_read(state)), clock);
        answer.keep(options.top);
        if answer.room(options.sample) == 0 {
            answer.sampled = true;
            break;
        }
    }
    // A clock out of range is shown as the first instant.
    answer.time = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    Ok(answer)
}

/// Prints `answer`; a reader who has gone ends the program.
fn print(
    answer: &Answer<'_>,
    options: &TopOptions,
    zone: &TimeZone,
    output: &Output,
) -> Result<(), Failure> {
    if options.server.json {
        return output.answer(&json(answer));
    }
    let text = answer.to_text(zone);
    if options.every.is_none() {
        return output.answer(&text);
    }
    output.answer_again(&format!("{text}\n"))
}

//! `tollgate top`: the keys of a live server that are nearest to their limits.

mod answer;

use std::time::SystemTime;

use clap::{ArgGroup, Args};
use jiff::tz::TimeZone;
use tokio::select;
use tokio::time::sleep;
use tollgate_core::store::Verdict;
use tollgate_core::{ErrorKind, StoreError, Timestamp};
use tollgate_wire::operate::{FoundState, Search};

use self::answer::Answer;
use crate::failure::Failure;
use crate::limits::{LimitOptions, Sharing};
use crate::output::Output;
use crate::signals::Signal;
use crate::store::{Remote, ServerOptions, TimeSource, wait_for};
use crate::text::json;
use crate::time::{ZoneOptions, length};

#[derive(Args, Debug)]
#[command(after_help = TOPS)]
#[command(group(ArgGroup::new("asked").args(["limits", "limits_file"]).multiple(true).required(true)))]
pub(crate) struct TopOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    /// How many keys to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,

    /// Look only at this many keys, in the order in which the server has them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,

    /// Look again at this interval, such as 5s, until Ctrl-C
    #[arg(long, value_name = "LENGTH")]
    pub(crate) every: Option<String>,

    /// With --every: look only this many times
    #[arg(
        long,
        value_name = "N",
        requires = "every",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) count: Option<u64>,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,
}

pub(super) fn run(options: &TopOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let limits = options.limits.sharing(options.limits.file()?.as_ref())?;
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
    limits: &'o [Sharing],
) -> Result<Answer<'o>, Failure> {
    let mut names: Vec<&str> = limits.iter().map(|it| it.limits[0].name()).collect();
    names.sort_unstable();
    names.dedup();
    let mut search = names.into_iter().fold(Search::new(), Search::with_limit);
    let clock = options.time_source;
    let mut answer = Answer::new(&options.server.prefix, limits);
    while let Some(states) = store.find(&mut search).await? {
        for sharing in limits {
            let limit = &sharing.limits[0];
            let is_of = |state: &&FoundState| state.is_of(limit, clock.into());
            let mut own: Vec<_> = states.iter().filter(is_of).cloned().collect();
            own.truncate(answer.room(options.sample));
            let mut verdicts: Vec<Option<Vec<_>>> = vec![Some(Vec::new()); own.len()];
            for limit in &sharing.limits {
                let said = store.peek_at(limit, &own).await?;
                for (all, verdict) in verdicts.iter_mut().zip(said) {
                    *all = all.take().zip(verdict).map(|(mut all, verdict)| {
                        all.push(verdict);
                        all
                    });
                }
            }
            let consumed = consumed(store, &own, &verdicts).await?;
            for ((state, verdicts), consumed) in own.iter().zip(verdicts).zip(consumed) {
                answer.add(sharing, state, consumed, verdicts);
            }
        }
        let is_read = |state: &FoundState| {
            let mut limits = limits.iter().map(|it| &it.limits[0]);
            state.is_answer() || limits.any(|it| state.is_of(it, clock.into()))
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

/// Returns the units that those of `states` hold that a limit denies: they can tell whose limit it is not.
async fn consumed(
    store: &dyn Remote,
    states: &[FoundState],
    verdicts: &[Option<Vec<Verdict>>],
) -> Result<Vec<Option<u64>>, StoreError> {
    let is_denied = |said: &Option<Vec<Verdict>>| {
        let mut said = said.iter().flatten();
        said.any(|verdict| !verdict.is_allowed())
    };
    let pairs = states.iter().zip(verdicts);
    let denied = pairs.filter(|(_, said)| is_denied(said));
    let denied: Vec<_> = denied.map(|(state, _)| state.clone()).collect();
    let facts = match store.read(&denied).await {
        // A user who may not read states may still decide by them.
        Err(error) if error.kind() == ErrorKind::Misconfigured => vec![None; denied.len()],
        facts => facts?,
    };
    let mut facts = facts.into_iter();
    let of = |said| is_denied(said).then(|| facts.next()??.consumed).flatten();
    Ok(verdicts.iter().map(of).collect())
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

const TOPS: &str = "\
Shows the keys with the smallest share left of a limit, those that are denied first. Each limit
decides by itself, as for a call of one unit, and nothing is counted. All keys are scanned, in small
steps, on every master of a cluster; --sample ends that early, with keys of all masters.

Plans whose limits share a name read the same states, which do not tell the plan of a key. With --limits,
or all of the limits, a key counts as denied if every limit denies it that may be its own.

Hashed keys are shown as the server has them: # and a hash.

With --every and --json, each look is one line.

Exit status: 0 if it is answered, 2 if not, 130 after Ctrl-C.

Examples:
  tollgate top --store redis://127.0.0.1:6379 --limits limits.toml
  tollgate top --store redis://127.0.0.1:6379 --limit login=gcra:5/1m
  tollgate top --store redis://127.0.0.1:6379 --limit login=gcra:5/1m --sample 10000 --every 5s";

//! `tollgate replay`: decides the requests of access logs, each at its own time.

mod options;

pub(super) use options::ReplayOptions;

use tollgate_core::store::Verdicts;
use tollgate_core::{Algorithm, Decision, LimitError, RateLimiter, StoreError};

use crate::decisions::{Comparison, Summary, Tally, limiter, replay_in_memory};
use crate::failure::Failure;
use crate::input::{Input, KeyParts, names};
use crate::jobs::Jobs;
use crate::lanes::{Run, Work};
use crate::output::Output;
use crate::progress::Progress;
use crate::report::page::spare_logs;
use crate::report::{Report, Timeline};
use crate::store::{Location, Remote};
use crate::trace::{Event, KeyId, Part, Trace};

/// Runs `tollgate replay`.
pub(super) fn run(options: &ReplayOptions, output: &Output) -> Result<(), Failure> {
    // Check the command line before reading a long log.
    let key: KeyParts = options.log.key.parse()?;
    let algorithms = algorithms(&options.limits)?;
    limiter((), &algorithms)?;
    let run = match options.location.location()? {
        Location::Memory => None,
        Location::Server(server) => Some(Run::new(server, &options.location.prefix, "replay")?),
    };
    let answer = &options.answer;
    spare_logs(answer.report.as_deref(), &options.log.files)?;

    let progress = Progress::new(output.is_watched());
    let empty = match run {
        None => Trace::in_parts(Jobs::new(options.log.jobs)),
        // A server is asked in order of time.
        Some(_) => Trace::whole(),
    };
    let input = Input::read(&options.log, &key, empty, &progress)?;
    let trace = &input.trace;

    let mut comparisons = Vec::new();
    if answer.report.is_some() {
        progress.say("comparing");
        // Comparisons are always done in memory: the decisions are the same everywhere.
        comparisons = Comparison::of_each_quota(trace, &algorithms)?;
    }
    progress.say("deciding");
    let timeline = answer.report.as_ref().map(|_| Timeline::new(trace));
    let begin = |part: &Part| Counts {
        tally: Tally::new(part, algorithms.len()),
        timeline: timeline.clone(),
    };
    let counts = match &run {
        None => trace.each(|part| {
            let mut counts = begin(part);
            let see = |event: &Event, verdicts: &Verdicts| counts.count(event, verdicts);
            replay_in_memory(part, &algorithms, see)?;
            Ok(counts)
        }),
        Some(run) => {
            let parts = trace.parts().iter().map(|part| {
                let mut counts = begin(part);
                let work = |store| {
                    let limiter = limiter(store, &algorithms)?;
                    Ok(OnServer { limiter, part })
                };
                run.finish(work, (output, &progress), "deciding", |event, verdicts| {
                    counts.count(event, &verdicts);
                })?;
                Ok(counts)
            });
            parts.collect()
        }
    };
    let counts: Vec<Counts> = counts.into_iter().collect::<Result<_, Failure>>()?;
    let timeline = timeline.map(|mut timeline| {
        let parts = counts.iter().filter_map(|counts| counts.timeline.as_ref());
        parts.for_each(|part| timeline.add(part));
        timeline
    });
    let summary = Summary::new(
        counts.into_iter().map(|counts| counts.tally).collect(),
        (trace, &algorithms),
        (input.skipped.count, input.read_as.clone()),
        answer.top,
        |index| key.readable(trace.key(index)),
    );

    let mut written = Ok(());
    if let Some((path, timeline)) = answer.report.as_ref().zip(timeline) {
        let report = Report {
            title: "Replay of an access log".to_owned(),
            conclusion: summary.conclusion(),
            source: names(&options.log.files),
            key: key.to_string(),
            comparisons,
            summary: &summary,
            timeline: &timeline,
        };
        written = report.write(path);
    }
    progress.finish();
    output.remark(&input.skipped.remark());
    output.answer(&if answer.json {
        summary.to_json()
    } else {
        summary.to_text(&key.to_string())
    })?;
    written
}

/// What is counted of the decisions about a part of the requests.
struct Counts {
    tally: Tally,
    /// Only for a report.
    timeline: Option<Timeline>,
}

impl Counts {
    #[inline]
    fn count(&mut self, event: &Event, verdicts: &Verdicts) {
        self.tally.count(event, verdicts);
        if let Some(timeline) = &mut self.timeline {
            timeline.count(event, verdicts);
        }
    }
}

/// A replay on a server.
struct OnServer<'t> {
    limiter: RateLimiter<Box<dyn Remote>>,
    part: &'t Part,
}

impl Work for OnServer<'_> {
    type Item = Event;
    type Answer = Verdicts;

    fn items(&self) -> &[Event] {
        self.part.events()
    }

    fn key_of(event: &Event) -> KeyId {
        event.key
    }

    async fn call(&self, event: &Event) -> Result<Verdicts, StoreError> {
        let key = event.key.to_bytes();
        let decision = self.limiter.check(&key[..]).at(event.at).await;
        decision.map(Decision::into_verdicts)
    }

    fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.part.key_ids()
    }

    async fn forget(&self, key: KeyId) -> Result<(), StoreError> {
        self.limiter.reset(&key.to_bytes()[..]).await
    }
}

/// Parses the limits of the command line.
fn algorithms(texts: &[String]) -> Result<Vec<Algorithm>, Failure> {
    let mut algorithms = Vec::with_capacity(texts.len());
    for text in texts {
        let algorithm: Algorithm = text.parse().map_err(|source: LimitError| {
            let limit = text.clone();
            Failure::Limit { limit, source }
        })?;
        if algorithms.contains(&algorithm) {
            let limit = algorithm.to_string();
            return Err(Failure::LimitTwice { limit });
        }
        algorithms.push(algorithm);
    }
    Ok(algorithms)
}

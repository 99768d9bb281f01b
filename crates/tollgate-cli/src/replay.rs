//! `tollgate replay`: decides the requests of access logs, each at its own time.

use std::path::{Path, PathBuf};

use tollgate_core::algorithm::Algorithm;
use tollgate_core::{Decision, Limit, LimitError, RateLimiter, StoreError, Verdicts};
use tollgate_memory::MemoryStore;

use crate::cli::ReplayOptions;
use crate::compare::Comparison;
use crate::failure::Failure;
use crate::input::{Input, is_read_from};
use crate::key::KeyParts;
use crate::lanes::{Run, Work};
use crate::output::Output;
use crate::progress::Progress;
use crate::report::{Report, Timeline};
use crate::store::{Location, Remote};
use crate::summary::{Summary, Tally};
use crate::trace::{Event, KeyId, Trace};

/// Runs `tollgate replay`.
pub(crate) fn run(options: &ReplayOptions, output: &Output) -> Result<(), Failure> {
    // Check the command line before reading a long log.
    let key: KeyParts = options.log.key.parse()?;
    let algorithms = algorithms(&options.limits)?;
    limiter((), &algorithms)?;
    let run = match Location::new(&options.store, options.tls_ca.as_deref())? {
        Location::Memory => None,
        Location::Server(server) => Some(Run::new(server, &options.prefix, "replay")?),
    };
    spare_logs(options.report.as_deref(), &options.log.files)?;

    let progress = Progress::new(output.is_watched());
    let input = Input::read(&options.log, &key, &progress)?;
    let trace = &input.trace;

    let mut comparisons = Vec::new();
    if options.report.is_some() {
        progress.say("comparing");
        // Comparisons are always done in memory: the decisions are the same everywhere.
        comparisons = Comparison::of_each_quota(trace, &algorithms)?;
    }
    progress.say("deciding");
    let mut tally = Tally::new(trace, &algorithms);
    let mut timeline = Timeline::new(trace);
    let draws = options.report.is_some();
    if let Some(run) = &run {
        let begin = |store| {
            let limiter = limiter(store, &algorithms)?;
            Ok(OnServer { limiter, trace })
        };
        run.finish(begin, (output, &progress), "deciding", |event, decision| {
            tally.count(event, &decision);
            if draws {
                timeline.count(event, &decision);
            }
        })?;
    } else if draws {
        replay_in_memory(trace, &algorithms, |event, decision| {
            tally.count(event, decision);
            timeline.count(event, decision);
        })?;
    } else {
        replay_in_memory(trace, &algorithms, |event, decision| {
            tally.count(event, decision);
        })?;
    }
    let name = |index: usize| key.readable(trace.key(index));
    let summary = Summary::new(tally, trace, input.skipped.count, options.top, name);

    let mut written = Ok(());
    if let Some(path) = &options.report {
        let report = Report {
            title: "Replay of an access log".to_owned(),
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
    output.answer(&if options.json {
        summary.to_json()
    } else {
        summary.to_text(&key.to_string())
    })?;
    written
}

/// Returns an error if the report would be written over one of the logs.
pub(crate) fn spare_logs(report: Option<&Path>, logs: &[PathBuf]) -> Result<(), Failure> {
    let Some(report) = report else {
        return Ok(());
    };
    match logs.iter().find(|log| is_read_from(log, report)) {
        Some(log) => Err(Failure::ReportOverLog {
            report: report.to_owned(),
            log: log.clone(),
        }),
        None => Ok(()),
    }
}

/// Returns the names of the logs.
pub(crate) fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// A replay on a server.
struct OnServer<'t> {
    limiter: RateLimiter<Box<dyn Remote>>,
    trace: &'t Trace,
}

impl Work for OnServer<'_> {
    type Item = Event;
    type Answer = Verdicts;

    fn items(&self) -> &[Event] {
        self.trace.events()
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
        self.trace.key_ids()
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

/// Returns a limiter with a limit for each of `algorithms`.
pub(crate) fn limiter<S>(store: S, algorithms: &[Algorithm]) -> Result<RateLimiter<S>, Failure> {
    let named = |(index, &algorithm)| Limit::new(&format!("limit-{}", index + 1), algorithm);
    let limits: Result<Vec<_>, _> = algorithms.iter().enumerate().map(named).collect();
    limits
        .and_then(|limits| RateLimiter::new(store, limits))
        .map_err(Failure::Limits)
}

/// Decides every request of `trace` in order, at its own time, on a new store in memory, and calls
/// `see` with each decision.
pub(crate) fn replay_in_memory(
    trace: &Trace,
    algorithms: &[Algorithm],
    mut see: impl FnMut(&Event, &Verdicts),
) -> Result<(), Failure> {
    // Room for every key of every limit: the replay must not fail because the store is full.
    let most = trace.keys().saturating_mul(algorithms.len()).max(1);
    let store = MemoryStore::builder().max_keys(most).build();
    let limiter = limiter(store, algorithms)?;
    for event in trace.events() {
        let key = event.key.to_bytes();
        let decision = limiter.check(&key[..]).at(event.at).run()?;
        see(event, &decision.into_verdicts());
    }
    Ok(())
}

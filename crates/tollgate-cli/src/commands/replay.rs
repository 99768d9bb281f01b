//! `tollgate replay`: decides the requests of access logs, each at its own time.

use clap::Args;
use tollgate_core::store::Verdicts;
use tollgate_core::{Algorithm, Decision, LimitError, RateLimiter, StoreError};

use crate::decisions::{Comparison, Summary, Tally, limiter, replay_in_memory};
use crate::failure::Failure;
use crate::input::{Input, KeyParts, LogOptions, names};
use crate::lanes::{Run, Work};
use crate::output::{Output, say};
use crate::progress::Progress;
use crate::report::page::spare_logs;
use crate::report::{AnswerOptions, Report, Timeline};
use crate::store::{LocationOptions, Remote};
use crate::trace::{Event, KeyId, Trace};

#[derive(Args, Debug)]
#[command(after_help = LIMITS)]
pub(crate) struct ReplayOptions {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// A limit, as ALGORITHM:N/WINDOW[,option=value...]; repeat for several limits
    ///
    /// Several limits decide together: a request is allowed only if each limit allows it, and a
    /// denied request consumes nothing, except from limits with count-denied.
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    #[command(flatten)]
    pub(crate) location: LocationOptions,

    #[command(flatten)]
    pub(crate) answer: AnswerOptions,
}

pub(super) fn run(options: &ReplayOptions, output: &Output) -> Result<(), Failure> {
    // Check the command line before reading a long log.
    let key: KeyParts = options.log.key_parts()?;
    let algorithms = algorithms(&options.limits)?;
    limiter((), &algorithms)?;
    let run = Run::at(&options.location, "replay")?;
    let answer = &options.answer;
    spare_logs(answer.report.as_deref(), &options.log.files)?;

    let progress = Progress::new(output.is_watched());
    let input = Input::read(&options.log, &key, false, &progress)?;
    let trace = &input.trace;

    let mut comparisons = Vec::new();
    if answer.report.is_some() {
        progress.say("comparing");
        // Comparisons are always done in memory: the decisions are the same everywhere.
        comparisons = Comparison::of_each_quota(trace, &algorithms)?;
    }
    progress.say("deciding");
    let mut tally = Tally::new(trace, algorithms.len());
    let mut timeline = answer.report.as_ref().map(|_| Timeline::new(trace.span()));
    let mut count = |event: &Event, verdicts: &Verdicts| {
        tally.count(event, verdicts);
        if let Some(timeline) = &mut timeline {
            timeline.count(event.at, verdicts.is_allowed());
        }
    };
    match &run {
        None => replay_in_memory(trace, &algorithms, |event, verdicts| {
            progress.advance(1);
            count(event, verdicts);
        })?,
        Some(run) => {
            let work = |store| {
                let limiter = limiter(store, &algorithms)?;
                Ok(OnServer { limiter, trace })
            };
            run.finish(work, output, &progress, "deciding", |event, verdicts| {
                count(event, &verdicts);
            })?;
        }
    }
    let name = |bytes: &[u8]| key.readable(bytes);
    let summary = Summary {
        skipped_lines: input.skipped.count,
        read_as: input.read_as.clone(),
        ..Summary::new(tally, trace, &algorithms, answer.top, name)
    };

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
    say(answer.json, output, &summary, || {
        summary.to_text(&key.to_string())
    })?;
    written
}

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

    fn keys(&self) -> impl Iterator<Item = KeyId> + Clone {
        self.trace.keys().ids()
    }

    async fn forget(&self, key: KeyId) -> Result<(), StoreError> {
        self.limiter.reset(&key.to_bytes()[..]).await
    }
}

fn algorithms(texts: &[String]) -> Result<Vec<Algorithm>, Failure> {
    let mut algorithms = Vec::with_capacity(texts.len());
    for text in texts {
        let algorithm: Algorithm = text
            .parse()
            .map_err(|error: LimitError| Failure::wrong("--limit", text, error))?;
        if algorithms.contains(&algorithm) {
            let (option, text) = ("--limit", algorithm.to_string());
            return Err(Failure::Twice { option, text });
        }
        algorithms.push(algorithm);
    }
    Ok(algorithms)
}

const LIMITS: &str = "\
Limits:
  fixed-window:20/1h     windows that follow each other  [,anchored] [,count-denied]
  sliding-log:5/1m       exact, remembers each call      [,count-denied]
  sliding-counter:20/1h  approximate, two counters
  sliding-buckets:20/1h,buckets=12   never over, in bounded memory
  gcra:10/1m             a token bucket                  [,burst=3]
  Windows are in us, ms, s, m, h or d, or a day, week, month or year of a
  time zone: fixed-window:N/month@Europe/Berlin.

Example:
  tollgate replay access.log --key ip --limit gcra:5/1m --limit fixed-window:30/1h";

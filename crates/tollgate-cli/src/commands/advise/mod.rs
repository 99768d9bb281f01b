//! `tollgate advise`: reads access logs and proposes limits.

mod advice;
mod answer;
mod report;

use clap::Args;
use tollgate_core::Quota;

use self::advice::Advice;
use self::answer::Answer;
use crate::failure::Failure;
use crate::input::{Input, KeyParts, LogOptions, names};
use crate::output::{Output, say};
use crate::progress::Progress;
use crate::report::AnswerOptions;
use crate::report::page::spare_logs;
use crate::time::length;

#[derive(Args, Debug)]
#[command(after_help = ADVICE)]
pub(crate) struct AdviseOptions {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// A window to propose limits for, such as 10s, 1m or 1h; repeat for several windows
    #[arg(long = "window", default_value = "1m", value_name = "LENGTH")]
    pub(crate) windows: Vec<String>,

    #[command(flatten)]
    pub(crate) answer: AnswerOptions,
}

pub(super) fn run(options: &AdviseOptions, output: &Output) -> Result<(), Failure> {
    // Check the command line before reading a long log.
    let key: KeyParts = options.log.key_parts()?;
    let mut windows = Vec::with_capacity(options.windows.len());
    for text in &options.windows {
        let one = Quota::new(1, length("--window", text)?)
            .map_err(|error| Failure::wrong("--window", text, error))?;
        if windows.contains(&one) {
            let (option, text) = ("--window", text.clone());
            return Err(Failure::Twice { option, text });
        }
        windows.push(one);
    }
    let wanted = &options.answer;
    spare_logs(wanted.report.as_deref(), &options.log.files)?;

    let progress = Progress::new(output.is_watched());
    let input = Input::read(&options.log, &key, true, &progress)?;
    progress.say("counting");
    let advice = windows.into_iter();
    let name = |index| key.readable(input.trace.keys().bytes(index));
    let advice =
        advice.map(|one| Advice::new(&input.trace, &input.callers, one.window(), wanted.top, name));
    let answer = Answer {
        requests: input.trace.requests(),
        keys: u64::try_from(input.trace.keys().len()).unwrap_or(u64::MAX),
        source: names(&options.log.files),
        counted_by: key.to_string(),
        span: input.trace.span(),
        skipped_lines: input.skipped.count,
        read_as: input.read_as.clone(),
        advice: advice.collect(),
    };
    let mut written = Ok(());
    if let Some(path) = &wanted.report {
        written = report::write(path, &answer);
    }
    progress.finish();
    output.remark(&input.skipped.remark());
    say(wanted.json, output, &answer, || answer.to_text())?;
    written
}

const ADVICE: &str = "\
For each key, the most requests within any window are counted. Proposed is the smallest limit that
denies requests of at most one key in a hundred, and as a second choice the smallest that denies no
request. Counted as `sliding-log:N/WINDOW` decides: at most N in every window, wherever it begins,
and a denied request is not counted.

Example:
  tollgate advise access.log --key ip --window 1m --window 1h --report advice.html";

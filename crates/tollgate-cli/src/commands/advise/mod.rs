//! `tollgate advise`: reads access logs and proposes limits.

mod advice;
mod answer;

pub(crate) use advice::{Advice, Refused};
pub(crate) use answer::{Answer, percent};

use tollgate_core::Quota;

use crate::cli::AdviseOptions;
use crate::failure::Failure;
use crate::input::{Input, names};
use crate::jobs::Jobs;
use crate::key::KeyParts;
use crate::output::Output;
use crate::progress::Progress;
use crate::replay::spare_logs;
use crate::report::write_advice;
use crate::schedule::length;
use crate::trace::Trace;

/// Runs `tollgate advise`.
pub(crate) fn run(options: &AdviseOptions, output: &Output) -> Result<(), Failure> {
    // Check the command line before reading a long log.
    let key: KeyParts = options.log.key.parse()?;
    let mut windows = Vec::with_capacity(options.windows.len());
    for text in &options.windows {
        let window = text.clone();
        let length = length("--window", text)?;
        match Quota::new(1, length) {
            Ok(one) if windows.contains(&one) => return Err(Failure::WindowTwice { window }),
            Ok(one) => windows.push(one),
            Err(source) => return Err(Failure::Window { window, source }),
        }
    }
    let wanted = &options.answer;
    spare_logs(wanted.report.as_deref(), &options.log.files)?;

    let progress = Progress::new(output.is_watched());
    let empty = Trace::in_parts(Jobs::new(options.log.jobs));
    let input = Input::read(&options.log, &key, empty, &progress)?;
    progress.say("counting");
    let advice = windows.into_iter();
    let advice = advice.map(|one| Advice::new(&input.trace, one.window(), wanted.top));
    let answer = Answer {
        source: names(&options.log.files),
        counted_by: key.to_string(),
        span: input.trace.span(),
        skipped_lines: input.skipped.count,
        read_as: input.read_as.clone(),
        advice: advice.collect(),
        name: |index| key.readable(input.trace.key(index)),
    };
    let mut written = Ok(());
    if let Some(path) = &wanted.report {
        written = write_advice(path, &answer);
    }
    progress.finish();
    output.remark(&input.skipped.remark());
    output.answer(&if wanted.json {
        answer.to_json()
    } else {
        answer.to_text()
    })?;
    written
}

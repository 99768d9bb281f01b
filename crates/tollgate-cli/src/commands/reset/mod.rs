//! `tollgate reset`: forgets what was counted for one key or for all keys.

mod all;
mod options;

pub(super) use options::ResetOptions;

use serde::Serialize;
use tollgate_core::Limit;

use crate::failure::Failure;
use crate::output::{Output, say};
use crate::subject::{SubjectOptions, ask};
use crate::text::readable;

/// Runs `tollgate reset`.
pub(super) fn run(options: &ResetOptions, output: &Output) -> Result<(), Failure> {
    match options.subject() {
        Some(subject) => one(&subject, output),
        None => all::run(options, output),
    }
}

/// Runs `tollgate reset` for one key.
fn one(options: &SubjectOptions, output: &Output) -> Result<(), Failure> {
    let (limits, ()) = ask(options, output, async |limiter, key| {
        limiter.reset(key).await
    })?;
    let answer = Forgotten {
        command: "reset",
        key: &options.key.key,
        rest: &options.key.rest,
        limits: limits.iter().map(Limit::to_string).collect(),
    };
    say(options.server.json, output, &answer, || {
        format!(
            "reset {}: forgotten by {}\n",
            readable(&options.key.key, &options.key.rest),
            answer.limits.join(", ")
        )
    })
}

/// The answer of `reset` for one key.
#[derive(Serialize)]
struct Forgotten<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    limits: Vec<String>,
}

//! `tollgate check` and `peek`: decide a call of one key on a live server, or show how it would be
//! decided.

mod answer;
mod options;

pub(super) use options::{CallOptions, CheckOptions};

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tollgate_core::store::Operation;
use tollgate_core::{ErrorKind, StoreError};
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::WaitError;

use self::answer::{Answer, Other, Refused};
use crate::failure::{Failure, WithCauses};
use crate::output::{DENIED, Output, say};
use crate::subject::ask;
use crate::time::length;

/// Runs `tollgate check`.
pub(super) fn check(options: &CheckOptions, output: &Output) -> Result<ExitCode, Failure> {
    match &options.wait_up_to {
        Some(longest) => check_and_wait(length("--wait-up-to", longest)?, &options.call, output),
        None => {
            let id = options.id.as_deref();
            print_decision(("check", Operation::Consume), &options.call, id, output)
        }
    }
}

/// Waits until the call is allowed, for at most `longest`.
fn check_and_wait(
    longest: Duration,
    options: &CallOptions,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let CallOptions { subject, cost } = options;
    let asked = subject.subject()?;
    let mut waited = Duration::ZERO;
    let decision = ask(subject, &asked, output, async |limiter, key| {
        let begun = Instant::now();
        let admitted = limiter.check(key).cost(*cost).wait_up_to(longest).await;
        waited = begun.elapsed();
        match admitted {
            Ok(admitted) => Ok(Ok(admitted.into_verdicts())),
            Err(WaitError::TooLong(refused)) => Ok(Err(refused)),
            Err(WaitError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::new(ErrorKind::Protocol, error.to_string())),
        }
    })?;
    let (json, whom) = (subject.server.json, &asked.whom);
    match decision {
        Ok(verdicts) => {
            let mut answer = Answer::new("check", &asked, *cost, &verdicts);
            answer.waited = Some(waited);
            let clock = subject.one.key.time_source;
            say(json, output, &answer, || answer.to_text(whom, clock))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            let answer = Refused::new(whom, *cost, longest, &refused);
            say(json, output, &answer, || answer.to_text(whom))?;
            Ok(ExitCode::from(DENIED))
        }
    }
}

/// Runs `tollgate peek`.
pub(super) fn peek(options: &CallOptions, output: &Output) -> Result<ExitCode, Failure> {
    print_decision(("peek", Operation::Peek), options, None, output)
}

fn print_decision(
    (command, operation): (&'static str, Operation<'_>),
    options: &CallOptions,
    id: Option<&str>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let CallOptions { subject, cost } = options;
    let asked = subject.subject()?;
    let (decision, others) = ask(subject, &asked, output, async |limiter, key| {
        let is_peek = matches!(operation, Operation::Peek);
        let mut request = if is_peek {
            limiter.peek(key).cost(*cost).into_request()
        } else {
            limiter.check(key).cost(*cost).into_request()
        };
        if let Some(id) = id {
            request = request.id(id);
        }
        let decision = limiter.store().decide(request).await?;
        let others = if is_peek {
            limiter.store().other_states(limiter.limits(), key).await
        } else {
            Ok(Vec::new())
        };
        Ok((decision, others))
    })?;
    let mut answer = Answer::new(command, &asked, *cost, &decision);
    match others {
        Ok(others) => answer.others = others.iter().map(Other::new).collect(),
        Err(error) => output.complain(&format!(
            "cannot look for other states of this key: {}",
            WithCauses(&error)
        )),
    }
    // JSON has a field for it.
    if let Some(warning) = answer.warning().filter(|_| !subject.server.json) {
        output.complain(&warning);
    }
    say(subject.server.json, output, &answer, || {
        answer.to_text(&asked.whom, subject.one.key.time_source)
    })?;
    Ok(if decision.is_allowed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DENIED)
    })
}

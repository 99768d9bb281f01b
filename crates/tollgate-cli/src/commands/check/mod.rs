//! `tollgate check` and `peek`: decide a call of one key on a live server, or show how it would be
//! decided.

mod answer;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;
use tokio::join;
use tollgate_core::{ErrorKind, Limit, RateLimiter, StoreError};
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::WaitError;
use tollgate_wire::operate::Search;

use self::answer::{Answer, Other, Refused};
use crate::doubt::doubt;
use crate::failure::{Failure, WithCauses};
use crate::output::{Output, say, status};
use crate::store::{Remote, TimeSource};
use crate::subject::{Subject, SubjectOptions, ask, find};
use crate::time::length;

#[derive(Args, Debug)]
#[command(after_help = CALLS)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// The cost of the call
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,
}

#[derive(Args, Debug)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) call: CallOptions,

    /// Wait until the call is allowed, for at most this long, such as 5s; it is denied at once if
    /// it would take longer
    #[arg(long, value_name = "LENGTH")]
    pub(crate) wait_up_to: Option<String>,

    /// An id of the call: repeated with the same id within 10 minutes, it gets the first answer and
    /// is not counted again
    #[arg(long, conflicts_with = "wait_up_to")]
    pub(crate) id: Option<String>,
}

pub(super) fn check(options: &CheckOptions, output: &Output) -> Result<ExitCode, Failure> {
    match &options.wait_up_to {
        Some(longest) => check_and_wait(length("--wait-up-to", longest)?, &options.call, output),
        None => {
            let id = options.id.as_deref();
            print_decision(false, &options.call, id, output)
        }
    }
}

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
            Ok(status(true))
        }
        Err(refused) => {
            let answer = Refused::new(whom, *cost, longest, &refused);
            say(json, output, &answer, || answer.to_text(whom))?;
            Ok(status(false))
        }
    }
}

pub(super) fn peek(options: &CallOptions, output: &Output) -> Result<ExitCode, Failure> {
    print_decision(true, options, None, output)
}

/// Looks for other states of the key, and for a reason why it has none that the limits read.
async fn look(
    limiter: &RateLimiter<Arc<dyn Remote>>,
    options: &SubjectOptions,
    asked: &Subject,
    is_peek: bool,
) -> Result<(Vec<Other>, Option<String>), StoreError> {
    let (store, limits) = (limiter.store(), limiter.limits());
    let (whom, key) = (&asked.whom, asked.whom.key());
    let rests = whom.other_rests();
    if !is_peek && rests.is_empty() {
        return Ok((Vec::new(), None));
    }
    let clock = options.one.key.time_source;
    let held = store.held(limits, key).await?;
    let is_read = held.iter().any(|it| TimeSource::from(it.clock) == clock);
    let mut others = Vec::new();
    if !is_read {
        if is_peek {
            let names = limits.iter().map(Limit::name);
            let search = names.fold(whom.search(), Search::with_limit);
            let mut states = find(&**store, search).await?;
            states.retain(|state| state.is_exact && !state.is_answer());
            others.extend(states.iter().map(Other::new));
        }
        let found = rests
            .iter()
            .map(|rest| store.held(limits, key.with_rest(rest)));
        let found = try_join_all(found).await?;
        others.extend(found.iter().flatten().map(Other::of_rest));
    }
    let doubt = if is_read || !others.is_empty() {
        None
    } else {
        // A user who may not scan keys may still decide.
        let doubt = doubt(&**store, &options.one.key, whom, &[]).await;
        doubt.unwrap_or_default()
    };
    Ok((others, doubt))
}

fn print_decision(
    is_peek: bool,
    options: &CallOptions,
    id: Option<&str>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let CallOptions { subject, cost } = options;
    let asked = subject.subject()?;
    let (decision, looked) = ask(subject, &asked, output, async |limiter, key| {
        let mut request = if is_peek {
            limiter.peek(key).cost(*cost).into_request()?
        } else {
            limiter.check(key).cost(*cost).into_request()?
        };
        if let Some(id) = id {
            request = request.id(id);
        }
        // The look is sent first: a check then writes a state.
        let looked = look(limiter, subject, &asked, is_peek);
        let (looked, decision) = join!(looked, limiter.store().decide(request));
        Ok((decision?, looked))
    })?;
    let command = if is_peek { "peek" } else { "check" };
    let mut answer = Answer::new(command, &asked, *cost, &decision);
    match looked {
        Ok((others, doubt)) => {
            answer.others = others;
            answer.doubt = doubt;
        }
        Err(error) => output.complain(&format!(
            "cannot look for other states of this key: {}",
            WithCauses(&error)
        )),
    }
    // JSON has a field for it.
    if let Some(doubt) = answer.doubt.as_ref().filter(|_| !subject.server.json) {
        output.complain(&format!("warning: {doubt}"));
    }
    if let Some(warning) = answer.warning().filter(|_| !subject.server.json) {
        output.complain(&warning);
    }
    say(subject.server.json, output, &answer, || {
        answer.to_text(&asked.whom, subject.one.key.time_source)
    })?;
    Ok(status(decision.is_allowed()))
}

const CALLS: &str = "\
The name of a limit is part of the text of its keys, and so are its algorithm and, of some
algorithms, its window: give each limit as the service has it, and all that it decides together.
`peek` also names states of the key that these limits do not read: the service may have another
algorithm, window or clock.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if the call is allowed, 1 if it is denied, 2 if there is no answer.

Examples:
  tollgate peek --store redis://127.0.0.1:6379 --limit login=gcra:10/1m --key alice
  tollgate check --store redis://127.0.0.1:6379 --limit mail=gcra:1/1s --key alice --wait-up-to 5s";

//! `tollgate check`, `peek`, `block` and `reset`: commands for one key on a live server.

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::select;
use tokio::time::{sleep, timeout};
use tollgate_core::Algorithm;
use tollgate_core::store::{Operation, Verdicts};
use tollgate_core::{ErrorKind, Key, Limit, LimitError, RateLimiter, StoreError};
use tollgate_tokio::{TooLong, WaitError, WaitUpTo};
use tollgate_wire::{Clock, Options, OtherState};

use crate::cli::{self, BlockOptions, CallOptions, CheckOptions, SubjectOptions};
use crate::failure::{Failure, WithCauses};
use crate::output::Output;
use crate::schedule::length;
use crate::signals::Signal;
use crate::store::{PATIENCE, Remote, wait_for};
use crate::text::{self, Grouped, Span, Table, printable};

/// The exit status of a call that is denied, or an event that is refused.
pub(crate) const DENIED: u8 = 1;
/// How long to wait for what is given back: the call on its way may take [`PATIENCE`], and so may its
/// refund.
const LONGEST_RETURN: Duration = PATIENCE.saturating_mul(2);
/// How often to look whether it is done.
const LOOK: Duration = Duration::from_millis(2);
/// The names of the clocks, in JSON and on the command line.
const CALLER: &str = "caller";
const SERVER: &str = "server";
const FOREVER: &str = "denied forever: the cost exceeds a limit's capacity";
/// The environment variable with the secret for hashing keys. Not an option, because other users of
/// the machine can read command lines.
const SECRET: &str = "TOLLGATE_KEY_SECRET";

/// Runs `tollgate check`.
pub(crate) fn check(options: &CheckOptions, output: &Output) -> Result<ExitCode, Failure> {
    match &options.within {
        Some(longest) => check_within(length("--within", longest)?, &options.call, output),
        None => {
            let id = options.id.as_deref();
            print_decision(("check", Operation::Consume), &options.call, id, output)
        }
    }
}

/// Waits until the call is allowed, for at most `longest`.
fn check_within(
    longest: Duration,
    options: &CallOptions,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let CallOptions { subject, cost } = options;
    let mut waited = Duration::ZERO;
    let (limits, decision) = ask(subject, output, async |limiter, key| {
        let asked = Instant::now();
        let admitted = limiter.check(key).cost(*cost).wait_up_to(longest).await;
        waited = asked.elapsed();
        match admitted {
            Ok(admitted) => Ok(Ok(admitted.into_verdicts())),
            Err(WaitError::TooLong(refused)) => Ok(Err(refused)),
            Err(WaitError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::new(ErrorKind::Protocol, error.to_string())),
        }
    })?;
    let json = subject.server.json;
    match decision {
        Ok(verdicts) => {
            let mut answer = Answer::new("check", options, &limits, &verdicts);
            answer.waited = Some(waited);
            say(json, output, &answer, || answer.to_text(subject))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            let answer = Refused::new(options, longest, &refused);
            say(json, output, &answer, || answer.to_text(subject))?;
            Ok(ExitCode::from(DENIED))
        }
    }
}

/// Runs `tollgate peek`.
pub(crate) fn peek(options: &CallOptions, output: &Output) -> Result<ExitCode, Failure> {
    print_decision(("peek", Operation::Peek), options, None, output)
}

fn print_decision(
    (command, operation): (&'static str, Operation<'_>),
    options: &CallOptions,
    id: Option<&str>,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let CallOptions { subject, cost } = options;
    let (limits, (decision, others)) = ask(subject, output, async |limiter, key| {
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
    let mut answer = Answer::new(command, options, &limits, &decision);
    match others {
        Ok(others) => answer.others = others.iter().map(Other::new).collect(),
        Err(error) => output.complain(&format!(
            "cannot look for other states of this key: {}",
            WithCauses(&error)
        )),
    }
    say(subject.server.json, output, &answer, || {
        answer.to_text(subject)
    })?;
    Ok(if decision.is_allowed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DENIED)
    })
}

/// Runs `tollgate block`.
pub(crate) fn block(options: &BlockOptions, output: &Output) -> Result<ExitCode, Failure> {
    let BlockOptions { subject, lasting } = options;
    let lasting = lasting.as_deref();
    let lasting = lasting.map(|lasting| length("--lasting", lasting));
    let lasting = lasting.transpose()?;
    let (limits, wait) = ask(subject, output, async |limiter, key| {
        let call = limiter.block(key);
        match lasting {
            Some(time) => call.lasting(time).await,
            None => call.await,
        }
    })?;
    let blocks = limits.iter().filter(|limit| limit.algorithm().can_block());
    let answer = Blocked {
        command: "block",
        key: &subject.key,
        rest: &subject.rest,
        limits: blocks.map(Limit::to_string).collect(),
        wait: wait.duration(),
    };
    say(subject.server.json, output, &answer, || {
        format!(
            "block {}: blocked for {} by {}\n",
            readable(&subject.key, &subject.rest),
            self::wait(answer.wait),
            answer.limits.join(", ")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `tollgate reset`.
pub(crate) fn reset(options: &SubjectOptions, output: &Output) -> Result<ExitCode, Failure> {
    let (limits, ()) = ask(options, output, async |limiter, key| {
        limiter.reset(key).await
    })?;
    let answer = Forgotten {
        command: "reset",
        key: &options.key,
        rest: &options.rest,
        limits: limits.iter().map(Limit::to_string).collect(),
    };
    say(options.server.json, output, &answer, || {
        format!(
            "reset {}: forgotten by {}\n",
            readable(&options.key, &options.rest),
            answer.limits.join(", ")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Connects to the server of `options`, and calls `question` with its limits and key.
///
/// After Ctrl-C or SIGTERM, `question` is dropped, and the program ends once what it has consumed is
/// given back.
fn ask<T>(
    options: &SubjectOptions,
    output: &Output,
    question: impl AsyncFnOnce(&RateLimiter<Arc<dyn Remote>>, Key<'_>) -> Result<T, StoreError>,
) -> Result<(Vec<Limit>, T), Failure> {
    let server = options.server.server()?;
    let limits = limits(&options.limits)?;
    // Check the limits before sending anything.
    RateLimiter::new((), limits.clone()).map_err(Failure::Limits)?;
    let settings = options.server.settings(options.clock)?;
    let settings = hashing(settings, options.hash_only_long)?;
    let answer = wait_for(async {
        let store: Arc<dyn Remote> = server.connect(settings).await?.into();
        let users = Arc::downgrade(&store);
        let limiter = RateLimiter::new(store, limits.clone()).map_err(Failure::Limits)?;
        let key = Key::new(&options.key).with_rest(&options.rest);
        let signal = select! {
            biased;
            signal = Signal::received() => signal,
            answer = question(&limiter, key) => return Ok(answer?),
        };
        drop(limiter);
        if let Err(reason) = given_back(&users).await {
            output.complain(&format!("a waiting call may stay counted: {reason}"));
        }
        Err(Failure::Interrupted(signal))
    })?;
    Ok((limits, answer))
}

/// Waits until the tasks that give back what dropped calls have consumed no longer use their store.
///
/// # Errors
///
/// Why it waits no longer.
async fn given_back(users: &Weak<dyn Remote>) -> Result<(), &'static str> {
    let unused = async {
        while users.strong_count() > 0 {
            sleep(LOOK).await;
        }
    };
    select! {
        biased;
        _ = Signal::received() => Err("interrupted again"),
        done = timeout(LONGEST_RETURN, unused) => done.map_err(|_| "the server does not answer"),
    }
}

/// Parses the limits of the command line.
fn limits(texts: &[String]) -> Result<Vec<Limit>, Failure> {
    let limit = |text: &String| {
        if text.parse::<Algorithm>().is_ok() {
            return Err(Failure::LimitUnnamed {
                limit: text.clone(),
            });
        }
        text.parse().map_err(|source: LimitError| Failure::Limit {
            limit: text.clone(),
            source,
        })
    };
    texts.iter().map(limit).collect()
}

/// Returns `settings` with the key-hashing secret of the service, if there is one.
pub(crate) fn hashing(settings: Options, only_long: bool) -> Result<Options, Failure> {
    let Some(secret) = env::var_os(SECRET) else {
        return if only_long {
            Err(Failure::Secret)
        } else {
            Ok(settings)
        };
    };
    let secret = secret.to_str().and_then(bytes).ok_or(Failure::Secret)?;
    Ok(if only_long {
        settings.with_hashed_long_keys(secret)
    } else {
        settings.with_hashed_keys(secret)
    })
}

/// Parses 32 hex digits as 16 bytes.
fn bytes(hex: &str) -> Option<[u8; 16]> {
    let is_hex = hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(hex, 16).ok())?;
    number.map(u128::to_be_bytes)
}

/// Prints `answer` as JSON or as what `to_text` returns; a broken pipe is not an error.
pub(crate) fn say(
    json: bool,
    output: &Output,
    answer: &impl Serialize,
    to_text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let said = output.answer(&if json { text::json(answer) } else { to_text() });
    match said {
        Err(failure) if failure.is_broken_pipe() => Ok(()),
        said => said,
    }
}

/// Returns the key for display.
pub(crate) fn readable(key: &str, rest: &str) -> String {
    let parts = [key, rest].map(|part| printable(part.as_bytes()));
    parts.join(" ").trim_end().to_owned()
}

/// The answer of `block`.
#[derive(Serialize)]
struct Blocked<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    limits: Vec<String>,
    #[serde(serialize_with = "micros", rename = "wait_us")]
    wait: Option<Duration>,
}

/// The answer of `reset` for one key.
#[derive(Serialize)]
struct Forgotten<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    limits: Vec<String>,
}

/// The answer of `check --within` to a call that would wait too long.
#[derive(Serialize)]
struct Refused<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    cost: u64,
    allowed: bool,
    /// The limit with the longest wait.
    limit: Limit,
    #[serde(serialize_with = "micros", rename = "within_us")]
    within: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "wait_us")]
    wait: Option<Duration>,
}

impl<'a> Refused<'a> {
    fn new(options: &'a CallOptions, longest: Duration, refused: &TooLong) -> Self {
        Self {
            command: "check",
            key: &options.subject.key,
            rest: &options.subject.rest,
            cost: options.cost,
            allowed: false,
            limit: refused.limit().clone(),
            within: Some(longest),
            wait: refused.wait().duration(),
        }
    }

    fn to_text(&self, options: &SubjectOptions) -> String {
        let verdict = match self.wait {
            Some(wait) => format!("denied, it would have to wait {}", Span(wait)),
            None => FOREVER.to_owned(),
        };
        format!(
            "check {}, cost {}: {verdict}\nlimit: {}\n",
            readable(&options.key, &options.rest),
            Grouped(self.cost),
            self.limit
        )
    }
}

/// The answer of `check` and `peek`.
#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    cost: u64,
    allowed: bool,
    /// How long the call took, if it was to wait.
    #[serde(
        serialize_with = "micros",
        rename = "waited_us",
        skip_serializing_if = "Option::is_none"
    )]
    waited: Option<Duration>,
    remaining: u64,
    #[serde(serialize_with = "micros", rename = "retry_after_us")]
    retry_after: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "reset_after_us")]
    reset_after: Option<Duration>,
    limits: Vec<LimitVerdict>,
    /// What else the server holds for this key, if the command was to look for it.
    #[serde(rename = "other_states", skip_serializing_if = "Vec::is_empty")]
    others: Vec<Other>,
}

/// A state that the limits do not read.
#[derive(Serialize)]
struct Other {
    state: String,
    clock: &'static str,
}

impl Other {
    fn new(other: &OtherState) -> Self {
        Self {
            state: other.to_string(),
            clock: match other.clock {
                Clock::Caller => CALLER,
                _ => SERVER,
            },
        }
    }

    /// Returns the line for a command that uses the clock `asked`.
    fn to_text(&self, asked: cli::Clock) -> String {
        let clock = match (self.clock, asked) {
            (CALLER, cli::Clock::Server) => ", by the clocks of callers (--clock caller)",
            (SERVER, cli::Clock::Caller) => ", by the server's clock (--clock server)",
            _ => "",
        };
        format!("- {}{clock}\n", self.state)
    }
}

/// The verdict of one limit.
#[derive(Serialize)]
struct LimitVerdict {
    limit: Limit,
    allowed: bool,
    capacity: u64,
    remaining: u64,
    #[serde(serialize_with = "micros", rename = "retry_after_us")]
    retry_after: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "reset_after_us")]
    reset_after: Option<Duration>,
}

/// Serializes whole microseconds, or `null` for never.
fn micros<S: serde::Serializer>(wait: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    wait.and_then(|wait| u64::try_from(wait.as_micros()).ok())
        .serialize(to)
}

impl<'a> Answer<'a> {
    fn new(
        command: &'static str,
        options: &'a CallOptions,
        limits: &[Limit],
        decision: &Verdicts,
    ) -> Self {
        let said = |(limit, verdict): (&Limit, &tollgate_core::store::Verdict)| LimitVerdict {
            limit: limit.clone(),
            allowed: verdict.is_allowed(),
            capacity: verdict.capacity(),
            remaining: verdict.remaining(),
            retry_after: verdict.retry_after().duration(),
            reset_after: verdict.reset_after().duration(),
        };
        Self {
            command,
            key: &options.subject.key,
            rest: &options.subject.rest,
            cost: options.cost,
            allowed: decision.is_allowed(),
            waited: None,
            remaining: decision.remaining(),
            retry_after: decision.retry_after().duration(),
            reset_after: decision.reset_after().duration(),
            limits: limits.iter().zip(decision.as_slice()).map(said).collect(),
            others: Vec::new(),
        }
    }

    fn to_text(&self, options: &SubjectOptions) -> String {
        let verdict = match (self.allowed, self.waited, self.retry_after) {
            (true, Some(waited), _) => format!("allowed after {}", Span(waited)),
            (true, None, _) => "allowed".to_owned(),
            (false, _, Some(wait)) => format!("denied, to be tried again after {}", Span(wait)),
            (false, _, None) => FOREVER.to_owned(),
        };
        let header = [
            "LIMIT",
            "VERDICT",
            "REMAINING",
            "OF",
            "RETRY AFTER",
            "RESET AFTER",
        ];
        let mut table = Table::new(&header, header.len());
        for said in &self.limits {
            let verdict = if said.allowed { "allowed" } else { "denied" };
            table.row([
                said.limit.to_string(),
                verdict.to_owned(),
                Grouped(said.remaining).to_string(),
                Grouped(said.capacity).to_string(),
                wait(said.retry_after),
                wait(said.reset_after),
            ]);
        }
        let mut text = format!(
            "{} {}, cost {}: {verdict}\n\n{table}",
            self.command,
            readable(&options.key, &options.rest),
            Grouped(self.cost),
        );
        if !self.others.is_empty() {
            text +=
                "\nThe server holds other states of this key, which these limits do not read:\n";
            let lines = self.others.iter().map(|other| other.to_text(options.clock));
            text.extend(lines);
            text += "If the service has one of them, ask with its limit.\n";
        }
        text
    }
}

fn wait(wait: Option<Duration>) -> String {
    wait.map_or_else(|| "never".to_owned(), |wait| Span(wait).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_32_hex_digits() {
        let secret = bytes("000102030405060708090a0b0c0d0eFf").unwrap();
        assert_eq!(secret[..3], [0, 1, 2]);
        assert_eq!(secret[15], 255);
        for text in [
            "",
            "00",
            "+0102030405060708090a0b0c0d0e0ff",
            &"0".repeat(33),
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}

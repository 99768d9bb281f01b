//! `tollgate charge` and `tollgate give`: count what a key has used already, or give it back.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tollgate_core::Limit;

use crate::change::{Seen, change};
use crate::failure::Failure;
use crate::output::{Output, say, status};
use crate::subject::SubjectOptions;
use crate::text::{bullets, grouped};

#[derive(Args, Debug)]
#[command(after_help = UNITS)]
pub(crate) struct UnitsOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// How many units
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,

    /// An id of the command: repeated with the same id within 10 minutes, it gets the first answer and
    /// is not counted again
    #[arg(long)]
    pub(crate) id: Option<String>,
}

pub(super) fn run(
    command: &'static str,
    options: &UnitsOptions,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (about, cost) = (&options.subject, options.cost);
    let subject = about.subject()?;
    let counts = |limit: &&Limit| !limit.algorithm().can_block();
    let counting: Vec<&Limit> = subject.limits.iter().filter(counts).collect();
    if counting.is_empty() {
        let blocks = subject.limits.iter().map(ToString::to_string);
        let blocks = blocks.collect::<Vec<_>>().join(", ");
        return Err(Failure::wrong("--limit", &blocks, "a block counts nothing"));
    }
    let (gives, done) = match command {
        "give" => (true, "the units are given back"),
        _ => (false, "the units are counted"),
    };
    let (verdicts, seen) = change(
        about,
        &subject,
        &counting,
        done,
        output,
        async |limiter, key| {
            let mut call = match gives {
                true => limiter.give(key),
                false => limiter.charge(key),
            };
            call = call.cost(cost);
            if let Some(id) = options.id.as_deref() {
                call = call.id(id);
            }
            Ok(call.await?.into_verdicts())
        },
    )?;
    let pairs = subject.limits.iter().zip(verdicts.as_slice());
    let limits: Vec<OfLimit> = pairs
        .filter(|(limit, _)| counts(limit))
        .map(|(limit, verdict)| OfLimit {
            limit: limit.to_string(),
            given: gives.then_some(verdict.consumed()),
            remaining: verdict.remaining(),
            owed: verdict.owed(),
            capacity: verdict.capacity(),
        })
        .collect();
    let answer = Answer {
        command,
        key: &subject.whom.partition,
        rest: &subject.whom.rest,
        cost,
        remaining: verdicts.remaining(),
        owed: limits.iter().map(|of| of.owed).max().unwrap_or(0),
        limits,
        seen,
    };
    say(about.server.json, output, &answer, || {
        let left = match (answer.owed, answer.remaining) {
            (0, left) => format!("{} left", grouped(left)),
            (owed, _) => format!("{} owed", grouped(owed)),
        };
        let vain = match answer.seen.is_in_vain() {
            true => ", but the service seems to count this key in another way",
            false => "",
        };
        let (whom, cost) = (&subject.whom, grouped(cost));
        let limits = bullets(answer.limits.iter().map(OfLimit::to_text));
        format!("{command} {whom}, cost {cost}: {left}{vain}\n{limits}")
    })?;
    Ok(status(!answer.seen.is_in_vain()))
}

#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    cost: u64,
    remaining: u64,
    /// The most that is owed under a limit.
    owed: u64,
    limits: Vec<OfLimit>,
    #[serde(flatten)]
    seen: Seen,
}

#[derive(Serialize)]
struct OfLimit {
    limit: String,
    /// How many units were given back, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<u64>,
    remaining: u64,
    owed: u64,
    capacity: u64,
}

impl OfLimit {
    fn to_text(&self) -> String {
        let limit = &self.limit;
        let given = self.given.map(grouped);
        let given = given.map(|given| format!("{given} given back, "));
        let given = given.unwrap_or_default();
        let (left, of) = (grouped(self.remaining), grouped(self.capacity));
        match self.owed {
            0 => format!("{limit}: {given}{left} of {of} left"),
            owed => format!(
                "{limit}: {given}{left} of {of} left, {} owed",
                grouped(owed)
            ),
        }
    }
}

const UNITS: &str = "\
`charge` counts what was used already, whether it fits or not; what exceeds a limit is owed. `give`
gives back the newest units that still count: never more than those, so nothing remains above the
amount. Give each limit as the service has it. Blocks stay as they are. If the server holds the key
only in another way, such as with other rests, by the other clock or hashed, a warning says so.

Exit status: 0 if it is done; 1 if it is done, but the service seems to count the key in another way;
2 if nothing is done.

Examples:
  tollgate give alice --store redis://127.0.0.1:6379 --limit calls=fixed-window:100/1d --cost 10
  tollgate charge alice --store redis://127.0.0.1:6379 --limits limits.toml --limit login --cost 3 --id call-4711";

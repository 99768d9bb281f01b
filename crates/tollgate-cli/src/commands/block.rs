//! `tollgate block`: denies every call of a key on a live server for some time.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tollgate_core::Limit;

use crate::change::{Seen, change};
use crate::failure::Failure;
use crate::output::{Output, say, status};
use crate::subject::SubjectOptions;
use crate::text::{micros, wait};
use crate::time::length;

#[derive(Args, Debug)]
#[command(after_help = BLOCKS)]
pub(crate) struct BlockOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// How long to block the key from now on, such as 30m; without it, as long as the limit says
    #[arg(long, value_name = "LENGTH")]
    pub(crate) lasting: Option<String>,
}

pub(super) fn run(options: &BlockOptions, output: &Output) -> Result<ExitCode, Failure> {
    let BlockOptions {
        subject: about,
        lasting,
    } = options;
    let lasting = lasting.as_deref();
    let lasting = lasting.map(|lasting| length("--lasting", lasting));
    let lasting = lasting.transpose()?;
    if lasting.is_some_and(|lasting| lasting.is_zero()) {
        let reason = "a block lasts longer than that; `tollgate reset` ends one";
        return Err(Failure::wrong("--lasting", "0", reason));
    }
    let subject = about.subject()?;
    let blocks = subject.limits.iter();
    let blocks: Vec<&Limit> = blocks
        .filter(|limit| limit.algorithm().can_block())
        .collect();
    let done = "the key is blocked";
    let (blocked_for, seen) = change(
        about,
        &subject,
        &blocks,
        done,
        output,
        async |limiter, key| {
            let call = limiter.block(key);
            match lasting {
                Some(time) => call.lasting(time).await,
                None => call.await,
            }
        },
    )?;
    let answer = Blocked {
        command: "block",
        key: &subject.whom.partition,
        rest: &subject.whom.rest,
        limits: blocks.iter().map(|limit| limit.to_string()).collect(),
        wait: blocked_for.duration(),
        seen,
    };
    say(about.server.json, output, &answer, || {
        let (whom, limits) = (&subject.whom, answer.limits.join(", "));
        let lasting = wait(answer.wait);
        match answer.seen.is_in_vain() {
            true => {
                format!("block {whom}: {limits} stands for {lasting}, but seems to deny nobody\n")
            }
            false => format!("block {whom}: blocked for {lasting} by {limits}\n"),
        }
    })?;
    Ok(status(!answer.seen.is_in_vain()))
}

#[derive(Serialize)]
struct Blocked<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    limits: Vec<String>,
    #[serde(serialize_with = "micros", rename = "wait_us")]
    wait: Option<Duration>,
    #[serde(flatten)]
    seen: Seen,
}

const BLOCKS: &str = "\
One of the limits must be a block, such as ban=block:15m; the others are left as they are. A block
never ends earlier than an earlier one of the same key; `tollgate reset` ends it. If neither a state
on the server nor the file of --limits has the name of the block, a warning says that nothing reads it;
others say that the server counts the key with other rests only, by the other clock, or hashed. The look
comes after the block, and its failure is no failure of the block.

A hash that `tollgate top` shows, # and hex digits, is taken as KEY or --rest without the secret.

Exit status: 0 if the key is blocked; 1 if the block stands, but seems to deny nobody, because the
server counts the key with other rests, by the other clock or hashed; 2 if nothing is blocked.

Examples:
  tollgate block alice --store redis://127.0.0.1:6379 --limit ban=block:15m
  tollgate block alice --store redis://127.0.0.1:6379 --limits limits.toml --limit ban --lasting 2h";

//! `tollgate block`: denies every call of a key on a live server for some time.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tollgate_core::Limit;

use crate::failure::Failure;
use crate::output::{Output, say};
use crate::subject::{SubjectOptions, ask};
use crate::text::{micros, readable, wait};
use crate::time::length;

/// The options of `block`.
#[derive(Args, Debug)]
#[command(after_help = BLOCKS)]
pub(crate) struct BlockOptions {
    #[command(flatten)]
    pub(crate) subject: SubjectOptions,

    /// How long to block the key from now on, such as 30m; without it, as long as the limit says
    #[arg(long, value_name = "LENGTH")]
    pub(crate) lasting: Option<String>,
}

/// Runs `tollgate block`.
pub(super) fn run(options: &BlockOptions, output: &Output) -> Result<(), Failure> {
    let BlockOptions { subject, lasting } = options;
    let lasting = lasting.as_deref();
    let lasting = lasting.map(|lasting| length("--lasting", lasting));
    let lasting = lasting.transpose()?;
    let (limits, blocked_for) = ask(subject, output, async |limiter, key| {
        let call = limiter.block(key);
        match lasting {
            Some(time) => call.lasting(time).await,
            None => call.await,
        }
    })?;
    let blocks = limits.iter().filter(|limit| limit.algorithm().can_block());
    let answer = Blocked {
        command: "block",
        key: &subject.key.key,
        rest: &subject.key.rest,
        limits: blocks.map(Limit::to_string).collect(),
        wait: blocked_for.duration(),
    };
    say(subject.server.json, output, &answer, || {
        format!(
            "block {}: blocked for {} by {}\n",
            readable(&subject.key.key, &subject.key.rest),
            wait(answer.wait),
            answer.limits.join(", ")
        )
    })
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

const BLOCKS: &str = "\
One of the limits must be a block, such as ban=block:15m; the others are left as they are. A block
never ends earlier than an earlier one of the same key; `tollgate reset` ends it.
";

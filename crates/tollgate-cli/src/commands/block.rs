//! `tollgate block`: denies every call of a key on a live server for some time.

use std::slice;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tollgate_core::{Key, Limit, StoreError};
use tollgate_wire::operate::{FoundState, Search};

use crate::failure::Failure;
use crate::limits::LimitsFile;
use crate::output::{Output, say};
use crate::store::Remote;
use crate::subject::{SubjectOptions, ask, find};
use crate::text::{micros, wait};
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
    let BlockOptions {
        subject: about,
        lasting,
    } = options;
    let lasting = lasting.as_deref();
    let lasting = lasting.map(|lasting| length("--lasting", lasting));
    let lasting = lasting.transpose()?;
    let subject = about.subject()?;
    let blocks = subject.limits.iter();
    let blocks: Vec<&Limit> = blocks
        .filter(|limit| limit.algorithm().can_block())
        .collect();
    let in_file = subject.file.as_ref().map(LimitsFile::limits);
    let in_file = in_file.unwrap_or_default();
    let (blocked_for, unread, rest_differs) =
        ask(about, &subject, output, async |limiter, key| {
            let store: &dyn Remote = &**limiter.store();
            let before = store.held(limiter.limits(), key).await?;
            let call = limiter.block(key);
            let blocked_for = match lasting {
                Some(time) => call.lasting(time).await,
                None => call.await,
            }?;
            let mut unread = Vec::new();
            for limit in &blocks {
                let name = limit.name();
                let is_known = in_file.iter().any(|other| other.name() == name)
                    || before.iter().any(|state| state.name == name)
                    || is_in_use(store, limit, key).await?;
                if !is_known {
                    unread.push(name.to_owned());
                }
            }
            let rest_differs = has_other_rests(store, &blocks, key).await?;
            Ok((blocked_for, unread, rest_differs))
        })?;
    let answer = Blocked {
        command: "block",
        key: &subject.whom.partition,
        rest: &subject.whom.rest,
        limits: blocks.iter().map(|limit| limit.to_string()).collect(),
        wait: blocked_for.duration(),
        unread,
        rest_differs,
    };
    // JSON has a field for it.
    if !answer.unread.is_empty() && !about.server.json {
        output.complain(&format!(
            "warning: nothing seems to read this block: neither a state on the server nor a file of \
             limits has the name {}; `tollgate list` shows the names in use",
            answer.unread.join(", ")
        ));
    }
    if rest_differs && !about.server.json {
        output.complain(
            &"warning: the server counts this key with other rests only, so the block may deny nobody: \
             give the rest that `tollgate explain` shows by --rest, or the client by --address or \
             --api-key, with --or if the service counts by one thing or else another",
        );
    }
    say(about.server.json, output, &answer, || {
        format!(
            "block {}: blocked for {} by {}\n",
            subject.whom,
            wait(answer.wait),
            answer.limits.join(", ")
        )
    })
}

/// Returns whether the server has states of the partition of `key`, but only of other rests, beside `blocks`.
async fn has_other_rests(
    store: &dyn Remote,
    blocks: &[&Limit],
    key: Key<'_>,
) -> Result<bool, StoreError> {
    let states = find(store, Search::new().with_key(key)).await?;
    let is_own = |state: &&FoundState| {
        let is_block = state.kind.starts_with("block");
        state.is_exact && is_block && blocks.iter().any(|block| block.name() == state.name)
    };
    let mut others = states.iter().filter(|state| !is_own(state)).peekable();
    Ok(others.peek().is_some() && others.all(|state| !state.is_exact))
}

/// Returns whether the server has a state under the name of `block`, beside the block of `key`.
async fn is_in_use(store: &dyn Remote, block: &Limit, key: Key<'_>) -> Result<bool, StoreError> {
    let own = store.held(slice::from_ref(block), key).await?;
    let mut search = Search::new().with_limit(block.name());
    while let Some(states) = store.find(&mut search).await? {
        let is_own = |state: &FoundState| {
            own.iter().any(|own| {
                own.to_string() == state.to_string()
                    && own.partition == state.partition
                    && own.rest == state.rest
            })
        };
        if !states.iter().all(is_own) {
            return Ok(true);
        }
    }
    Ok(false)
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
    /// The names of blocks that nothing seems to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    /// Whether all other states of the key have other rests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rest_differs: bool,
}

const BLOCKS: &str = "\
One of the limits must be a block, such as ban=block:15m; the others are left as they are. A block
never ends earlier than an earlier one of the same key; `tollgate reset` ends it. If neither a state
on the server nor the file of --limits has the name of the block, a warning says that nothing reads it,
and another if the server counts the key with other rests only.

Exit status: 0 if the key is blocked, 2 if not.

Examples:
  tollgate block alice --store redis://127.0.0.1:6379 --limit ban=block:15m
  tollgate block alice --store redis://127.0.0.1:6379 --limits limits.toml --limit ban --lasting 2h";

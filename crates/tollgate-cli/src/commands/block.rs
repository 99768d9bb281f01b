//! `tollgate block`: denies every call of a key on a live server for some time.

use std::cell::Cell;
use std::ops::Not;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tollgate_core::{Limit, StoreError};
use tollgate_wire::operate::{FoundState, Search};

use crate::doubt::{doubt, is_same};
use crate::failure::Failure;
use crate::limits::LimitsFile;
use crate::output::{Output, say, status};
use crate::store::{Remote, TimeSource};
use crate::subject::{Subject, SubjectOptions, ask, find};
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
    let blocked = Cell::new(None);
    let seen = ask(about, &subject, output, async |limiter, key| {
        // Afterwards, a state of the name may be this block.
        let before = limiter.store().held(limiter.limits(), key).await;
        let call = limiter.block(key);
        let blocked_for = match lasting {
            Some(time) => call.lasting(time).await,
            None => call.await,
        }?;
        blocked.set(Some(blocked_for));
        // What follows only tells whether the service reads that.
        look(&**limiter.store(), about, &subject, &blocks, before?).await
    });
    let (blocked_for, seen) = match (blocked.get(), seen) {
        (Some(blocked_for), seen) => (blocked_for, seen),
        (None, Err(failure)) => return Err(failure),
        (None, Ok(_)) => unreachable!("a look comes after the block"),
    };
    let seen = seen.unwrap_or_else(|failure| {
        output.complain(&format!(
            "the key is blocked, but it is not known whether the service reads the block: {failure}"
        ));
        Seen::default()
    });
    let answer = Blocked {
        command: "block",
        key: &subject.whom.partition,
        rest: &subject.whom.rest,
        limits: blocks.iter().map(|limit| limit.to_string()).collect(),
        wait: blocked_for.duration(),
        seen,
    };
    // JSON has fields for them.
    if !about.server.json {
        for warning in answer.seen.warnings() {
            output.complain(&format!("warning: {warning}"));
        }
    }
    say(about.server.json, output, &answer, || {
        let (whom, limits) = (&subject.whom, answer.limits.join(", "));
        let lasting = wait(answer.wait);
        match answer.seen.denies_nobody() {
            true => {
                format!("block {whom}: {limits} stands for {lasting}, but seems to deny nobody\n")
            }
            false => format!("block {whom}: blocked for {lasting} by {limits}\n"),
        }
    })?;
    Ok(status(!answer.seen.denies_nobody()))
}

/// What the server's states tell of a block that was just written.
#[derive(Default, Serialize)]
struct Seen {
    /// The names of blocks that nothing seems to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    /// Whether all other states of the key have other rests, or some in the partition of a network.
    #[serde(skip_serializing_if = "Not::not")]
    rest_differs: bool,
    /// Whether all other states of the key are of the other clock.
    #[serde(skip_serializing_if = "Not::not")]
    clock_differs: bool,
    /// Why the service may write the key in another way, if it has no other states.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<String>,
}

impl Seen {
    /// Returns whether the service counts the key, but not as it is blocked.
    fn denies_nobody(&self) -> bool {
        self.rest_differs || self.clock_differs || self.doubt.is_some()
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        let unread = (!self.unread.is_empty()).then(|| {
            format!(
                "nothing seems to read this block: neither a state on the server by this clock nor a file of \
                 limits has the name {}; `tollgate list` shows the names in use",
                self.unread.join(", ")
            )
        });
        let rest = self.rest_differs.then(|| {
            "the server counts this key with other rests, which the block does not deny: give the rest \
             that `tollgate explain` shows by --rest, or the client by --address, with the bits of its network \
             by --ipv6-prefix, or by --api-key; with --or if the service counts by one thing or else another"
                .to_owned()
        });
        let clock = self.clock_differs.then(|| {
            "the server counts this key by the other clock only, so the block denies nobody: give the \
             service's --time-source, as `tollgate explain` shows it"
                .to_owned()
        });
        let doubt = self.doubt.iter().cloned();
        unread.into_iter().chain(rest).chain(clock).chain(doubt)
    }
}

/// Looks for signs that the service reads `blocks` of the key; `before` are states that it had.
async fn look(
    store: &dyn Remote,
    about: &SubjectOptions,
    subject: &Subject,
    blocks: &[&Limit],
    before: Vec<FoundState>,
) -> Result<Seen, StoreError> {
    let clock = about.one.key.time_source;
    let in_file = subject.file.as_ref().map(LimitsFile::limits);
    let in_file = in_file.unwrap_or_default();
    let whom = &subject.whom;
    let own: Vec<Limit> = blocks.iter().map(|&block| block.clone()).collect();
    let mut own = store.held(&own, whom.key()).await?;
    own.retain(|state| TimeSource::from(state.clock) == clock);
    let is_own = |state: &FoundState| own.iter().any(|own| is_same(own, state));
    let mut seen = Seen::default();
    for block in blocks {
        let name = block.name();
        let is_held = |state: &FoundState| state.name == name && state.clock == clock.into();
        let mut is_known =
            in_file.iter().any(|other| other.name() == name) || before.iter().any(is_held);
        let mut search = Search::new().with_limit(name).with_rest(whom.rest.as_str());
        while !is_known && let Some(states) = store.find(&mut search).await? {
            is_known = states.iter().any(|state| is_held(state) && !is_own(state));
        }
        if !is_known {
            seen.unread.push(name.to_owned());
        }
    }
    let mut others = find(store, whom.search()).await?;
    others.retain(|state| !is_own(state));
    others.retain(|state| whom.has(state) || whom.is_of_network(state));
    let (exact, other_rests): (Vec<_>, Vec<_>) = others.iter().partition(|it| it.is_exact);
    seen.rest_differs = !other_rests.is_empty() && (exact.is_empty() || whom.is_whole_network());
    let is_of_clock = |state: &&FoundState| state.clock == clock.into();
    seen.clock_differs = !exact.is_empty() && !exact.iter().any(is_of_clock);
    if others.is_empty() {
        seen.doubt = doubt(store, &about.one.key, whom, &own).await?;
    }
    Ok(seen)
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

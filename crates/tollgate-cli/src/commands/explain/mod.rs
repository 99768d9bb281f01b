//! `tollgate explain`: what a live server holds for one key.

mod answer;

use clap::Args;
use futures_util::future::try_join_all;
use tollgate_core::store::{Check, Request};
use tollgate_core::{Key, Limit, StoreError};
use tollgate_layers::key_hash;
use tollgate_wire::inside::is_hash;
use tollgate_wire::operate::{Encoding, Facts, FoundState};

use self::answer::{Answer, Asked, State};
use crate::doubt::doubt;
use crate::failure::Failure;
use crate::limits::LimitOptions;
use crate::output::{Output, say};
use crate::store::{KeyOptions, ServerOptions, TimeSource, wait_for};
use crate::subject::find;
use crate::time::ZoneOptions;
use crate::verdict::LimitVerdict;

#[derive(Args, Debug)]
#[command(after_help = EXPLAINS)]
pub(crate) struct ExplainOptions {
    #[command(flatten)]
    pub(crate) key: KeyOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) zone: ZoneOptions,
}

pub(super) fn run(options: &ExplainOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let limits = options.limits.separate(options.limits.file()?.as_ref())?;
    // Of a whole file, only those that have counted the key are of interest.
    let is_whole_file = options.limits.limits.is_empty();
    let has_limits = !is_whole_file || options.limits.limits_file.is_some();
    let zone = options.zone.zone()?;
    let whom = options.key.whom()?;
    let clock = options.key.time_source;
    let settings = options.key.settings(&options.server)?;
    let is_meant = |state: &FoundState| state.is_exact || options.key.rest.is_none();
    let (held, asked, doubt) = wait_for(async {
        let store = server.connect(settings).await?;
        let mut found = find(&*store, whom.search()).await?;
        found.retain(|state| whom.has(state) || whom.is_of_network(state));
        let facts = store.read(&found).await?;
        // Those that have ended meanwhile are left out.
        let held = found.into_iter().zip(facts);
        let held: Vec<_> = held
            .filter_map(|(state, facts)| Some((state, facts?)))
            .collect();
        let states = || held.iter().map(|(state, _)| state);
        let ask = async |limit: &Limit| {
            let is_read = |state: &&FoundState| is_meant(state) && state.is_of(limit, clock.into());
            let own: Vec<_> = states().filter(is_read).cloned().collect();
            let verdicts = store.peek_at(limit, &own).await?.into_iter();
            let mut asked = Vec::new();
            for (state, verdict) in own.into_iter().zip(verdicts) {
                if let Some(verdict) = verdict {
                    asked.push(Asked::of(LimitVerdict::new(limit, &verdict), state));
                }
            }
            if asked.is_empty() && !is_whole_file {
                let check = Check::new(limit, whom.key(), 1);
                let decided = store.decide(Request::peek(check)).await?;
                let (_, verdict) = decided.into_one()?;
                let verdict = LimitVerdict::new(limit, &verdict);
                asked.push(Asked::without_state(verdict, &whom, clock, states()));
            }
            Ok::<_, StoreError>(asked)
        };
        let asked = try_join_all(limits.iter().map(ask)).await?;
        let mut asked: Vec<_> = asked.into_iter().flatten().collect();
        for (state, facts) in &held {
            tell_apart(&mut asked, state, facts);
        }
        let doubt = if held.is_empty() {
            doubt(&*store, &options.key, &whom, &[]).await?
        } else {
            None
        };
        Ok((held, asked, doubt))
    })?;
    let states = held.iter().map(|(state, facts)| {
        // Of a limit that has none of the states, a remark names the others.
        let is_asked = is_whole_file || asked.iter().any(|it| it.has_state_called(&state.name));
        let is_silent = has_limits && is_asked && !asked.iter().any(|it| it.is_about(state));
        let why = is_silent.then(|| silence(state, facts, &limits, clock, is_meant(state)));
        State::new(state, facts, whom.is_of_network(state), why)
    });
    let rests = held.iter().map(|(state, _)| &*state.rest);
    let rests = rests.chain([whom.rest.as_bytes()]);
    // Of a hash, the key is not known.
    let is_known = |rest: &&[u8]| !is_hash(rest) && !is_hash(whom.partition.as_bytes());
    let hash = |rest: &[u8]| {
        let hash = key_hash(Key::new(&whom.partition).with_rest(rest));
        (
            String::from_utf8_lossy(rest).into_owned(),
            format!("{hash:016x}"),
        )
    };
    let answer = Answer {
        command: "explain",
        key_hashes: rests.filter(is_known).map(hash).collect(),
        key: &whom.partition,
        rest: &whom.rest,
        states: states.collect(),
        limits: asked,
        doubt,
    };
    say(options.server.json, output, &answer, || {
        answer.to_text(&whom, &zone)
    })
}

/// Leaves out those limits of several plans that admit less than `state` holds, and marks the denials
/// that another plan's limit does not share.
fn tell_apart(asked: &mut Vec<Asked>, state: &FoundState, facts: &Facts) {
    let holds = |it: &Asked| {
        facts
            .consumed
            .is_none_or(|units| units <= it.verdict.capacity)
    };
    let any_holds = asked.iter().any(|it| it.is_about(state) && holds(it));
    asked.retain(|it| !it.is_about(state) || !any_holds || holds(it));
    let allows = |it: &Asked| it.is_about(state) && it.verdict.allowed;
    if asked.iter().any(allows) {
        for it in asked.iter_mut().filter(|it| it.is_about(state)) {
            it.perhaps = !it.verdict.allowed;
        }
    }
}

/// Returns why none of `limits`, by this clock, says anything of `state`; `is_meant` says whether its rest is
/// that of the call.
fn silence(
    state: &FoundState,
    facts: &Facts,
    limits: &[Limit],
    clock: TimeSource,
    is_meant: bool,
) -> &'static str {
    let is_read = |clock| limits.iter().any(|limit| state.is_of(limit, clock));
    match (state.encoding, state.kind.as_str()) {
        (Encoding::Other, _) => "another release of tollgate wrote it",
        (Encoding::Scriptless, _) => "a store without scripts counts it",
        (_, "schedule" | "leases" | "answer") => "it is not that of a limit",
        _ if !facts.is_understood => "another program wrote it",
        _ if is_read(clock.into()) && !is_meant => "its rest is not that of --rest",
        _ if is_read(clock.into()) => "another program wrote it",
        _ if is_read(state.clock) => match clock {
            TimeSource::Server => "counted by callers' clocks: ask with --time-source caller",
            TimeSource::Caller => "counted by the server's clock: ask with --time-source server",
        },
        _ => "none of the limits reads it",
    }
}

const EXPLAINS: &str = "\
Lists every state that the server holds for the key: of every limit and algorithm, schedules and
leases, by the server's clock and by callers' clocks. They are found by a scan of all keys, in small
steps, which writes nothing.

A state does not hold the amount of its limit, so it does not tell how much is left: give --limit
for that, or --limits for the limits of the service that read one of the states. CONSUMED is as of the
last write; of a sliding counter, the newer window and the earlier one. Limits decide by the states of
every rest, or of --rest only. If a limit that you give has no state, but its name has others, the
answer says so: the service may have another algorithm, window, clock or rest. For a state that no
limit of the file decides by, the answer says why.

--address and --api-key are for services that count by the layer of tollgate-http. REST shows `1|` or
`2|` at its beginning if the service counts by one thing or else another: give that as --or to commands
that decide. States of other networks of at least 48 bits that hold the address are listed, too.

key_hash is that of the events that the service logs of the key's denied calls.

If the service hashes its keys, TOLLGATE_KEY_SECRET holds its secret as 32 hex digits.

Exit status: 0 if it is answered, whatever the limits say; 2 if not.

Examples:
  tollgate explain alice --store redis://127.0.0.1:6379
  tollgate explain --address 2001:db8:1:2::7 --store redis://127.0.0.1:6379
  tollgate explain alice --store redis://127.0.0.1:6379 --limits limits.toml
  tollgate explain alice --store redis://127.0.0.1:6379 --limit login=gcra:5/1m --time-zone Europe/Berlin";

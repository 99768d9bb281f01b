//! `tollgate explain`: what a live server holds for one key.

mod answer;
mod options;

pub(super) use options::ExplainOptions;

use futures_util::future::try_join_all;
use tollgate_core::store::{Check, Request};
use tollgate_core::{Limit, StoreError};
use tollgate_wire::Search;

use self::answer::{Answer, Asked, State};
use crate::failure::Failure;
use crate::output::{Output, say};
use crate::store::wait_for;
use crate::subject::find;
use crate::verdict::LimitVerdict;

/// Runs `tollgate explain`.
pub(super) fn run(options: &ExplainOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let limits = options.limits.separate(options.limits.file()?.as_ref())?;
    // Of a whole file, only those that have counted the key are of interest.
    let is_whole_file = options.limits.limits.is_empty();
    let zone = options.zone.zone()?;
    let whom = options.key.whom()?;
    let key = whom.key();
    let clock = options.key.time_source;
    let settings = options.key.settings(&options.server)?;
    let (held, asked) = wait_for(async {
        let store = server.connect(settings).await?;
        let mut found = find(&*store, Search::new().with_key(key)).await?;
        found.retain(|state| whom.has(state));
        let facts = store.read(&found).await?;
        // Those that have ended meanwhile are left out.
        let held = found.into_iter().zip(facts);
        let held: Vec<_> = held
            .filter_map(|(state, facts)| Some((state, facts?)))
            .collect();
        let reads = |limit: &Limit| {
            let mut states = held.iter().map(|(state, _)| state);
            states.any(|state| state.is_exact && state.is_of(limit, clock.into()))
        };
        let asked = limits.iter().filter(|limit| !is_whole_file || reads(limit));
        let peek = async |limit: &Limit| {
            let decided = store
                .decide(Request::peek(Check::new(limit, key, 1)))
                .await?;
            let (_, verdict) = decided.into_one()?;
            let verdict = LimitVerdict::new(limit, &verdict);
            let states = held.iter().map(|(state, _)| state);
            Ok::<_, StoreError>(Asked::new(limit, verdict, clock, states))
        };
        let asked = try_join_all(asked.map(peek)).await?;
        Ok((held, asked))
    })?;
    let answer = Answer {
        command: "explain",
        key: &whom.partition,
        rest: &whom.rest,
        limits: asked,
        states: held
            .iter()
            .map(|(state, facts)| State::new(state, facts))
            .collect(),
    };
    say(options.server.json, output, &answer, || {
        answer.to_text(&zone)
    })
}

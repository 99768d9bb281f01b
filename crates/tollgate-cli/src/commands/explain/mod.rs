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
use crate::subject::separate_limits;
use crate::verdict::LimitVerdict;

/// Runs `tollgate explain`.
pub(super) fn run(options: &ExplainOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let limits = separate_limits(&options.limits)?;
    let zone = options.zone.zone()?;
    let subject = options.key();
    let key = subject.key();
    let settings = subject.settings(&options.server)?;
    let (found, facts, verdicts) = wait_for(async {
        let store = server.connect(settings).await?;
        let mut search = Search::new().with_key(key);
        let mut found = Vec::new();
        while let Some(states) = store.find(&mut search).await? {
            for state in states {
                // A scan may return a key twice.
                if !found.contains(&state) {
                    found.push(state);
                }
            }
        }
        found.sort_by_key(|state| (state.to_string(), state.rest.clone()));
        let facts = store.read(&found).await?;
        let peek = async |limit: &Limit| {
            let decided = store
                .decide(Request::peek(Check::new(limit, key, 1)))
                .await?;
            let (_, verdict) = decided.into_one()?;
            Ok::<_, StoreError>(LimitVerdict::new(limit, &verdict))
        };
        let verdicts = try_join_all(limits.iter().map(peek)).await?;
        Ok((found, facts, verdicts))
    })?;
    // Those that have ended meanwhile are left out.
    let held: Vec<_> = found
        .into_iter()
        .zip(facts)
        .filter_map(|(state, facts)| Some((state, facts?)))
        .collect();
    let asked = limits.iter().zip(verdicts).map(|(limit, verdict)| {
        let states = held.iter().map(|(state, _)| state);
        Asked::new(limit, verdict, options.time_source, states)
    });
    let answer = Answer {
        command: "explain",
        key: &options.key,
        rest: &options.rest,
        limits: asked.collect(),
        states: held
            .iter()
            .map(|(state, facts)| State::new(state, facts))
            .collect(),
    };
    say(options.server.json, output, &answer, || {
        answer.to_text(&zone)
    })
}

//! `change`: changes one key on a live server, and looks whether the service reads that.

use std::cell::Cell;
use std::ops::Not;
use std::sync::Arc;

use serde::Serialize;
use tollgate_core::{Key, Limit, RateLimiter, StoreError};
use tollgate_wire::operate::{FoundState, Search};

use crate::doubt::{doubt, is_same};
use crate::failure::Failure;
use crate::limits::LimitsFile;
use crate::output::Output;
use crate::store::{Remote, TimeSource};
use crate::subject::{Subject, SubjectOptions, ask, find};

/// Makes a change under these `limits` of the subject, and looks for signs that the service reads it. If the
/// look fails, the change is still `done`.
pub(crate) fn change<T>(
    about: &SubjectOptions,
    subject: &Subject,
    limits: &[&Limit],
    done: &str,
    output: &Output,
    make: impl AsyncFnOnce(&RateLimiter<Arc<dyn Remote>>, Key<'_>) -> Result<T, StoreError>,
) -> Result<(T, Seen), Failure> {
    let made = Cell::new(None);
    let seen = ask(about, subject, output, async |limiter, key| {
        // Afterwards, a state of the name may be this change.
        let before = limiter.store().held(limiter.limits(), key).await;
        made.set(Some(make(limiter, key).await?));
        look(&**limiter.store(), about, subject, limits, before?).await
    });
    let (made, seen) = match (made.into_inner(), seen) {
        (Some(made), seen) => (made, seen),
        (None, Err(failure)) => return Err(failure),
        (None, Ok(_)) => unreachable!("a look comes after the change"),
    };
    let seen = seen.unwrap_or_else(|failure| {
        output.complain(&format!(
            "{done}, but it is not known whether the service reads that: {failure}"
        ));
        Seen::default()
    });
    // JSON has fields for them.
    if !about.server.json {
        for warning in seen.warnings() {
            output.complain(&format!("warning: {warning}"));
        }
    }
    Ok((made, seen))
}

/// What the server's states tell of a change that was just made.
#[derive(Default, Serialize)]
pub(crate) struct Seen {
    /// The names of limits that nothing seems to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    /// States of the key under the names of limits that count, of other algorithms or windows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_states: Vec<String>,
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
    /// Returns whether the service counts the key, but not as it was changed.
    pub(crate) fn is_in_vain(&self) -> bool {
        let is_other = !self.other_states.is_empty() || self.rest_differs;
        is_other || self.clock_differs || self.doubt.is_some()
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        let unread = (!self.unread.is_empty()).then(|| {
            format!(
                "nothing seems to read this: neither a state on the server by this clock nor a file of \
                 limits has the name {}; `tollgate list` shows the names in use",
                self.unread.join(", ")
            )
        });
        let other_states = (!self.other_states.is_empty()).then(|| {
            format!(
                "the server holds states of this key that these limits do not read: {}",
                self.other_states.join(", ")
            )
        });
        let rest = self.rest_differs.then(|| {
            "the server counts this key with other rests, for which this changes nothing: give the rest \
             that `tollgate explain` shows by --rest, or the client by --address, with the bits of its network \
             by --ipv6-prefix, or by --api-key; with --or if the service counts by one thing or else another"
                .to_owned()
        });
        let clock = self.clock_differs.then(|| {
            "the server counts this key by the other clock only, for which this changes nothing: give the \
             service's --time-source, as `tollgate explain` shows it"
                .to_owned()
        });
        let doubt = self.doubt.iter().cloned();
        let warnings = unread.into_iter().chain(other_states).chain(rest);
        warnings.chain(clock).chain(doubt)
    }
}

/// Looks for signs that the service reads what was changed; `before` are states that the key had.
async fn look(
    store: &dyn Remote,
    about: &SubjectOptions,
    subject: &Subject,
    limits: &[&Limit],
    before: Vec<FoundState>,
) -> Result<Seen, StoreError> {
    let clock = about.one.key.time_source;
    let counting = limits.iter().filter(|it| !it.algorithm().can_block());
    let counting: Vec<&str> = counting.map(|it| it.name()).collect();
    let is_counted = |state: &FoundState| {
        counting.contains(&&*state.name) && state.clock == clock.into() && !state.is_answer()
    };
    // These limits have counted the key before.
    if before.iter().any(is_counted) {
        return Ok(Seen::default());
    }
    let in_file = subject.file.as_ref().map(LimitsFile::limits);
    let in_file = in_file.unwrap_or_default();
    let whom = &subject.whom;
    let own: Vec<Limit> = limits.iter().map(|&limit| limit.clone()).collect();
    let mut own = store.held(&own, whom.key()).await?;
    own.retain(|state| TimeSource::from(state.clock) == clock);
    let is_own = |state: &FoundState| own.iter().any(|own| is_same(own, state));
    let mut seen = Seen::default();
    for limit in limits {
        let name = limit.name();
        let is_held = |state: &FoundState| {
            // The answer that is kept for an id was written by this change, too.
            state.name == name && state.clock == clock.into() && !state.is_answer()
        };
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
    others.retain(|state| !is_own(state) && !state.is_answer());
    others.retain(|state| whom.has(state) || whom.is_of_network(state));
    let (exact, other_rests): (Vec<_>, Vec<_>) = others.iter().partition(|it| it.is_exact);
    let of_names = exact.iter().filter(|state| is_counted(state));
    seen.other_states = of_names.map(ToString::to_string).collect();
    seen.rest_differs = !other_rests.is_empty() && (exact.is_empty() || whom.is_whole_network());
    let is_of_clock = |state: &&FoundState| state.clock == clock.into();
    seen.clock_differs = !exact.is_empty() && !exact.iter().any(is_of_clock);
    if others.is_empty() {
        seen.doubt = doubt(store, &about.one.key, whom, &own).await?;
    }
    Ok(seen)
}

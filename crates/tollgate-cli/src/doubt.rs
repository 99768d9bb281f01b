//! Doubts: why a key without a state may not be written as the service counts it.

use tollgate_core::StoreError;
use tollgate_wire::inside::{LONG_PART, is_hash};
use tollgate_wire::operate::{FoundState, Search};

use crate::store::{KeyOptions, Remote, TimeSource, Whom, has_secret};

/// How many pages of keys are looked at until one has states.
const PAGES: usize = 20;

/// Returns why a key that has no states, beside `own`, may not be the one that the service counts: its
/// spelling tells, or some states of other keys.
pub(crate) async fn doubt(
    store: &dyn Remote,
    options: &KeyOptions,
    whom: &Whom,
    own: &[FoundState],
) -> Result<Option<String>, StoreError> {
    if let Some(spelled) = whom.spelled() {
        return Ok(Some(spelled));
    }
    let mut search = Search::new().with_rest(whom.rest.as_str());
    let mut states = Vec::new();
    for _ in 0..PAGES {
        let Some(mut page) = store.find(&mut search).await? else {
            break;
        };
        page.retain(|state| !own.iter().any(|own| is_same(own, state)));
        states = page;
        if !states.is_empty() {
            break;
        }
    }
    let Some(first) = states.first() else {
        return Ok(None);
    };
    // A hash without a secret has two marks.
    let is_secret = |state: &FoundState| is_hash(&state.partition) && state.partition[1] != b'#';
    let hashed = states.iter().filter(|state| is_secret(state)).count();
    let is_long = whom.partition.len() > LONG_PART;
    if has_secret() {
        if hashed == 0 && !options.hashed_long_keys {
            return Ok(Some(
                "the keys on this server are not hashed: unset TOLLGATE_KEY_SECRET, or check --prefix"
                    .to_owned(),
            ));
        }
        if hashed == states.len() || is_long {
            return Ok(Some(
                "the keys on this server are hashed, and none is the key's hash under \
                 TOLLGATE_KEY_SECRET: if the service has counted the key, the secret is another one"
                    .to_owned(),
            ));
        }
    } else if hashed == states.len() || hashed > 0 && is_long {
        return Ok(Some(
            "the keys on this server are hashed: set TOLLGATE_KEY_SECRET to the service's secret"
                .to_owned(),
        ));
    }
    let clock = TimeSource::from(first.clock);
    let is_other = clock != options.time_source;
    let all = states.iter().all(|state| state.clock == first.clock);
    Ok((all && is_other).then(|| {
        let beside = clock.beside(options.time_source);
        format!("the service seems to count{beside}")
    }))
}

/// Returns whether both are one state, found by different searches.
pub(crate) fn is_same(one: &FoundState, other: &FoundState) -> bool {
    one.to_string() == other.to_string()
        && one.clock == other.clock
        && one.partition == other.partition
        && one.rest == other.rest
}

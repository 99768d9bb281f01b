//! What stores need that run the algorithms as scripts on a server.

use crate::algorithm::{Algorithm, State};
pub use crate::algorithm::{
    CallContext, CounterPlan, CounterReply, MOST_PARAMETERS, TWINS, Told, Twin, Words, double,
    integer, words,
};
use crate::store::{Check, Fingerprint, Request, Verdicts};
use crate::time::Timestamp;

/// Returns the index of `algorithm` in [`TWINS`].
#[must_use]
pub fn code(algorithm: &Algorithm) -> usize {
    algorithm.code()
}

/// Returns the parameters of the script, but for the boundaries of periods.
#[must_use]
pub fn parameters(algorithm: &Algorithm) -> Words {
    algorithm.parameters()
}

/// Decodes the state in a script's reply, or returns `None` if no script replies with such a state.
#[must_use]
pub fn decode(algorithm: &Algorithm, reply: &[u64], call: CallContext) -> Option<State> {
    algorithm.decode(reply, call)
}

/// Returns the numbers that the script needs if `request` cancels a reservation of `check`, which is
/// at `index`.
#[must_use]
pub fn reserved(request: &Request<'_>, index: usize, check: &Check<'_>) -> Option<[u64; 3]> {
    let reserved = request.cancelled(index)?;
    Some(check.limit().algorithm().reserved(reserved))
}

/// Returns the decision of a [give](crate::store::Operation::Give) at `now` that a script has
/// recorded, by the states before and after it.
pub fn given(
    request: &Request<'_>,
    before: &[State],
    after: &mut [State],
    now: Timestamp,
) -> Verdicts {
    request
        .evaluate(before, now)
        .given(Fingerprint::of(request), after)
}

/// Returns how plain commands count calls.
///
/// # Errors
///
/// The reason why they cannot.
pub fn plan(algorithm: &Algorithm) -> Result<CounterPlan, &'static str> {
    algorithm.plan()
}

//! The promises: one function each, named after what it promises.

mod absence;
mod agreement;
mod answers;
mod bounds;
mod inert;
mod units;
mod waits;

pub use absence::{
    a_late_refund_gives_nothing, a_refund_at_once_undoes, absence_is_as_never_seen,
    reset_forgets_everything,
};
pub use agreement::{agrees_with_the_definition, agrees_with_the_machine};
pub use answers::{
    allows_exactly_what_remains, smaller_costs_wait_no_longer, takes_exactly_the_cost,
    time_only_gives_back,
};
pub use bounds::{never_over_admits, reaches_its_bound};
pub use inert::{denied_calls_change_nothing, keys_are_independent, peek_changes_nothing};
pub use units::{a_cost_is_as_many_unit_calls, takes_what_unit_calls_would};
pub use waits::{
    a_clock_that_steps_back_admits_no_more, reset_after_is_exact, retry_after_is_exact,
};

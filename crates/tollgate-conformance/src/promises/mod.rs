//! The promises that every store must keep: one function each, named after its promise. It panics
//! when the promise is broken.

mod absence;
mod agreement;
mod answers;
mod block;
mod bounds;
mod change;
mod composite;
mod concurrency;
mod id;
mod inert;
mod own_clock;
mod real_time;
mod reservation;
mod shadow;
mod store;
mod units;
mod waits;
mod zone;

pub use absence::{
    a_late_refund_gives_nothing, a_refund_at_once_undoes, an_idle_key_equals_a_new_key,
    reset_forgets_everything,
};
pub use agreement::{
    agrees_with_the_definition, agrees_with_the_machine, agrees_with_the_machine_at_its_own_clock,
};
pub use answers::{
    allows_exactly_what_remains, smaller_costs_wait_no_longer, takes_exactly_the_cost,
    time_only_gives_back,
};
pub use block::{
    blocks_agree_with_the_definition, blocks_agree_with_the_machine,
    blocks_agree_with_the_machine_at_its_own_clock, concurrent_blocks_are_one,
};
pub use bounds::{
    never_over_admits, reaches_its_bound, refunds_keep_the_bound, units_ahead_keep_the_bound,
};
pub use change::{a_changed_limit_applies_at_once, extremes_are_exact, zero_denies_everything};
pub use composite::{
    composites_agree_with_the_machine, crossing_requests_do_not_deadlock, is_all_or_nothing,
    waits_for_the_slowest_limit,
};
pub use concurrency::{
    admits_exactly_the_bound_under_concurrency, concurrent_calls_are_linearizable,
};
pub use id::{
    an_id_of_another_call_changes_nothing, answers_are_forgotten, concurrent_repeats_are_one,
    denials_are_not_kept, receipts_from_bytes_are_used_once_for_each_id,
    repeated_calls_get_the_first_answer,
};
pub use inert::{denied_calls_change_nothing, keys_are_independent, peek_changes_nothing};
pub use own_clock::{
    counts_at_its_own_clock, gives_back_at_its_own_clock, is_all_or_nothing_at_its_own_clock,
};
pub use real_time::keeps_its_rate_in_real_time;
pub use reservation::{
    cancelling_the_last_reservation_undoes_it, concurrent_reservations_have_an_order,
    refused_reservations_change_nothing, reservations_agree_with_the_definition,
    reservations_agree_with_the_machine, reservations_agree_with_the_machine_at_its_own_clock,
    starts_keep_the_bound_whatever_is_cancelled,
};
pub use shadow::{
    shadows_agree_with_the_machine, shadows_agree_with_the_machine_at_its_own_clock,
    shadows_count_what_they_would_allow_and_deny_nothing,
};
pub use store::{
    decides_alike_without_waiting, decides_at_the_given_instant, malformed_requests_change_nothing,
    receipts_from_before_a_reset_free_nothing, says_what_it_supports, similar_keys_are_independent,
};
pub use units::{a_cost_is_as_many_unit_calls, takes_what_unit_calls_would};
pub use waits::{
    a_clock_that_steps_back_admits_no_more, reset_after_is_exact, retry_after_is_exact,
};
pub use zone::a_call_counts_in_its_own_zone;

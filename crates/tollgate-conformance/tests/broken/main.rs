//! Each fault of a store is caught by the cases whose promise it breaks.

#![allow(clippy::unwrap_used, reason = "a test")]

mod ids;
mod own_clock;
#[path = "../reference/mod.rs"]
mod reference;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use own_clock::{BrokenAtItsOwnClock, BrokenWithoutInstants};
use store::{BrokenStore, Fault};
use tollgate_conformance::{Harness, Plan, block_on, families, fresh_key, promises};
use tollgate_core::Store;

struct Broken(Fault);

impl Harness for Broken {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(BrokenStore::new(self.0))
    }
}

#[test]
fn failing_seeds_are_saved_and_tried_first() {
    let folder = std::env::temp_dir().join(fresh_key("conformance"));
    std::fs::create_dir_all(folder.join("tests")).unwrap();
    std::fs::write(folder.join("tests/backend.rs"), "").unwrap();
    let plan = Plan::new(families::gcra())
        .with_histories(0)
        .keeping_failures(
            folder.to_str().unwrap(),
            "tests/backend.rs",
            "gcra.agrees_with_the_machine",
        );
    let fails = |plan: &Plan| {
        let harness = Broken(Fault::IgnoresCost);
        let run = || block_on(promises::agrees_with_the_machine(&harness, plan));
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    assert!(!fails(&plan), "no history was to be tried");
    assert!(fails(&plan.clone().with_histories(64)));
    let kept = folder.join("tests/backend.regressions/gcra.agrees_with_the_machine.txt");
    assert!(std::fs::read_to_string(kept).unwrap().contains("\ncc "));
    assert!(fails(&plan), "what was kept is tried before new histories");
    std::fs::remove_dir_all(folder).unwrap();
}

/// How many histories are tried. One in hundreds of runs of the usual number finds no fault at the
/// store's own clock, where time passes as it likes.
const HISTORIES: u32 = 1_024;

/// Makes one test per fault, which checks that each of its cases catches the fault.
macro_rules! caught {
    ($broken:ident: $($test:ident: $fault:ident by $($family:ident::$promise:ident)+;)*) => {$(
        #[test]
        fn $test() {
            $(
                let plan = Plan::new(families::$family()).with_histories(HISTORIES);
                let harness = $broken(Fault::$fault);
                let run = || block_on(promises::$promise(&harness, &plan));
                let outcome = catch_unwind(AssertUnwindSafe(run));
                let case = concat!(stringify!($family), "::", stringify!($promise));
                assert!(outcome.is_err(), "{case} did not catch {:?}", Fault::$fault);
            )+
        }
    )*};
}

caught! {
    Broken:
    accepting_malformed_requests: AcceptsMalformed by
        store::malformed_requests_change_nothing
        zone::a_call_counts_in_its_own_zone;
    accepting_receipts_of_other_requests: AcceptsOtherReceipts by
        store::malformed_requests_change_nothing;
    admitting_everything: AdmitsEverything by
        gcra::never_over_admits
        sliding_log::admits_exactly_the_bound_under_concurrency
        fixed_window::keeps_its_rate_in_real_time;
    admitting_one_more: AdmitsOneMore by
        fixed_window::never_over_admits
        gcra::never_over_admits
        sliding_buckets::never_over_admits
        sliding_counter::never_over_admits
        sliding_log::never_over_admits
        sliding_log::agrees_with_the_definition;
    admitting_one_less: AdmitsOneLess by
        fixed_window::reaches_its_bound
        gcra::reaches_its_bound
        sliding_counter::reaches_its_bound
        sliding_log::reaches_its_bound;
    charging_part_of_a_composite: ChargesWhoAllows by
        composite::is_all_or_nothing
        composite::composites_agree_with_the_machine;
    claiming_too_much: ClaimsTooMuch by
        store::says_what_it_supports;
    counting_by_its_own_clock: IgnoresCallerTime by
        store::decides_at_the_given_instant
        gcra::agrees_with_the_machine;
    counting_from_a_stepped_clock: ForgetsWhenTheClockStepsBack by
        sliding_log::a_clock_that_steps_back_admits_no_more
        gcra::agrees_with_the_definition;
    denied_calls_that_consume: ConsumesWhenDenied by
        gcra::denied_calls_change_nothing
        sliding_log::denied_calls_change_nothing
        fixed_window::agrees_with_the_machine;
    denying_everything: DeniesEverything by
        gcra::reaches_its_bound
        fixed_window::keeps_its_rate_in_real_time
        sliding_log::admits_exactly_the_bound_under_concurrency;
    failing_on_huge_costs: FailsOnHugeCosts by
        fixed_window::allows_exactly_what_remains
        gcra::extremes_are_exact;
    forgetting_calls_that_begin: ForgetsWhatBegins by
        store::decides_alike_without_waiting;
    forgetting_calls_that_need_not_wait: ForgetsWithoutWaiting by
        store::decides_alike_without_waiting;
    forgetting_to_block: IgnoresBlocks by
        block::blocks_agree_with_the_definition
        block::blocks_agree_with_the_machine;
    forgetting_to_lower: IgnoresLowering by
        gcra::agrees_with_the_machine
        composite::composites_agree_with_the_machine;
    forgetting_to_refund: IgnoresRefunds by
        sliding_counter::a_refund_at_once_undoes;
    forgetting_to_settle: IgnoresSettlements by
        sliding_log::agrees_with_the_machine
        sliding_log::agrees_with_the_definition;
    forgetting_to_reset: IgnoresResets by
        gcra::reset_forgets_everything;
    ignoring_the_cost: IgnoresCost by
        gcra::a_cost_is_as_many_unit_calls
        fixed_window::takes_exactly_the_cost
        sliding_log::allows_exactly_what_remains;
    joining_the_parts_of_keys: JoinsKeys by
        store::similar_keys_are_independent;
    keeping_no_names_apart: IgnoresNames by
        store::similar_keys_are_independent;
    losing_updates: LosesUpdates by
        gcra::admits_exactly_the_bound_under_concurrency
        gcra::concurrent_calls_are_linearizable
        sliding_log::keeps_its_rate_in_real_time
        composite::crossing_requests_do_not_deadlock;
    panicking_on_huge_costs: PanicsOnHugeCosts by
        sliding_counter::allows_exactly_what_remains;
    peeks_that_consume: ConsumesWhenPeeked by
        gcra::peek_changes_nothing
        sliding_buckets::peek_changes_nothing;
    refunding_twice: RefundsTwice by
        gcra::agrees_with_the_machine
        fixed_window::a_refund_at_once_undoes
        gcra::a_refund_at_once_undoes;
    stopping_its_clock: StopsItsClock by
        gcra::keeps_its_rate_in_real_time
        sliding_log::keeps_its_rate_in_real_time;
    supporting_nothing: SupportsNothing by
        store::says_what_it_supports;
    waiting_one_microsecond_too_little: WaitsTooLittle by
        fixed_window::retry_after_is_exact
        gcra::retry_after_is_exact
        sliding_log::agrees_with_the_definition
        composite::waits_for_the_slowest_limit;
}

mod every_server_by_id {
    use super::ids::{BrokenById, Fault};
    use super::*;

    caught! {
        BrokenById:
        ignoring_ids: IgnoresIds by
            id::repeated_calls_get_the_first_answer
            id::concurrent_repeats_are_one;
        keeping_answers_for_ever: KeepsForever by
            id::answers_are_forgotten;
        keeping_answers_to_denied_calls: KeepsDenials by
            id::denials_are_not_kept;
        keeping_no_answers: KeepsNothing by
            id::repeated_calls_get_the_first_answer
            id::denials_are_not_kept
            id::an_id_of_another_call_changes_nothing;
        taking_other_calls_for_other_ids: TakesOtherCallsForOtherIds by
            id::an_id_of_another_call_changes_nothing;
    }
}

mod every_server_at_its_own_clock {
    use super::*;

    caught! {
        BrokenAtItsOwnClock:
        admitting_one_more: AdmitsOneMore by
            store::counts_at_its_own_clock
            store::gives_back_at_its_own_clock;
        charging_part_of_a_composite: ChargesWhoAllows by
            store::is_all_or_nothing_at_its_own_clock;
        claiming_to_take: ClaimsTooMuch by
            store::counts_at_its_own_clock
            store::is_all_or_nothing_at_its_own_clock;
        denied_calls_that_consume: ConsumesWhenDenied by
            store::counts_at_its_own_clock
            store::is_all_or_nothing_at_its_own_clock;
        forgetting_to_refund: IgnoresRefunds by
            sliding_log::agrees_with_the_machine_at_its_own_clock
            store::gives_back_at_its_own_clock
            store::is_all_or_nothing_at_its_own_clock;
        forgetting_to_reset: IgnoresResets by
            fixed_window::agrees_with_the_machine_at_its_own_clock
            store::gives_back_at_its_own_clock
            store::is_all_or_nothing_at_its_own_clock;
        ignoring_the_cost: IgnoresCost by
            store::counts_at_its_own_clock;
        peeks_that_consume: ConsumesWhenPeeked by
            store::counts_at_its_own_clock;
        refunding_twice: RefundsTwice by
            store::gives_back_at_its_own_clock
            store::is_all_or_nothing_at_its_own_clock;
        waiting_one_microsecond_too_little: WaitsTooLittle by
            gcra::agrees_with_the_machine_at_its_own_clock;
    }

    caught! {
        BrokenWithoutInstants:
        admitting_one_more_without_instants: AdmitsOneMore by
            fixed_window::never_over_admits
            gcra::admits_exactly_the_bound_under_concurrency
            fixed_window::agrees_with_the_definition
            sliding_log::allows_exactly_what_remains
            fixed_window::extremes_are_exact;
        accepting_malformed_requests_without_instants: AcceptsMalformed by
            store::malformed_requests_change_nothing;
        denied_calls_that_consume_without_instants: ConsumesWhenDenied by
            gcra::denied_calls_change_nothing
            fixed_window::denied_calls_change_nothing;
        denying_everything_without_instants: DeniesEverything by
            fixed_window::keeps_its_rate_in_real_time;
        forgetting_to_refund_without_instants: IgnoresRefunds by
            sliding_counter::a_refund_at_once_undoes;
        forgetting_to_reset_without_instants: IgnoresResets by
            fixed_window::reset_forgets_everything
            gcra::reset_forgets_everything;
        ignoring_the_cost_without_instants: IgnoresCost by
            gcra::a_cost_is_as_many_unit_calls
            fixed_window::takes_exactly_the_cost;
        joining_the_parts_of_keys_without_instants: JoinsKeys by
            store::similar_keys_are_independent;
        losing_updates_without_instants: LosesUpdates by
            fixed_window::admits_exactly_the_bound_under_concurrency
            gcra::concurrent_calls_are_linearizable
            sliding_log::keeps_its_rate_in_real_time;
        peeks_that_consume_without_instants: ConsumesWhenPeeked by
            fixed_window::peek_changes_nothing;
        refunding_twice_without_instants: RefundsTwice by
            fixed_window::agrees_with_the_definition
            fixed_window::a_refund_at_once_undoes;
    }

    /// Cases at callers' instants do not catch a fault at the store's own clock.
    #[test]
    fn a_broken_clock_of_the_store_does_not_change_decisions_at_callers_instants() {
        for fault in [Fault::IgnoresRefunds, Fault::IgnoresResets] {
            let harness = BrokenAtItsOwnClock(fault);
            let plan = Plan::new(families::gcra());
            block_on(promises::agrees_with_the_machine(&harness, &plan));
            block_on(promises::a_refund_at_once_undoes(&harness, &plan));
            block_on(promises::reset_forgets_everything(&harness, &plan));
        }
    }
}

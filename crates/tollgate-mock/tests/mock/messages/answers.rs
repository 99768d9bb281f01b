//! Answers that no limit gives.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, SyncStore};
use tollgate_mock::{Expectation, MockStore};

use super::{limit, message};

#[test]
fn impossible_answers_are_refused() {
    let answered = |expect: fn(&mut MockStore), operation: Operation<'_>, cost: u64| {
        let mut store = MockStore::new();
        expect(&mut store);
        let limit = limit("mail", "gcra:10/1m,burst=5");
        let check = [Check::new(&limit, "alice", cost)];
        message(|| store.decide_now(&Request::new(operation, &check)))
    };
    let check = |answer: fn(Expectation<'_>), cost: u64| {
        let mut store = MockStore::new();
        answer(store.expect_check("mail", "alice"));
        let limit = limit("mail", "gcra:10/1m,burst=5");
        message(|| store.decide_now(&Request::consume(Check::new(&limit, "alice", cost))))
    };
    assert_eq!(check(|call| call.allow(), 5), "no panic");
    assert_eq!(
        check(|call| call.allow(), 6),
        r#"no store answers `allow()` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 6
a cost above the capacity, 5, is always denied: expect a lower cost, or answer with `.deny_forever()`"#
    );
    assert_eq!(
        check(|call| call.deny_for(Duration::from_millis(2_500)), 6),
        r#"no store answers `deny_for(2.5s)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 6
a cost above the capacity, 5, is always denied: expect a lower cost, or answer with `.deny_forever()`"#
    );
    assert_eq!(check(|call| call.deny_forever(), 6), "no panic");
    assert_eq!(
        check(|call| call.deny_for(Duration::from_millis(2_500)), 0),
        r#"no store answers `deny_for(2.5s)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 0
a call that costs nothing is always allowed: expect a higher cost"#
    );
    assert_eq!(check(|call| call.allow_with_remaining(3), 2), "no panic");
    assert_eq!(
        check(|call| call.allow_with_remaining(4), 2),
        r#"no store answers `allow_with_remaining(4)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 2
at most 3 of the capacity, 5, can remain after this call: lower the number"#
    );
    assert_eq!(
        answered(
            |store| store.expect_peek("mail", "alice").allow_with_remaining(6),
            Operation::Peek,
            1
        ),
        r#"no store answers `allow_with_remaining(6)` to this peek:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 1
at most 5 of the capacity, 5, can remain after this call: lower the number"#
    );
    let zero = |store: &mut MockStore| store.expect_peek("mail", "alice").allow_with_remaining(0);
    assert_eq!(answered(zero, Operation::Peek, 0), "no panic");
    assert_eq!(
        answered(zero, Operation::Peek, 1),
        r#"no store answers `allow_with_remaining(0)` to this peek:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 1
a peek is allowed only if its cost remains: raise the number, or deny it"#
    );
    let take = |expect: fn(&mut MockStore), most| answered(expect, Operation::TakeUpTo, most);
    let three = |store: &mut MockStore| store.expect_take_up_to("mail", "alice").grant(3);
    let six = |store: &mut MockStore| store.expect_take_up_to("mail", "alice").grant(6);
    assert_eq!(take(three, 3), "no panic");
    assert_eq!(
        take(three, 2),
        r#"no store answers `grant(3)` to this take_up_to:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 2
at most 2 can be granted, the lower of the cost and the capacity, 5: lower the number"#
    );
    assert_eq!(
        take(six, 9),
        r#"no store answers `grant(6)` to this take_up_to:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 9
at most 5 can be granted, the lower of the cost and the capacity, 5: lower the number"#
    );
}

#[test]
fn answer_to_another_operation_is_refused_when_it_is_set() {
    let given = |give: fn(&mut MockStore)| message(|| give(&mut MockStore::new()));
    assert_eq!(
        given(|store| store.expect_check("mail", "alice").grant(2)),
        r#"`grant(2)` answers no check: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_check("mail", "alice").delay_by(Duration::ZERO)),
        r#"`delay_by(0ns)` answers no check: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_peek("mail", "alice").succeed()),
        r#"`succeed()` answers no peek: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_take_up_to("mail", "alice").succeed()),
        r#"`succeed()` answers no take_up_to: answer with `grant`, `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_refund("mail", "alice").deny_forever()),
        r#"`deny_forever()` answers no refund: answer with `allow`, `allow_with_remaining` or `fail`"#
    );
    assert_eq!(
        given(|store| store
            .expect_reset("mail", "alice")
            .fail(ErrorKind::Unavailable)),
        "not every expected call was made before the store was dropped:\n  \
         reset of limit `mail` for key \"alice\", at least 1 time: called 0 times, too few\n\
         if fewer calls are right, say so with `.times(..)`, or remove the expectation"
    );
    assert_eq!(
        given(|store| store.expect_reset("mail", "alice").allow()),
        r#"`allow()` answers no reset: answer with `succeed` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_reset("mail", "alice").cost(1).succeed()),
        "a reset has no cost: remove `.cost(1)`"
    );
}

#[test]
fn empty_range_of_calls_is_refused() {
    let empty = |expect: fn(Expectation<'_>)| {
        message(|| expect(MockStore::new().expect_check("mail", "alice")))
    };
    let text = "no number of calls is in this range: use `.never()` to expect none";
    assert_eq!(empty(|call| call.times(..0).allow()), text);
    assert_eq!(empty(|call| call.times(2..2).allow()), text);
    #[expect(clippy::reversed_empty_ranges, reason = "the range is to be empty")]
    let backwards = empty(|call| call.times(3..=2).allow());
    assert_eq!(backwards, text);
}

//! What a decision says besides yes and no, and calls with a cost above one.

use std::time::Duration;

use super::support::{Place, START_MS, admitted_at, at_ms};
use tollgate_scenarios::published;

#[tokio::test]
async fn calls_of_one_unit_take_part_of_a_cost() {
    let mut place = Place::new().await;
    let key = place.key("user");
    // Three of five units are taken, then a call wants three more.
    let mut answers = Vec::new();
    for now in START_MS..START_MS + 6 {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 5).await;
        answers.push(admits.unwrap());
    }
    // That call is denied, but has used up the units that smaller calls could have had.
    assert_eq!(answers[3..], [true, true, false]);
    let connection = &mut place.connection;
    let smaller = published::sorted_set_in_transaction(connection, &key, START_MS + 6, 60, 5).await;
    assert!(!smaller.unwrap());

    let limiter = place.strict(5, 60);
    let first = limiter.check("key").cost(3).at(at_ms(START_MS)).await;
    assert_eq!(first.unwrap().remaining(), 2);
    let larger = limiter
        .check("key")
        .cost(3)
        .at(at_ms(START_MS))
        .await
        .unwrap();
    assert!(larger.is_denied());
    assert_eq!(larger.remaining(), 2);
    let smaller = limiter.check("key").cost(2).at(at_ms(START_MS)).await;
    assert!(smaller.unwrap().is_allowed());
}

#[tokio::test]
async fn a_caller_who_polls_is_never_admitted_again() {
    let mut place = Place::new().await;
    let key = place.key("user");
    // The limit is two calls a minute. The only answer is yes or no, and a caller who polls every
    // second is never admitted again.
    let polls = (0..600).map(|second| START_MS + 1_000 * second);
    let mut by_original = 0;
    for now in polls {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 2).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 2);

    let limiter = place.strict(2, 60);
    let calls = [START_MS, START_MS + 1_000];
    assert_eq!(admitted_at(&limiter, "key", calls).await, 2);
    let denied = limiter.check("key").at(at_ms(START_MS + 2_000)).await;
    let wait = denied.unwrap().retry_after().duration();
    assert_eq!(wait, Some(Duration::from_secs(58)));
    let calls = [START_MS + 59_999, START_MS + 60_000];
    assert_eq!(admitted_at(&limiter, "key", calls).await, 1);
}

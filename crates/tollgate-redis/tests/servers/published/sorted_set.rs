//! A sorted set of calls: in a transaction, in a pipeline, in a script, and with whole seconds.

use super::support::{Place, START_MS, START_S, admitted, admitted_at, admitted_at_once};
use tollgate_scenarios::published;

#[tokio::test]
async fn calls_of_one_millisecond_count_once() {
    let mut place = Place::new().await;
    let (transaction, script) = (place.key("transaction"), place.key("script"));
    let (mut by_transaction, mut by_script) = (0, 0);
    for _ in 0..1_000 {
        let connection = &mut place.connection;
        let admits =
            published::sorted_set_in_transaction(connection, &transaction, START_MS, 60, 5).await;
        by_transaction += u64::from(admits.unwrap());
        let admits = published::sorted_set_in_script(connection, &script, START_MS, 60, 5).await;
        by_script += u64::from(admits.unwrap());
    }
    assert_eq!((by_transaction, by_script), (1_000, 1_000));

    let limiter = place.strict(5, 60);
    assert_eq!(admitted_at(&limiter, "key", [START_MS; 1_000]).await, 5);
}

#[tokio::test]
async fn denied_calls_keep_a_caller_denied() {
    let mut place = Place::new().await;
    let key = place.key("user");
    // One call a second for ten minutes, at five a minute.
    let calls = (0..600).map(|second| START_MS + 1_000 * second);
    let mut by_original = 0;
    for now in calls.clone() {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 5).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 5);

    let limiter = place.strict(5, 60);
    assert_eq!(admitted_at(&limiter, "key", calls).await, 50);
}

#[tokio::test]
async fn denied_calls_take_memory() {
    let mut place = Place::new().await;
    let key = place.key("user");
    for now in START_MS..START_MS + 1_000 {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 5).await;
        assert_eq!(admits.unwrap(), now < START_MS + 5);
    }
    assert_eq!(place.ask::<u64>("ZCARD", &key).await, 1_000);

    let limiter = place.strict(5, 60);
    let first = START_MS..START_MS + 5;
    assert_eq!(admitted_at(&limiter, "key", first).await, 5);
    let own = place.own_key().await;
    let before: Vec<u8> = place.ask("DUMP", &own).await;
    let rest = START_MS + 5..START_MS + 1_000;
    assert_eq!(admitted_at(&limiter, "key", rest).await, 0);
    assert_eq!(place.ask::<Vec<u8>>("DUMP", &own).await, before);
}

#[tokio::test]
async fn interleaved_callers_are_both_denied() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let connection = &mut place.connection;
    for now in START_MS..START_MS + 4 {
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 5).await;
        assert!(admits.unwrap());
    }
    // Only one of the two callers fits.
    let callers = [START_MS + 10, START_MS + 11];
    for now in callers {
        let written = published::sorted_set_in_pipeline_writes(connection, &key, now).await;
        written.unwrap();
    }
    for now in callers {
        let admits = published::sorted_set_in_pipeline_counts(connection, &key, now, 60, 5).await;
        assert!(!admits.unwrap());
    }

    let limiter = place.strict(5, 60);
    assert_eq!(admitted(&limiter, "key", 4).await, 4);
    assert_eq!(admitted_at_once(limiter, 2).await, 1);
}

#[tokio::test]
async fn a_fast_clock_forgets_what_others_did() {
    let mut place = Place::new().await;
    let key = place.key("user");
    // Six callers within a tenth of a second, one of whose clocks is 61 seconds fast.
    let right = (0..5).map(|call| START_MS + call);
    let fast = [START_MS + 61_000];
    let right_again = (0..10).map(|call| START_MS + 10 + call);
    let mut by_original = 0;
    for now in right.chain(fast).chain(right_again) {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, &key, now, 60, 5).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 10);

    // The store uses the server's clock, not the callers' clocks.
    let limiter = place.strict(5, 60);
    assert_eq!(admitted(&limiter, "key", 16).await, 5);
}

#[tokio::test]
async fn a_count_before_the_trim_denies_a_call_that_fits() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let calls = [0, 10, 20, 30, 40, 95].map(|second| START_MS + 1_000 * second);
    let mut answers = Vec::new();
    for now in calls {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_script(connection, &key, now, 60, 5).await;
        answers.push(admits.unwrap());
    }
    // Of the first five calls, only the fifth is within a window of the last.
    assert_eq!(answers, [true, true, true, true, true, false]);

    let limiter = place.strict(5, 60);
    assert_eq!(admitted_at(&limiter, "key", calls).await, 6);
}

#[tokio::test]
async fn calls_of_one_second_count_once() {
    let mut place = Place::new().await;
    let (second, minute) = (place.key("second"), place.key("minute"));
    let (mut in_a_second, mut in_a_minute) = (0, 0);
    for call in 0..600 {
        let connection = &mut place.connection;
        let admits = published::sorted_set_of_seconds(connection, &second, START_S, 60, 5).await;
        in_a_second += u64::from(admits.unwrap());
        let now = START_S + call / 10;
        let admits = published::sorted_set_of_seconds(connection, &minute, now, 60, 100).await;
        in_a_minute += u64::from(admits.unwrap());
    }
    assert_eq!((in_a_second, in_a_minute), (600, 600));

    let limiter = place.strict(5, 60);
    let calls = (0..600).map(|call| START_MS + call);
    assert_eq!(admitted_at(&limiter, "second", calls).await, 5);
    let limiter = place.strict(100, 60);
    let calls = (0..600).map(|call| START_MS + 100 * call);
    assert_eq!(admitted_at(&limiter, "minute", calls).await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_before_the_write_admits_every_racer() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let connection = &mut place.connection;
    let mut by_original = 0;
    // All twenty callers count before the first of them writes.
    for _ in 0..20 {
        let admits =
            published::sorted_set_of_seconds_counts(connection, &key, START_S, 60, 1).await;
        by_original += u64::from(admits.unwrap());
    }
    for _ in 0..20 {
        let written = published::sorted_set_of_seconds_writes(connection, &key, START_S, 60).await;
        written.unwrap();
    }
    assert_eq!(by_original, 20);

    assert_eq!(admitted_at_once(place.strict(1, 60), 20).await, 1);
}

#[tokio::test]
async fn a_window_closed_at_both_ends_lasts_a_second_longer() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let mut answers = Vec::new();
    for now in [0, 60, 61].map(|second| START_S + second) {
        let connection = &mut place.connection;
        let admits = published::sorted_set_of_seconds(connection, &key, now, 60, 1).await;
        answers.push(admits.unwrap());
    }
    assert_eq!(answers, [true, false, true]);

    let limiter = place.strict(1, 60);
    let calls = [START_MS, START_MS + 60_000];
    assert_eq!(admitted_at(&limiter, "key", calls).await, 2);
}

#[tokio::test]
async fn a_sorted_set_without_an_expiry_stays() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let admits =
        published::sorted_set_of_seconds(&mut place.connection, &key, START_S, 60, 5).await;
    assert!(admits.unwrap());
    assert_eq!(place.ask::<i64>("TTL", &key).await, -1);

    assert_eq!(admitted(&place.strict(5, 60), "key", 1).await, 1);
    let own = place.own_key().await;
    let left = place.ask::<i64>("PTTL", own).await;
    assert!((1..=60_001).contains(&left), "{left}");
}

#[tokio::test]
async fn milliseconds_of_a_month_overflow_32_bits() {
    const MONTH_S: i32 = 30 * 24 * 60 * 60;
    let mut place = Place::new().await;
    let key = place.key("user");
    // In 32 bits, a month of milliseconds is negative, so the trim reaches into the future.
    let start = i64::try_from(START_MS).unwrap();
    let mut by_original = 0;
    for call in 0..100 {
        let connection = &mut place.connection;
        let admits = published::sorted_set_of_ints(connection, &key, start + call, MONTH_S, 5);
        by_original += u64::from(admits.await.unwrap());
    }
    assert_eq!(by_original, 100);

    let limiter = place.strict(5, u64::from(MONTH_S.unsigned_abs()));
    let calls = (0..100).map(|call| START_MS + call);
    assert_eq!(admitted_at(&limiter, "key", calls).await, 5);
}

#[tokio::test]
async fn a_stray_exec_fails_after_counting() {
    let mut place = Place::new().await;
    let key = place.key("user");
    for call in 0..10 {
        let connection = &mut place.connection;
        let now = START_MS + call;
        let outcome = published::sorted_set_with_a_stray_end(connection, &key, now, 60, 5).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("EXEC without MULTI"), "{error}");
    }
    assert_eq!(place.ask::<u64>("ZCARD", &key).await, 10);

    let calls = (0..10).map(|call| START_MS + call);
    assert_eq!(admitted_at(&place.strict(5, 60), "key", calls).await, 5);
}

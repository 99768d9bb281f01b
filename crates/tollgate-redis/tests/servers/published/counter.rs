//! One counter with an expiry: set by the first call, by one command, or in a transaction.

use std::time::{Duration, Instant};

use redis::RedisResult;
use tollgate_core::{ErrorKind, FixedWindow, Quota};
use tollgate_redis::redis;
use tollgate_testkit::Flavor;

use super::support::{Place, START_MS, admitted, admitted_at, at_ms, log};
use tollgate_scenarios::published;

#[tokio::test]
async fn a_window_that_the_first_call_opens_admits_nearly_twice_as_many() {
    // Five a second: four calls just before the window ends, and five after, are all admitted.
    let place = nine_calls_pass(Form::SetByTheFirst).await;

    let window = Quota::new(5, Duration::from_secs(1)).unwrap();
    let calls = [0, 900, 900, 900, 900, 1_000, 1_000, 1_000, 1_000, 1_000];
    let calls = calls.map(|millis| START_MS + millis);
    // The store's anchored window also admits nine after the first: that is its bound. A log admits
    // five.
    let anchored = place.limiter(FixedWindow::anchored(window));
    assert_eq!(admitted_at(&anchored, "key", calls).await, 1 + 9);
    assert_eq!(admitted_at(&place.strict(5, 1), "key", calls).await, 1 + 5);
}

#[tokio::test]
async fn a_window_in_a_transaction_admits_nearly_twice_as_many() {
    let place = nine_calls_pass(Form::InTransaction).await;

    // Five a second, with four calls late in the window and five after it. A log admits five per
    // second.
    let late = [0, 900, 900, 900, 900].map(|millis| START_MS + millis);
    let limiter = place.strict(5, 1);
    assert_eq!(admitted_at(&limiter, "key", late).await, 5);
    let next = [START_MS + 1_000; 5];
    assert_eq!(admitted_at(&limiter, "key", next).await, 1);
}

/// Counters whose windows are opened by the first call.
#[derive(Clone, Copy)]
enum Form {
    SetByTheFirst,
    InTransaction,
}

impl Form {
    /// Calls once, at five a second.
    async fn admits(self, place: &mut Place, key: &str) -> bool {
        let connection = &mut place.connection;
        let admits = match self {
            Self::SetByTheFirst => published::counter_set_by_the_first(connection, key, 1, 5).await,
            Self::InTransaction => published::counter_in_transaction(connection, key, 1, 5).await,
        };
        admits.unwrap()
    }
}

/// Checks that `form` admits nine calls within a second, and returns the place of its key.
async fn nine_calls_pass(form: Form) -> Place {
    loop {
        let mut place = Place::new().await;
        let key = place.key("user");
        if let Some(admitted) = nine_calls_within_a_second(&mut place, &key, form).await {
            assert_eq!(admitted, 9);
            return place;
        }
    }
}

/// Returns how many of nine calls were admitted, or `None` if they took over a second.
async fn nine_calls_within_a_second(place: &mut Place, key: &str, form: Form) -> Option<u64> {
    assert!(form.admits(place, key).await);
    while place.ask::<i64>("PTTL", key).await > 300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = Instant::now();
    let mut admitted = 0;
    for _ in 0..4 {
        admitted += u64::from(form.admits(place, key).await);
    }
    if place.ask::<Option<u64>>("GET", key).await != Some(5) {
        return None;
    }
    place.wait_until_expired(key).await;
    for _ in 0..5 {
        admitted += u64::from(form.admits(place, key).await);
    }
    (started.elapsed() < Duration::from_secs(1)).then_some(admitted)
}

#[tokio::test]
async fn a_limit_of_zero_admits_the_first_call() {
    let mut place = Place::new().await;
    let keys = ["first", "at_once", "then_read"].map(|name| place.key(name));
    let mut by_original = [0, 0, 0];
    for _ in 0..10 {
        let connection = &mut place.connection;
        let answers = [
            published::counter_set_by_the_first(connection, &keys[0], 60, 0).await,
            published::counter_set_and_read_at_once(connection, &keys[1], 60, 0).await,
            published::counter_set_then_read(connection, &keys[2], 60, 0).await,
        ];
        for (admitted, answer) in by_original.iter_mut().zip(answers) {
            *admitted += u64::from(answer.unwrap());
        }
    }
    assert_eq!(by_original, [1, 1, 0]);

    let anchored = place.limiter(FixedWindow::anchored(Quota::per_minute(0)));
    assert_eq!(admitted(&anchored, "key", 10).await, 0);
    assert_eq!(admitted(&place.strict(0, 60), "key", 10).await, 0);
}

#[tokio::test]
async fn a_counter_without_an_expiry_denies_for_ever() {
    let mut place = Place::new().await;
    // A restored backup or a stray `PERSIST` can leave a counter like this.
    let keys = ["first", "at_once", "then_read"].map(|name| place.key(name));
    for key in &keys {
        let () = place.ask("SET", (key, 5)).await;
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let connection = &mut place.connection;
    let answers = [
        published::counter_set_by_the_first(connection, &keys[0], 1, 5).await,
        published::counter_set_and_read_at_once(connection, &keys[1], 1, 5).await,
        published::counter_set_then_read(connection, &keys[2], 1, 5).await,
    ];
    assert_eq!(answers.map(Result::unwrap), [false; 3]);
    for key in &keys {
        assert_eq!(place.ask::<i64>("TTL", key).await, -1);
    }

    // The state contains the window's end; the TTL only frees memory.
    let limiter = place.limiter(FixedWindow::anchored(Quota::per_second(5)));
    let start = limiter.check("key").cost(5).at(at_ms(START_MS)).await;
    assert!(start.unwrap().is_allowed());
    let own = place.own_key().await;
    let () = place.ask("PERSIST", &own).await;
    assert_eq!(place.ask::<i64>("TTL", &own).await, -1);
    let calls = [START_MS + 999, START_MS + 1_000];
    assert_eq!(admitted_at(&limiter, "key", calls).await, 1);
    assert!(place.ask::<i64>("PTTL", &own).await > 0);
}

#[tokio::test]
async fn a_shortened_period_does_not_shorten_waits() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let connection = &mut place.connection;
    let admits = published::counter_set_by_the_first(connection, &key, 3_600, 1).await;
    assert!(admits.unwrap());
    let admits = published::counter_set_by_the_first(connection, &key, 60, 1).await;
    assert!(!admits.unwrap());
    let left = place.ask::<i64>("TTL", &key).await;
    assert!(left > 3_000, "{left}");

    // A log applies the new window to what it holds.
    let hourly = place.limiter(log(1, 3_600));
    assert_eq!(admitted_at(&hourly, "key", [START_MS]).await, 1);
    let minutely = place.limiter(log(1, 60));
    let soon = minutely.peek("key").at(at_ms(START_MS + 1_000)).await;
    assert_eq!(soon.unwrap().reset_after().as_secs_ceil(), Some(59));
    let calls = [START_MS + 59_999, START_MS + 60_000];
    assert_eq!(admitted_at(&minutely, "key", calls).await, 1);
}

#[tokio::test]
async fn a_counter_of_denied_calls_outgrows_its_limit() {
    let mut place = Place::new().await;
    let key = place.key("user");
    let mut by_original = 0;
    for _ in 0..100 {
        let admits = published::counter_in_transaction(&mut place.connection, &key, 60, 5).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 5);
    // The counter is past 5, and still past 50 when the limit is raised.
    assert_eq!(place.ask::<u64>("GET", &key).await, 100);
    let admits = published::counter_in_transaction(&mut place.connection, &key, 60, 50).await;
    assert!(!admits.unwrap());

    let limiter = place.limiter(FixedWindow::anchored(Quota::per_minute(5)));
    assert_eq!(admitted_at(&limiter, "key", [START_MS; 100]).await, 5);
    let raised = place.limiter(FixedWindow::anchored(Quota::per_minute(50)));
    assert_eq!(admitted_at(&raised, "key", [START_MS; 100]).await, 45);
    // Without scripts, denied calls do not count either, but another amount has its own counter.
    let plain = place.plain(FixedWindow::anchored(Quota::per_minute(5)));
    assert_eq!(admitted(&plain, "key", 100).await, 5);
    let raised = place.plain(FixedWindow::anchored(Quota::per_minute(50)));
    assert_eq!(admitted(&raised, "key", 100).await, 50);
}

#[tokio::test]
async fn a_period_of_part_of_a_second_is_an_error() {
    let mut place = Place::new().await;
    let mut command = redis::cmd("SET");
    command.arg(place.key("user")).arg(1).arg("EX").arg("1.5");
    let outcome: RedisResult<()> = command.query_async(&mut place.connection).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("not an integer"), "{error}");

    let quota = Quota::new(1, Duration::from_millis(1_500)).unwrap();
    let limiter = place.limiter(FixedWindow::anchored(quota));
    let calls = [0, 1_499, 1_500].map(|millis| START_MS + millis);
    assert_eq!(admitted_at(&limiter, "key", calls).await, 2);
}

#[tokio::test]
async fn options_of_newer_servers_are_errors_on_redis_6_2() {
    let mut place = Place::on(Flavor::Redis62).await;
    let keys = ["at_once", "transaction"].map(|name| place.key(name));
    let connection = &mut place.connection;
    let at_once = published::counter_set_and_read_at_once(connection, &keys[0], 60, 5).await;
    let error = at_once.unwrap_err().to_string();
    assert!(error.contains("syntax error"), "{error}");
    let transaction = published::counter_in_transaction(connection, &keys[1], 60, 5).await;
    let error = transaction.unwrap_err().to_string();
    assert!(error.contains("wrong number of arguments"), "{error}");

    let limiter = place.limiter(FixedWindow::anchored(Quota::per_minute(5)));
    assert_eq!(admitted(&limiter, "key", 10).await, 5);
    // Without scripts, only a command of Redis 7.0 keeps the window's end unchanged.
    let plain = place.plain(FixedWindow::anchored(Quota::per_minute(5)));
    let error = plain.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Redis 7.0"), "{error}");
}

//! What becomes of calls while a database fails: each ends soon, with the right error, and none is counted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_sql::{ErrorKind, RateLimiter, SqlRows, SqlStore, sqlx};
use tollgate_testkit::Postgres;

use super::relay::Relay;
use super::{Database, limiter};

const LIMIT: &str = "limit=fixed-window:1000000/1h";

async fn run(on: &Postgres, statement: &'static str) {
    let mut connection = PgConnection::connect(&on.url()).await.unwrap();
    let done = connection.execute(sqlx::raw_sql(statement)).await;
    let _ = done.unwrap();
}

/// How many calls have ended in which way.
#[derive(Debug, Default)]
struct Tally {
    allowed: AtomicU64,
    unavailable: AtomicU64,
    unknown: AtomicU64,
    others: AtomicU64,
}

impl Tally {
    /// Checks that as many units were counted as calls were allowed, or nobody knows.
    async fn check(&self, limiter: &RateLimiter<SqlStore>) {
        let left = limiter.peek("key").await.unwrap().remaining();
        let counted = 1_000_000 - left;
        let allowed = self.allowed.load(Ordering::SeqCst);
        let most = allowed + self.unknown.load(Ordering::SeqCst);
        assert!((allowed..=most).contains(&counted), "{counted} of {self:?}");
        assert_eq!(self.others.load(Ordering::SeqCst), 0, "{self:?}");
    }
}

/// Calls from eight tasks while `trouble` lasts, and a little longer.
async fn calls_during(
    limiter: &RateLimiter<SqlStore>,
    trouble: impl Future<Output = ()>,
) -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (limiter, tally, is_over) = (limiter.clone(), Arc::clone(&tally), Arc::clone(&is_over));
        drop(tasks.spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let began = Instant::now();
                let counter = match limiter.check("key").await {
                    Ok(decision) if decision.is_allowed() => &tally.allowed,
                    Err(error) if error.kind() == ErrorKind::Unavailable => &tally.unavailable,
                    Err(error) if error.kind() == ErrorKind::Unknown => &tally.unknown,
                    _ => &tally.others,
                };
                let _ = counter.fetch_add(1, Ordering::SeqCst);
                assert!(
                    began.elapsed() < Duration::from_secs(10),
                    "a call took {:?}",
                    began.elapsed()
                );
            }
        }));
    }
    trouble.await;
    sleep(Duration::from_millis(500)).await;
    is_over.store(true, Ordering::SeqCst);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_restarted_counts_every_call_once() {
    let server = Postgres::start();
    let limiter = limiter(&server.url(), LIMIT).await;
    let tally = calls_during(&limiter, async {
        // Calls wait for a server that is back soon.
        for down in [100, 300, 3_000] {
            sleep(Duration::from_millis(300)).await;
            server.kill();
            sleep(Duration::from_millis(down)).await;
            server.restart();
        }
    });
    let tally = tally.await;
    tally.check(&limiter).await;
    assert!(tally.unavailable.load(Ordering::SeqCst) > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_a_synchronous_standby_loses_no_call() {
    let server = Postgres::start();
    let standby = server.standby();
    run(&server, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    run(&server, "SELECT pg_reload_conf()").await;
    let relay = Relay::start(server.address()).await;
    let limiter = limiter(&relay.url(), LIMIT).await;
    let tally = calls_during(&limiter, async {
        sleep(Duration::from_millis(500)).await;
        server.kill();
        relay.lead_to(standby.address());
        run(&standby, "SELECT pg_promote()").await;
        run(&standby, "ALTER SYSTEM RESET synchronous_standby_names").await;
        run(&standby, "SELECT pg_reload_conf()").await;
    });
    let tally = tally.await;
    tally.check(&limiter).await;
    assert!(tally.allowed.load(Ordering::SeqCst) > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_at_any_moment_count_every_call_once() {
    let server = Postgres::start();
    let relay = Relay::start(server.address()).await;
    let limiter = limiter(&relay.url(), LIMIT).await;
    let tally = calls_during(&limiter, async {
        for cut in 0..150 {
            sleep(Duration::from_millis(5 + cut * 7 % 20)).await;
            relay.cut();
        }
    });
    let tally = tally.await;
    tally.check(&limiter).await;
    assert!(tally.allowed.load(Ordering::SeqCst) > 50, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fall_silent_are_replaced() {
    let server = Postgres::start();
    let relay = Relay::start(server.address()).await;
    let limiter = limiter(&relay.url(), LIMIT).await;
    let calls = async |is_mute| {
        relay.mute(is_mute);
        let mut tasks = JoinSet::new();
        for key in 0..8 {
            let limiter = limiter.clone();
            drop(tasks.spawn(async move {
                let call = limiter.check(&format!("key {key}")).await;
                assert_eq!(call.is_err(), is_mute);
            }));
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    // All connections of the pool are open, and each waits for a reply.
    let lock = "BEGIN; LOCK TABLE tollgate_states; SELECT pg_sleep(0.5); COMMIT";
    let _ = tokio::join!(run(&server, lock), async {
        sleep(Duration::from_millis(100)).await;
        calls(false).await;
    });
    calls(true).await;
    relay.mute(false);
    sleep(Duration::from_secs(13)).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_reply_is_lost_after_the_commit_is_counted_once() {
    let server = Postgres::start();
    let relay = Relay::start(server.address()).await;
    let limiter = limiter(&relay.url(), LIMIT).await;
    let direct = super::limiter(&server.url(), LIMIT).await;
    // Its change is held up, so that the reply can be muted in time.
    assert!(limiter.check("key").await.unwrap().is_allowed());
    run(&server, "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$; \
         CREATE TRIGGER pause BEFORE UPDATE ON tollgate_states FOR EACH ROW EXECUTE FUNCTION pause()").await;
    let call = async { limiter.check("key").await };
    let trouble = async {
        sleep(Duration::from_millis(100)).await;
        relay.mute(true);
        sleep(Duration::from_millis(500)).await;
        relay.mute(false);
        relay.cut();
    };
    let (decision, ()) = tokio::join!(call, trouble);
    // The store finds its change.
    assert_eq!(decision.unwrap().remaining(), 999_998);
    assert_eq!(direct.peek("key").await.unwrap().remaining(), 999_998);
}

/// Checks that calls fail with `kind` soon, that none of them is counted, and that they go on after `mend`.
async fn refuses(limiter: &RateLimiter<SqlStore>, kind: ErrorKind, mend: impl Future<Output = ()>) {
    let before = Instant::now();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(before.elapsed() < Duration::from_secs(5));
    mend.await;
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 999_998);
}

#[tokio::test]
async fn a_statement_that_the_server_refuses_counts_nothing() {
    let server = Postgres::start();
    let limiter = limiter(&server.url(), LIMIT).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
    // A proxy that lost the server, which may have counted the call; a table with other columns; a disk that is full,
    // a statement that took too long, a standby, no memory.
    for (code, kind) in [
        ("08P01", ErrorKind::Unknown),
        ("40003", ErrorKind::Unknown),
        ("22003", ErrorKind::Misconfigured),
        ("23502", ErrorKind::Misconfigured),
        ("53100", ErrorKind::Unavailable),
        ("57014", ErrorKind::Unavailable),
        ("25006", ErrorKind::Unavailable),
        ("53200", ErrorKind::Unavailable),
    ] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$; \
             CREATE OR REPLACE TRIGGER refuse BEFORE UPDATE ON tollgate_states FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        run(&server, refuse.leak()).await;
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{code}: {error:?}");
    }
    let mend = run(&server, "DROP TRIGGER refuse ON tollgate_states");
    refuses(&limiter, ErrorKind::Unavailable, mend).await;
}

#[tokio::test]
async fn a_missing_table_or_a_row_of_another_program_is_an_error_that_says_so() {
    let server = Postgres::start();
    let limiter = limiter(&server.url(), LIMIT).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
    run(&server, "ALTER TABLE tollgate_states RENAME TO elsewhere").await;
    let mend = run(&server, "ALTER TABLE elsewhere RENAME TO tollgate_states");
    refuses(&limiter, ErrorKind::Misconfigured, mend).await;
    run(&server, "UPDATE tollgate_states SET version = -1").await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error:?}");
}

#[tokio::test]
async fn a_pool_without_a_free_connection_is_unavailable() {
    let server = Postgres::start();
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_millis(300));
    let pool = pool.connect(&server.url()).await.unwrap();
    let store = SqlStore::new(SqlRows::postgres(pool.clone(), "limits").await.unwrap());
    let limiter = RateLimiter::new(store, [LIMIT]).unwrap();
    assert!(limiter.check("key").await.unwrap().is_allowed());
    let taken = pool.acquire().await.unwrap();
    refuses(&limiter, ErrorKind::Unavailable, async { drop(taken) }).await;
}

#[tokio::test]
async fn a_row_that_others_lock_is_an_error_in_time_and_counts_nothing() {
    let server = Postgres::start();
    let limiter = limiter(&server.url(), LIMIT).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    let lock = transaction
        .execute("SELECT * FROM tollgate_states FOR UPDATE")
        .await;
    let _ = lock.unwrap();
    let began = Instant::now();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(4));
    // Other keys go on.
    assert!(limiter.check("other").await.unwrap().is_allowed());
    transaction.rollback().await.unwrap();
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 999_998);
}

#[tokio::test]
async fn who_may_not_create_the_table_is_told_the_statement() {
    let server = Postgres::start();
    run(&server, "CREATE ROLE limits LOGIN").await;
    let url = server.url().replace("postgres@", "limits@");
    let error = SqlStore::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let told = error.to_string();
    let statement = told.split('`').nth(1).unwrap().to_owned();
    run(&server, statement.leak()).await;
    run(
        &server,
        "GRANT SELECT, INSERT, UPDATE, DELETE ON tollgate_states TO limits",
    )
    .await;
    let limiter = limiter(&url, LIMIT).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn composites_in_any_order_never_deadlock_at_any_isolation_level() {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let set =
            format!("ALTER DATABASE postgres SET default_transaction_isolation = '{isolation}'");
        never_deadlocks(set.leak()).await;
    }
}

async fn never_deadlocks(set: &'static str) {
    let server = Postgres::start();
    run(&server, set).await;
    let limits = [
        "a=fixed-window:1000000/1h",
        "b=fixed-window:1000000/1h",
        "c=fixed-window:1000000/1h",
    ];
    let mut tasks = JoinSet::new();
    for process in 0..8_u64 {
        let store = SqlStore::connect(&server.url()).await.unwrap();
        let limiter = RateLimiter::new(store, limits).unwrap();
        drop(tasks.spawn(async move {
            for call in 0..60 {
                let [a, b, c] =
                    [1, 2, 5].map(|by| format!("key {}", (process * 7 + call * by) % 3));
                let call = limiter.check(&a).key_of("b", &b).key_of("c", &c);
                assert!(call.await.unwrap().is_allowed());
            }
        }));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let deadlocks = sqlx::query_scalar("SELECT sum(deadlocks)::bigint FROM pg_stat_database");
    let deadlocks: i64 = deadlocks.fetch_one(&mut connection).await.unwrap();
    let counted = sqlx::query_scalar("SELECT count(*) FROM tollgate_states");
    let rows: i64 = counted.fetch_one(&mut connection).await.unwrap();
    assert_eq!((deadlocks, rows), (0, 9));
    let limiter = limiter(&server.url(), limits[0]).await;
    let mut left = 0;
    for key in ["key 0", "key 1", "key 2"] {
        left += limiter.peek(key).await.unwrap().remaining();
    }
    assert_eq!(left, 3_000_000 - 480);
}

#[tokio::test]
async fn a_file_keeps_limits_after_a_restart_and_a_full_one_counts_nothing() {
    let folder = tempfile::TempDir::start();
    let first = limiter(&folder.url(), LIMIT).await;
    assert!(first.check("key").await.unwrap().is_allowed());
    drop(first);
    // No page more than there are.
    let full = SqlitePoolOptions::new().max_connections(1);
    let full = full.after_connect(|connection, _| {
        Box::pin(async move {
            let _ = connection.execute("PRAGMA max_page_count = 1").await?;
            Ok(())
        })
    });
    let pool = full.connect(&folder.url()).await.unwrap();
    let store = SqlStore::new(SqlRows::sqlite(pool, "tollgate_states").await.unwrap());
    let full = RateLimiter::new(store, [LIMIT]).unwrap();
    let mut kinds = Vec::new();
    for key in 0..100 {
        kinds.extend(
            full.check(&format!("key {key}"))
                .await
                .err()
                .map(|error| error.kind()),
        );
    }
    assert!(
        !kinds.is_empty() && kinds.iter().all(|kind| *kind == ErrorKind::Unavailable),
        "{kinds:?}"
    );
    let again = limiter(&folder.url(), LIMIT).await;
    assert_eq!(again.check("key").await.unwrap().remaining(), 999_998);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_begin_at_once_make_one_file() {
    for _ in 0..5 {
        let folder = tempfile::TempDir::start();
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let url = folder.url();
            drop(tasks.spawn(async move { SqlStore::connect(&url).await.unwrap() }));
        }
        while let Some(done) = tasks.join_next().await {
            let limiter = RateLimiter::new(done.unwrap(), [LIMIT]).unwrap();
            assert!(limiter.check("key").await.unwrap().is_allowed());
        }
        let left = limiter(&folder.url(), LIMIT)
            .await
            .peek("key")
            .await
            .unwrap()
            .remaining();
        assert_eq!(left, 1_000_000 - 16);
    }
}

#[tokio::test]
async fn addresses_and_names_that_are_wrong_are_refused() {
    for url in [
        "mysql://host/db",
        "postgres",
        "postgres://host:port/db",
        "sqlite:/no/such/folder/limits.db",
        "sqlite::memory:",
        "sqlite:",
        "sqlite:limits?mode=memory",
    ] {
        let error = SqlStore::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}: {error:?}");
    }
    let folder = tempfile::TempDir::start();
    let pool = SqlitePoolOptions::new()
        .connect(&format!("{}?mode=rwc", folder.url()))
        .await
        .unwrap();
    for name in ["", "1st", "a b", "a;", "a\"", &"a".repeat(64)] {
        let error = SqlRows::sqlite(pool.clone(), name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}");
    }
}

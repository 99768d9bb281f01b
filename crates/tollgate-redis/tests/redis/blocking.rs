//! A program without async code.

use std::thread;
use std::time::Duration;

use tollgate_redis::lease::ConcurrencyLimiter;
use tollgate_redis::schedule::Schedule;
use tollgate_redis::{ErrorKind, RateLimiter, RedisStore, Timestamp};
use tollgate_testkit::{Flavor, Server};
use tollgate_tokio::Blocking;

#[test]
fn a_program_without_async_code_limits_plans_and_leases() {
    let server = Server::start(Flavor::System);
    let connect = || Blocking::connect(RedisStore::connect(server.url())).unwrap();
    let limiter = RateLimiter::new(connect(), ["login=sliding-log:8/1h"]).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| limiter.check("alice").run().unwrap());
        }
    });
    assert!(limiter.check("alice").run().unwrap().is_denied());

    let schedule = Schedule::new(connect(), "reminders", ["1/1m"]).unwrap();
    let late = Timestamp::from_micros(9_000_000_000_000_000).unwrap();
    let _ = schedule.reset("alice").run();
    assert!(
        schedule
            .cancel("alice", "none")
            .run()
            .is_ok_and(|is_cancelled| !is_cancelled)
    );
    assert!(schedule.add("alice", "msg-1", late).run().is_ok());

    let uploads =
        ConcurrencyLimiter::new(connect(), "uploads", 1, Duration::from_secs(30)).unwrap();
    assert!(uploads.acquire("alice", "one").run().unwrap().is_granted());
    assert!(!uploads.acquire("alice", "two").run().unwrap().is_granted());
    uploads.reset("alice").run().unwrap();

    server.pause();
    let error = limiter.check("bob").run().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable),
        "{error}"
    );
    server.resume();
    limiter.reset("bob").run().unwrap();
}

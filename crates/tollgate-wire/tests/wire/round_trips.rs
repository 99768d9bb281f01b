//! One decision is one command, and one reading of the server's clock, however many limits it names.

use std::fmt::Write;

use tollgate_core::Limit;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::{Options, TimeSource, WireStore};

use crate::engine::{LIMITS, Raw, fresh, limit, now};

/// One limit alone of each algorithm, and composites: two and four run straight, five and thirty-two,
/// the most that there may be, in a loop.
fn requests() -> Vec<Vec<Limit>> {
    let several = |count| LIMITS.into_iter().cycle().take(count).map(limit).collect();
    let alone = LIMITS.iter().map(|text| vec![limit(text)]);
    alone.chain([2, 4, 5, 32].map(several)).collect()
}

/// Decides each of `requests` in every way, and calls `decided` with the name of each decision.
fn decide_all(store: &WireStore<Raw>, requests: &[Vec<Limit>], mut decided: impl FnMut(&str)) {
    for limits in requests {
        // One key each, or two equal limits would share their state.
        let keys: Vec<_> = limits.iter().map(|_| fresh("k")).collect();
        let mut decide = |operation, cost| {
            let checks = limits.iter().zip(&keys);
            let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
            let decision = now(store.execute(&Request::new(operation, &checks))).unwrap();
            let first = limits[0].algorithm();
            decided(&format!("{operation:?} of {} from {first}", limits.len()));
            decision.into_receipt()
        };
        decide(Operation::Peek, 1);
        let receipt = decide(Operation::Consume, 2).expect("what was consumed");
        decide(Operation::TakeUpTo, 1);
        // More than any of them admits at once.
        decide(Operation::Consume, 100);
        decide(Operation::TakeUpTo, 100);
        decide(Operation::Refund(&receipt), 0);
    }
}

#[test]
fn a_decision_is_one_command_and_reads_the_clock_once() {
    let requests = requests();
    for flavor in Flavor::chosen() {
        // A server counts what it has run for all of its clients together.
        let server = Server::start(flavor);
        for (clock, readings) in [(TimeSource::Server, 1), (TimeSource::Caller, 0)] {
            let options = Options::new().with_time_source(clock);
            let store = WireStore::new(Raw::over(server.connection(), None), options);
            let count = || ["evalsha", "script|load", "script", "time"].map(|c| server.calls(c));
            // So that every script is there.
            decide_all(&store, &requests, |_| {});
            server.command(&["CONFIG", "RESETSTAT"]);
            let mut expected = [0; 4];
            decide_all(&store, &requests, |what| {
                expected[0] += 1;
                expected[3] += readings;
                assert_eq!(count(), expected, "{what}, by {clock:?} on {flavor}");
            });
        }
    }
}

/// What a decision about keys of five bytes sends and gets, in bytes, and the commands that the
/// server runs for it.
const COSTS: &str = "\
1 from gcra:10/1h, allowed: 167 + 42; evalsha 1, get 1, set 1, time 1
1 from gcra:10/1h, denied: 167 + 42; evalsha 1, get 1, time 1
1 from gcra:7/1h,burst=3, allowed: 167 + 42; evalsha 1, get 1, set 1, time 1
1 from gcra:7/1h,burst=3, denied: 167 + 42; evalsha 1, get 1, time 1
1 from fixed-window:10/1h, allowed: 194 + 42; evalsha 1, get 1, set 1, time 1
1 from fixed-window:10/1h, denied: 194 + 42; evalsha 1, get 1, time 1
1 from fixed-window:10/1h,anchored, allowed: 195 + 42; evalsha 1, get 1, set 1, time 1
1 from fixed-window:10/1h,anchored, denied: 195 + 42; evalsha 1, get 1, time 1
1 from sliding-counter:10/1h, allowed: 197 + 42; evalsha 1, get 1, set 1, time 1
1 from sliding-counter:10/1h, denied: 197 + 42; evalsha 1, get 1, time 1
1 from sliding-buckets:10/1h,buckets=4, allowed: 191 + 74; evalsha 1, get 1, set 1, time 1
1 from sliding-buckets:10/1h,buckets=4, denied: 191 + 74; evalsha 1, get 1, time 1
1 from sliding-log:10/1h, allowed: 166 + 58; evalsha 1, lrange 1, pexpire 1, rpush 1, time 1
1 from sliding-log:10/1h, denied: 166 + 58; evalsha 1, lindex 2, llen 1, lrange 1, time 1
1 from sliding-log:10/1h,count-denied, allowed: 166 + 58; evalsha 1, lrange 1, pexpire 1, rpush 1, time 1
1 from sliding-log:10/1h,count-denied, denied: 166 + 58; evalsha 1, lindex 1, llen 2, lrange 1, lset 1, ltrim 1, pexpire 1, rpush 1, time 1
1 from fixed-window:10/month@Europe/Berlin, allowed: 206 + 42; evalsha 1, get 1, set 1, time 1
1 from fixed-window:10/month@Europe/Berlin, denied: 206 + 42; evalsha 1, get 1, time 1
2 from gcra:10/1h, allowed: 240 + 68; evalsha 1, get 2, set 2, time 1
2 from gcra:10/1h, denied: 240 + 68; evalsha 1, get 2, time 1
4 from gcra:10/1h, allowed: 442 + 121; evalsha 1, get 4, set 4, time 1
4 from gcra:10/1h, denied: 442 + 121; evalsha 1, get 4, time 1
5 from gcra:10/1h, allowed: 665 + 147; evalsha 1, get 5, set 5, time 1
5 from gcra:10/1h, denied: 665 + 147; evalsha 1, get 5, time 1
";

#[test]
fn a_decision_takes_so_many_bytes_and_commands() {
    let server = Server::start(Flavor::System);
    let store = WireStore::new(Raw::over(server.connection(), None), Options::new());
    let mut costs = String::new();
    // No window ends during the test.
    let all = || LIMITS.iter().map(|text| limit(&text.replace("/1s", "/1h")));
    let alone = all().map(|limit| vec![limit]);
    let several = |count: usize| all().take(count).collect();
    for limits in alone.chain([2, 4, 5].map(several)) {
        server.command(&["FLUSHALL"]);
        let most = limits.iter().map(|limit| limit.algorithm().capacity());
        for cost in [1, most.min().unwrap()] {
            let checks: Vec<_> = limits
                .iter()
                .zip(["key-0", "key-1", "key-2", "key-3", "key-4"])
                .map(|(limit, key)| Check::new(limit, key, cost))
                .collect();
            let request = Request::new(Operation::Consume, &checks);
            // So that the script is there.
            let _ = now(store.execute(&Request::new(Operation::Consume, &checks)));
            server.command(&["CONFIG", "RESETSTAT"]);
            let decision = now(store.execute(&request)).unwrap();
            let ran = commands(&server);
            let (sent, told) = store.engine().bytes();
            let first = limits[0].algorithm();
            let count = limits.len();
            let how = if decision.is_allowed() {
                "allowed"
            } else {
                "denied"
            };
            writeln!(costs, "{count} from {first}, {how}: {sent} + {told}; {ran}").unwrap();
        }
    }
    assert_eq!(costs, COSTS, "\n{costs}");
}

/// Returns the commands that a server has run since its statistics were reset, and how often, without
/// those that ask for it.
fn commands(server: &Server) -> String {
    let stats = server.command(&["INFO", "commandstats"]);
    let lines = stats.text().unwrap().lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let (calls, _) = rest.split_once(',')?;
        (name != "info" && !name.starts_with("config")).then(|| format!("{name} {calls}"))
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.join(", ")
}

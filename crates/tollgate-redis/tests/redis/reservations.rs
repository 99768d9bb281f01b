//! Several processes reserve starts of one key at once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use tollgate_redis::{Limit, RateLimiter, RedisStore};
use tollgate_testkit::{Flavor, Server};

const PROCESSES: usize = 8;
const CALLS: usize = 200;
/// Starts are 2/3 of a millisecond apart, rounded up to whole microseconds.
const LIMIT: &str = "mail=gcra:3/2ms,burst=1";
/// Tells a process the server's URL, and the file to write to.
const VARIABLE: &str = "TOLLGATE_RESERVATIONS";

#[test]
fn starts_of_several_processes_are_spaced_and_in_order() {
    let server = Server::start(Flavor::System);
    let files: Vec<_> = (0..PROCESSES)
        .map(|process| server.folder().join(format!("starts-{process}")))
        .collect();
    let reserve = |file: &Path| {
        Command::new(env::current_exe().unwrap())
            .args(["reservations::process", "--exact", "--ignored"])
            .env(VARIABLE, format!("{} {}", server.url(), file.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let processes: Vec<Child> = files.iter().map(|file| reserve(file)).collect();
    // Wait for all processes before failing, because a failure stops the server for the others.
    let ended = processes.into_iter().map(|mut process| process.wait());
    let succeeded: Vec<bool> = ended.map(|status| status.unwrap().success()).collect();
    assert_eq!(succeeded, [true; PROCESSES]);

    let mut starts: Vec<(u64, u64)> = Vec::new();
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            let (start, decided_at) = line.split_once(' ').unwrap();
            starts.push((start.parse().unwrap(), decided_at.parse().unwrap()));
        }
    }
    assert_eq!(starts.len(), PROCESSES * CALLS);
    starts.sort_unstable();
    let mut waited = 0;
    for pair in starts.windows(2) {
        let [(first, decided_first), (second, decided_second)] = pair else {
            unreachable!("windows of two")
        };
        assert!(decided_first <= decided_second, "a later call starts first");
        if second > decided_second {
            // It waits for the start before it, and no longer.
            assert_eq!(second - first, 667);
            waited += 1;
        } else {
            assert!(second - first >= 667, "{first} and {second} are too close");
        }
    }
    assert!(waited > 100, "only {waited} calls waited");
}

#[test]
#[ignore = "one of the processes of the test above"]
fn process() {
    let Ok(told) = env::var(VARIABLE) else { return };
    let (url, file) = told.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let lines: Vec<String> = runtime.block_on(async {
        // Eight processes at once are slow where others share the machine.
        let builder = RedisStore::builder().deadline(Duration::from_secs(10));
        let store = builder.connect(url).await.unwrap();
        let limiter = RateLimiter::new(store, [LIMIT.parse::<Limit>().unwrap()]).unwrap();
        let mut lines = Vec::new();
        for _ in 0..CALLS {
            let call = limiter.reserve("alice").within(Duration::from_secs(60));
            let decision = call.await.unwrap();
            assert!(decision.is_allowed());
            let decided_at = decision.binding().1.decided_at().as_micros();
            let start = decided_at + decision.delay().as_micros().unwrap();
            lines.push(format!("{start} {decided_at}"));
        }
        lines
    });
    fs::write(file, lines.join("\n")).unwrap();
}

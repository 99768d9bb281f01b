//! Limits from a configuration, which change while a program runs.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tollgate_core::{Algorithm, LimitErrorKind, RateLimiter, Store, Timestamp};
use tollgate_layers::limits::{Change, LimitSet, Limiters, Limits, WatchError};
use tollgate_layers::{Fallback, Share};
use tollgate_memory::MemoryStore;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};

fn set(entries: &[(&str, &str)]) -> LimitSet {
    let mut set = LimitSet::new();
    for (name, text) in entries {
        set = set.with(name, [text]).unwrap();
    }
    set
}

/// Returns the texts of an entry's limits.
fn texts(set: &LimitSet, name: &str) -> Vec<String> {
    let limits = set.get(name).unwrap();
    limits.iter().map(ToString::to_string).collect()
}

/// Entries called `a`, and their limits.
const READ: &str = r#"
"gcra:5/min" => a=gcra:5/1m
"b=gcra:5/minute" => b=gcra:5/1m
["gcra:5/1m", "b=gcra:9/1h"] => a=gcra:5/1m b=gcra:9/1h
"sliding-buckets:5/1m,buckets=6" => a=sliding-buckets:5/1m,buckets=6
{ algorithm = "gcra", amount = 5, window = "1m" } => a=gcra:5/1m
{ window = "1h", name = "b", amount = 5, burst = 2, algorithm = "gcra", shadow = true } => b=gcra:5/1h,burst=2,shadow
{ algorithm = "fixed-window", amount = 5, window = "hour", anchored = true, count-denied = false } => a=fixed-window:5/1h,anchored
{ algorithm = "fixed-window", amount = 5, window = "day@Europe/Berlin" } => a=fixed-window:5/day@Europe/Berlin
{ algorithm = "block", window = "5m", doublings = 3 } => a=block:5m,doublings=3
[{ algorithm = "gcra", amount = 5, window = "1s" }, "b=gcra:9/1h"] => a=gcra:5/1s b=gcra:9/1h
{ off = true } =>
"off" =>
["off"] =>
["off", "b=gcra:5/1m", "c=off"] => b=gcra:5/1m
{ algorithm = "gcra", amount = 5, window = "1m", off = true } =>
{ algorithm = "gcra", amount = 5, window = "1m", off = false } => a=gcra:5/1m
"#;

/// Lines that are no entries, and what the error says.
const WRONG: &str = r#"
a = "gcra:5/1mn" => limits of "a": "a=gcra:5/1mn" is wrong at character 11
a = "5/min" => expected an algorithm: 
a = ["gcra:1/1s", "gcra:1/1m"] => called "a": give each a name of its own
a = { amount = 5, window = "1m" } => missing field `algorithm`
a = { algorithm = "gcra", amount = 5 } => missing field `window`
a = { algorithm = "gcra", window = "1m" } => missing field `amount`
a = { algorithm = "gcra", amount = -5, window = "1m" } => invalid value: integer `-5`
a = { algorithm = "gcra", amount = 5, window = 60 } => invalid type: integer `60`
a = { algorithm = "gcra", amount = 5, window = "1m", brust = 3 } => expected one of the options `burst=NUMBER` or `shadow`, once
a = { algorithm = "gcra", amount = 5, window = "1m", burst = -3 } => a number must not be negative
a = { algorithm = "gcra", amount = 5, window = "1m", burst = "3" } => expected a whole number, `true` or `false`
a = { algorithm = "gcra", amount = 5, window = "1m", brust = false } => expected one of the options `burst=NUMBER` or `shadow`, once
a = { algorithm = "gcrra", amount = 5, window = "1m", off = true } => expected an algorithm: 
a = { algorithm = "gcra", amount = 5, window = "1m,shadow" } => limits of "a": "1m,shadow" is not one word
a = { algorithm = "x=gcra", amount = 5, window = "1m" } => "x=gcra" is not one word
a = { algorithm = "gcra", amount = 5, window = "1m", "burst=3,shadow" = true } => "burst=3,shadow" is not one word
a = { name = "two words", algorithm = "gcra", amount = 5, window = "1m" } => "two words" is not a name
a = "gcra5/1m=off" => "gcra5/1m" is not a name
a = "=off" => "" is not a name
a = [] => limits of "a": the list is empty: write a limit, or "off"
a = ["gcra:1/1s", []] => the list is empty
a = 5 => expected limits of "a": a text such as "gcra:10/1m"
a = [5] => expected limits of "a": a text such as "gcra:10/1m"
"two words" = "gcra:1/1s" => is not a name
"#;

#[test]
fn a_limit_is_a_text_or_a_table() {
    for line in READ.trim().lines() {
        let (text, read) = line.split_once(" =>").unwrap();
        let read = read.trim();
        let read_set: LimitSet = toml::from_str(&format!("a = {text}")).unwrap();
        assert_eq!(texts(&read_set, "a").join(" "), read, "{text}");
        let value: serde_json::Value = toml::from_str(&format!("a = {text}")).unwrap();
        let again: LimitSet = serde_json::from_value(value).unwrap();
        assert_eq!(again, read_set, "{text}");
    }
}

#[test]
fn what_is_no_limit_is_pointed_at() {
    for line in WRONG.trim().lines() {
        let (text, expected) = line.split_once(" => ").unwrap();
        let error = toml::from_str::<LimitSet>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let none = LimitSet::new().with("a", [""; 0]);
    assert_eq!(none.unwrap_err().kind(), LimitErrorKind::Count);
    let twice = r#"{"a": "gcra:1/1s", "a": "gcra:2/1s"}"#;
    let error = serde_json::from_str::<LimitSet>(twice);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("two entries of this name"), "{error}");
    for (name, value) in [
        ("algorithm", r#""gcra""#),
        ("off", "true"),
        ("shadow", "true"),
    ] {
        let twice = format!(r#"{{"a": {{"{name}": {value}, "{name}": {value}}}}}"#);
        let error = serde_json::from_str::<LimitSet>(&twice).unwrap_err();
        let said = format!("`{name}` is given twice");
        assert!(error.to_string().contains(&said), "{error}");
    }
    let many: Vec<_> = (0..33).map(|index| format!("l{index}=gcra:1/1s")).collect();
    assert!(LimitSet::new().with("a", &many).is_err());
}

#[test]
fn a_change_says_what_starts_afresh() {
    let limits = Limits::new(set(&[
        ("amount", "gcra:5/1m"),
        ("gone", "gcra:5/1m"),
        ("off", "gcra:5/1m"),
        ("on", "off"),
        ("longer", "gcra:5/1m"),
        ("moved", "gcra:1/1s"),
        ("named", "login=gcra:5/1m"),
        ("same", "gcra:5/1m"),
        ("shorter", "sliding-log:5/1m"),
        ("window", "x=fixed-window:5/1m"),
    ]));
    let changes = limits.replace(set(&[
        ("amount", "gcra:9/1m"),
        ("new", "gcra:5/1m"),
        ("off", "off"),
        ("on", "gcra:5/1m"),
        ("longer", "gcra:5/1h"),
        ("moved", "gone=gcra:5/1m"),
        ("named", "signin=gcra:5/1m"),
        ("same", "gcra:5/60s"),
        ("shorter", "sliding-log:5/1s"),
        ("window", "x=fixed-window:5/1h"),
    ]));
    let lines: Vec<_> = changes.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "amount: amount=gcra:9/1m, was amount=gcra:5/1m",
            "gone: has no limits any more",
            "longer: longer=gcra:5/1h, was longer=gcra:5/1m; keeps what was counted for the window before only: longer",
            "moved: gone=gcra:5/1m, was moved=gcra:1/1s",
            "named: signin=gcra:5/1m, was login=gcra:5/1m; starts afresh: signin",
            "new: new=gcra:5/1m, new",
            "off: off",
            "on: on=gcra:5/1m, was off",
            "shorter: shorter=sliding-log:5/1s, was shorter=sliding-log:5/1m",
            "window: x=fixed-window:5/1h, was x=fixed-window:5/1m; starts afresh: x",
        ]
    );
}

#[test]
fn what_the_program_needs_cannot_go() {
    let limits = Limits::new(set(&[("login", "gcra:5/1m"), ("search", "off")]));
    let error = limits.require(["login", "logn"]).unwrap_err();
    let expected = "there are no limits called \"logn\", but login, search";
    assert_eq!(error.to_string(), expected);
    limits.require(["search"]).unwrap();
    let limiters = limits.on(Arc::new(MemoryStore::new()));
    assert!(limiters.get("search").unwrap().is_none());
    assert_eq!(limiters.get("logn").unwrap_err().name(), "logn");

    let before = limits.set();
    assert!(limits.replace(set(&[("login", "gcra:9/1m")])).is_err());
    assert_eq!(limits.set(), before);
    let amount = |limiters: &Limiters<_>| {
        limiters.get("login").unwrap().unwrap().limits()[0]
            .algorithm()
            .quota()
            .amount()
    };
    assert_eq!(amount(&limiters), 5);
    let _ = limits
        .replace(set(&[("login", "gcra:9/1m"), ("search", "gcra:1/1s")]))
        .unwrap();
    assert_eq!(amount(&limiters), 9);
    // Also in a clone that is made before, and in one that is made after.
    assert_eq!(amount(&limits.on(Arc::new(MemoryStore::new()))), 9);
    assert_eq!(amount(&limiters.clone()), 9);
}

#[test]
fn a_limiter_that_has_not_changed_is_the_one_before() {
    let limits = Limits::new(set(&[("a", "gcra:5/1m"), ("b", "gcra:5/1m")]));
    let limiters = limits.on(Arc::new(MemoryStore::new()));
    let place = |name| limiters.get(name).unwrap().unwrap().limits().as_ptr();
    let before = (place("a"), place("b"));
    let _ = limits
        .replace(set(&[("a", "gcra:5/1m"), ("b", "gcra:6/1m")]))
        .unwrap();
    assert_eq!(place("a"), before.0);
    assert_ne!(place("b"), before.1);
}

/// A file of limits that is watched.
struct Watched {
    limits: Limits,
    /// A line for each report.
    reports: Receiver<String>,
}

impl Watched {
    fn new(path: &Path) -> Self {
        let (sender, reports) = channel();
        let report = move |reload: Result<&[Change], &WatchError>| {
            let line = match reload {
                Ok(changes) => changes.iter().fold(String::new(), |mut lines, change| {
                    let _ = write!(lines, "{change}|");
                    lines
                }),
                Err(error) => error.to_string(),
            };
            let _ = sender.send(line);
        };
        let limits = Limits::watch(path, |text| toml::from_str(text), report).unwrap();
        Self { limits, reports }
    }

    fn next(&self) -> String {
        self.reports.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn amount(&self) -> u64 {
        let set = self.limits.set();
        set.get("a").unwrap()[0].algorithm().quota().amount()
    }
}

fn of(amount: u64) -> String {
    format!("a = \"gcra:{amount}/1m\"\n")
}

fn now_of(amount: u64, before: u64) -> String {
    format!("a: a=gcra:{amount}/1m, was a=gcra:{before}/1m|")
}

#[test]
fn a_bad_file_keeps_the_limits_before_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    let parse = |text: &str| toml::from_str(text);
    assert!(matches!(
        Limits::watch::<toml::de::Error>(&path, parse, |_| {}),
        Err(WatchError::Read { .. })
    ));
    fs::write(&path, "a = 5").unwrap();
    assert!(matches!(
        Limits::watch(&path, parse, |_| {}),
        Err(WatchError::Parse { .. })
    ));

    fs::write(&path, of(5)).unwrap();
    let recorder = DebuggingRecorder::new();
    let watched = metrics::with_local_recorder(&recorder, || Watched::new(&path));
    let is_in_force = || match &recorder.snapshotter().snapshot().into_vec()[..] {
        [(_, _, _, DebugValue::Gauge(gauge))] => gauge.0 > 0.5,
        other => panic!("{other:?}"),
    };
    watched.limits.require(["a"]).unwrap();
    fs::write(&path, of(6)).unwrap();
    assert_eq!(watched.next(), now_of(6, 5));
    assert!(is_in_force());
    fs::write(&path, "a = \"gcra:7/1mn\"").unwrap();
    assert!(watched.next().contains("is wrong at character 11"));
    fs::write(&path, " \n").unwrap();
    assert!(watched.next().ends_with("the file is empty"));
    fs::write(&path, "b = \"gcra:7/1m\"").unwrap();
    assert!(
        watched
            .next()
            .contains("the program needs more: there are no limits called \"a\", but b")
    );
    fs::remove_file(&path).unwrap();
    assert!(watched.next().starts_with("cannot read limits from "));
    assert_eq!(watched.amount(), 6);
    // The next look, which finds nothing new, changes nothing.
    thread::sleep(Duration::from_millis(1_500));
    assert!(!is_in_force());
    // What was in force before is back.
    fs::write(&path, of(6)).unwrap();
    assert_eq!(watched.next(), "");
    assert!(is_in_force());
    fs::write(&path, of(8)).unwrap();
    assert_eq!(watched.next(), now_of(8, 6));
}

#[cfg(unix)]
#[test]
fn a_file_is_followed_however_it_is_replaced() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As Kubernetes mounts a map: a link to a file in a folder, which is a link that is renamed.
    for (version, amount) in [("v1", 5), ("v2", 6)] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("limits.toml"), of(amount)).unwrap();
    }
    symlink("v1", at("data")).unwrap();
    symlink("data/limits.toml", at("limits.toml")).unwrap();
    let watched = Watched::new(&at("limits.toml"));
    symlink("v2", at("data.new")).unwrap();
    fs::rename(at("data.new"), at("data")).unwrap();
    fs::remove_dir_all(at("v1")).unwrap();
    assert_eq!(watched.next(), now_of(6, 5));
    // As an editor saves: another file of that name.
    fs::write(at("saved"), of(7)).unwrap();
    fs::rename(at("saved"), at("limits.toml")).unwrap();
    assert_eq!(watched.next(), now_of(7, 6));
    // In place.
    fs::write(at("limits.toml"), of(8)).unwrap();
    assert_eq!(watched.next(), now_of(8, 7));
}

#[test]
fn a_panic_does_not_end_the_watch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, of(5)).unwrap();
    let (sender, reports) = channel();
    let parse = |text: &str| {
        assert!(!text.contains('6'), "a parser that panics");
        toml::from_str(text)
    };
    let report = move |reload: Result<&[Change], &WatchError>| {
        sender
            .send(reload.map_err(ToString::to_string).map(<[_]>::len))
            .unwrap();
        panic!("a report that panics");
    };
    let limits = Limits::watch::<toml::de::Error>(&path, parse, report).unwrap();
    let next = || reports.recv_timeout(Duration::from_secs(20)).unwrap();
    fs::write(&path, of(6)).unwrap();
    assert!(next().unwrap_err().ends_with("what reads it panicked"));
    fs::write(&path, of(7)).unwrap();
    assert_eq!(next(), Ok(1));
    assert_eq!(texts(&limits.set(), "a"), ["a=gcra:7/1m"]);
}

#[test]
fn a_file_that_nobody_needs_is_not_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, of(5)).unwrap();
    let watched = Watched::new(&path);
    let limiters = watched.limits.on(Arc::new(MemoryStore::new()));
    drop(watched.limits);
    fs::write(&path, of(6)).unwrap();
    let next = || watched.reports.recv_timeout(Duration::from_secs(20));
    assert_eq!(next().unwrap(), now_of(6, 5));
    drop(limiters);
    // The thread has ended, and dropped what it reports to.
    assert_eq!(next(), Err(RecvTimeoutError::Disconnected));
}

/// The changes of a limit, and whether what was counted stays.
const CHANGES: [(&str, &str, bool); 14] = [
    ("gcra:5/1h", "gcra:8/1h", true),
    ("gcra:8/1h", "gcra:5/1h", true),
    ("gcra:5/1h", "gcra:5/1h,burst=2", true),
    ("sliding-log:5/1h", "sliding-log:8/1h", true),
    ("sliding-log:8/1h", "sliding-log:5/1h", true),
    ("sliding-log:5/1h", "sliding-log:8/1d", true),
    ("fixed-window:5/1d", "fixed-window:8/1d", true),
    (
        "fixed-window:8/1d,anchored",
        "fixed-window:5/1d,anchored",
        true,
    ),
    ("sliding-counter:5/1d", "sliding-counter:8/1d", true),
    (
        "sliding-buckets:5/1d,buckets=4",
        "sliding-buckets:8/1d,buckets=4",
        true,
    ),
    ("fixed-window:5/1d", "fixed-window:8/2d", false),
    ("sliding-counter:5/1d", "sliding-counter:8/2d", false),
    (
        "sliding-buckets:5/1d,buckets=4",
        "sliding-buckets:8/1d,buckets=5",
        false,
    ),
    ("gcra:5/1h", "sliding-log:8/1h", false),
];

/// Returns how often a key is allowed before and after a change, all at one instant.
async fn allowed<S: Store + Clone + 'static>(
    store: &S,
    key: &str,
    from: &str,
    to: &str,
) -> (u64, u64) {
    let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
    let limits = Limits::new(set(&[(key, from)]));
    let limiters = limits.on(store.clone());
    let mut allowed = [0; 2];
    for (index, text) in [from, to].into_iter().enumerate() {
        let changes = limits.replace(set(&[(key, text)])).unwrap();
        let says_afresh = changes
            .iter()
            .any(|change| change.starting_afresh().next().is_some());
        let is_kept = CHANGES.iter().find(|(a, b, _)| (*a, *b) == (from, to));
        let is_kept = is_kept.unwrap().2;
        assert_eq!(says_afresh, index == 1 && !is_kept, "{from} -> {to}");
        let limiter = limiters.get(key).unwrap().unwrap();
        while limiter.check("alice").at(at).await.unwrap().is_allowed() {
            allowed[index] += 1;
        }
    }
    (allowed[0], allowed[1])
}

/// Checks that each change keeps or forgets what the page says.
async fn changes_keep_what_they_say(store: impl Store + Clone + 'static) {
    for (index, (from, to, is_kept)) in CHANGES.into_iter().enumerate() {
        let capacity = |text: &str| text.parse::<Algorithm>().unwrap().capacity();
        let (old, new) = (capacity(from), capacity(to));
        let expected = if is_kept {
            new.saturating_sub(old)
        } else {
            new
        };
        let found = allowed(&store, &format!("change-{index}"), from, to).await;
        assert_eq!(found, (old, expected), "{from} -> {to}");
    }
}

#[tokio::test]
async fn changes_keep_what_they_say_in_memory() {
    changes_keep_what_they_say(Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn changes_keep_what_they_say_on_a_server() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::connect(server.url()).await.unwrap();
    changes_keep_what_they_say(Arc::new(store)).await;
}

/// What a program calls rarely, such as a ban, must not be found impossible when it is needed.
#[test]
fn calls_that_can_never_work_are_found_without_making_them() {
    let limits = |texts: &[&str]| RateLimiter::new(MemoryStore::new(), texts.to_vec()).unwrap();
    let (window, gcra) = (limits(&["a=fixed-window:5/1m"]), limits(&["a=gcra:5/1m"]));
    let small = RateLimiter::new(
        Share::new(MemoryStore::new(), NonZeroU32::new(4).unwrap()),
        ["a=gcra:3/1m"],
    )
    .unwrap();
    let beside = |amount| {
        let part = Share::new(MemoryStore::new(), NonZeroU32::new(4).unwrap());
        let limits = [format!("a=gcra:{amount}/1m"), "ban=block:1m".to_owned()];
        RateLimiter::new(Fallback::to(MemoryStore::new(), part), limits).unwrap()
    };
    let delay = Duration::from_secs(1);
    for (supported, reason) in [
        (gcra.reserve("k").within(delay).supported(), ""),
        (window.reserve("k").within(delay).supported(), "only GCRA"),
        (
            limits(&["a=gcra:5/1m", "b=block:1m"])
                .block("k")
                .supported(),
            "",
        ),
        (gcra.block("k").supported(), "only a limit that blocks"),
        (gcra.lower("k", 0).supported(), ""),
        (gcra.check("k").cost_of("a", 2).supported(), ""),
        (gcra.check("k").cost_of("b", 2).supported(), "called `b`"),
        (gcra.check("k").id("").supported(), "id"),
        (small.check("k").cost(4).supported(), ""),
        (small.check("k").supported(), "use fewer parts"),
        (beside(3).check("k").supported(), "use fewer parts"),
        (beside(4).check("k").supported(), ""),
        (beside(4).take_up_to("k", 3).supported(), "whole units"),
        (beside(3).block("k").supported(), ""),
        (small.take_up_to("k", 3).supported(), "whole units"),
    ] {
        let error = supported
            .err()
            .map_or(String::new(), |error| error.to_string());
        let holds = error.contains(reason) && error.is_empty() == reason.is_empty();
        assert!(holds, "{error}");
    }
}

#[test]
fn a_change_that_does_not_support_what_the_program_calls_is_not_put_into_force() {
    let limits = Limits::new(set(&[("a", "gcra:5/1m"), ("b", "gcra:5/1m")]));
    let (first, second) = (
        limits.on(Arc::new(MemoryStore::new())),
        limits.on(Arc::new(MemoryStore::new())),
    );
    let delays = |limiter: &RateLimiter<Arc<MemoryStore>>| {
        limiter
            .reserve("k")
            .within(Duration::from_secs(1))
            .supported()
    };
    second.require("a", delays).unwrap();
    assert!(second.require("c", delays).is_err());
    assert!(
        second
            .require("b", |limiter| limiter.block("k").supported())
            .is_err()
    );
    let text = |limiters: &Limiters<_>, name: &str| {
        limiters
            .get(name)
            .unwrap()
            .map(|limiter| limiter.limits()[0].to_string())
    };
    let refused = limits.replace(set(&[("a", "fixed-window:5/1m"), ("b", "gcra:9/1m")]));
    assert!(refused.unwrap_err().to_string().contains("only GCRA"));
    for limiters in [&first, &second] {
        assert_eq!(text(limiters, "a").unwrap(), "a=gcra:5/1m");
        assert_eq!(text(limiters, "b").unwrap(), "b=gcra:5/1m");
    }
    // A requirement that was refused demands nothing, and one that is off is not asked.
    let off = set(&[("a", "off"), ("b", "fixed-window:5/1m")]);
    limits.replace(off).unwrap();
    assert_eq!(text(&first, "a"), None);
    limits
        .replace(set(&[("a", "gcra:6/1m"), ("b", "gcra:5/1m")]))
        .unwrap();
    assert_eq!(text(&second, "a").unwrap(), "a=gcra:6/1m");
    // A name that calls are required of must be there.
    assert!(limits.replace(set(&[("b", "gcra:5/1m")])).is_err());
    // What is required reads the limits, and a panic is no reason to stop following a file.
    let (own, panics) = (limits.clone(), Arc::new(AtomicBool::new(false)));
    let fails = Arc::clone(&panics);
    let reads = move |_: &RateLimiter<Arc<MemoryStore>>| {
        assert!(!fails.load(Ordering::Relaxed) && own.set().get("a").is_some());
        Ok(())
    };
    second.require("a", reads).unwrap();
    panics.store(true, Ordering::Relaxed);
    let refused = limits.replace(set(&[("a", "gcra:7/1m")]));
    assert!(refused.unwrap_err().to_string().contains("panicked"));
    panics.store(false, Ordering::Relaxed);
    limits.replace(set(&[("a", "gcra:7/1m")])).unwrap();
    assert_eq!(text(&first, "a").unwrap(), "a=gcra:7/1m");
    // Nobody is left to call anything.
    drop(second);
    limits.replace(set(&[("a", "fixed-window:5/1m")])).unwrap();
}

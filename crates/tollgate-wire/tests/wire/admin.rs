//! Clearing and diagnosing, on servers that no machine here can be: old ones, ones whose clock is
//! wrong, and ones that answer anything.

use std::collections::VecDeque;
use std::future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use tollgate_core::ErrorKind;
use tollgate_wire::{
    Clear, Cleared, Command, Diagnosis, Engine, Failure, Node, Nodes, Options, Reply, ScriptCall,
    Severity, TimeSource, WireStore,
};

use crate::engine::now;

/// Returns what the server says against a script on a key.
pub(crate) type Refusals = fn(&str) -> Option<&'static str>;

type Answer = dyn Fn(&[String]) -> Reply + Send + Sync;

/// Answers each command as a test says, and records which commands went to which node.
pub(crate) struct Fake {
    answer: Box<Answer>,
    clustered: bool,
    sent: Mutex<Vec<(Node, Vec<String>)>>,
    /// How long the next exchanges take, by this machine's clock.
    pub(crate) delays: Mutex<VecDeque<Duration>>,
    pub(crate) elapsed: Mutex<Duration>,
    /// A command that is never answered.
    pub(crate) silent: Mutex<Option<&'static str>>,
    /// What a script on a key is refused with, or it allows a first call; all are refused if there
    /// is none.
    pub(crate) scripts: Mutex<Option<Refusals>>,
    /// How many of the next exchanges fail, because there is no connection.
    pub(crate) failures: AtomicUsize,
    /// How many replies are missing of every exchange.
    pub(crate) missing: AtomicUsize,
}

/// What this machine's clock shows.
pub(crate) const HERE: Duration = Duration::from_secs(1_780_000_000);

impl Fake {
    pub(crate) fn store(
        answer: impl Fn(&[String]) -> Reply + Send + Sync + 'static,
    ) -> WireStore<Self> {
        Self::with(Options::new(), false, answer)
    }

    pub(crate) fn with(
        options: Options,
        clustered: bool,
        answer: impl Fn(&[String]) -> Reply + Send + Sync + 'static,
    ) -> WireStore<Self> {
        let engine = Self {
            answer: Box::new(answer),
            clustered,
            sent: Mutex::default(),
            delays: Mutex::default(),
            elapsed: Mutex::default(),
            silent: Mutex::default(),
            scripts: Mutex::default(),
            failures: AtomicUsize::new(0),
            missing: AtomicUsize::new(0),
        };
        WireStore::new(engine, options)
    }

    /// Waits for ever if a command is never answered.
    async fn answer_unless(&self, is_silent: impl Fn(&str) -> bool) {
        let silent = *self.silent.lock().unwrap();
        if silent.is_some_and(is_silent) {
            future::pending::<()>().await;
        }
    }

    pub(crate) fn sent(&self, name: &str) -> Vec<(Node, Vec<String>)> {
        let sent = self.sent.lock().unwrap();
        let of_name = sent.iter().filter(|(_, words)| words[0] == name);
        of_name.cloned().collect()
    }
}

impl Engine for Fake {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let key = String::from_utf8_lossy(&call.keys()[0]).into_owned();
        // Behind the instant and the slack.
        let cost = f64::from_le_bytes(call.argument()[16..24].try_into().unwrap());
        let words = vec!["EVALSHA".to_owned(), key.clone(), cost.to_string()];
        self.sent.lock().unwrap().push((Node::Any, words));
        let scripts = *self.scripts.lock().unwrap();
        if let Some(line) = scripts.map_or(Some("ERR no"), |refusals| refusals(&key)) {
            return Err(Failure::refused(line, line));
        }
        if key.contains(":schedule:") {
            // An event was planned, at the epoch.
            let numbers = [0., 1., -1., 0., -1.];
            let numbers = numbers.into_iter().flat_map(f64::to_le_bytes);
            return Ok([0].into_iter().chain(numbers).collect());
        }
        let words = if key.contains("sliding-log") {
            5_u16
        } else {
            0
        };
        let mut reply = vec![1];
        reply.extend([0; 8]);
        reply.extend((8 * words).to_le_bytes());
        reply.extend(vec![0; usize::from(8 * words)]);
        Ok(reply)
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let words = keys.iter().map(|key| String::from_utf8_lossy(key).into());
        let words = ["FORGET".to_owned()].into_iter().chain(words).collect();
        self.sent.lock().unwrap().push((Node::Any, words));
        self.answer_unless(|silent| silent == "FORGET").await;
        Ok(())
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        // What is not there at once never comes.
        let mut work = pin!(work);
        future::poll_fn(|context| {
            Poll::Ready(match work.as_mut().poll(context) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => {
                    *self.elapsed.lock().unwrap() += limit;
                    None
                }
            })
        })
        .await
    }

    fn now(&self) -> SystemTime {
        UNIX_EPOCH + HERE + *self.elapsed.lock().unwrap()
    }

    fn is_clustered(&self) -> bool {
        self.clustered
    }
}

impl Nodes for Fake {
    async fn send(&self, node: &Node, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let failures = &self.failures;
        let left = failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err(Failure::not_sent("down"));
        }
        let delay = self.delays.lock().unwrap().pop_front();
        *self.elapsed.lock().unwrap() += delay.unwrap_or_default();
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let replies = commands.iter().map(|command| {
            let words: Vec<String> = command.words().iter().map(text).collect();
            let reply = (self.answer)(&words);
            self.sent.lock().unwrap().push((node.clone(), words));
            reply
        });
        let mut replies: Vec<_> = replies.collect();
        replies.truncate(replies.len() - self.missing.load(Relaxed));
        let is_of = |silent: &str| commands.iter().any(|of| of.words()[0] == silent.as_bytes());
        self.answer_unless(is_of).await;
        Ok(replies)
    }
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bytes(text.as_ref().to_vec())
}

pub(crate) fn list(texts: &[&str]) -> Reply {
    Reply::List(texts.iter().map(bytes).collect())
}

/// Returns the reply to `TIME` of a clock that is off by so many seconds.
pub(crate) fn time(off: i64) -> Reply {
    let seconds = i64::try_from(HERE.as_secs()).unwrap() + off;
    list(&[&seconds.to_string(), "0"])
}

pub(crate) fn severity(diagnosis: &Diagnosis, check: &str) -> Severity {
    let mut findings = diagnosis.findings().iter();
    let finding = findings.find(|finding| finding.check == check);
    finding
        .unwrap_or_else(|| panic!("{check}: {diagnosis:#?}"))
        .severity
}

#[test]
fn old_servers_are_reported() {
    for (version, expected) in [
        ("5.0.14", Severity::Serious),
        ("6.0.20", Severity::Serious),
        ("6.2.0", Severity::Ok),
    ] {
        let store = Fake::store(move |words| match words[0].as_str() {
            "INFO" => bytes(format!("# Server\r\nredis_version:{version}\r\n")),
            _ => Reply::Nil,
        });
        let diagnosis = now(store.diagnose());
        assert_eq!(severity(&diagnosis, "version"), expected, "{version}");
    }
}

#[test]
fn clocks_that_are_apart_are_reported() {
    for (off, clock, expected) in [
        (0, TimeSource::Server, Severity::Ok),
        (1, TimeSource::Server, Severity::Ok),
        (5, TimeSource::Server, Severity::Note),
        (-5, TimeSource::Server, Severity::Note),
        (7_200, TimeSource::Server, Severity::Warning),
        (-7_200, TimeSource::Server, Severity::Warning),
        // Every second that two callers are apart is missing from a window.
        (5, TimeSource::Caller, Severity::Warning),
    ] {
        let options = Options::new().with_time_source(clock);
        let store = Fake::with(options, false, move |words| match words[0].as_str() {
            "TIME" => time(off),
            _ => Reply::Nil,
        });
        let diagnosis = now(store.diagnose());
        assert_eq!(severity(&diagnosis, "clock"), expected, "{off}");
        let mut findings = diagnosis.findings().iter();
        let clock = findings.find(|finding| finding.check == "clock").unwrap();
        if off > 1_000 {
            assert!(clock.found.contains("2 hours ahead of"), "{clock:?}");
        } else if off < -1_000 {
            assert!(clock.found.contains("2 hours behind"), "{clock:?}");
        }
    }
}

pub(crate) fn range(first: i64, last: i64, host: &str, port: i64) -> Reply {
    let node = Reply::List(vec![bytes(host), Reply::Integer(port), bytes("id")]);
    Reply::List(vec![
        Reply::Integer(first),
        Reply::Integer(last),
        node.clone(),
        node,
    ])
}

#[test]
fn every_master_is_cleared_key_by_key() {
    let slots = || {
        Reply::List(vec![
            range(0, 99, "10.0.0.1", 7_000),
            range(100, 199, "10.0.0.2", 7_000),
            range(200, 16_382, "10.0.0.1", 7_000),
            // A node that does not know its own address.
            range(16_383, 16_383, "", 7_001),
        ])
    };
    let key = |name: &str| format!("tollgate:a:gcra:v1:{{{name}}}");
    let (stays, moved) = (key("stays"), key("moved"));
    let answer = {
        let moved = moved.clone();
        move |words: &[String]| match words[0].as_str() {
            "CLUSTER" if words[1] == "SLOTS" => slots(),
            "DBSIZE" => Reply::Integer(2),
            "SCAN" => Reply::List(vec![bytes("0"), list(&[&stays, &moved])]),
            "UNLINK" if words[1..] == [moved.as_str()] => Reply::Error("ASK 1 h:1".into()),
            "UNLINK" => Reply::Integer(1),
            _ => Reply::Nil,
        }
    };
    let store = Fake::with(Options::new(), true, answer);
    let cleared = now(store.clear(&Clear::new(), &mut |_| ())).unwrap();
    assert_eq!((cleared.servers, cleared.keys), (3, Some(6)));
    assert_eq!((cleared.found, cleared.cleared), (6, 6));
    let engine = store.engine();
    let at = |host: &str| Node::At {
        host: host.to_owned(),
        port: 7_000,
    };
    let nodes = [at("10.0.0.1"), at("10.0.0.2"), Node::Serving(16_383)];
    let scanned: Vec<Node> = engine
        .sent("SCAN")
        .into_iter()
        .map(|(node, _)| node)
        .collect();
    assert_eq!(scanned, nodes);
    // Keys of one command would have to be of one slot.
    assert!(
        engine
            .sent("UNLINK")
            .iter()
            .all(|(_, words)| words.len() == 2)
    );
    // What is elsewhere is followed there.
    let followed = engine.sent("FORGET");
    assert!(followed.len() == 3 && followed.iter().all(|(_, words)| words[1] == moved));
}

#[test]
fn operators_commands_run_in_small_steps() {
    let keys: Vec<String> = (0..400)
        .map(|number| format!("tollgate:a:gcra:v1:{{{number}}}"))
        .collect();
    let keys = move || bytes_of(&keys);
    let state: Vec<u8> = [0., 9e15, 1.]
        .into_iter()
        .flat_map(f64::to_le_bytes)
        .collect();
    let store = Fake::store(move |words| match words[0].as_str() {
        "SCAN" if words[1] == "0" => Reply::List(vec![bytes("7"), keys()]),
        "SCAN" => Reply::List(vec![bytes("0"), Reply::List(Vec::new())]),
        "GET" => bytes(&state),
        "TIME" => time(0),
        "UNLINK" => Reply::Integer(i64::try_from(words.len() - 1).unwrap()),
        _ => Reply::Error("NOPERM this user has no permissions to run the 'dbsize' command".into()),
    });
    let what = Clear::new().ahead_by(Duration::ZERO);
    let mut steps = Vec::new();
    let cleared = now(store.clear(&what, &mut |so_far| steps.push(*so_far))).unwrap();
    assert_eq!((cleared.found, cleared.cleared), (400, 400));
    assert_eq!(cleared.keys, None);
    assert_eq!(
        steps.first(),
        Some(&{
            let mut none = Cleared::default();
            none.servers = 1;
            none
        })
    );
    assert_eq!(steps.last(), Some(&cleared));
    let engine = store.engine();
    for (_, words) in engine.sent("SCAN") {
        assert_eq!(words[2..], ["MATCH", "tollgate:*", "COUNT", "100"]);
    }
    let unlinks = engine.sent("UNLINK");
    assert!(unlinks.iter().all(|(_, words)| words.len() == 26));
    // A clock is read after each fifty states.
    assert_eq!(engine.sent("TIME").len(), 8);
}

fn bytes_of(texts: &[String]) -> Reply {
    Reply::List(texts.iter().map(bytes).collect())
}

#[test]
fn a_refused_scan_is_an_error() {
    for (line, kind) in [
        ("NOPERM no", ErrorKind::Misconfigured),
        ("ERR unknown command 'SCAN'", ErrorKind::Unsupported),
        ("LOADING dataset", ErrorKind::Unavailable),
    ] {
        let store = Fake::store(move |_| Reply::Error(line.into()));
        let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        // What a service can do about a decision is no advice to those who run its server.
        assert!(!error.to_string().contains("scriptless"), "{error}");
        let diagnosis = now(store.diagnose());
        assert!(diagnosis.worst() >= Severity::Unknown);
        assert_eq!(severity(&diagnosis, "eviction"), Severity::Unknown);
    }
    let store = Fake::store(|_| Reply::Nil);
    let error = now(store.clear(&Clear::new(), &mut |_| ())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
}

fn reply() -> impl Strategy<Value = Reply> {
    let word = prop_oneof![
        Just(b"0".to_vec()),
        Just(b"tollgate:a:gcra:v1:{k}".to_vec()),
        Just(b"tollgate:a:sliding-log:v1:{k}".to_vec()),
        Just(b"tollgate:a:sliding-buckets-9-0:v1:{k}".to_vec()),
        Just(b"tollgate:a:sliding-buckets-9-18446744073709551615:v1:{k}".to_vec()),
        Just(b"tollgate:a:fixed-window-aligned-9:v1-plain-18446744073709551615:{k}".to_vec()),
        Just(b"tollgate:a:fixed-window-anchored-9:v1-plain:{k}".to_vec()),
        Just(b"redis_version:6".to_vec()),
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(any::<f64>(), 0..5)
            .prop_map(|numbers| numbers.into_iter().flat_map(f64::to_le_bytes).collect()),
    ];
    let leaf = prop_oneof![
        Just(Reply::Nil),
        any::<i64>().prop_map(Reply::Integer),
        "[A-Z]{0,8} [a-z ]{0,20}".prop_map(Reply::Error),
        word.prop_map(Reply::Bytes),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop::collection::vec(inner, 0..6).prop_map(Reply::List)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a server replies, nothing panics, and it is not taken for well.
    #[test]
    fn no_reply_causes_a_panic(
        replies in prop::collection::vec(reply(), 1..40),
        keys in reply(),
        clustered in any::<bool>(),
        ahead in any::<bool>(),
    ) {
        let next = Mutex::new(replies.into_iter().cycle());
        let store = Fake::with(Options::new(), clustered, move |words| {
            match words[0].as_str() {
                // Whoever looks for keys for ever is not the point here.
                "SCAN" => Reply::List(vec![bytes("0"), keys.clone()]),
                "CLUSTER" => Reply::List(vec![range(0, 16_383, "h", 1)]),
                _ => next.lock().unwrap().next().unwrap_or(Reply::Nil),
            }
        });
        let mut what = Clear::new();
        if ahead {
            what = what.ahead_by(Duration::ZERO);
        }
        let _ = now(store.clear(&what, &mut |_| ()));
        let diagnosis = now(store.diagnose());
        // Its scripts are refused.
        prop_assert_eq!(diagnosis.worst(), Severity::Serious);
        for finding in diagnosis.findings() {
            prop_assert_eq!(finding.severity == Severity::Ok, finding.advice.is_empty());
        }
    }
}

/// A state that may not be read could be one that lies ahead, so it is an error to pass it over; a
/// key of another type is not one of ours.
#[test]
fn a_state_that_may_not_be_read_is_an_error_that_does_not_show_its_key() {
    let server = |line: &'static str| {
        Fake::store(move |words| match words[0].as_str() {
            "SCAN" => Reply::List(vec![
                bytes("0"),
                list(&["tollgate:a:gcra:v1:{203.0.113.7}"]),
            ]),
            "TIME" => time(0),
            "GET" | "UNLINK" => Reply::Error(line.into()),
            _ => Reply::Integer(1),
        })
    };
    let ahead = Clear::new().ahead_by(Duration::ZERO);
    for line in [
        "NOPERM No permissions to access the 'tollgate:a:gcra:v1:{203.0.113.7}' key",
        "ERR unknown command 'GET', with args beginning with: 'tollgate:a:gcra:v1:{203.0.113.7}'",
    ] {
        for what in [&ahead, &Clear::new()] {
            let error = now(server(line).clear(what, &mut |_| ())).unwrap_err();
            let mut texts = vec![error.to_string(), format!("{error:?}")];
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                texts.extend([cause.to_string(), format!("{cause:?}")]);
                source = cause.source();
            }
            assert!(
                texts.iter().all(|text| !text.contains("203.0.113.7")),
                "{texts:?}"
            );
        }
        let diagnosis = now(server(line).diagnose());
        assert_eq!(severity(&diagnosis, "states ahead"), Severity::Unknown);
    }
    let cleared = now(server("WRONGTYPE not a string").clear(&ahead, &mut |_| ())).unwrap();
    assert_eq!((cleared.found, cleared.skipped), (0, 1));
}

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
use tollgate_wire::inside::{Command, Node, Nodes, Reply};
use tollgate_wire::operate::{Clear, Diagnosis, Finding, Severity};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

use crate::engine::{config, now, shown};

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

    /// Answers these commands, and nothing to others.
    pub(crate) fn saying<const N: usize>(replies: [(&'static str, Reply); N]) -> WireStore<Self> {
        Self::store(said(replies))
    }

    /// The same, as the only master of a cluster.
    pub(crate) fn master_saying<const N: usize>(
        replies: [(&'static str, Reply); N],
    ) -> WireStore<Self> {
        let others = said(replies);
        Self::with(Options::new(), true, move |words| match others(words) {
            Reply::Nil if words[0] == "CLUSTER" => Reply::List(vec![range(0, 16_383, "h", 1)]),
            reply => reply,
        })
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
        let words: u16 = if key.contains("sliding-log") { 5 } else { 0 };
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

fn said<const N: usize>(replies: [(&'static str, Reply); N]) -> impl Fn(&[String]) -> Reply {
    move |words| {
        let mut replies = replies.iter();
        let reply = replies.find(|(name, _)| words[0] == *name);
        reply.map_or(Reply::Nil, |(_, reply)| reply.clone())
    }
}

/// Returns the reply to the last scan, which finds these keys.
pub(crate) fn keys(names: &[&str]) -> Reply {
    Reply::List(vec![bytes("0"), list(names)])
}

pub(crate) fn error(line: &str) -> Reply {
    Reply::Error(line.to_owned())
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bytes(text.as_ref().to_vec())
}

pub(crate) fn list(texts: &[&str]) -> Reply {
    Reply::List(texts.iter().map(bytes).collect())
}

/// Returns the reply to `TIME` of a clock that is `off` by these seconds.
pub(crate) fn time(off: i64) -> Reply {
    let seconds = i64::try_from(HERE.as_secs()).unwrap() + off;
    list(&[&seconds.to_string(), "0"])
}

pub(crate) fn found<'d>(diagnosis: &'d Diagnosis, check: &str) -> &'d Finding {
    let mut findings = diagnosis.findings().iter();
    let finding = findings.find(|finding| finding.check == check);
    finding.unwrap_or_else(|| panic!("{check}: {diagnosis:#?}"))
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
    #![proptest_config(config(256))]

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
    let server = |line: &str| {
        Fake::saying([
            ("SCAN", keys(&["tollgate:a:gcra:v1:{203.0.113.7}"])),
            ("TIME", time(0)),
            ("GET", error(line)),
            ("UNLINK", error(line)),
        ])
    };
    let ahead = Clear::new().ahead_by(Duration::ZERO);
    for line in [
        "NOPERM No permissions to access the 'tollgate:a:gcra:v1:{203.0.113.7}' key",
        "ERR unknown command 'GET', with args beginning with: 'tollgate:a:gcra:v1:{203.0.113.7}'",
    ] {
        for what in [&ahead, &Clear::new()] {
            let error = now(server(line).clear(what, &mut |_| ())).unwrap_err();
            let shown = shown(&error);
            assert!(!shown.contains("203.0.113.7"), "{shown}");
        }
        let diagnosis = now(server(line).diagnose());
        let finding = found(&diagnosis, "states ahead");
        assert_eq!(finding.severity, Severity::Unknown);
    }
    let cleared = now(server("WRONGTYPE not a string").clear(&ahead, &mut |_| ())).unwrap();
    assert_eq!((cleared.found, cleared.skipped), (0, 1));
}

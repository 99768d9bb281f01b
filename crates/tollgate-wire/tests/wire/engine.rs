//! Engines for tests: one that talks to a real server without a client crate, and one that answers
//! what it was told to.

use std::error::Error;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::ProptestConfig;
use tollgate_core::store::{Check, Request, Verdicts};
use tollgate_core::{Limit, Store, StoreError, Timestamp};
use tollgate_testkit::shared::{self, SharedServer};
use tollgate_testkit::{Connection, Flavor, Reply, Server, rounds};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

/// The time limit of an engine whose work never waits.
macro_rules! never_waits {
    () => {
        async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
        where
            F: Future + Send,
            F::Output: Send,
        {
            Some(work.await)
        }
    };
}
pub(crate) use never_waits;

/// When callers call, unless something else is said.
pub(crate) const START: u64 = 1_780_000_000_000_000;

/// Returns the configuration for `full` cases of everything.
pub(crate) fn config(full: u32) -> ProptestConfig {
    ProptestConfig {
        cases: rounds(full),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns an instant `later` microseconds after [`START`] as replies hold it.
#[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
pub(crate) const fn at(later: i64) -> f64 {
    START as f64 + later as f64
}

pub(crate) fn stamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Returns the bytes of numbers as servers and scripts hold them.
pub(crate) fn doubles(numbers: &[u64]) -> Vec<u8> {
    #[allow(
        clippy::cast_precision_loss,
        reason = "they are at most 2^53, or round"
    )]
    let words = numbers.iter().flat_map(|&n| (n as f64).to_le_bytes());
    words.collect()
}

/// A connection to a real server.
pub(crate) struct Raw {
    connection: Mutex<Connection>,
    /// How many bytes the last script took.
    sent: AtomicU64,
    /// What the last script replied.
    told: Mutex<Vec<u8>>,
    /// How far the caller's clock is off, and whether it is ahead.
    off: Mutex<(Duration, bool)>,
    /// How many replies are still to be lost, and whether they are reported as never sent.
    lost: Mutex<(u64, bool)>,
    ran: AtomicU64,
    /// A shared server ends when nobody holds it.
    _server: Option<SharedServer>,
}

impl Raw {
    pub(crate) fn to(flavor: Flavor) -> Self {
        let server = shared::standalone(flavor);
        Self::over(server.connection(), Some(server))
    }

    /// A connection that the caller has opened, and the shared server that it is one to.
    pub(crate) fn over(connection: Connection, server: Option<SharedServer>) -> Self {
        Self {
            connection: Mutex::new(connection),
            sent: AtomicU64::new(0),
            told: Mutex::default(),
            off: Mutex::default(),
            lost: Mutex::default(),
            ran: AtomicU64::new(0),
            _server: server,
        }
    }

    /// Loses this number of `replies` from now on. If `unsent`, it says that the calls were never sent.
    pub(crate) fn lose(&self, replies: u64, unsent: bool) {
        *self.lost.lock().unwrap() = (replies, unsent);
    }

    /// Returns how many scripts ran.
    pub(crate) fn ran(&self) -> u64 {
        self.ran.load(Relaxed)
    }

    /// Loses a reply that is to be lost.
    fn received<T>(&self, reply: T) -> Result<T, Failure> {
        let (left, unsent) = &mut *self.lost.lock().unwrap();
        match (*left, *unsent) {
            (0, _) => Ok(reply),
            (_, true) => Err(Failure::not_sent("no connection")),
            _ => Err(Failure::lost("the connection was lost")),
        }
        .inspect_err(|_| *left -= 1)
    }

    /// Sets how far the caller's clock is off.
    pub(crate) fn be_off(&self, by: Duration, ahead: bool) {
        *self.off.lock().unwrap() = (by, ahead);
    }

    pub(crate) fn command(&self, words: &[&[u8]]) -> Reply {
        self.connection.lock().unwrap().command(words).unwrap()
    }

    /// From now on, the connection is that of a new user, who may run these `commands` on `keys`.
    pub(crate) fn log_in_as_user(&self, keys: &str, commands: &[&str]) {
        let (user, keys) = (fresh("user"), format!("~{keys}"));
        let mut words = vec!["ACL", "SETUSER", &user, "on", ">secret", &keys];
        words.extend(commands);
        for words in [&words[..], &["AUTH", &user, "secret"]] {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(self.command(&words), Reply::Simple("OK".into()));
        }
    }

    /// Returns how many bytes the command of the last script took, and how many its reply.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), text_bytes(&self.told()))
    }

    /// Returns the bytes that the last script replied.
    pub(crate) fn told(&self) -> Vec<u8> {
        self.told.lock().unwrap().clone()
    }
}

/// Returns how many bytes a text takes in the protocol: its length, itself, and two line ends.
fn text_bytes(text: &[u8]) -> u64 {
    (format!("${}\r\n", text.len()).len() + text.len() + 2) as u64
}

fn refused(line: String) -> Failure {
    Failure::refused(line.clone(), line)
}

impl Engine for Raw {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let count = call.keys().len().to_string();
        let sha1 = call.script().sha1();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", sha1.as_bytes(), count.as_bytes()];
        words.extend(call.keys().iter().map(Vec::as_slice));
        words.push(call.argument());
        let head = format!("*{}\r\n", words.len());
        let rest = words.iter().map(|word| text_bytes(word));
        self.sent
            .store(head.len() as u64 + rest.sum::<u64>(), Relaxed);
        match self.command(&words) {
            Reply::Bulk(reply) => {
                self.told.lock().unwrap().clone_from(&reply);
                self.ran.fetch_add(1, Relaxed);
                self.received(reply)
            }
            Reply::Error(line) => Err(refused(line)),
            other => Err(Failure::malformed(format!("{other:?}"))),
        }
    }

    async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        match self.command(&[b"SCRIPT", b"LOAD", call.script().text().as_bytes()]) {
            Reply::Error(line) => Err(refused(line)),
            _ => Ok(()),
        }
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let mut words: Vec<&[u8]> = vec![b"UNLINK"];
        words.extend(keys.iter().map(Vec::as_slice));
        match self.command(&words) {
            Reply::Error(line) => Err(refused(line)),
            _ => self.received(()),
        }
    }

    never_waits!();

    fn now(&self) -> SystemTime {
        match *self.off.lock().unwrap() {
            (by, true) => SystemTime::now() + by,
            (by, false) => SystemTime::now() - by,
        }
    }

    fn is_clustered(&self) -> bool {
        false
    }
}

/// What was asked of an engine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SentCall {
    pub(crate) text: String,
    pub(crate) sha1: String,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) argument: Vec<u8>,
    pub(crate) forgotten: Vec<Vec<u8>>,
}

/// What comes of what is sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Outcome {
    #[default]
    Done,
    /// The server refuses it, and repeats what it was sent.
    Echo,
    /// The connection is lost before the reply comes.
    Lost,
    /// The script is not known.
    NoScript,
    /// No reply comes before the deadline.
    Silence,
}

/// The numbers in the replies of one transaction.
pub(crate) type Numbers = Vec<Vec<Option<i64>>>;
/// What transactions are answered: the first, the second and so on.
pub(crate) type Replies = fn(i64) -> Numbers;

/// Answers every call with the same bytes, unless something else comes of it, and remembers what it
/// was asked.
#[derive(Default)]
pub(crate) struct Canned {
    pub(crate) reply: Vec<u8>,
    pub(crate) clustered: bool,
    /// What was asked last.
    pub(crate) asked: Mutex<SentCall>,
    /// How many keys each command was to forget.
    pub(crate) forgets: Mutex<Vec<usize>>,
    /// What `Debug` shows of the calls.
    pub(crate) shown: Mutex<String>,
    /// What comes of the next calls, and of the next scripts that are loaded.
    pub(crate) runs: Mutex<Vec<Outcome>>,
    pub(crate) loads: Mutex<Vec<Outcome>>,
    /// What comes of everything else.
    pub(crate) others: Outcome,
    pub(crate) replies: Option<Replies>,
    pub(crate) transactions: AtomicI64,
    /// Whether every deadline has passed before anything is sent.
    pub(crate) is_late: bool,
}

impl Canned {
    /// Returns a store whose server always answers `reply`.
    pub(crate) fn store(reply: &[u8]) -> WireStore<Self> {
        Self::store_with(Options::new(), reply)
    }

    pub(crate) fn store_with(options: Options, reply: &[u8]) -> WireStore<Self> {
        let engine = Self {
            reply: reply.to_vec(),
            ..Self::default()
        };
        WireStore::new(engine, options)
    }

    pub(crate) fn asked(&self) -> SentCall {
        self.asked.lock().unwrap().clone()
    }

    /// Returns what comes of something that is sent, unless it is done.
    pub(crate) async fn come(
        &self,
        next: &Mutex<Vec<Outcome>>,
        sent: &[u8],
    ) -> Result<(), Failure> {
        assert!(!self.is_late, "nothing is sent after the deadline");
        let outcome = {
            let mut next = next.lock().unwrap();
            let is_over = next.is_empty();
            if is_over { self.others } else { next.remove(0) }
        };
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Echo => {
                let sent = String::from_utf8_lossy(sent);
                Err(refused(format!("ERR wrong argument '{sent}'")))
            }
            Outcome::Lost => Err(Failure::lost("the connection was lost")),
            Outcome::NoScript => Err(refused("NOSCRIPT No matching script.".to_owned())),
            Outcome::Silence => std::future::pending().await,
        }
    }
}

impl Engine for Canned {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        *self.asked.lock().unwrap() = SentCall {
            text: call.script().text().to_owned(),
            sha1: call.script().sha1().to_owned(),
            keys: call.keys().to_vec(),
            argument: call.argument().to_vec(),
            forgotten: Vec::new(),
        };
        *self.shown.lock().unwrap() += &format!("{call:?} {call:#?}");
        self.come(&self.runs, call.argument()).await?;
        Ok(self.reply.clone())
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        self.come(&self.loads, &[]).await
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        self.asked.lock().unwrap().forgotten.extend_from_slice(keys);
        self.forgets.lock().unwrap().push(keys.len());
        self.come(&Mutex::default(), &[]).await
    }

    /// What does not come at once does not come before the deadline.
    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        if self.is_late {
            return None;
        }
        let mut context = Context::from_waker(Waker::noop());
        match pin!(work).as_mut().poll(&mut context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        self.clustered
    }
}

/// Waits for what never waits: no engine of these tests does.
pub(crate) fn now<F: IntoFuture>(call: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(call.into_future()).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Consumes `cost` of `limit` by `key`.
pub(crate) fn consume(
    store: &impl Store,
    limit: &Limit,
    key: &str,
    cost: u64,
) -> Result<Verdicts, StoreError> {
    now(store.decide(Request::consume(Check::new(limit, key, cost))))
}

/// Returns everything that an error shows, also of its sources.
pub(crate) fn shown(error: &StoreError) -> String {
    let mut shown = String::new();
    let mut link: Option<&dyn Error> = Some(error);
    while let Some(error) = link {
        shown += &format!("{error} {error:?} ");
        link = error.source();
    }
    shown
}

/// Returns what is left of each limit.
pub(crate) fn remaining(verdicts: &Verdicts) -> Vec<u64> {
    let verdicts = verdicts.as_slice().iter();
    verdicts.map(|verdict| verdict.remaining()).collect()
}

/// Returns the limit that `text` writes, such as `gcra:10/1m`.
pub(crate) fn limit(text: &str) -> Limit {
    let algorithm: tollgate_core::Algorithm = text.parse().unwrap();
    Limit::new("l", algorithm).unwrap()
}

/// One limit of every algorithm, with every option that changes what is sent.
pub(crate) const LIMITS: [&str; 9] = [
    "gcra:10/1s",
    "gcra:7/1s,burst=3",
    "fixed-window:10/1s",
    "fixed-window:10/1s,anchored",
    "sliding-counter:10/1s",
    "sliding-buckets:10/1s,buckets=4",
    "sliding-log:10/1s",
    "sliding-log:10/1s,count-denied",
    "fixed-window:10/month@Europe/Berlin",
];

/// Returns a store on a real server, with a prefix that nobody else uses.
pub(crate) fn store(flavor: Flavor) -> WireStore<Raw> {
    store_with(flavor, Options::new())
}

/// Returns a store on a real server with `options`, but for a prefix that nobody else uses.
pub(crate) fn store_with(flavor: Flavor, options: Options) -> WireStore<Raw> {
    let options = options.with_prefix(&fresh("wire")).unwrap();
    WireStore::new(Raw::to(flavor), options)
}

/// Returns a store on a server of this test's own.
pub(crate) fn store_on(server: &Server) -> WireStore<Raw> {
    WireStore::new(Raw::over(server.connection(), None), Options::new())
}

/// Returns how often a server has written.
pub(crate) fn changes(server: &Server) -> u64 {
    let changes = server.info("persistence", "rdb_changes_since_last_save");
    changes.unwrap().parse().unwrap()
}

/// Returns a name that nobody else uses.
pub(crate) fn fresh(stem: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Relaxed);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!(
        "{stem}-{}-{}-{count}",
        std::process::id(),
        started.as_micros()
    )
}

impl Raw {
    /// Returns the keys of a store.
    pub(crate) fn keys(&self, options: &Options) -> Vec<Vec<u8>> {
        let pattern = format!("{}:*", options.prefix());
        let reply = self.command(&[b"KEYS", pattern.as_bytes()]);
        let keys = reply.items().iter().map(|key| match key {
            Reply::Bulk(key) => key.clone(),
            other => panic!("{other:?} is no key"),
        });
        keys.collect()
    }

    /// Returns how many bytes a key takes.
    pub(crate) fn usage(&self, key: &[u8]) -> u64 {
        let bytes = self.command(&[b"MEMORY", b"USAGE", key, b"SAMPLES", b"0"]);
        bytes.integer().unwrap().try_into().unwrap()
    }

    /// Returns how many milliseconds a key has left.
    pub(crate) fn pttl(&self, key: &[u8]) -> i64 {
        self.command(&[b"PTTL", key]).integer().unwrap()
    }
}

/// What a server holds at a key: a string, or the fields and values of a hash.
pub(crate) struct Look {
    pub(crate) value: Reply,
    /// The last millisecond in which the key can be read, or 0 if there is none.
    pub(crate) ends: u64,
    /// How often the server has written.
    pub(crate) changes: u64,
    /// The server's time in milliseconds.
    pub(crate) millis: u64,
}

impl Raw {
    /// Returns what the server holds at `key`, at one time.
    pub(crate) fn look(&self, key: &[u8]) -> Look {
        const LOOK: &[u8] = b"
            local function text(number) return string.format('%.0f', number) end
            local function milliseconds()
              local time = redis.call('TIME')
              return time[1] * 1000 + math.floor(time[2] / 1000)
            end
            local value = redis.pcall('GET', KEYS[1]) or ''
            if type(value) == 'table' then
              value = redis.pcall('HGETALL', KEYS[1])
            end
            if value.err then
              value = redis.call('LRANGE', KEYS[1], 0, -1)
            end
            local expires = redis.pcall('PEXPIRETIME', KEYS[1])
            if type(expires) == 'table' then
              -- A server that tells only how long a key has left: both within one millisecond.
              local started
              repeat
                started = milliseconds()
                expires = redis.call('PTTL', KEYS[1])
              until started == milliseconds()
              if expires >= 0 then expires = expires + started end
            end
            if expires == -2 then expires = 0 end
            local written = 'rdb_changes_since_last_save:(%d+)'
            local changes = string.match(redis.call('INFO', 'persistence'), written)
            return { value, text(expires), changes, text(milliseconds()) }";
        let reply = self.command(&[b"EVAL", LOOK, b"1", key]);
        let [value, ends, changes, millis] = reply.items() else {
            panic!("{reply:?}");
        };
        let ends = number(ends);
        let is_held = *value != Reply::Bulk(Vec::new());
        assert_eq!(is_held, ends > 0, "a key that never expires");
        Look {
            value: value.clone(),
            ends,
            changes: number(changes),
            millis: number(millis),
        }
    }
}

/// Returns the number that a text is.
pub(crate) fn number(reply: &Reply) -> u64 {
    let text = match reply {
        Reply::Bulk(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?} is no number"),
    };
    text.parse().unwrap()
}

/// How many keys ended when they should, and how many a millisecond or two early.
static ENDS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Checks that a key that expires at `ends` was written `lives` milliseconds before, between two times.
///
/// Servers read the clock that keys expire by less often than `TIME` does, and the oldest tells only
/// how long a key has left.
pub(crate) fn assert_ends(ends: u64, lives: u64, [sent, received]: [u64; 2], what: &str) {
    ENDS[usize::from(ends < lives + sent)].fetch_add(1, Relaxed);
    assert!(
        (sent - 2..=received + 2).contains(&(ends - lives)),
        "{what}: ends {ends} ms, not {lives} after {sent} to {received}"
    );
}

pub(crate) fn assert_mostly_on_time() {
    let [on_time, early] = ENDS.each_ref().map(|count| count.load(Relaxed));
    assert!(on_time > 4 * early, "{early} early, {on_time} on time");
}

//! Engines for tests: one that talks to a real server without a client crate, and one that answers
//! what it was told to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_core::store::{Check, Request, Verdicts};
use tollgate_core::{Limit, Store, StoreError};
use tollgate_testkit::shared::{self, SharedServer};
use tollgate_testkit::{Connection, Flavor, Reply, Server};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

/// A connection to a real server.
pub(crate) struct Raw {
    connection: Mutex<Connection>,
    clustered: bool,
    /// How many bytes the last script took.
    sent: AtomicU64,
    /// What the last script replied.
    told: Mutex<Vec<u8>>,
    /// How far the caller's clock is off, and whether it is ahead.
    off: Mutex<(Duration, bool)>,
    /// A shared server ends when nobody holds it.
    _server: Option<SharedServer>,
}

impl Raw {
    pub(crate) fn to(flavor: Flavor) -> Self {
        let server = shared::standalone(flavor);
        Self {
            connection: Mutex::new(server.connection()),
            clustered: false,
            sent: AtomicU64::new(0),
            told: Mutex::default(),
            off: Mutex::default(),
            _server: Some(server),
        }
    }

    /// A connection that the caller has opened, and the shared server that it is one to.
    pub(crate) fn over(connection: Connection, server: Option<SharedServer>) -> Self {
        Self {
            connection: Mutex::new(connection),
            clustered: false,
            sent: AtomicU64::new(0),
            told: Mutex::default(),
            off: Mutex::default(),
            _server: server,
        }
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
                Ok(reply)
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
            _ => Ok(()),
        }
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn now(&self) -> SystemTime {
        match *self.off.lock().unwrap() {
            (by, true) => SystemTime::now() + by,
            (by, false) => SystemTime::now() - by,
        }
    }

    fn is_clustered(&self) -> bool {
        self.clustered
    }
}

/// An engine that runs calls on a real server, and loses the replies to the next ones.
pub(crate) struct Losing {
    pub(crate) raw: Raw,
    /// How many replies are still to be lost.
    left: AtomicU64,
    /// Whether what is lost is reported as never sent.
    unsent: bool,
    ran: AtomicU64,
}

impl Losing {
    pub(crate) fn to(flavor: Flavor) -> Self {
        Self::over(Raw::to(flavor))
    }

    pub(crate) fn over(raw: Raw) -> Self {
        Self {
            raw,
            left: AtomicU64::new(0),
            unsent: false,
            ran: AtomicU64::new(0),
        }
    }

    /// Says that what is lost was never sent, although it was.
    pub(crate) fn unsent(self, unsent: bool) -> Self {
        Self { unsent, ..self }
    }

    /// Loses so many replies from now on.
    pub(crate) fn lose(&self, replies: u64) {
        self.left.store(replies, Relaxed);
    }

    /// Returns how many scripts ran.
    pub(crate) fn ran(&self) -> u64 {
        self.ran.load(Relaxed)
    }

    /// Passes errors of the server on.
    fn lost<T>(&self, reply: Result<T, Failure>) -> Result<T, Failure> {
        let reply = reply?;
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Ok(reply);
        }
        self.left.store(left - 1, Relaxed);
        if self.unsent {
            return Err(Failure::not_sent("no connection"));
        }
        Err(Failure::lost("the connection was lost"))
    }
}

impl Engine for Losing {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let reply = self.raw.run(call).await?;
        self.ran.fetch_add(1, Relaxed);
        self.lost(Ok(reply))
    }

    async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        self.raw.load(call).await
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let reply = self.raw.forget(keys).await;
        self.lost(reply)
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        self.raw.within(limit, work).await
    }

    fn now(&self) -> SystemTime {
        self.raw.now()
    }

    fn is_clustered(&self) -> bool {
        self.raw.is_clustered()
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

/// Answers every call with the same bytes, and remembers what it was asked last.
#[derive(Default)]
pub(crate) struct Canned {
    pub(crate) reply: Vec<u8>,
    pub(crate) clustered: bool,
    /// Whether the server refuses every call, and repeats what it was sent.
    pub(crate) echoes: bool,
    pub(crate) asked: Mutex<SentCall>,
}

impl Canned {
    /// A server that repeats what it was sent in its errors.
    pub(crate) fn echoing() -> Self {
        Self {
            echoes: true,
            ..Self::default()
        }
    }

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
        if self.echoes {
            let argument = String::from_utf8_lossy(call.argument());
            return Err(refused(format!("ERR wrong argument '{argument}'")));
        }
        Ok(self.reply.clone())
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        self.asked.lock().unwrap().forgotten.extend_from_slice(keys);
        Ok(())
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
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
    use std::task::{Context, Poll, Waker};
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(call.into_future()).poll(&mut context) {
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

/// Returns how often a server has run a command, sent or within a script, or refused to.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let Reply::Bulk(stats) = server.command(&["INFO", "commandstats"]) else {
        panic!("no statistics");
    };
    let stats = String::from_utf8(stats).unwrap();
    let field = |line: &str, name: &str| -> Option<u64> {
        let rest = line.split(&format!("{name}=")).nth(1)?;
        rest.split(',').next()?.trim().parse().ok()
    };
    let line = stats
        .lines()
        .find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.map_or(0, |line| {
        field(line, "calls").unwrap() + field(line, "rejected_calls").unwrap_or(0)
    })
}

/// Returns a number of a section of `INFO`.
pub(crate) fn info(server: &Server, section: &str, name: &str) -> u64 {
    let Reply::Bulk(info) = server.command(&["INFO", section]) else {
        panic!("no statistics");
    };
    let info = String::from_utf8(info).unwrap();
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let number = lines.find(|(field, _)| *field == name);
    number.unwrap().1.trim().parse().unwrap()
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
              value = redis.call('HGETALL', KEYS[1])
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

//! An engine whose server answers when the test says so.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Limit;
use tollgate_core::store::{Check, Request};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

use super::tasks::{
    Deciding, Spawning, begin, begin_with, drop_tasks, pass, poll, run_tasks, switch_to, time,
};

/// A gap that does not pass in a test, unless the test says so.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// How many calls leave by themselves, one right after the other.
pub(crate) const ALONE: usize = 16;

/// What was sent: a script with keys and an argument.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) is_batch: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) argument: Vec<u8>,
}

impl Sent {
    /// Returns whether the requests of a batch may have keys in common.
    pub(crate) fn shares(&self) -> bool {
        self.argument[0] == 1
    }

    /// Returns of how many kinds the requests of a batch are.
    pub(crate) fn kinds(&self) -> u16 {
        u16::from_le_bytes(self.argument[1..3].try_into().unwrap())
    }

    /// Returns for how many equal calls each request of a batch stands.
    pub(crate) fn calls(&self) -> Vec<u32> {
        let mut rest = &self.argument[3..];
        for _ in 0..self.kinds() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap());
            rest = &rest[7 + usize::try_from(length).unwrap()..];
        }
        let runs = rest.chunks(8).flat_map(|run| {
            let calls = u32::from_le_bytes(run[2..6].try_into().unwrap());
            let requests = u16::from_le_bytes(run[6..].try_into().unwrap());
            vec![calls; requests.into()]
        });
        runs.collect()
    }
}

#[derive(Debug, Default)]
struct State {
    sent: Vec<Sent>,
    loaded: usize,
    replies: VecDeque<Result<Vec<u8>, &'static str>>,
    /// When the calls are late that have begun.
    deadlines: Vec<Instant>,
    /// Time passes until then.
    until: Option<Instant>,
    /// What happens then, before anyone finds out.
    meanwhile: Option<fn()>,
    holds_loads: bool,
    /// The time by the engine's clock, if it stands still.
    now: Option<SystemTime>,
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    clustered: bool,
}

pub(crate) type Gated = WireStore<Spawning<Gate>>;

/// Returns a store whose server answers nothing yet.
pub(crate) fn gated(options: Options) -> Gated {
    WireStore::new(Spawning(Gate::default()), options)
}

/// A store whose server answers nothing yet, and a request that is made again and again. All
/// runtimes end with it.
pub(crate) struct Scene {
    pub(crate) store: Gated,
    pub(crate) limit: &'static Limit,
    request: Request<'static>,
}

impl Scene {
    pub(crate) fn new(options: Options) -> Self {
        Self::of("gcra:1000/1s", 1, options)
    }

    /// Returns a scene whose calls are about another limit, or at another cost.
    pub(crate) fn of(limit: &str, cost: u64, options: Options) -> Self {
        let limit: &'static Limit = Box::leak(Box::new(crate::engine::limit(limit)));
        Self {
            store: gated(options),
            limit,
            request: Request::consume(Check::new(limit, "alice", cost)),
        }
    }

    /// Returns a scene in which calls wait for each other.
    pub(crate) fn rush() -> Self {
        Self::new(Options::new().with_batch_gap(HOUR))
    }

    /// The same, on a cluster.
    pub(crate) fn cluster() -> Self {
        let mut scene = Self::rush();
        scene.store = WireStore::new(
            Spawning(Gate {
                clustered: true,
                ..Gate::default()
            }),
            Options::new().with_batch_gap(HOUR),
        );
        scene
    }

    pub(crate) fn begin<'a>(&'a self, request: &'a Request<'a>) -> Deciding<'a> {
        self.note_deadline();
        begin(&self.store, request)
    }

    fn note_deadline(&self) {
        let deadline = time().checked_add(self.store.options().deadline());
        self.state.lock().unwrap().deadlines.extend(deadline);
    }

    /// Begins a call, which waits, or is on its way.
    pub(crate) fn call(&self) -> Deciding<'_> {
        self.begin(&self.request)
    }

    /// The same; `waker` is woken when the call has ended.
    pub(crate) fn call_with(&self, waker: &Waker) -> Deciding<'_> {
        self.note_deadline();
        begin_with(&self.store, &self.request, waker)
    }

    pub(crate) fn calls(&self, count: usize) -> Vec<Deciding<'_>> {
        (0..count).map(|_| self.call()).collect()
    }

    /// Begins these calls, which leave together if they may.
    pub(crate) fn send<'a>(
        &'a self,
        requests: impl IntoIterator<Item = &'a Request<'a>>,
    ) -> Vec<Deciding<'a>> {
        let calls = requests.into_iter().map(|request| self.begin(request));
        let calls = calls.collect();
        run_tasks();
        calls
    }

    pub(crate) fn send_one(&self) -> Deciding<'_> {
        self.together(1).remove(0)
    }

    /// Begins `count` calls, which leave together if they may.
    pub(crate) fn together(&self, count: usize) -> Vec<Deciding<'_>> {
        let calls = self.calls(count);
        run_tasks();
        calls
    }

    /// The server answers a script about `calls` equal calls; tasks run.
    pub(crate) fn answered(&self, calls: usize) {
        self.answer(calls);
        run_tasks();
    }

    /// The server answers a script; tasks run.
    pub(crate) fn replied(&self, reply: Vec<u8>) {
        self.reply(reply);
        run_tasks();
    }

    /// A script fails; tasks run.
    pub(crate) fn failed(&self, why: &'static str) {
        self.fail(why);
        run_tasks();
    }

    /// The next deadline passes; tasks run.
    pub(crate) fn timed_out(&self) {
        self.time_out();
        run_tasks();
    }

    /// The server answers the script that is polled next, which is about `calls` equal calls.
    pub(crate) fn answer(&self, calls: usize) {
        let calls = u32::try_from(calls).unwrap();
        self.reply(answer(calls, &fresh_state()));
    }

    /// The server answers these calls, which left by themselves.
    pub(crate) fn answer_each(&self, calls: &mut [Deciding<'_>]) {
        for call in calls {
            self.reply(fresh_state());
            assert!(poll(call).unwrap().unwrap().is_allowed());
        }
    }
}

impl Deref for Scene {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.store.engine().0
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop_tasks();
        switch_to(0);
    }
}

/// Checks that all of these calls have been answered.
pub(crate) fn are_allowed(calls: &mut [Deciding<'_>]) {
    for call in calls {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
}

impl Gate {
    /// Returns what was sent since this was last asked.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state.lock().unwrap().sent)
    }

    pub(crate) fn loaded(&self) -> usize {
        self.state.lock().unwrap().loaded
    }

    /// From now on, the server does not answer when it is to load a script.
    pub(crate) fn hold_loads(&self) {
        self.state.lock().unwrap().holds_loads = true;
    }

    /// From now on, the engine's clock stands still at this time.
    pub(crate) fn stop_clock(&self, now: SystemTime) {
        self.state.lock().unwrap().now = Some(now);
    }

    /// The server answers the script that is polled next.
    pub(crate) fn reply(&self, reply: Vec<u8>) {
        self.state.lock().unwrap().replies.push_back(Ok(reply));
    }

    /// The script that is polled next fails: `lost`, `not sent`, or with an error of the server.
    pub(crate) fn fail(&self, why: &'static str) {
        self.state.lock().unwrap().replies.push_back(Err(why));
    }

    /// The next deadline passes for what is polled next.
    pub(crate) fn time_out(&self) {
        let mut state = self.state.lock().unwrap();
        let now = state.until.max(Some(time()));
        let later = state.deadlines.iter().copied();
        state.until = later.filter(|deadline| Some(*deadline) > now).min();
    }

    /// The same, and `meanwhile` happens before whoever waits finds out.
    pub(crate) fn time_out_while(&self, meanwhile: fn()) {
        self.state.lock().unwrap().meanwhile = Some(meanwhile);
        self.time_out();
    }
}

impl Engine for Gate {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        let keys = call.keys().iter();
        let keys = keys.map(|key| String::from_utf8_lossy(key).into_owned());
        let sent = Sent {
            is_batch: call.script().text().contains("protected("),
            keys: keys.collect(),
            argument: call.argument().to_vec(),
        };
        self.state.lock().unwrap().sent.push(sent);
        poll_fn(|_| match self.state.lock().unwrap().replies.pop_front() {
            Some(Ok(reply)) => Poll::Ready(Ok(reply)),
            Some(Err("lost")) => Poll::Ready(Err(Failure::lost("the connection was lost"))),
            Some(Err("not sent")) => Poll::Ready(Err(Failure::not_sent("no connection"))),
            Some(Err(line)) => Poll::Ready(Err(Failure::refused(line, line))),
            None => Poll::Pending,
        })
        .await
    }

    async fn load(&self, _: &ScriptCall<'_>) -> Result<(), Failure> {
        self.state.lock().unwrap().loaded += 1;
        poll_fn(|_| match self.state.lock().unwrap().holds_loads {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        })
        .await
    }

    async fn forget(&self, _: &[Vec<u8>]) -> Result<(), Failure> {
        Ok(())
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let mut work = pin!(work);
        let end = time().checked_add(limit);
        poll_fn(|context| {
            if let Poll::Ready(outcome) = work.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            let mut state = self.state.lock().unwrap();
            let until = state.until.unwrap_or_else(time);
            let left = |to: Instant| to.saturating_duration_since(time());
            let Some(end) = end.filter(|end| *end <= until) else {
                pass(left(until));
                return Poll::Pending;
            };
            pass(left(end));
            let meanwhile = state.meanwhile.take_if(|_| end == until);
            drop(state);
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
            Poll::Ready(None)
        })
        .await
    }

    fn now(&self) -> SystemTime {
        let stopped = self.state.lock().unwrap().now;
        stopped.unwrap_or_else(SystemTime::now)
    }

    fn is_clustered(&self) -> bool {
        self.clustered
    }
}

/// A script's reply about one limit without a state: it allows the call at an instant of its own.
pub(crate) fn fresh_state() -> Vec<u8> {
    let mut reply = vec![1];
    reply.extend_from_slice(&1_780_000_000_000_000_f64.to_le_bytes());
    reply.extend_from_slice(&0_u16.to_le_bytes());
    reply
}

/// A request's part of a reply to a batch.
pub(crate) fn answer(admitted: u32, reply: &[u8]) -> Vec<u8> {
    part(1, admitted, reply)
}

/// The part of a request that the server refused.
pub(crate) fn refusal(line: &str) -> Vec<u8> {
    part(0, 1, line.as_bytes())
}

fn part(is_done: u8, admitted: u32, text: &[u8]) -> Vec<u8> {
    let mut part = vec![is_done];
    part.extend_from_slice(&admitted.to_le_bytes());
    part.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
    part.extend_from_slice(text);
    part
}

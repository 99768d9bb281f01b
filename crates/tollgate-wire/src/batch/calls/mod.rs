//! `Batch`: the calls that one script decides together.

mod member;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::call::{BatchedCall, Kind};
use super::reply::{self, Answer};
use crate::codec::Series;
use crate::failure::{Failure, SharedFailure};
use crate::keyspace::Keys;
use crate::script::set_of;
use crate::wait::Wait;

pub(crate) use self::member::{Ended, Member, Undecided};

/// How long after a deadline the sender may end a call that it took: it knows whether that was sent.
const GRACE: Duration = Duration::from_millis(20);

/// Calls that are sent together, from the first one's arrival until the last one has its answer.
#[derive(Default)]
pub(crate) struct Batch {
    calls: Mutex<Calls>,
    /// Whether the batch was sent, so that the server may count the calls.
    is_out: AtomicBool,
    /// Whether there is a reply. Readable without the lock.
    is_answered: AtomicBool,
}

#[derive(Default)]
struct Calls {
    /// The algorithms of all calls, as a set.
    set: usize,
    kinds: Vec<Kind>,
    groups: Vec<Group>,
    /// The hashes of the limits and keys of all groups.
    hashes: Vec<u64>,
    /// How much of the script all groups take.
    work: usize,
    /// Whether several groups may use the same key.
    shares: bool,
    places: Vec<Place>,
    /// The wait of the first one: all last longer if the process is late.
    wait: Option<Wait>,
    /// Whether no more calls may join, because the batch was sent or all its calls are gone.
    is_closed: bool,
    outcome: Option<Outcome>,
}

/// Equal calls, which the script decides as one: no call between them uses one of their keys.
pub(super) struct Group {
    pub(super) kind: usize,
    keys: Keys,
    /// How many of its calls are sent; 0 until then.
    pub(super) calls: u32,
    /// The states in the reply, decoded by the first of several calls that reads it.
    series: Option<Box<Series>>,
}

/// A call in the batch.
struct Place {
    group: usize,
    /// Index of this call among those of its group that are sent.
    number: u32,
    deadline: Instant,
    waker: Option<Waker>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    /// Its deadline passed, and its caller was woken to say how late it is itself.
    Overdue,
    /// Its deadline passed after it was sent.
    Late,
    /// It is not sent, or its caller no longer waits.
    Gone,
}

enum Outcome {
    Failed(SharedFailure),
    /// The reply, and where each group's part of it is.
    Answered(Reply),
    /// The script never gives such a reply.
    NotUnderstood,
    /// No reply came before the last deadline. If true, the server may have counted the calls.
    Late(bool),
}

struct Reply {
    bytes: Arc<[u8]>,
    answers: Vec<Answer>,
    /// When it was there, before the callers were woken.
    at: Instant,
}

/// What is sent for a batch.
pub(crate) struct Load {
    pub(crate) set: usize,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) argument: Vec<u8>,
}

impl Batch {
    pub(super) fn new() -> Arc<Self> {
        // A batch of up to this many calls allocates once.
        const CALLS: usize = 32;
        let calls = Calls {
            groups: Vec::with_capacity(CALLS),
            hashes: Vec::with_capacity(CALLS),
            places: Vec::with_capacity(CALLS),
            ..Calls::default()
        };
        Arc::new(Self {
            calls: calls.into(),
            ..Self::default()
        })
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a new group for this call fits under the limit on work per batch.
    pub(super) fn has_room(&self, call: &BatchedCall<'_>) -> bool {
        let calls = self.lock();
        !calls.is_closed && calls.work + call.work <= call.options.batch_limits
    }

    /// Returns whether no more calls may join.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Returns how many limits the batch counts as: equal calls count once, an id counts as one more, and
    /// so do calls that take long.
    pub(super) fn work(&self) -> usize {
        self.lock().work
    }

    /// Adds a call to a group, or returns `None` if it differs from the calls in that group.
    pub(super) fn join(
        self: &Arc<Self>,
        call: &mut BatchedCall<'_>,
        group: usize,
    ) -> Option<Member> {
        let mut calls = self.lock();
        let place = calls
            .is_joined_by(call, group)
            .then(|| calls.place(call, group))?;
        Some(Member::new(self, place))
    }

    /// Adds a packed call in a new group, and returns the group's index.
    pub(super) fn add(self: &Arc<Self>, call: &mut BatchedCall<'_>) -> (usize, Member) {
        let mut calls = self.lock();
        let group = calls.group(call);
        let place = calls.place(call, group);
        (group, Member::new(self, place))
    }

    /// Notes that several groups may use the same key.
    pub(super) fn share(&self) {
        self.lock().shares = true;
    }

    /// Returns how many calls were added.
    pub(super) fn calls(&self) -> usize {
        self.lock().places.len()
    }

    /// Calls `each` with the hashes of the limits and keys of all groups.
    pub(super) fn for_each_hash(&self, each: impl FnMut(u64)) {
        self.lock().hashes.iter().copied().for_each(each);
    }

    /// Closes the batch to further calls, and returns what to send and the earliest deadline, or `None`
    /// if no caller is left.
    pub(super) fn close(&self, now: Instant) -> Option<(Load, Instant)> {
        let mut late = Vec::new();
        let mut calls = self.lock();
        let all = &mut *calls;
        for place in all.places.iter_mut().filter(|place| place.waits()) {
            if is_over(&mut all.wait, place.deadline, now) {
                place.state = State::Gone;
                late.extend(place.waker.take());
            } else {
                let group = &mut all.groups[place.group];
                place.number = group.calls;
                group.calls += 1;
            }
        }
        calls.is_closed = true;
        let closed = calls.load();
        drop(calls);
        wake(late);
        closed
    }

    /// Ends the sent calls whose deadlines are not after `now`, by a timer that was `due` before, and returns
    /// the next deadline. After the last deadline it ends none and returns `None`: [`end`](Self::end) ends
    /// them all.
    pub(super) fn expire(&self, due: Instant, now: Instant) -> Option<Instant> {
        let mut locked = self.lock();
        let calls = &mut *locked;
        if let Some(wait) = &mut calls.wait {
            wait.note(due, now);
        }
        let next = calls.first_deadline_after(Some(now))?;
        let longer = calls.longer();
        let late = calls.places.iter_mut().filter(|place| place.waits());
        let late = late.filter(|place| place.deadline + longer <= now);
        let wakers: Vec<_> = late
            .filter_map(|place| {
                place.state = State::Late;
                place.waker.take()
            })
            .collect();
        drop(locked);
        wake(wakers);
        Some(next)
    }

    /// Wakes the callers of calls whose deadlines have passed although its sender has not ended them: the batch
    /// waits for one that does not run, or [`GRACE`] has passed since. They end the calls, unless they are
    /// late themselves. Returns when to look again, unless all have ended.
    pub(super) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        let mut calls = self.lock();
        if calls.outcome.is_some() {
            return None;
        }
        // A sender that has closed the batch may still send it.
        let grace = if calls.is_closed {
            GRACE
        } else {
            Duration::ZERO
        };
        let longer = calls.longer();
        let mut next: Option<Instant> = None;
        let mut wakers = Vec::new();
        for place in calls.places.iter_mut().filter(|place| place.waits()) {
            let mut look = place.deadline + longer + grace;
            if look <= now {
                place.state = State::Overdue;
                wakers.extend(place.waker.take());
                look = now + GRACE;
            }
            next = Some(next.map_or(look, |next| next.min(look)));
        }
        calls.is_closed |= next.is_none();
        drop(calls);
        wake(wakers);
        next
    }

    /// Returns the flag to set when the batch is sent.
    pub(super) fn out(&self) -> &AtomicBool {
        &self.is_out
    }

    /// Returns whether the batch was sent, so that the server may count the calls.
    pub(super) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Wakes all callers that have not been woken. Calls that have not ended fail, because the task that
    /// should send them is gone.
    pub(super) fn finish(&self) {
        if self.lock().outcome.is_none() {
            let ended = "the task that sends calls together has ended, as it does with its runtime";
            let failure = if self.is_out() {
                Failure::lost(ended)
            } else {
                Failure::not_sent(ended)
            };
            self.end(Some(Err(failure)), Instant::now());
        }
        wake(self.wakers(usize::MAX));
    }

    /// Ends all calls `now`: with their reply, with a failure, or, if there was neither, as late.
    pub(super) fn end(&self, outcome: Option<Result<Vec<u8>, Failure>>, now: Instant) {
        let mut calls = self.lock();
        let sent = calls.groups.iter().map(|group| group.calls);
        calls.outcome = Some(match outcome {
            Some(Ok(reply)) => match reply::read(sent, &reply) {
                Some(answers) => {
                    self.is_answered.store(true, Ordering::Release);
                    Outcome::Answered(Reply {
                        bytes: reply.into(),
                        answers,
                        at: now,
                    })
                }
                None => Outcome::NotUnderstood,
            },
            Some(Err(failure)) => Outcome::Failed(failure.share()),
            None => Outcome::Late(self.is_out()),
        });
    }

    /// Wakes the first half of the callers, whose calls have ended.
    pub(super) fn wake_half(&self) {
        let half = self.calls() / 2;
        wake(self.wakers(half));
    }

    /// Takes the wakers that are left among the first `calls` calls.
    fn wakers(&self, calls: usize) -> Vec<Waker> {
        let mut locked = self.lock();
        let places = locked.places.iter_mut().take(calls);
        places.filter_map(|place| place.waker.take()).collect()
    }
}

/// Wakes callers. If a waker panics, the others are still woken.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// See [`Wait::is_over`].
fn is_over(wait: &mut Option<Wait>, deadline: Instant, now: Instant) -> bool {
    let wait = wait.as_mut();
    wait.map_or(deadline <= now, |wait| wait.is_over(deadline, now))
}

impl Calls {
    /// Returns how much longer calls wait than until their deadlines.
    fn longer(&self) -> Duration {
        self.wait.map_or(Duration::ZERO, |wait| wait.extension())
    }

    /// Returns what to send and the earliest deadline, or `None` if no call waits.
    fn load(&mut self) -> Option<(Load, Instant)> {
        let first = self.first_deadline_after(None)?;
        let sent = self.groups.iter().filter(|group| group.calls > 0);
        let argument = reply::argument(self.shares, &self.kinds, sent);
        let mut keys = Vec::with_capacity(self.hashes.len());
        for group in self.groups.iter_mut().filter(|group| group.calls > 0) {
            keys.extend(group.keys.drain(..));
        }
        let load = Load {
            set: self.set,
            keys,
            argument,
        };
        Some((load, first))
    }

    /// Returns the earliest deadline of the calls that wait, after `now` if that is given.
    fn first_deadline_after(&self, now: Option<Instant>) -> Option<Instant> {
        let waiting = self.places.iter().filter(|place| place.waits());
        let longer = self.longer();
        let deadlines = waiting.map(|place| place.deadline + longer);
        deadlines.filter(|deadline| Some(*deadline) > now).min()
    }

    /// Returns whether the call equals those in this group.
    fn is_joined_by(&self, call: &BatchedCall<'_>, group: usize) -> bool {
        let group = &self.groups[group];
        let kind = &self.kinds[group.kind];
        !self.is_closed && kind.joins && kind.is_of(call) && call.has_keys(&group.keys)
    }

    /// Adds a call to a group, and returns the index of its place.
    fn place(&mut self, call: &mut BatchedCall<'_>, group: usize) -> usize {
        let begun = call.deadline.checked_sub(call.options.deadline);
        self.wait = self.wait.or_else(|| begun.map(Wait::since));
        self.places.push(Place {
            group,
            number: 0,
            deadline: call.deadline,
            waker: call.waker.take(),
            state: State::Waits,
        });
        self.places.len() - 1
    }

    /// Adds a group for a packed call, and returns its index.
    fn group(&mut self, call: &mut BatchedCall<'_>) -> usize {
        self.hashes.extend_from_slice(&call.hashes);
        self.work += call.work;
        let known = self.kinds.iter().rposition(|kind| kind.is_of(call));
        let kind = known.unwrap_or_else(|| {
            self.set |= set_of(call.question.request);
            self.kinds.push(Kind::of(call));
            self.kinds.len() - 1
        });
        let keys = call.packed.take().map(|packed| packed.keys);
        self.groups.push(Group {
            kind,
            keys: keys.unwrap_or_default(),
            calls: 0,
            series: None,
        });
        self.groups.len() - 1
    }
}

impl Place {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits | State::Overdue)
    }
}

//! Encodes the argument of a script, and decodes its reply.
//!
//! Numbers are little-endian IEEE doubles, the number type of Lua, which hold integers below 2^53
//! exactly. A script unpacks them in one step, without parsing decimal text.

use std::time::Duration;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollgate_core::inside;
use tollgate_core::inside::encoding::{Change, change, longest_delay_us, micros_ceil};
use tollgate_core::inside::twins::{
    CallContext, MOST_PARAMETERS, code, decode, double, integer, parameters, reserved, words,
};
use tollgate_core::store::{
    BlockSpan, Check, Fingerprint, MAX_EXACT, Operation, Request, State, Verdicts,
};
use tollgate_core::{CallId, ErrorKind, StoreError, Timestamp};

use super::fault::FOREIGN;
use super::script::Form;

/// The longest slack in milliseconds: 285 years, as long as any state lasts.
const MOST_SLACK: u64 = MAX_EXACT / 1_000;

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
pub(super) fn argument(
    request: &Request<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Vec<u8> {
    let slack = slack_at(instant, caller_slack);
    if let Form::Few(_) = Form::of(request) {
        let mut text = Vec::with_capacity(24 + 64 * request.checks().len());
        push_instant(&mut text, instant);
        push(&mut text, slack);
        if let Operation::Reserve { max_delay } = request.operation() {
            push(&mut text, longest_delay_us(request, max_delay));
        }
        for check in request.checks() {
            let algorithm = check.limit().algorithm();
            push(&mut text, check.cost());
            push(&mut text, u64::from(algorithm.counts_denied()));
            for parameter in parameters(algorithm) {
                push(&mut text, parameter);
            }
        }
        return text;
    }
    many_argument(request, instant, slack)
}

/// Returns the number of an operation in the argument of a script, or `None` if no script knows it.
pub(super) fn operation_number(operation: Operation<'_>) -> Option<u64> {
    Some(match operation {
        Operation::Consume => 1,
        Operation::Peek => 2,
        Operation::Refund(_) | Operation::Settle(_) => 3,
        Operation::TakeUpTo => 4,
        Operation::Reserve { .. } => 6,
        Operation::Lower => 7,
        Operation::Block(_) => 8,
        _ => return None,
    })
}

/// Returns the argument of a script for any operation on any number of limits, with `slack` in
/// milliseconds.
pub(super) fn many_argument(
    request: &Request<'_>,
    instant: Option<Timestamp>,
    slack: u64,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(24 + 64 * request.checks().len());
    push(
        &mut text,
        // The store supports no operation without a number.
        operation_number(request.operation()).unwrap_or_default(),
    );
    push_instant(&mut text, instant);
    push(&mut text, slack);
    for (index, check) in request.checks().iter().enumerate() {
        push_member(&mut text, request, index, check);
    }
    for (index, check) in request.checks().iter().enumerate() {
        for number in reserved(request, index, check).into_iter().flatten() {
            push(&mut text, number);
        }
    }
    text
}

/// Appends what a script needs to keep the answer to `request` by `id`: a hash of the call, and how
/// long in milliseconds, with `slack` in milliseconds. Returns the hash.
pub(super) fn push_id(
    text: &mut Vec<u8>,
    request: &Request<'_>,
    keys: &[Vec<u8>],
    (id, slack): (&CallId<'_>, u64),
) -> [u8; 8] {
    let mut hasher = Sha256::new();
    // What is the same when the call is repeated: everything but the instant.
    hasher.update(argument(request, None, Duration::ZERO));
    if let Operation::Reserve { max_delay } = request.operation() {
        hasher.update(max_delay.as_nanos().to_le_bytes());
    }
    // The argument holds large costs as doubles, which are rounded.
    for check in request.checks() {
        hasher.update(check.cost().to_le_bytes());
    }
    for key in keys {
        hasher.update(u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(key);
    }
    let hash: [u8; 32] = hasher.finalize().into();
    let (call, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
    text.extend_from_slice(call);
    push(
        text,
        (id.kept_us() / 1_000).saturating_add(slack).min(MOST_SLACK),
    );
    *call
}

/// Returns the part of `reply` after the hash of the call, which must be `call`.
///
/// # Errors
///
/// [`ErrorKind::Malformed`] if the answer is one to another call.
pub(super) fn answer_to(call: [u8; 8], reply: &[u8]) -> Result<&[u8], StoreError> {
    match reply.split_first_chunk() {
        Some((answered, rest)) if *answered == call => Ok(rest),
        Some(_) => Err(CallId::taken()),
        None => Err(not_understood()),
    }
}

/// Returns the slack in milliseconds of a call at a caller's `instant`; at the server's there is
/// none.
pub(super) fn slack_at(instant: Option<Timestamp>, caller_slack: Duration) -> u64 {
    instant.map_or(0, |_| slack(caller_slack))
}

/// Returns `slack` in milliseconds, rounded up.
pub(super) fn slack(slack: Duration) -> u64 {
    let millis = slack.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(MOST_SLACK, |millis| millis.min(MOST_SLACK))
}

/// What a script for any operation needs to know of a limit beside its cost: the field `detail` in
/// `unit.lua`. The operation determines which of these it is.
#[derive(Clone, Copy)]
enum Detail {
    /// An operation that needs no more.
    None,
    /// [`Operation::Reserve`]: the longest delay, in microseconds.
    LongestDelay(u64),
    /// [`Operation::Refund`] and [`Operation::Settle`], if the cost is given back: when it was
    /// counted, in microseconds.
    CountedAt(u64),
    /// [`Operation::Settle`], if the cost is counted.
    CountMore,
    /// [`Operation::Block`] for the usual time: the cost is 1, or the script would record nothing.
    BlockUsual,
    /// [`Operation::Block`] until an instant: that is in the place of the cost.
    BlockUntil,
    /// [`Operation::Block`] for a time: that is in the place of the cost.
    BlockLasting,
}

impl Detail {
    /// Returns the number that is sent, or `None` for -1.
    fn number(self) -> Option<u64> {
        match self {
            Self::None | Self::BlockUsual => Some(0),
            Self::LongestDelay(time) => Some(time),
            Self::CountedAt(instant) => Some(instant),
            Self::CountMore => None,
            Self::BlockUntil => Some(1),
            Self::BlockLasting => Some(2),
        }
    }
}

fn push_member(text: &mut Vec<u8>, request: &Request<'_>, index: usize, check: &Check<'_>) {
    let algorithm = check.limit().algorithm();
    let (cost, detail) = match (change(request, index), request.operation()) {
        (Some(Change::GiveBack { amount, at }), _) => (amount, Detail::CountedAt(at.as_micros())),
        (Some(Change::Count(more)), _) => (more, Detail::CountMore),
        (None, Operation::Reserve { max_delay }) => {
            let longest = longest_delay_us(request, max_delay);
            (check.cost(), Detail::LongestDelay(longest))
        }
        (None, Operation::Block(BlockSpan::Usual)) => (1, Detail::BlockUsual),
        (None, Operation::Block(BlockSpan::Until(instant))) => {
            (instant.as_micros(), Detail::BlockUntil)
        }
        (None, Operation::Block(BlockSpan::Lasting(time))) => {
            (micros_ceil(time), Detail::BlockLasting)
        }
        (None, _) => (check.cost(), Detail::None),
    };
    push(text, code(algorithm) as u64);
    push(text, u64::from(algorithm.counts_denied()));
    push(text, cost);
    push_or_minus_one(text, detail.number());
    let parameters = parameters(algorithm);
    for index in 0..MOST_PARAMETERS {
        push(text, parameters.get(index).copied().unwrap_or(0));
    }
}

/// Appends an integer, at most 2^53.
pub(super) fn push(text: &mut Vec<u8>, number: u64) {
    text.extend_from_slice(&double(number));
}

/// Appends a caller's instant, or -1 for the server's clock.
pub(super) fn push_instant(text: &mut Vec<u8>, instant: Option<Timestamp>) {
    push_or_minus_one(text, instant.map(Timestamp::as_micros));
}

fn push_or_minus_one(text: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => push(text, number),
        None => text.extend_from_slice(&(-1_f64).to_le_bytes()),
    }
}

/// A request, and what its decision depends on beside the reply.
#[derive(Clone, Copy)]
pub(super) struct Question<'r> {
    pub(super) request: &'r Request<'r>,
    /// `None` for the server's clock.
    pub(super) instant: Option<Timestamp>,
}

/// Returns the verdicts that follow from a script's `reply`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if no script gives such a reply to the request, or if the state machines
/// decide otherwise than the script did on the same states; [`ErrorKind::Misconfigured`] if no limit
/// has written such states.
pub(super) fn decision(question: &Question<'_>, reply: &[u8]) -> Result<Verdicts, StoreError> {
    let request = question.request;
    let mut told = Reply::read(question, reply, 1)?;
    let states = &mut told.states[..];
    let decision = match request.operation() {
        // The reply to a refund or a settlement holds the states after it: peek at those.
        Operation::Refund(_) | Operation::Settle(_) => {
            let checks = request.checks().iter();
            let look = checks.map(|check| Check::new(check.limit(), check.key(), 0));
            let look = Request::new(Operation::Peek, look);
            look.decide_on(states, told.now)
        }
        _ => request.decide_on(states, told.now),
    };
    if decision.is_allowed() != told.allowed {
        return Err(not_understood());
    }
    Ok(decision)
}

/// One of several equal calls that a script decided as if each came after the one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// How many came before it.
    pub(super) before: u32,
    /// How many there are.
    pub(super) calls: u32,
    /// How many of them are admitted: the first ones.
    pub(super) admitted: u32,
}

/// The states of several equal calls, which are read once.
pub(super) struct Series {
    fingerprint: Fingerprint,
    allowed: bool,
    now: Timestamp,
    /// The states before the first call.
    first: States,
    /// The states after so many calls.
    states: States,
    counted: u32,
    /// The verdicts on each call that changes nothing.
    unchanged: Option<Verdicts>,
}

impl Series {
    /// Reads the states in a script's `reply` to equal calls.
    ///
    /// # Errors
    ///
    /// The same as [`decision`].
    pub(super) fn read(
        question: &Question<'_>,
        reply: &[u8],
        turn: Turn,
    ) -> Result<Self, StoreError> {
        let asked = match question.request.operation() {
            Operation::Consume => turn.calls.min(turn.admitted.saturating_add(1)),
            _ => 1,
        };
        let told = Reply::read(question, reply, u64::from(asked))?;
        Ok(Self {
            fingerprint: Fingerprint::of(question.request),
            allowed: told.allowed,
            now: told.now,
            states: told.states.clone(),
            first: told.states,
            counted: 0,
            unchanged: None,
        })
    }

    /// Decides about one of the calls.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] if the state machines decide otherwise than the script did.
    pub(super) fn decide(
        &mut self,
        request: &Request<'_>,
        turn: Turn,
    ) -> Result<Verdicts, StoreError> {
        let consumes = matches!(request.operation(), Operation::Consume);
        let (counted, expected) = match consumes {
            true => (turn.before.min(turn.admitted), turn.before < turn.admitted),
            false => (0, self.allowed),
        };
        let changes = consumes && expected;
        if !changes && let Some(verdicts) = &self.unchanged {
            return Ok(verdicts.again());
        }
        if counted < self.counted {
            // Callers usually come in order.
            self.states.clone_from(&self.first);
            self.counted = 0;
        }
        if counted > self.counted {
            // All that came in between are as one call.
            let calls = u64::from(counted - self.counted);
            let cost = |check: &Check<'_>| check.cost().saturating_mul(calls);
            let checks = request.checks().iter();
            let checks = checks.map(|check| Check::new(check.limit(), check.key(), cost(check)));
            let between = Request::new(Operation::Consume, checks);
            let between =
                inside::decide(&between, self.fingerprint, &mut self.states[..], self.now);
            if between.is_denied() {
                return Err(not_understood());
            }
            self.counted = counted;
        }
        let decision = inside::decide(request, self.fingerprint, &mut self.states[..], self.now);
        self.counted += u32::from(consumes && decision.is_allowed());
        if decision.is_allowed() != expected {
            return Err(not_understood());
        }
        if !changes {
            self.unchanged = Some(decision.again());
        }
        Ok(decision)
    }
}

pub(super) fn not_understood() -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        "the reply is not one that the script gives: delete the keys of this prefix if another program has written to them, and check that no proxy changes replies",
    )
}

fn foreign() -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, FOREIGN)
}

/// A script's reply: whether the request was allowed, when it was decided, and the states.
struct Reply {
    allowed: bool,
    now: Timestamp,
    states: States,
}

/// One state for each limit of a request.
type States = SmallVec<[State; 1]>;
/// The same, as bytes.
type Parts<'r> = SmallVec<[&'r [u8]; 1]>;

impl Reply {
    /// `asked` is for how many equal calls the script evaluated the states.
    fn read(question: &Question<'_>, reply: &[u8], asked: u64) -> Result<Self, StoreError> {
        let request = question.request;
        let parts = Self::parts(request.checks().len(), reply).ok_or_else(not_understood)?;
        let (allowed, now, raw) = parts;
        if question.instant.is_some_and(|instant| instant != now) {
            return Err(not_understood());
        }
        let states = request.checks().iter().zip(raw).map(|(check, raw)| {
            let call = CallContext {
                now: now.as_micros(),
                cost: cost(request, check, allowed).saturating_mul(asked),
            };
            let algorithm = check.limit().algorithm();
            decode(algorithm, &words(raw)?, call)
        });
        let states: Option<States> = states.collect();
        Ok(Self {
            allowed,
            now,
            states: states.ok_or_else(foreign)?,
        })
    }

    /// Returns whether the request was allowed, when it was decided, and so many states.
    fn parts(count: usize, reply: &[u8]) -> Option<(bool, Timestamp, Parts<'_>)> {
        let (&[allowed], rest) = reply.split_first_chunk()?;
        let (now, mut rest) = rest.split_first_chunk()?;
        let allowed = match allowed {
            0 => false,
            1 => true,
            _ => return None,
        };
        let now = Timestamp::from_micros(integer(*now)?).ok()?;
        let mut states = Parts::with_capacity(count);
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (raw, after) = after.split_at_checked(length)?;
            states.push(raw);
            rest = after;
        }
        rest.is_empty().then_some((allowed, now, states))
    }
}

/// Returns the cost that the script evaluated `check` with.
fn cost(request: &Request<'_>, check: &Check<'_>, allowed: bool) -> u64 {
    match request.operation() {
        Operation::Block(_) | Operation::Lower | Operation::Refund(_) | Operation::Settle(_) => 0,
        Operation::TakeUpTo if !allowed => 1,
        _ => check.cost(),
    }
}

//! Schedules on a server: encodes a request as the argument of their script, sends it, and
//! decodes the reply.

mod reply;

use std::sync::OnceLock;

use tollgate_core::inside::encoding::{micros_ceil, quotas, retention_us};
use tollgate_core::schedule::{self, Event};
use tollgate_core::{Key, StoreError, Timestamp};

use self::reply::answer;
use super::codec::{count, not_understood, push, push_instant, push_or_minus_one, slack};
use super::engine::{Engine, ScriptCall};
use super::fault::{Effect, unknown_operation};
use super::options::Options;
use super::script::Script;
use super::store::WireStore;

/// What the script of all schedules knows of the key and of the call.
const STATE: &str = include_str!("script/state.lua");
/// The events that it looks at, in the order of their times.
const VIEW: &str = include_str!("script/view.lua");
/// Its periods of calendars and closed times.
const CALENDARS: &str = include_str!("script/calendars.lua");
/// Its search for a free time.
const SEARCH: &str = include_str!("script/search.lua");
/// How it finds out whether there is room for the events of a call.
const ROOM: &str = include_str!("script/room.lua");
/// How it changes packed events.
const CHUNKS: &str = include_str!("script/chunks.lua");
/// How it changes the state.
const CHANGE: &str = include_str!("script/change.lua");

/// Returns the request for a list, beginning at `from`.
fn beginning_at<'r>(from: Timestamp, request: &schedule::Request<'r>) -> schedule::Request<'r> {
    let mut operation = request.operation().clone();
    if let schedule::Operation::List { from: begin, .. } = &mut operation {
        *begin = from;
    }
    let rest = schedule::Request::new(request.terms(), request.key(), operation);
    match request.caller_time() {
        Some(now) => rest.at(now),
        None => rest,
    }
}

/// Returns the script of all schedules.
fn script() -> &'static Script {
    static PREPARED: OnceLock<Script> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let parts = [STATE, VIEW, CALENDARS, SEARCH, ROOM, CHUNKS, CHANGE];
        Script::of_text(&parts.concat())
    })
}

impl<E: Engine> WireStore<E> {
    /// Decides `request`, like [`schedule::Store::schedule`].
    ///
    /// # Errors
    ///
    /// The same as [`schedule::Store::schedule`].
    pub async fn schedule(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let mut listed = Vec::new();
        let mut rest = None;
        loop {
            let request = rest.as_ref().unwrap_or(request);
            match self.ask(request).await? {
                (answer, None) if listed.is_empty() => return Ok(answer),
                (schedule::Answer::Events(events), next) => {
                    listed.extend(events);
                    let Some(from) = next else {
                        return Ok(schedule::Answer::Events(listed));
                    };
                    rest = Some(beginning_at(from, request));
                }
                (_, _) => return Err(not_understood()),
            }
        }
    }

    /// Runs the script for `request` once. Returns its answer and, if that is only the beginning of
    /// a long list, the time from which to go on.
    async fn ask(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<(schedule::Answer, Option<Timestamp>), StoreError> {
        let instant = self.instant(request.caller_time())?;
        let key = self.state_key(request.terms().identity(), request.key(), instant);
        let argument = argument(request, instant, self.options())?;
        let call = ScriptCall {
            script: script(),
            keys: &[key],
            argument: &argument,
            ids: &ids(request),
        };
        let reply = self.once(&call, effect(request)).await?;
        answer(request, instant, &reply)
    }

    /// Deletes the events of `key`, like [`schedule::Store::reset_schedule`].
    ///
    /// # Errors
    ///
    /// The same as [`schedule::Store::reset_schedule`].
    pub async fn reset_schedule(
        &self,
        terms: &schedule::Terms,
        key: Key<'_>,
    ) -> Result<(), StoreError> {
        self.forget_states(terms.identity(), key).await
    }
}

/// Returns what the script does for `request`.
fn effect(request: &schedule::Request<'_>) -> Effect {
    match request.operation() {
        schedule::Operation::NextFree { .. } | schedule::Operation::List { .. } => Effect::Nothing,
        _ => Effect::Plans,
    }
}

/// Returns the ids of the events in `request`.
fn ids<'a>(request: &schedule::Request<'a>) -> Vec<&'a [u8]> {
    match request.operation() {
        schedule::Operation::Add(events) => events.iter().map(Event::id).collect(),
        schedule::Operation::Reschedule(event) | schedule::Operation::ReserveNext(event) => {
            vec![event.id()]
        }
        schedule::Operation::Cancel(id) => vec![id],
        _ => Vec::new(),
    }
}

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
fn argument(
    request: &schedule::Request<'_>,
    instant: Option<Timestamp>,
    options: &Options,
) -> Result<Vec<u8>, StoreError> {
    let terms = request.terms();
    let point = |time| Event::new(b"", time);
    let (code, events) = match request.operation() {
        schedule::Operation::Add(events) => (1, events.clone()),
        schedule::Operation::Reschedule(event) => (2, vec![*event]),
        schedule::Operation::Cancel(id) => (3, vec![Event::new(*id, Timestamp::UNIX_EPOCH)]),
        schedule::Operation::NextFree { from, weight } => {
            (4, vec![point(*from).with_weight(*weight)])
        }
        schedule::Operation::ReserveNext(event) => (5, vec![*event]),
        schedule::Operation::List { from, until } => (6, vec![point(*from), point(*until)]),
        _ => return Err(unknown_operation()),
    };
    let mut text = Vec::with_capacity(256);
    push(&mut text, code);
    push_instant(&mut text, instant);
    for number in [
        instant.map_or(0, |_| slack(options.caller_slack)),
        micros_ceil(terms.tolerance()),
        micros_ceil(terms.horizon()),
        retention_us(terms),
        u64::from(options.small_schedule),
        u64::from(options.schedule_chunk),
        count(quotas(request).count()),
        count(events.len()),
    ] {
        push(&mut text, number);
    }
    for (amount, window_us, periods) in quotas(request) {
        // Closed times count nothing: their periods are the open ones.
        push_or_minus_one(&mut text, amount);
        push(&mut text, window_us);
        push(&mut text, count(periods.len()));
    }
    for (_, _, periods) in quotas(request) {
        for period in periods {
            push(&mut text, period.start().as_micros());
            push(&mut text, period.end().as_micros());
        }
    }
    for event in events {
        push(&mut text, event.time().as_micros());
        push(&mut text, event.weight());
        // The request is valid, so an id has at most 200 bytes.
        text.push(u8::try_from(event.id().len()).unwrap_or(u8::MAX));
        text.extend_from_slice(event.id());
    }
    Ok(text)
}

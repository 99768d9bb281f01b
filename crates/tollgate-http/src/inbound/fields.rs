//! `Fields`: writes what a decision says about limits into the headers of a response.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use smallvec::SmallVec;
use tollgate_core::store::{Source, Verdict};
use tollgate_core::{Algorithm, Decision, Limit, Wait};

use super::grpc;
use super::text::Line;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// A header's value while it is written.
type Text = SmallVec<[u8; 128]>;

/// The largest integer of a structured field (RFC 9651).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Which headers say how much is left, and of which limits: by default `RateLimit` and
/// `RateLimit-Policy` of the newest draft, of all limits, and `Retry-After` if the call was denied.
///
/// Everything is rounded so that a client that obeys is not refused: what remains down, times up to
/// whole seconds. A client obeys if the costs of what it sends are no more than what remains until
/// the time of the field has passed, and it sends nothing before `Retry-After` has. When the time has
/// passed, at least one more than what remains is left, so a request that costs more may have to wait
/// again.
///
/// The time of a request that was allowed is exact for fixed windows and GCRA: the earliest instant
/// at which more than what remains is left. For the others, and for a part of a limit, it is the
/// instant at which nothing is counted any more, which may be later. That of a request that was denied
/// is the instant at which the same request is allowed. If that never comes, because it costs more
/// than the limit's capacity, `Retry-After` is not written, and no time if the limit is full already.
///
/// Nothing is said of a limit of which the answer does not know what remains: while
/// a fallback allows everything without counting, or if a cache denies a request without having
/// asked for this limit.
///
/// [`Hints`](crate::Hints) reads what this writes.
///
/// # Examples
///
/// ```
/// use http::HeaderMap;
/// use tollgate_http::inbound::Fields;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// let limiter = RateLimiter::new(MemoryStore::new(), ["login=gcra:5/1m"])?;
/// let decision = limiter.check("203.0.113.7").run()?;
/// let mut headers = HeaderMap::new();
/// Fields::new().write(&decision, &mut headers);
/// assert_eq!(headers["ratelimit-policy"], r#""login";q=5;w=60"#);
/// assert_eq!(headers["ratelimit"], r#""login";r=4;t=12"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fields {
    draft: Option<Draft>,
    x_rate_limit: Option<Reset>,
    jitter: Duration,
    hidden: Vec<Box<str>>,
}

/// A draft of the headers `RateLimit` and `RateLimit-Policy`
/// ([draft-ietf-httpapi-ratelimit-headers](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/)).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Draft {
    /// `RateLimit-Limit: 5`, `RateLimit-Remaining: 4`, `RateLimit-Reset: 12`, of the limit of which
    /// the least is left, or if several leave as little, of the one for which that lasts longest; and
    /// `RateLimit-Policy: 5;w=60` of all.
    Six,
    /// `RateLimit: limit=5, remaining=4, reset=12`, of the same limit, and `RateLimit-Policy: 5;w=60`
    /// of all.
    Seven,
    /// `RateLimit: "login";r=4;t=12` and `RateLimit-Policy: "login";q=5;w=60`, of all limits; the
    /// same in drafts 8 to 11.
    Eleven,
}

/// How `X-RateLimit-Reset` says when the limit has its full capacity again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reset {
    /// In seconds from now, rounded up.
    After,
    /// In seconds since the Unix epoch, rounded up, by the clock of the store.
    At,
}

impl Default for Fields {
    fn default() -> Self {
        Self::new()
    }
}

impl Fields {
    /// Returns the default: `RateLimit` and `RateLimit-Policy` of draft 11, and `Retry-After`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            draft: Some(Draft::Eleven),
            x_rate_limit: None,
            jitter: Duration::ZERO,
            hidden: Vec::new(),
        }
    }

    /// Returns fields of which only `Retry-After` is written.
    #[must_use]
    pub fn retry_after_only() -> Self {
        Self {
            draft: None,
            ..Self::new()
        }
    }

    /// Sets which draft of `RateLimit` is written.
    #[must_use]
    pub fn draft(mut self, draft: Draft) -> Self {
        self.draft = Some(draft);
        self
    }

    /// Also writes `X-RateLimit-Limit`, `-Remaining` and `-Reset`, of the limit of which
    /// [draft 6](Draft::Six) is.
    #[must_use]
    pub fn x_rate_limit(mut self, reset: Reset) -> Self {
        self.x_rate_limit = Some(reset);
        self
    }

    /// Writes nothing about the limit called `name`, as about limits in [shadow](Limit::shadow). If it
    /// denies a call, `Retry-After` says for how long all the same.
    #[must_use]
    pub fn hide(mut self, name: &str) -> Self {
        self.hidden.push(name.into());
        self
    }

    /// Makes `Retry-After`, and what gRPC has for it, later by a random time of up to `most`, so that clients that were denied
    /// together do not come back together.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Writes what `decision` says into `headers`.
    ///
    /// `RateLimit` and `RateLimit-Policy` of draft 11 are lists, and are appended to what others said.
    /// Those that are of one limit stay if what was there leaves less. `Retry-After` replaces what was
    /// there.
    pub fn write(&self, decision: &Decision<'_>, headers: &mut HeaderMap) {
        let limits = decision.verdicts().map(|(limit, _)| limit);
        if let Some(policy) = self.policy(limits) {
            let _ = headers.append(RATE_LIMIT_POLICY, policy);
        }
        self.write_verdicts(decision.verdicts(), decision.source(), headers);
    }

    /// Returns whether anything but `Retry-After` is written.
    pub(super) fn say_what_is_left(&self) -> bool {
        self.draft.is_some() || self.x_rate_limit.is_some()
    }

    /// Returns whether fields say anything about this limit.
    pub(super) fn shows(&self, limit: &Limit) -> bool {
        !limit.is_shadow() && !self.hidden.iter().any(|name| **name == *limit.name())
    }

    /// Returns the names of the limits that are hidden.
    pub(super) fn hidden(&self) -> impl Iterator<Item = &str> {
        self.hidden.iter().map(|name| &**name)
    }

    /// Returns the value of `RateLimit-Policy`, if there is anything to say.
    pub(super) fn policy<'l>(
        &self,
        limits: impl IntoIterator<Item = &'l Limit>,
    ) -> Option<HeaderValue> {
        let draft = self.draft?;
        let mut text = Text::new();
        for limit in limits {
            // A block has no quota.
            if !self.shows(limit) || limit.algorithm().can_block() {
                continue;
            }
            let quota = limit.algorithm().quota();
            let amount = quota.amount().min(MAX_INTEGER);
            // A longer window promises less.
            let window = Wait::from_micros(quota.window_us()).as_secs_ceil();
            let window = window.unwrap_or(MAX_INTEGER);
            let name = (draft == Draft::Eleven).then_some((limit, b";q="));
            append(&mut text, name, amount, Some((b";w=", window)));
        }
        (!text.is_empty()).then(|| value(&text))
    }

    /// Writes what the limits say, except for their policy.
    pub(super) fn write_verdicts<'v>(
        &self,
        verdicts: impl Iterator<Item = (&'v Limit, impl Borrow<Verdict>)>,
        source: Source,
        headers: &mut HeaderMap,
    ) {
        let is_of_all = self.draft == Some(Draft::Eleven);
        let is_of_one = self.x_rate_limit.is_some() || self.draft.is_some() && !is_of_all;
        let mut retry_after = Wait::ZERO;
        let mut text = Text::new();
        let mut strictest: Option<Said<'_>> = None;
        // Not by `next`, which takes several times as long for each verdict.
        verdicts.for_each(|(limit, verdict)| {
            // A limit in shadow denies nothing.
            if limit.is_shadow() {
                return;
            }
            let verdict = verdict.borrow();
            retry_after = retry_after.max(verdict.retry_after());
            if !self.say_what_is_left() || !self.shows(limit) {
                return;
            }
            let Some(said) = Said::of(limit, *verdict, source) else {
                return;
            };
            if is_of_all {
                let time = said.until_more.as_secs_ceil();
                let time = time.map(|time| (b";t=", integer(time)));
                append(
                    &mut text,
                    Some((limit, b";r=")),
                    integer(said.remaining),
                    time,
                );
            }
            // What is said where only one limit can be: a client that keeps to it is refused by no other limit,
            // since these have more left, or have it sooner.
            if is_of_one && strictest.as_ref().is_none_or(|it| said.rank() < it.rank()) {
                strictest = Some(said);
            }
        });
        if let Some(micros) = self.with_jitter(retry_after) {
            write_retry_after(micros, headers);
        }
        if !text.is_empty() {
            let _ = headers.append(RATE_LIMIT, value(&text));
        }
        let Some(said) = strictest else {
            return;
        };
        if let Some(draft @ (Draft::Six | Draft::Seven)) = self.draft {
            let reset = said.until_more.as_secs_ceil().unwrap_or(MAX_INTEGER);
            write_three(draft, [said.amount(), said.remaining, reset], headers);
        }
        if let Some(reset) = self.x_rate_limit {
            write_x_rate_limit(reset, &said, headers);
        }
    }

    /// Makes a response that asks for a wait, such as that of a layer inside, ask for this one if it is longer:
    /// the limits that admitted the request must admit it again.
    pub(super) fn lengthen_wait(&self, wait: impl FnOnce() -> Wait, headers: &mut HeaderMap) {
        let said = headers.get(RETRY_AFTER);
        if let Some(said) = said.and_then(|said| number(said.as_bytes()))
            && let Some(micros) = self.with_jitter(wait())
        {
            if micros.div_ceil(1_000_000) > said {
                write_retry_after(micros, headers);
            }
            // To the millisecond.
            grpc::lengthen_wait(micros, headers);
        }
    }

    /// Returns the microseconds of `Retry-After`: none if there is nothing to wait for, or if waiting
    /// does not help.
    pub(super) fn with_jitter(&self, wait: Wait) -> Option<u64> {
        let micros = wait.as_micros().filter(|micros| *micros > 0)?;
        let most = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        let later = if most > 0 { random(most) } else { 0 };
        Some(micros.saturating_add(later))
    }
}

fn write_retry_after(micros: u64, headers: &mut HeaderMap) {
    let seconds = HeaderValue::from(micros.div_ceil(1_000_000));
    let _ = headers.insert(RETRY_AFTER, seconds);
}

/// Returns a random number up to `most`.
fn random(most: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Each state of the standard library has keys of its own.
    let random = RandomState::new().hash_one(most);
    random.checked_rem(most.saturating_add(1)).unwrap_or(random)
}

/// Appends an item to a list: a limit's name with a parameter, or without them, a number and another parameter.
/// Names of limits are ASCII without quotes, of up to 64 bytes.
fn append(
    list: &mut Text,
    name: Option<(&Limit, &[u8; 3])>,
    number: u64,
    more: Option<(&[u8; 3], u64)>,
) {
    let mut item = Line::new();
    if !list.is_empty() {
        item.push(b", ");
    }
    if let Some((limit, parameter)) = name {
        item.push(b"\"");
        item.push(limit.name().as_bytes());
        item.push(b"\"");
        item.push(parameter);
    }
    item.push_number(number);
    if let Some((parameter, number)) = more {
        item.push(parameter);
        item.push_number(number);
    }
    list.extend_from_slice(item.as_slice());
}

/// Returns a header's value. Names of limits are ASCII without quotes.
fn value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn integer(amount: u64) -> u64 {
    amount.min(MAX_INTEGER)
}

/// What the fields say about a limit.
struct Said<'v> {
    limit: &'v Limit,
    verdict: Verdict,
    remaining: u64,
    /// How long no more than what remains is available: as long as it is exact, until one more is;
    /// otherwise until nothing is counted any more.
    until_more: Wait,
}

impl<'v> Said<'v> {
    /// Returns what is said about a limit, or `None` if there is nothing to say.
    fn of(limit: &'v Limit, verdict: Verdict, source: Source) -> Option<Self> {
        let is_full = verdict.remaining() == verdict.capacity();
        let denied_by_cache = source == Source::Cache && !verdict.is_allowed();
        if verdict.is_allowed() {
            // A block that denies nothing says nothing. And where nothing remains, something was counted,
            // which will not be counted some time: otherwise it is not known what remains.
            let may_be_unknown = !is_full || source != Source::Store;
            let is_unknown =
                verdict.remaining() == 0 && may_be_unknown && verdict.reset_after() == Wait::ZERO;
            // Of units ahead, it is known how many this process has in hand, which is no client's business.
            let is_ahead = !source.tells_what_is_left();
            if is_unknown || is_ahead || limit.algorithm().can_block() {
                return None;
            }
        } else if denied_by_cache && verdict.retry_after().is_never() {
            return None;
        }
        let until_more = match verdict.retry_after() {
            _ if verdict.capacity() == 0 => Wait::NEVER,
            Wait::NEVER if is_full => Wait::NEVER,
            Wait::ZERO | Wait::NEVER => until(limit, &verdict, verdict.remaining() + 1),
            wait => wait,
        };
        // Others may have used up what a cache remembers.
        let remaining = if denied_by_cache {
            0
        } else {
            verdict.remaining()
        };
        Some(Self {
            limit,
            verdict,
            remaining,
            until_more,
        })
    }

    /// Returns how strict it is: the least is the strictest.
    fn rank(&self) -> (u64, Reverse<Wait>) {
        (self.remaining, Reverse(self.until_more))
    }

    /// Returns the quota: none of a block, which has no amount.
    fn amount(&self) -> u64 {
        let algorithm = self.limit.algorithm();
        if algorithm.can_block() {
            0
        } else {
            algorithm.quota().amount()
        }
    }
}

/// Returns how long it takes at most until `units` are available.
pub(super) fn until(limit: &Limit, verdict: &Verdict, units: u64) -> Wait {
    if units <= verdict.remaining() {
        return Wait::ZERO;
    }
    let reset = verdict.reset_after();
    let (Algorithm::Gcra(gcra), Some(reset_us)) = (limit.algorithm(), reset.as_micros()) else {
        return reset;
    };
    if verdict.capacity() != gcra.burst() {
        // A part of the limit: its units return at another rate.
        return reset;
    }
    let quota = limit.algorithm().quota();
    let (window, amount) = (
        u128::from(quota.window_us()),
        u128::from(quota.amount().max(1)),
    );
    let micros = |units: u128| u64::try_from(units).unwrap_or(u64::MAX);
    // The others return after these, at the rate of the quota. A settlement may have counted more than all.
    let others = u128::from(gcra.burst().saturating_sub(units));
    let more = u128::from(units.saturating_sub(gcra.burst()));
    let more_us = micros((more * window).div_ceil(amount));
    Wait::from_micros(
        reset_us
            .saturating_sub(micros(others * window / amount))
            .saturating_add(more_us),
    )
}

fn write_three(draft: Draft, numbers: [u64; 3], headers: &mut HeaderMap) {
    const NAMES: [HeaderName; 3] = [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ];
    let numbers = numbers.map(integer);
    let [limit, remaining, reset] = numbers;
    if draft == Draft::Six {
        let said = [&NAMES[1], &NAMES[2]].map(|name| number(headers.get(name)?.as_bytes()));
        if !is_stricter(said, remaining, Some(reset)) {
            for (name, number) in NAMES.into_iter().zip(numbers) {
                let _ = headers.insert(name, HeaderValue::from(number));
            }
        }
        return;
    }
    let said = headers
        .get(RATE_LIMIT)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let said = [&b"remaining="[..], b"reset="].map(|name| {
        let mut items = said.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        items.find_map(|item| number(item.strip_prefix(name)?))
    });
    if !is_stricter(said, remaining, Some(reset)) {
        let text = format!("limit={limit}, remaining={remaining}, reset={reset}");
        let _ = headers.insert(RATE_LIMIT, value(text.as_bytes()));
    }
}

/// Returns whether what another layer said, what remains and until when, is stricter.
fn is_stricter(said: [Option<u64>; 2], remaining: u64, reset: Option<u64>) -> bool {
    let [said, until] = said;
    said.is_some_and(|said| said < remaining || said == remaining && until > reset)
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

fn write_x_rate_limit(reset: Reset, said: &Said<'_>, headers: &mut HeaderMap) {
    const NAMES: [HeaderName; 3] = [
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ];
    let (verdict, remaining) = (said.verdict, said.remaining);
    let after = verdict.reset_after().max(said.until_more);
    let reset = match reset {
        Reset::After => after.as_secs_ceil(),
        // Of the state, not of when this is written: the same for all answers of one state.
        Reset::At => after.as_micros().and_then(|after| {
            let at = verdict.decided_at().as_micros().checked_add(after)?;
            Some(at.div_ceil(1_000_000))
        }),
    };
    let before = [&NAMES[1], &NAMES[2]].map(|name| number(headers.get(name)?.as_bytes()));
    if is_stricter(before, remaining, reset) {
        return;
    }
    let amount = said.amount();
    let numbers = [Some(amount), Some(remaining), reset];
    for (name, number) in NAMES.into_iter().zip(numbers) {
        if let Some(number) = number {
            let _ = headers.insert(name, HeaderValue::from(number));
        }
    }
}

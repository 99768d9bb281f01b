//! `Question`: what a store is asked for a request.

use std::sync::Arc;

use http::HeaderMap;
use http::header::HeaderValue;
use http::request::Parts;
use smallvec::SmallVec;
#[cfg(feature = "calendar")]
use tollgate_core::LimitError;
use tollgate_core::store::{
    BlockSpan, Check, Operation, Request, Source, State, Verdict, Verdicts,
};
use tollgate_core::{Key, Limit, RateLimiter, Receipt, Wait};

use super::client_key::{ClientKey, NoKey};
use super::fields::{Fields, RATE_LIMIT_POLICY, until};
use super::policy::{Ban, Policy};

/// Limits, and what `RateLimit-Policy` says about them in every response.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) limits: Box<[Limit]>,
    pub(super) header: Option<HeaderValue>,
}

impl Described {
    /// Describes the limits of a policy, with the block of its ban. Who has no limits is never refused.
    pub(super) fn new(
        limits: impl Into<Vec<Limit>>,
        policy: &Policy,
        fields: &Fields,
    ) -> Arc<Self> {
        let mut limits = limits.into();
        let block = policy.ban.iter().map(|ban| &ban.block);
        let mut block = block.filter(|block| !limits.is_empty() && !limits.contains(block));
        limits.extend(block.next().cloned());
        let (header, limits) = (fields.policy(&limits), limits.into());
        Arc::new(Self { limits, header })
    }

    /// Returns whether a limit needs the zone or the day of a request.
    pub(super) fn is_local(&self) -> bool {
        let is_local = |limit: &Limit| limit.needs_zone() || limit.needs_day();
        self.limits.iter().any(is_local)
    }

    /// Returns the same limits in the zone and on the day of a request, or of any if there is no request; those
    /// that need one stay as they are if the request brings none, or one that does not exist.
    pub(super) fn with_calendar_of(
        self: Arc<Self>,
        policy: &Policy,
        parts: Option<&Parts>,
    ) -> Arc<Self> {
        #[cfg(feature = "calendar")]
        if self.is_local() {
            let needs = |of: fn(&Limit) -> bool| self.limits.iter().any(of);
            let zone = needs(Limit::needs_zone).then(|| policy.zone_of(parts));
            let day = needs(Limit::needs_day).then(|| policy.day_of(parts));
            let (zone, day) = (zone.flatten(), day.flatten());
            let bring = |limit: &Limit| {
                let limit = zone
                    .iter()
                    .try_fold(limit.clone(), |it, zone| it.in_zone(zone))?;
                day.iter().try_fold(limit, |it, day| it.on_day(*day))
            };
            let limits: Result<_, LimitError> = self.limits.iter().map(bring).collect();
            if let Ok(limits) = limits {
                // It is the same in all zones, and on all days.
                let header = self.header.clone();
                return Arc::new(Self { limits, header });
            }
        }
        let _ = (policy, parts);
        self
    }
}

/// One rule's part of what a store is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) limits: Arc<Described>,
    pub(super) key: ClientKey,
    pub(super) cost: u64,
    /// Whether it consumes nothing before the response: it needs one unit, and is charged afterwards.
    pub(super) looks: bool,
    pub(super) ban: Option<Arc<Ban>>,
}

impl Asked {
    /// Returns the requests that count a refusal, and that block the key.
    pub(super) fn ban(&self) -> Option<[Request<'_>; 2]> {
        let Ban { refusals, block } = self.ban.as_deref()?;
        let check = |limit| Check::new(limit, self.key.as_key(), 1);
        let block = Request::block(BlockSpan::Usual, check(block));
        Some([Request::charge(check(refusals)), block])
    }

    /// Returns what the request turned out to cost, or what it was expected to cost.
    fn settled(&self, costs: &[Option<u64>], index: usize) -> u64 {
        costs.get(index).copied().flatten().unwrap_or(self.cost)
    }
}

/// The verdicts of a question. They take less time to move than [`Verdicts`].
pub(super) type Said = SmallVec<[Verdict; 2]>;

/// What a store is asked for a request.
#[derive(Debug, Default)]
pub(super) struct Question {
    asked: SmallVec<[Asked; 1]>,
    /// Whether a rule looks before anything is consumed.
    pub(super) looks: bool,
    /// What was consumed, if the verdicts are of two requests, or if it is settled.
    receipt: Option<Box<Receipt>>,
}

impl Question {
    pub(super) fn push(&mut self, asked: Asked) {
        self.looks |= asked.looks;
        self.asked.push(asked);
    }

    /// Returns whether there is nothing to ask: a limiter may be off.
    pub(super) fn is_empty(&self) -> bool {
        self.each().next().is_none()
    }

    /// Returns each limit, after its rule and the index of that.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &Asked, &Limit)> + Clone {
        self.asked.iter().enumerate().flat_map(|(index, asked)| {
            let limits = asked.limits.limits.iter();
            limits.map(move |limit| (index, asked, limit))
        })
    }

    /// Returns why no limiter could have the limits of all rules, some of which were chosen for the
    /// request.
    pub(super) fn clash(&self) -> Option<NotAsked> {
        if self.is_empty() {
            return None;
        }
        let clash = RateLimiter::new((), self.each().map(|(_, _, limit)| limit)).err()?;
        Some(NotAsked::Limits(clash.to_string()))
    }

    pub(super) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Returns a request of the rules that look, or of the others.
    fn request<'a>(
        &'a self,
        operation: Operation<'a>,
        looks: bool,
        cost: impl Fn(usize, &Asked) -> u64,
    ) -> Request<'a> {
        let each = self.each().filter(|(_, asked, _)| asked.looks == looks);
        let checks = each.map(|(index, asked, limit)| {
            let cost = match operation {
                // What cannot be counted exactly would not be counted at all.
                Operation::Charge => cost(index, asked).min(limit.algorithm().largest_charge()),
                _ => cost(index, asked),
            };
            Check::new(limit, asked.key.as_key(), cost)
        });
        Request::new(operation, checks)
    }

    /// Returns the request that finds out whether anything is left under the rules that look.
    pub(super) fn look(&self) -> Option<Request<'_>> {
        let look = || not_empty(self.request(Operation::Peek, true, |_, _| 1));
        self.looks.then(look)?
    }

    /// Returns the request to consume the costs under the other rules, all or none. It is empty if all look.
    pub(super) fn consumption(&self) -> Request<'_> {
        // Most layers have one rule: its request is made in half the time.
        if let ([asked], false) = (&*self.asked, self.looks) {
            return Request::consume_all(&asked.limits.limits, &asked.key, asked.cost);
        }
        self.request(Operation::Consume, false, |_, asked| asked.cost)
    }

    /// Returns the request to settle what was consumed, or the one to charge what only looked, if a rule turned
    /// out to cost something else than was counted.
    pub(super) fn settlement<'a>(
        &'a self,
        receipt: Option<&'a Receipt>,
        costs: &[Option<u64>],
    ) -> Option<Request<'a>> {
        let looks = receipt.is_none();
        let operation = receipt.map_or(Operation::Charge, Operation::Settle);
        let cost = |index: usize, asked: &Asked| asked.settled(costs, index);
        let mut each = self.each().filter(|(_, asked, _)| asked.looks == looks);
        let counted = |asked: &Asked| if looks { 0 } else { asked.cost };
        let differs = each.any(|(index, asked, _)| cost(index, asked) != counted(asked));
        differs.then(|| self.request(operation, looks, cost))
    }

    /// Takes what the rules that look said, and the others if they were asked; returns it in the order of the rules.
    pub(super) fn merge(&mut self, looked: &Verdicts, consumed: Option<&Verdicts>) -> Verdicts {
        self.receipt = consumed.and_then(|said| said.again().into_receipt().map(Box::new));
        let each_consumed = consumed.map_or(&[][..], Verdicts::as_slice);
        let (mut each_consumed, mut each) = (each_consumed.iter(), looked.as_slice().iter());
        let said = self.each().map(|(_, asked, limit)| {
            let said = match asked.looks {
                true => each.next(),
                false => each_consumed.next(),
            };
            // Where an allowed call leaves nothing, it is not known what remains.
            let unknown = Verdict::allow(limit.algorithm().capacity(), 0);
            said.copied().unwrap_or(unknown)
        });
        // What a layer said of what is consumed must not pass for the store's.
        let by_layer = consumed.filter(|said| said.source() != Source::Store);
        with_each(by_layer.unwrap_or(looked), said)
    }

    /// Keeps the receipt of what was consumed, to settle it.
    pub(super) fn keep_receipt(&mut self, verdicts: &Verdicts) {
        let receipt = self.receipt.take();
        self.receipt = receipt.or_else(|| verdicts.again().into_receipt().map(Box::new));
    }

    /// Takes the receipt of what was consumed.
    pub(super) fn receipt(&mut self) -> Option<Box<Receipt>> {
        self.receipt.take()
    }

    /// Returns the verdicts after the costs under rules that look are charged.
    pub(super) fn charged(&self, said: &[Verdict], costs: &[Option<u64>]) -> Said {
        let said = self.each().zip(said);
        let said = said.map(|((index, asked, limit), said)| match asked.looks {
            true => charged(limit, said, asked.settled(costs, index)),
            false => *said,
        });
        said.collect()
    }

    /// Returns the bans that count this refusal, and of each the index of its block's verdict: if a limit of its
    /// rule denied the request, but no block did. Only refusals by the store count: those of a layer around it
    /// spare the store.
    pub(super) fn bans(&self, verdicts: &Verdicts) -> SmallVec<[(usize, [Request<'_>; 2]); 1]> {
        let denied = self.each().zip(verdicts.as_slice());
        let denied = denied.filter(|((_, _, limit), it)| !it.is_allowed() && !limit.is_shadow());
        let blocks = |((_, _, limit), _): (_, _)| Limit::algorithm(limit).can_block();
        if denied.clone().any(blocks) || verdicts.source() != Source::Store {
            return SmallVec::new();
        }
        let bans = self
            .each()
            .zip(0..)
            .filter_map(|((rule, asked, limit), at)| {
                let is_block = asked.ban.as_ref().is_some_and(|ban| ban.block == *limit);
                let counts = is_block && denied.clone().any(|((index, _, _), _)| index == rule);
                counts.then_some((at, asked.ban()?))
            });
        bans.collect()
    }

    /// Returns each limit with its verdict.
    pub(super) fn verdicts<'v>(
        &'v self,
        said: &'v [Verdict],
    ) -> impl Iterator<Item = (&'v Limit, &'v Verdict)> + Clone {
        let mut said = said.iter();
        self.each()
            .filter_map(move |(_, _, limit)| Some((limit, said.next()?)))
    }

    /// Writes what the limits said into the headers of the response.
    pub(super) fn write(
        &self,
        said: &[Verdict],
        source: Source,
        fields: &Fields,
        headers: &mut HeaderMap,
    ) {
        let policies = self.asked.iter();
        for policy in policies.filter_map(|asked| asked.limits.header.as_ref()) {
            let _ = headers.append(RATE_LIMIT_POLICY, policy.clone());
        }
        fields.write_verdicts(self.verdicts(said), source, headers);
    }

    /// Returns how long to wait at most until limits that allowed the request allow it again, if it is
    /// settled at these costs: of each rule at its cost, or at what it was checked at.
    pub(super) fn wait(&self, said: &[Verdict], source: Source, costs: &[Option<u64>]) -> Wait {
        if !source.tells_what_is_left() {
            return Wait::ZERO;
        }
        let counts = |limit: &Limit| !limit.is_shadow() && !limit.algorithm().can_block();
        let said = self.each().zip(said);
        let in_force = said.filter(|((_, _, limit), _)| counts(limit));
        let waits = in_force.map(|((index, asked, limit), said)| match asked.looks {
            true => until(limit, said, 1),
            false => until(limit, said, asked.settled(costs, index)),
        });
        waits.max().unwrap_or(Wait::ZERO)
    }
}

/// Returns what a limit that looked says after a charge of `cost`: what remains, and until when at most.
fn charged(limit: &Limit, said: &Verdict, cost: u64) -> Verdict {
    let algorithm = limit.algorithm();
    // Where nothing is left, it is not known what remains, or a limit in shadow would deny.
    let is_known = said.remaining() > 0;
    if cost == 0 || !is_known || algorithm.can_block() {
        return *said;
    }
    // Nothing counts longer than if it had all been used now. Under a part of a limit, units return more slowly.
    let used = said.capacity().saturating_sub(said.remaining());
    let part = algorithm.capacity().div_ceil(said.capacity().max(1)).max(1);
    let used = used.saturating_add(cost).saturating_mul(part);
    let charge = Request::charge(Check::new(limit, Key::from(""), used));
    let charge = charge.decide_on(&mut State::default(), said.decided_at());
    let charge = charge.map_costs(|cost| cost / part);
    charge.as_slice().first().copied().unwrap_or(*said)
}

/// Returns a request, if it asks anything.
pub(super) fn not_empty(request: Request<'_>) -> Option<Request<'_>> {
    (!request.checks().is_empty()).then_some(request)
}

/// Returns the same verdicts, except for what each limit said.
pub(super) fn with_each(verdicts: &Verdicts, each: impl IntoIterator<Item = Verdict>) -> Verdicts {
    Verdicts::new(verdicts.fingerprint(), each).with_source(verdicts.source())
}

/// Why a store is not asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NotAsked {
    NoKey(NoKey),
    /// It has no plan, or one that the layer does not know.
    Plan(Option<String>),
    /// A limit counts in the request's time zone, or from its day, and it has none, or none that exists.
    Zone,
    /// There are no limits for it, for this reason.
    Limits(String),
}

impl From<NoKey> for NotAsked {
    fn from(why: NoKey) -> Self {
        Self::NoKey(why)
    }
}

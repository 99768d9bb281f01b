//! `Shared`: what a layer and its services share, and what it decides about a request.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::ACCESS_CONTROL_REQUEST_METHOD;
use http::request::Parts;
use http::{Method, Response};
use smallvec::SmallVec;
use tollgate_core::lease::NoLease;
use tollgate_core::store::{Begun, Request, State, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, StoreError, Timestamp};
use tollgate_tokio::LeaseGuard;

use super::client_key::{ClientKey, NoKey, Part};
use super::extensions::Charge;
use super::fields::Fields;
use super::outage::Outage;
use super::policy::SettleBy;
use super::question::{Asked, Described, NotAsked, Question, not_empty, with_each};
use super::refusal::{Cause, Refusal};
use super::rule::Rule;
use super::warning::{Warning, Warnings};

/// What is done with a request that the store cannot decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// It is answered with the status 503 (fails closed).
    Refuse,
    /// It is let through without being counted (fails open). That is also so while the store is
    /// [full](ErrorKind::Full), which clients that choose their keys can bring about.
    Allow,
}

pub(super) type Skips = dyn Fn(&Parts) -> bool + Send + Sync;
pub(super) type Responds = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;
pub(super) type Acquires =
    dyn Fn(ClientKey) -> Pin<Box<dyn Future<Output = Acquired> + Send>> + Send + Sync;
/// The place of a request, or why it has none.
pub(super) type Acquired = Result<Result<LeaseGuard, NoLease>, StoreError>;

pub(super) struct Shared<S> {
    /// Decides all rules together.
    pub(super) store: StoreOf<S>,
    pub(super) rules: Vec<Rule>,
    pub(super) fields: Fields,
    pub(super) on_failure: OnStoreFailure,
    pub(super) skips_preflight: bool,
    pub(super) skips: Option<Arc<Skips>>,
    pub(super) responds: Option<Arc<Responds>>,
    pub(super) acquires: Option<Arc<Acquires>>,
    pub(super) inserts_decision: bool,
    pub(super) warnings: Arc<Warnings>,
    pub(super) outage: Arc<Outage>,
    /// How many requests were examined for mistakes in the setup.
    pub(super) examined: AtomicU32,
}

/// The store that is asked.
pub(super) enum StoreOf<S> {
    Limiter(RateLimiter<S>),
    Alone(Arc<S>),
}

impl<S> StoreOf<S> {
    pub(super) fn get(&self) -> &S {
        match self {
            Self::Limiter(limiter) => limiter.store(),
            Self::Alone(store) => store,
        }
    }
}

impl<S> Clone for StoreOf<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Limiter(limiter) => Self::Limiter(limiter.clone()),
            Self::Alone(store) => Self::Alone(Arc::clone(store)),
        }
    }
}

impl<S: Store> Shared<S> {
    /// Returns the error that every request fails with whose first limits are these.
    pub(super) fn supported(&self, first: &[Limit]) -> Result<(), StoreError> {
        let policy = &self.rules[0].policy;
        let first = Described::new(first, policy, &self.fields);
        let mut question = Question::default();
        for (index, rule) in self.rules.iter().enumerate() {
            let may_share = policy.key.may_share_partition(&rule.policy.key);
            let key = ClientKey::of_partition(match may_share {
                true => Part::from_slice(b"any"),
                false => Part::from_slice(b"other"),
            });
            match index {
                0 => question.push(rule.ask_any(&first, key)),
                _ => rule
                    .plans()
                    .for_each(|limits| question.push(rule.ask_any(limits, key.clone()))),
            }
        }
        if question.is_empty() {
            return Ok(());
        }
        if let Some(NotAsked::Limits(why)) = question.clash() {
            return Err(StoreError::new(ErrorKind::Malformed, why));
        }
        let supports = |request: Request<'_>| {
            request.validate_checks()?;
            self.store.get().supports(&request)
        };
        let bans = question.asked().iter().filter_map(Asked::ban).flatten();
        let consumption = not_empty(question.consumption());
        let charge = question.settlement(None, &[]);
        let requests = [question.look(), consumption.clone(), charge].into_iter();
        requests.flatten().chain(bans).try_for_each(supports)?;
        let settles = |rule: &Rule| rule.policy.settle.is_some() && !rule.policy.looks;
        let settles = self.rules.iter().any(settles);
        let Some(consumption) = consumption.filter(|_| settles) else {
            return Ok(());
        };
        let mut states = vec![State::default(); consumption.checks().len()];
        let decided = consumption.decide_on(&mut *states, Timestamp::UNIX_EPOCH);
        let costs = vec![Some(0); question.asked().len()];
        // What is never admitted is never settled.
        decided.into_receipt().map_or(Ok(()), |receipt| {
            let settlement = question.settlement(Some(&receipt), &costs);
            settlement.map_or(Ok(()), supports)
        })
    }
}

/// The response that refuses a request; in a box, it would be an allocation for each.
pub(super) type Refused = Response<Bytes>;

impl<S: Store + 'static> Shared<S> {
    /// Writes what to ask for a request, or returns `false` if it passes without a question.
    #[expect(clippy::result_large_err, reason = "see `Refused`")]
    pub(super) fn question(
        &self,
        parts: &mut Parts,
        question: &mut Question,
    ) -> Result<bool, Refused> {
        if self.skips_preflight && is_preflight(parts)
            || self.skips.as_ref().is_some_and(|skips| skips(parts))
        {
            return Ok(false);
        }
        // The key of the first policy holds a place; no other policy could do without one.
        let needs_key = self.acquires.is_some();
        for rule in &self.rules {
            match rule.ask(parts, &self.fields, needs_key) {
                Ok(asked) => question.push(asked),
                Err(NotAsked::NoKey(NoKey::Allowed)) => return Ok(false),
                Err(why) => return Err(self.not_asked(parts, &why)),
            }
        }
        let may_clash = self.rules.len() > 1 || self.rules[0].policy.ban.is_some();
        if may_clash
            && self.rules.iter().any(Rule::is_by_request)
            && let Some(why) = question.clash()
        {
            return Err(self.not_asked(parts, &why));
        }
        self.examine(parts, question);
        Ok(self.acquires.is_some() || !question.is_empty())
    }

    #[cold]
    fn not_asked(&self, parts: &Parts, why: &NotAsked) -> Refused {
        self.warn_not_asked(why);
        self.refuse(&Refusal::not_asked(parts, why))
    }

    /// Asks the store, at once if it need not wait.
    pub(super) async fn ask(&self, request: Request<'_>) -> Result<Verdicts, StoreError> {
        let mut said = match self.store.get().begin(&request) {
            Begun::Decided(verdicts) => Ok(verdicts),
            Begun::Waits(call) => call.await,
        };
        check_number(&request, &mut said);
        said
    }

    /// Decides a question: first the rules that look, then the others. What is refused then may be banned.
    pub(super) async fn verdicts(&self, question: &mut Question) -> Result<Verdicts, StoreError> {
        let verdicts = match question.look() {
            None => self.ask(question.consumption()).await?,
            Some(look) => {
                let looked = self.ask(look).await?;
                let consumed = match not_empty(question.consumption()) {
                    Some(consumption) if looked.is_allowed() => Some(self.ask(consumption).await?),
                    _ => None,
                };
                question.merge(&looked, consumed.as_ref())
            }
        };
        if verdicts.is_denied() {
            return Ok(self.ban(question, &verdicts).await);
        }
        Ok(verdicts)
    }

    /// Counts a refusal towards the bans of its keys, blocks those that were refused too often, and returns
    /// what the limits say then.
    pub(super) async fn ban(&self, question: &Question, verdicts: &Verdicts) -> Verdicts {
        let mut each: SmallVec<[Verdict; 4]> = verdicts.as_slice().into();
        for (index, [refusal, block]) in question.bans(verdicts) {
            let blocked = match self.ask(refusal).await {
                Ok(refusals) if refusals.remaining() > 0 => continue,
                Ok(_) => self.ask(block).await,
                Err(error) => Err(error),
            };
            match blocked {
                Ok(blocked) => each[index] = *blocked.as_slice().first().unwrap_or(&each[index]),
                Err(error) => self.not_counted(&error),
            }
        }
        with_each(verdicts, each)
    }

    /// Returns what a future that waits for nothing but the store returns, if the store need not wait.
    pub(super) fn now<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let _ = self.store.get().as_sync()?;
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Warns that the store did not take what is counted after a decision.
    pub(super) fn not_counted(&self, error: &StoreError) {
        self.warnings.log_once(
            Warning::NotSettled,
            format_args!("a request keeps the cost it was checked at, or is not counted: {error}"),
        );
    }

    /// Returns what the handler says by what its request costs, if a policy settles by that. It may be
    /// there already, from a layer before this one.
    pub(super) fn charge(&self, parts: &mut Parts) -> Option<Charge> {
        let settles = |rule: &Rule| matches!(rule.policy.settle, Some(SettleBy::Handler));
        if !self.rules.iter().any(settles) {
            return None;
        }
        Some(parts.extensions.get_or_insert_with(Charge::new).clone())
    }

    /// Returns why a request that the store did not decide is refused, or nothing if it goes on.
    pub(super) fn refused_for(&self, error: &StoreError) -> Option<Cause> {
        match (error.kind(), self.on_failure) {
            // The store works. Who makes such a request must not get around the limits by it.
            (ErrorKind::Malformed | ErrorKind::Unsupported, _) => Some(Cause::Misconfigured),
            (_, OnStoreFailure::Refuse) => Some(Cause::StoreFailed),
            (_, OnStoreFailure::Allow) => None,
        }
    }

    /// Returns the refusal of a request that the store did not decide, or nothing if it goes on.
    #[cold]
    pub(super) fn failed<'r>(&self, parts: &'r Parts, error: &StoreError) -> Option<Refusal<'r>> {
        tracing::debug!(name: "tollgate.inbound", %error, "the store did not decide a request");
        let cause = self.refused_for(error);
        if cause == Some(Cause::Misconfigured) {
            self.warnings.log_once(
                Warning::NotDecidable,
                format_args!("requests that the store cannot decide are refused: {error}"),
            );
            return Some(Refusal::not_decidable(parts));
        }
        let does = cause.map_or("not limited", |_| "refused");
        self.outage.failed(error, does);
        cause.map(|_| Refusal::store_failed(parts))
    }

    pub(super) fn refuse(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let mut response = match &self.responds {
            Some(responds) => {
                let mut response = responds(refusal);
                refusal.write_fields(&self.fields, &mut response);
                response
            }
            None => refusal.response(&self.fields),
        };
        if self.inserts_decision
            && let Some(decided) = refusal.decided()
        {
            let _ = response.extensions_mut().insert(decided);
        }
        response
    }
}

/// Makes it an error that a store did not answer for each limit, as it is for a limiter.
pub(super) fn check_number(request: &Request<'_>, said: &mut Result<Verdicts, StoreError>) {
    let Ok(verdicts) = said else { return };
    let (limits, answers) = (request.checks().len(), verdicts.as_slice().len());
    if answers != limits {
        *said = Err(StoreError::new(
            ErrorKind::Protocol,
            format!(
                "the store answered for {answers} limits instead of {limits}: this is a bug in it"
            ),
        ));
    }
}

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            rules: self.rules.clone(),
            fields: self.fields.clone(),
            on_failure: self.on_failure,
            skips_preflight: self.skips_preflight,
            skips: self.skips.clone(),
            responds: self.responds.clone(),
            acquires: self.acquires.clone(),
            inserts_decision: self.inserts_decision,
            warnings: Arc::clone(&self.warnings),
            outage: Arc::clone(&self.outage),
            examined: AtomicU32::new(0),
        }
    }
}

//! What a layer and its services share: who is limited, how, and what is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::header::ACCESS_CONTROL_REQUEST_METHOD;
use http::request::Parts;
use http::{Method, Response};
use tollgate_core::lease::NoLease;
use tollgate_core::store::Verdicts;
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
use tollgate_tokio::LeaseGuard;

use super::client_ip::{ClientIp, Mistake, Unknown};
use super::client_key::ClientKey;
use super::extensions::{Charge, Decided, Place};
use super::fields::Fields;
use super::key_by::{KeyBy, NoKey};
use super::outage::Outage;
use super::passing::Passing;
use super::policy::{Choice, NotAsked, Policy, Question, SettleBy};
use super::refusal::{Cause, Refusal};
use super::warning::{Told, Warning};

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

/// How many requests a layer examines for mistakes in its setup.
const EXAMINED: u32 = 100;
/// So many layers that each served one request are a mistake.
const LAYERS_OF_ONE_REQUEST: u32 = 20;

static OF_ONE_REQUEST: AtomicU32 = AtomicU32::new(0);
static TOLD_FOR_ALL: Told = Told::new();

pub(super) type Skips = dyn Fn(&Parts) -> bool + Send + Sync;
pub(super) type Responds = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;
pub(super) type Acquires = dyn Fn(ClientKey) -> Acquiring + Send + Sync;
pub(super) type Acquiring =
    Pin<Box<dyn Future<Output = Result<Result<LeaseGuard, NoLease>, StoreError>> + Send>>;

pub(super) struct Shared<S> {
    /// Whose store decides all policies.
    pub(super) store: StoreOf<S>,
    pub(super) policies: Vec<Policy>,
    pub(super) fields: Fields,
    pub(super) on_failure: OnStoreFailure,
    pub(super) skips_preflight: bool,
    pub(super) skips: Option<Arc<Skips>>,
    pub(super) responds: Option<Arc<Responds>>,
    pub(super) acquires: Option<Arc<Acquires>>,
    pub(super) inserts_decision: bool,
    pub(super) told: Arc<Told>,
    pub(super) outage: Arc<Outage>,
    /// How many requests came, up to [`EXAMINED`].
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

/// What to do with a request.
pub(super) enum Step {
    Pass,
    Refuse(Response<Bytes>),
    Ask(Question),
}

/// Whether a request goes on.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each request"
)]
pub(super) enum Admission<S: Store + 'static> {
    Passes(Passing<S>),
    Refused(Response<Bytes>),
}

/// The answer to a question.
pub(super) struct Answer {
    pub(super) question: Question,
    /// None if no limit was to be asked.
    pub(super) verdicts: Option<Result<Verdicts, StoreError>>,
    pub(super) place: Option<Held>,
}

/// The result of asking for a place.
pub(super) enum Held {
    Place(Arc<LeaseGuard>),
    Full,
    Failed(StoreError),
}

impl<S: Store + 'static> Shared<S> {
    /// Returns what to do with a request.
    pub(super) fn step(&self, parts: &mut Parts) -> Step {
        if self.skips_preflight && is_preflight(parts)
            || self.skips.as_ref().is_some_and(|skips| skips(parts))
        {
            return Step::Pass;
        }
        let mut question = Question::default();
        // The key of the first policy holds a place; no other policy could do without one.
        let needs_key = self.acquires.is_some();
        for policy in &self.policies {
            match policy.ask(parts, &self.fields, needs_key) {
                Ok(asked) => question.push(asked),
                Err(NotAsked::NoKey(NoKey::Allowed)) => return Step::Pass,
                Err(why) => return self.not_asked(parts, &why),
            }
        }
        let is_chosen = |policy: &Policy| matches!(policy.choice, Choice::ByRequest(_));
        if self.policies.len() > 1
            && self.policies.iter().any(is_chosen)
            && let Some(why) = question.clash()
        {
            return self.not_asked(parts, &why);
        }
        if self.examined.load(Ordering::Relaxed) < EXAMINED {
            self.examine(parts, &question);
        }
        if question.is_empty() && self.acquires.is_none() {
            return Step::Pass;
        }
        Step::Ask(question)
    }

    #[cold]
    fn not_asked(&self, parts: &Parts, why: &NotAsked) -> Step {
        self.tell(why);
        Step::Refuse(self.refuse(&Refusal::not_asked(parts, why)))
    }

    /// Decides a question without waiting, if the store can do that.
    pub(super) fn answer_now(&self, question: &Question) -> Option<Result<Verdicts, StoreError>> {
        if self.acquires.is_some() {
            return None;
        }
        let store = self.store.get().as_sync()?;
        Some(store.decide_now(&question.request()))
    }

    /// Asks the store.
    pub(super) async fn answer(self: Arc<Self>, question: Question) -> Answer {
        let place = match (&self.acquires, question.asked().first()) {
            (Some(acquires), Some(asked)) => Some(match acquires(asked.key.clone()).await {
                Ok(Ok(guard)) => Held::Place(Arc::new(guard)),
                Ok(Err(_)) => Held::Full,
                Err(error) => Held::Failed(error),
            }),
            _ => None,
        };
        // Who has no place consumes nothing, except if only places fail and failures allow.
        let verdicts = match &place {
            Some(Held::Full) => None,
            Some(Held::Failed(error)) if self.refused_for(error).is_some() => None,
            _ if question.is_empty() => None,
            _ => Some(self.store.get().decide(question.request()).await),
        };
        Answer {
            question,
            verdicts,
            place,
        }
    }

    /// Lets a request through, or returns the response that refuses it.
    pub(super) fn admit(self: Arc<Self>, parts: &mut Parts, answer: Answer) -> Admission<S> {
        let Answer {
            question,
            verdicts,
            place,
        } = answer;
        if !matches!(verdicts, Some(Err(_))) && !matches!(place, Some(Held::Failed(_))) {
            self.outage.decided();
        }
        let mut passing = Passing {
            decided: None,
            charge: None,
            place: None,
            shared: self,
        };
        let shared = &passing.shared;
        let failed = match place {
            Some(Held::Full) => {
                let refusal = Refusal::too_many_at_once(parts);
                return Admission::Refused(shared.refuse(&refusal));
            }
            Some(Held::Failed(error)) => Some(error),
            Some(Held::Place(lease)) => {
                passing.place = Some(lease);
                None
            }
            None => None,
        };
        let failed = match verdicts {
            Some(Ok(verdicts)) => {
                if shared.inserts_decision {
                    let decided = Decided::new(&question, &verdicts);
                    let _ = parts.extensions.insert(decided);
                }
                if verdicts.is_denied() {
                    shared.examine_client(parts);
                    let refusal = Refusal::denied(parts, &question, &verdicts);
                    return Admission::Refused(shared.refuse(&refusal));
                }
                passing.decided = Some((question, verdicts));
                failed
            }
            Some(Err(error)) => Some(error),
            None => failed,
        };
        if let Some(error) = failed
            && let Some(refusal) = shared.failed(parts, &error)
        {
            return Admission::Refused(shared.refuse(&refusal));
        }
        if let Some(lease) = &passing.place {
            let place = Place::beside(Arc::clone(lease), parts.extensions.remove());
            let _ = parts.extensions.insert(place);
        }
        passing.charge = shared.charge(parts);
        Admission::Passes(passing)
    }

    /// Returns what the handler says by what its request costs, if a policy settles by that. It may be
    /// there already, from a layer before this one.
    pub(super) fn charge(&self, parts: &mut Parts) -> Option<Charge> {
        let mut policies = self.policies.iter();
        if !policies.any(|policy| matches!(policy.settle, Some(SettleBy::Handler))) {
            return None;
        }
        Some(parts.extensions.get_or_insert_with(Charge::new).clone())
    }

    /// Returns why a request that the store did not decide is refused, or nothing if it goes on.
    fn refused_for(&self, error: &StoreError) -> Option<Cause> {
        match (error.kind(), self.on_failure) {
            // The store works. Who makes such a request must not get around the limits by it.
            (ErrorKind::Malformed | ErrorKind::Unsupported, _) => Some(Cause::Misconfigured),
            (_, OnStoreFailure::Refuse) => Some(Cause::StoreFailed),
            (_, OnStoreFailure::Allow) => None,
        }
    }

    /// Returns the refusal of a request that the store did not decide, or nothing if it goes on.
    #[cold]
    fn failed<'r>(&self, parts: &'r Parts, error: &StoreError) -> Option<Refusal<'r>> {
        tracing::debug!(name: "tollgate.inbound", %error, "the store did not decide a request");
        let cause = self.refused_for(error);
        if cause == Some(Cause::Misconfigured) {
            self.told.tell(
                Warning::NotDecidable,
                format_args!("requests that the store cannot decide are refused: {error}"),
            );
            return Some(Refusal::not_decidable(parts));
        }
        let does = cause.map_or("not limited", |_| "refused");
        self.outage.failed(error, does);
        cause.map(|_| Refusal::store_failed(parts))
    }

    fn refuse(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
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

    #[cold]
    fn tell(&self, why: &NotAsked) {
        match why {
            NotAsked::NoKey(NoKey::Unknown(Unknown::Peer)) => self.told.tell(
                Warning::NoPeer,
                format_args!(
                    "requests come without the address of their connection, and are refused: with \
                     axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`; with \
                     another server, insert `tollgate_http::inbound::Peer` into their extensions"
                ),
            ),
            NotAsked::NoKey(NoKey::Unknown(Unknown::Hops(header))) => self.told.tell(
                Warning::MissingHop,
                format_args!(
                    "a request had fewer addresses in `{header}` than there should be proxies, and \
                     was refused: it came past a proxy, or their number is wrong"
                ),
            ),
            NotAsked::NoKey(NoKey::Unknown(Unknown::Header(header))) => self.told.tell(
                Warning::MissingClientHeader,
                format_args!(
                    "a request did not have one address in `{header}`, and was refused: let the \
                     proxy set it, in place of what the client sent"
                ),
            ),
            NotAsked::Plan(plan) => self.told.tell(
                Warning::UnknownPlan,
                format_args!(
                    "a request had the plan {plan:?}, which the layer does not know, and was \
                     refused: pass a limiter for it to `by_plan`, or let a layer before set it"
                ),
            ),
            NotAsked::Limits(why) => self.told.tell(
                Warning::UnknownPlan,
                format_args!("a request has no limiter, and was refused: {why}"),
            ),
            NotAsked::NoKey(_) => {}
        }
    }

    fn clients(&self) -> impl Iterator<Item = &ClientIp> {
        let keys = self.policies.iter().map(|policy| &policy.key);
        keys.filter_map(KeyBy::client)
    }

    /// Looks for signs that the clients of a proxy are counted together. They may come at any time,
    /// and matter when a request is denied.
    fn examine_client(&self, parts: &Parts) {
        for client in self.clients() {
            match client.mistake(parts) {
                Some(Mistake::UnusedHeader) => self.told.tell(
                    Warning::UnusedForwarded,
                    format_args!(
                        "a request came with the header of a proxy, but is counted by the address \
                         of its connection: behind a proxy, all clients share that; use \
                         `ClientIp::behind` with the proxy's address"
                    ),
                ),
                Some(Mistake::UnknownProxy { peer, header }) => self.told.tell(
                    Warning::UnknownProxy,
                    format_args!(
                        "a request came with `{header}` from {peer}, which is none of the proxies, \
                         and is counted by that address: if it is a proxy, all its clients share \
                         that; add it to the proxies"
                    ),
                ),
                Some(Mistake::MissingAddress { peer, header }) => self.told.tell(
                    Warning::MissingAddress,
                    format_args!(
                        "a request from the proxy {peer} has no address at the end of `{header}`, \
                         and is counted by the proxy's, which all its clients share: let the proxy \
                         append the client's address, or read the header that it writes"
                    ),
                ),
                None => {}
            }
        }
    }

    /// Looks for mistakes in the setup.
    #[cold]
    fn examine(&self, parts: &mut Parts, question: &Question) {
        let _ = self.examined.fetch_add(1, Ordering::Relaxed);
        self.examine_client(parts);
        if self.clients().any(ClientIp::trusts_everybody) {
            self.told.tell(
                Warning::EverythingTrusted,
                format_args!(
                    "every address is trusted as a proxy's, so any client chooses the address that \
                     it is counted by: name the addresses of the proxies only"
                ),
            );
        }
        if self.told.has_told(Warning::CountedTwice) {
            return;
        }
        let counted = parts.extensions.get_or_insert_default::<Counted>();
        for check in question.checks() {
            let key = check.key();
            let state = (
                check.limit().identity().to_owned(),
                key.partition().to_vec(),
                key.rest().to_vec(),
            );
            if counted.0.contains(&state) {
                self.told.tell(
                    Warning::CountedTwice,
                    format_args!(
                        "a request is counted twice for one key by the limit `{}`: add the layer \
                         once, or give the limits different names",
                        check.limit().name()
                    ),
                );
            } else {
                counted.0.push(state);
            }
        }
    }
}

/// By which limits and keys a request was counted, in its extensions.
#[derive(Clone, Default)]
struct Counted(Vec<(String, Vec<u8>, Vec<u8>)>);

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            policies: self.policies.clone(),
            fields: self.fields.clone(),
            on_failure: self.on_failure,
            skips_preflight: self.skips_preflight,
            skips: self.skips.clone(),
            responds: self.responds.clone(),
            acquires: self.acquires.clone(),
            inserts_decision: self.inserts_decision,
            told: Arc::clone(&self.told),
            outage: Arc::clone(&self.outage),
            examined: AtomicU32::new(0),
        }
    }
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        if *self.examined.get_mut() == 1
            && OF_ONE_REQUEST.fetch_add(1, Ordering::Relaxed) >= LAYERS_OF_ONE_REQUEST
        {
            TOLD_FOR_ALL.tell(
                Warning::LayerPerRequest,
                format_args!(
                    "many layers served one request each: make the layer once, or nothing is \
                     limited in memory, and connections to a server are made for every request"
                ),
            );
        }
    }
}

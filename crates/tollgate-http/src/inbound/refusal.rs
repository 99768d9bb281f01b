//! `Refusal`: why a request is refused, and the response that says so.

use std::fmt::Write;
use std::iter;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_core::store::{Verdict, Verdicts};
use tollgate_core::{Decision, Limit, Wait};

use super::client_key::{NoKey, Unknown};
use super::extensions::Decided;
use super::fields::Fields;
use super::grpc;
use super::question::{NotAsked, Question};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// When to come back if nobody knows.
const SOON: Wait = Wait::from_micros(1_000_000);

/// Why a request is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// A limit denied it: status 429.
    Denied,
    /// The client has too many requests at once: status 429.
    TooManyAtOnce,
    /// The store failed, and the layer [refuses](super::OnStoreFailure::Refuse) then: status 503.
    StoreFailed,
    /// The client's addresses are [denied](super::ClientIp::deny): status 403.
    Forbidden,
    /// It lacks what requests are counted by, such as an API key: status 401.
    NoKey,
    /// The layer is not set up for it: it cannot tell who sent it, does not know its plan, or asks the
    /// store for what it does not support: status 500.
    Misconfigured,
}

impl Cause {
    fn status(self) -> StatusCode {
        match self {
            Self::Denied | Self::TooManyAtOnce => StatusCode::TOO_MANY_REQUESTS,
            Self::StoreFailed => StatusCode::SERVICE_UNAVAILABLE,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NoKey => StatusCode::UNAUTHORIZED,
            Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn grpc_code(self) -> u16 {
        match self {
            // RESOURCE_EXHAUSTED.
            Self::Denied | Self::TooManyAtOnce => 8,
            // UNAVAILABLE.
            Self::StoreFailed => 14,
            // PERMISSION_DENIED.
            Self::Forbidden => 7,
            // UNAUTHENTICATED.
            Self::NoKey => 16,
            // INTERNAL.
            Self::Misconfigured => 13,
        }
    }
}

/// A request that is refused: for a response of your own, see
/// [`InboundLayer::respond`](super::InboundLayer::respond).
#[derive(Debug)]
pub struct Refusal<'r> {
    cause: Cause,
    request: &'r Parts,
    detail: String,
    /// What the store said, if it denied the request.
    decided: Option<(&'r Question, &'r Verdicts)>,
    retry_after: Wait,
    /// What asks for the header that the request lacks.
    challenge: Option<HeaderValue>,
}

impl<'r> Refusal<'r> {
    /// Returns the refusal of what a store denied.
    pub(super) fn denied(
        request: &'r Parts,
        question: &'r Question,
        verdicts: &'r Verdicts,
    ) -> Self {
        let retry_after = verdicts.retry_after();
        Self {
            decided: Some((question, verdicts)),
            retry_after,
            ..Self::new(request, Cause::Denied, detail_of(retry_after))
        }
    }

    fn new(request: &'r Parts, cause: Cause, detail: impl Into<String>) -> Self {
        Self {
            cause,
            request,
            detail: detail.into(),
            decided: None,
            retry_after: Wait::ZERO,
            challenge: (cause == Cause::NoKey).then(|| HeaderValue::from_static("ApiKey")),
        }
    }

    /// Returns the refusal of a client with too many requests at once.
    pub(super) fn too_many_at_once(request: &'r Parts) -> Self {
        let detail = "Too many requests at once: wait until one has ended.";
        Self::new(request, Cause::TooManyAtOnce, detail)
    }

    /// Returns the refusal of a request that the store could not decide.
    pub(super) fn store_failed(request: &'r Parts) -> Self {
        // What failed is nobody's business outside; it is in the log.
        Self::new(request, Cause::StoreFailed, "Try again later.")
    }

    /// Returns the refusal of a request that no store can decide.
    pub(super) fn not_decidable(request: &'r Parts) -> Self {
        let detail = "The server cannot tell how to limit the request; its log says why.";
        Self::new(request, Cause::Misconfigured, detail)
    }

    /// Returns the refusal of a request that is counted by something it lacks.
    pub(super) fn not_asked(request: &'r Parts, why: &NotAsked) -> Self {
        match why {
            NotAsked::NoKey(NoKey::Header(name)) => {
                let detail = format!("The request needs one header `{name}`.");
                let challenge = if *name == AUTHORIZATION {
                    Ok(HeaderValue::from_static("Bearer"))
                } else {
                    HeaderValue::try_from(format!("ApiKey header=\"{name}\""))
                };
                Self {
                    challenge: challenge.ok(),
                    ..Self::new(request, Cause::NoKey, detail)
                }
            }
            NotAsked::NoKey(NoKey::Nothing) => Self::new(
                request,
                Cause::NoKey,
                "The request does not say who sends it.",
            ),
            NotAsked::NoKey(NoKey::Denied | NoKey::Allowed) => {
                Self::new(request, Cause::Forbidden, "This address is not served.")
            }
            NotAsked::NoKey(NoKey::Unknown(
                Unknown::Peer | Unknown::Hops(_) | Unknown::Header(_),
            ))
            | NotAsked::Plan(_)
            | NotAsked::Zone
            | NotAsked::Limits(_) => Self::not_decidable(request),
        }
    }

    /// Returns why the request is refused.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the status of the usual response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.cause.status()
    }

    /// Returns the request without its body.
    #[must_use]
    pub fn request(&self) -> &'r Parts {
        self.request
    }

    /// Returns how long to wait until the same request is allowed, if nobody else calls; zero if it
    /// is not known, and [`Wait::NEVER`] if waiting does not help.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.retry_after
    }

    /// Returns how long the usual response asks the client to wait: also if the store failed, or for
    /// a place.
    pub(super) fn wait(&self) -> Wait {
        match self.cause {
            Cause::StoreFailed | Cause::TooManyAtOnce => SOON,
            _ => self.retry_after,
        }
    }

    /// Returns each limit with its verdict; none if no store decided.
    pub fn verdicts(&self) -> impl Iterator<Item = (&'r Limit, &'r Verdict)> {
        let decided = self.decided.into_iter();
        decided.flat_map(|(question, verdicts)| question.verdicts(verdicts.as_slice()))
    }

    /// Returns what the store said, if it denied the request.
    pub(super) fn decided(&self) -> Option<Decided> {
        self.decided
            .map(|(question, verdicts)| Decided::new(question, verdicts))
    }

    /// Returns a sentence for the client.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the usual response: problem details (RFC 9457), or a gRPC status if the request is
    /// one of gRPC.
    pub(super) fn response(&self, fields: &Fields) -> Response<Bytes> {
        let mut response = match grpc::content_type(self.request) {
            Some(content_type) => {
                let wait = self.wait();
                let wait = fields.with_jitter(wait).map_or(wait, Wait::from_micros);
                grpc::response(content_type, self.cause.grpc_code(), &self.detail, wait)
            }
            None if self.cause == Cause::Denied => {
                let verdicts = self.verdicts().map(|(limit, said)| (limit, *said));
                denied(verdicts, self.retry_after, fields)
            }
            None => problem(self.cause, &self.detail, iter::empty()),
        };
        self.write_fields(fields, &mut response);
        response
    }

    /// Writes what the limits say, and what else its status needs, into the headers of a response.
    pub(super) fn write_fields(&self, fields: &Fields, response: &mut Response<Bytes>) {
        let status = response.status();
        let headers = response.headers_mut();
        if let Some((question, verdicts)) = self.decided {
            question.write(verdicts.as_slice(), verdicts.source(), fields, headers);
            return;
        }
        // A response of one's own may know better.
        if let Some(micros) = fields.with_jitter(self.wait()) {
            let seconds = micros.div_ceil(1_000_000);
            let _ = headers
                .entry(RETRY_AFTER)
                .or_insert_with(|| HeaderValue::from(seconds));
        }
        if let Some(challenge) = &self.challenge
            && status == StatusCode::UNAUTHORIZED
        {
            let _ = headers
                .entry(WWW_AUTHENTICATE)
                .or_insert_with(|| challenge.clone());
        }
    }
}

impl Fields {
    /// Returns the response that refuses a denied call, as [`InboundLayer`](super::InboundLayer) refuses
    /// requests: the status 429 with what [`write`](Self::write) writes, and problem details (RFC 9457) as
    /// its body. `None` if the call was allowed.
    ///
    /// For decisions on what only a handler knows. A handler of gRPC returns a status instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::Form;
    /// use axum::response::{IntoResponse, Response};
    /// use tollgate_http::inbound::Fields;
    /// use tollgate_memory::{MemoryStore, RateLimiter, StoreError};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Login {
    ///     name: String,
    /// }
    ///
    /// fn login(limiter: &RateLimiter<MemoryStore>, login: Form<Login>) -> Result<Response, StoreError> {
    ///     if let Some(refusal) = Fields::new().refuse(&limiter.check(&login.name).run()?) {
    ///         return Ok(refusal);
    ///     }
    ///     Ok("welcome".into_response())
    /// }
    ///
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["login=sliding-log:1/1m"])?;
    /// let alice = || Form(Login { name: "alice".into() });
    /// assert_eq!(login(&limiter, alice())?.status(), 200);
    /// let refused = login(&limiter, alice())?;
    /// assert_eq!(refused.status(), 429);
    /// assert_eq!(refused.headers()["retry-after"], "60");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn refuse<B: From<Bytes>>(&self, decision: &Decision<'_>) -> Option<Response<B>> {
        if decision.is_allowed() {
            return None;
        }
        let mut response = denied(decision.verdicts(), decision.retry_after(), self);
        self.write(decision, response.headers_mut());
        Some(response.map(B::from))
    }
}

/// Returns why a request that limits denied is refused, for the client.
fn detail_of(retry_after: Wait) -> &'static str {
    if retry_after.is_never() {
        "The request costs more than its limit ever allows."
    } else {
        "Try again later."
    }
}

/// Returns the response to a call that limits denied, without its fields.
fn denied<'v>(
    verdicts: impl Iterator<Item = (&'v Limit, Verdict)>,
    retry_after: Wait,
    fields: &Fields,
) -> Response<Bytes> {
    let denied = verdicts.filter(|(limit, said)| !said.is_allowed() && fields.shows(limit));
    let denied = denied.map(|(limit, _)| limit.name());
    problem(Cause::Denied, detail_of(retry_after), denied)
}

/// Returns problem details, with the names of the limits that denied the request.
fn problem<'v>(
    cause: Cause,
    detail: &str,
    denied: impl Iterator<Item = &'v str>,
) -> Response<Bytes> {
    let status = cause.status();
    let (kind, title) = match cause {
        Cause::Denied | Cause::TooManyAtOnce => (
            QUOTA_EXCEEDED,
            "Request cannot be satisfied as assigned quota has been exceeded",
        ),
        Cause::StoreFailed => (
            REDUCED_CAPACITY,
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
        Cause::Forbidden | Cause::NoKey | Cause::Misconfigured => (
            "about:blank",
            status.canonical_reason().unwrap_or("Refused"),
        ),
    };
    let code = status.as_u16();
    // No text here has a character that JSON escapes: names are letters, digits, `-`, `_`, `.`.
    let mut body =
        format!(r#"{{"type":"{kind}","title":"{title}","status":{code},"detail":"{detail}""#);
    if cause == Cause::Denied {
        body.push_str(r#","violated-policies":["#);
        for (index, name) in denied.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(body, "{comma}\"{name}\"");
        }
        body.push(']');
    }
    body.push('}');
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    let _ = response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

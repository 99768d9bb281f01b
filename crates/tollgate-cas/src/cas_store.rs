//! `CasStore`: a store on the rows of a database.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::inside::encoding::micros_ceil;
use tollgate_core::store::{Check, Checks, Fingerprint, Request, State, Verdicts};
use tollgate_core::{CallId, Key, Store, StoreError, Timestamp, lease, schedule};

use crate::book::{Book, Bytes, Content, Keep};
use crate::group::Groups;
use crate::key::{Kind, row_key};
use crate::rows::{Connect, Rows};

const DEADLINE: Duration = Duration::from_secs(2);
/// How long states are kept at least that were written at callers' instants.
const REPLAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store on the rows of a database that can replace rows if they are unchanged: *compare-and-set*, or
/// *optimistic locking*.
///
/// See [the crate](crate).
pub struct CasStore<T> {
    groups: Arc<Groups<T>>,
    deadline: Duration,
    replay_us: u64,
}

impl<T: Rows + 'static> CasStore<T> {
    /// Returns a store on `rows`, whose calls take two seconds at most, and which keeps states at callers'
    /// instants for a day.
    #[must_use]
    pub fn new(rows: T) -> Self {
        Self {
            groups: Groups::new(rows),
            deadline: DEADLINE,
            replay_us: micros_ceil(REPLAY),
        }
    }

    /// Connects to the database at `url`, and returns a [`new`](Self::new) store on its rows.
    ///
    /// # Errors
    ///
    /// Those of [`Connect::connect`].
    pub async fn connect(url: &str) -> Result<Self, StoreError>
    where
        T: Connect,
    {
        T::connect(url).await.map(Self::new)
    }

    /// Sets how long a call may take, two seconds by default, longer only if the program itself is late. A call
    /// that takes longer is an error of [`Unavailable`](crate::ErrorKind::Unavailable) if nothing was counted, and
    /// of [`Unknown`](crate::ErrorKind::Unknown) if nobody knows.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long a state at callers' instants is kept at least, by the database's clock, a day by default: let
    /// it be more than a replay takes.
    #[must_use]
    pub fn keep_replays(mut self, time: Duration) -> Self {
        self.replay_us = micros_ceil(time);
        self
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> &T {
        &self.groups.rows
    }

    async fn decided<A: Send>(
        &self,
        keys: &[Vec<u8>],
        decide: impl FnMut(&mut Book) -> Result<(A, bool), StoreError> + Send,
    ) -> Result<A, StoreError> {
        self.groups.decide(keys, self.deadline, decide).await
    }

    fn keep(&self, at: Option<Timestamp>) -> Keep {
        let least_us = at.map_or(0, |_| self.replay_us);
        Keep { at, least_us }
    }

    /// Changes what the row of `key` holds, and returns the answer.
    async fn change<C: Content + Clone + PartialEq, A: Send>(
        &self,
        key: Vec<u8>,
        of: &C::Of,
        at: Option<Timestamp>,
        change: impl Fn(&mut C, Timestamp) -> A + Send + Sync,
    ) -> Result<A, StoreError>
    where
        C::Of: Sync,
    {
        let keep = self.keep(at);
        let decide = |book: &mut Book| {
            let mut content: C = book.get(&key, of)?;
            let before = content.clone();
            let answer = change(&mut content, at.unwrap_or(book.now));
            let changes = content != before;
            if changes {
                book.put(&key, of, &content, keep);
            }
            Ok((answer, changes))
        };
        self.decided(slice::from_ref(&key), decide).await
    }

    /// Empties the rows of `keys`.
    async fn remove(&self, keys: &[Vec<u8>]) -> Result<(), StoreError> {
        let remove = |book: &mut Book| {
            let mut held = Vec::new();
            for key in keys {
                if !book.bytes(key)?.is_empty() {
                    held.push(key);
                }
            }
            held.iter().for_each(|key| book.set(key, Vec::new(), 0));
            Ok(((), !held.is_empty()))
        };
        self.decided(keys, remove).await
    }
}

/// Decides `request` on the rows of `keys`, one for each check.
fn decide(
    book: &mut Book,
    request: &Request<'_>,
    keys: &[Vec<u8>],
    keep: Keep,
) -> Result<(Verdicts, bool), StoreError> {
    let checks = request.checks();
    let states = checks.iter().zip(keys);
    let states = states.map(|(check, key)| book.get::<State>(key, check.limit()));
    let mut states = states.collect::<Result<Vec<_>, _>>()?;
    let now = keep.at.unwrap_or(book.now);
    let evaluation = request.evaluate(&states[..], now);
    let writes: Vec<bool> = (0..checks.len())
        .map(|index| evaluation.writes_to(index))
        .collect();
    let verdicts = evaluation.apply(Fingerprint::of(request), &mut states[..]);
    for (index, state) in states
        .iter()
        .enumerate()
        .filter(|(index, _)| writes[*index])
    {
        book.put(&keys[index], checks[index].limit(), state, keep);
    }
    Ok((verdicts, writes.contains(&true)))
}

#[async_trait]
impl<T: Rows + 'static> Store for CasStore<T> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let (id, request) = request.split_id()?;
        request.validate(Fingerprint::of)?;
        let at = request.caller_time();
        let keep = self.keep(at);
        let of =
            |check: &Check<'_>| row_key(Kind::Limit, check.limit().identity(), check.key(), at);
        let mut keys: Vec<Vec<u8>> = request.checks().iter().map(of).collect();
        let Some(id) = id else {
            return self
                .decided(&keys, |book| decide(book, &request, &keys, keep))
                .await;
        };
        keys.push(answer_key(&request, &id));
        let Some((answer_key, states)) = keys.split_last() else {
            unreachable!("it was pushed");
        };
        let call = request.call_hash();
        let once = |book: &mut Book| {
            let mut known = Bytes(book.bytes(answer_key)?);
            if !known.0.is_empty() && known.number()? > book.now.as_micros() {
                return match known.number()? == call {
                    true => Ok((Verdicts::from_bytes(&request, known.0)?, false)),
                    false => Err(CallId::taken()),
                };
            }
            let (verdicts, mut changes) = decide(book, &request, states, keep)?;
            if verdicts.is_allowed() {
                let ends = book.now.as_micros().saturating_add(id.kept_us());
                let mut bytes = [ends.to_le_bytes(), call.to_le_bytes()].concat();
                bytes.extend(verdicts.to_bytes());
                book.set(answer_key, bytes, ends);
                changes = true;
            }
            Ok((verdicts, changes))
        };
        self.decided(&keys, once).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        for at in [None, Some(Timestamp::UNIX_EPOCH)] {
            let of =
                |check: &Check<'_>| row_key(Kind::Limit, check.limit().identity(), check.key(), at);
            self.remove(&checks.iter().map(of).collect::<Vec<_>>())
                .await?;
        }
        Ok(())
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        let (_, request) = request.split_id()?;
        request.validate_operation()
    }
}

#[async_trait]
impl<T: Rows + 'static> schedule::Store for CasStore<T> {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let (terms, at) = (request.terms(), request.caller_time());
        let key = row_key(Kind::Schedule, terms.identity(), request.key(), at);
        let decide = |state: &mut schedule::State, now| request.decide_on(state, now);
        self.change(key, terms, at, decide).await
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        for at in [None, Some(Timestamp::UNIX_EPOCH)] {
            self.remove(&[row_key(Kind::Schedule, terms.identity(), key, at)])
                .await?;
        }
        Ok(())
    }
}

#[async_trait]
impl<T: Rows + 'static> lease::Store for CasStore<T> {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let (terms, at) = (request.terms(), request.caller_time());
        let key = row_key(Kind::Lease, terms.identity(), request.key(), at);
        let decide = |state: &mut lease::State, now| request.decide_on(state, now);
        self.change(key, terms, at, decide).await
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        for at in [None, Some(Timestamp::UNIX_EPOCH)] {
            let key = row_key(Kind::Lease, terms.identity(), key, at);
            // Tokens grow even after a reset.
            let reset =
                |state: &mut lease::State, _| *state = lease::State::after(state.last_token());
            self.change(key, terms, at, reset).await?;
        }
        Ok(())
    }
}

/// Returns the key of the row that keeps the answer to `id`: of the first limit's name and key.
fn answer_key(request: &Request<'_>, id: &CallId<'_>) -> Vec<u8> {
    let Some(first) = request.checks().first() else {
        return Vec::new();
    };
    let (name, key) = (first.limit().name(), first.key());
    let mut bytes = row_key(Kind::Answer, name, key, request.caller_time());
    // The id is the end, and what is before it says how long it is.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(id.bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

impl<T: fmt::Debug> fmt::Debug for CasStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CasStore")
            .field("rows", &self.groups.rows)
            .finish_non_exhaustive()
    }
}

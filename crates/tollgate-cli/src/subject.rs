//! `SubjectOptions`: one key on a live server, and the limits that a command asks about.

use std::sync::{Arc, Weak};
use std::time::Duration;

use clap::{ArgGroup, Args};
use tokio::select;
use tokio::time::{sleep, timeout};
use tollgate_core::{Key, Limit, RateLimiter, StoreError};
use tollgate_wire::operate::{FoundState, Search};

use crate::failure::Failure;
use crate::limits::{LimitOptions, LimitsFile};
use crate::output::Output;
use crate::signals::Signal;
use crate::store::{OneKeyOptions, PATIENCE, Remote, ServerOptions, Whom, wait_for};

/// How long to wait for what is given back: the call on its way may take [`PATIENCE`], and so may its
/// refund.
const LONGEST_RETURN: Duration = PATIENCE.saturating_mul(2);
/// How often to look whether it is done.
const LOOK: Duration = Duration::from_millis(2);

/// The limits and the key of a command for a live server.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("asked").args(["limits", "limits_file"]).multiple(true).required(true)))]
pub(crate) struct SubjectOptions {
    #[command(flatten)]
    pub(crate) one: OneKeyOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

/// What a command for a live server is about.
pub(crate) struct Subject {
    pub(crate) whom: Whom,
    pub(crate) limits: Vec<Limit>,
    /// The service's file, if it is given.
    pub(crate) file: Option<LimitsFile>,
}

impl SubjectOptions {
    pub(crate) fn subject(&self) -> Result<Subject, Failure> {
        let file = self.limits.file()?;
        Ok(Subject {
            limits: self.limits.together(file.as_ref())?,
            whom: self.one.whom()?,
            file,
        })
    }
}

/// Connects to the server of `options`, and calls `question` with the limits and the key of `subject`.
///
/// After Ctrl-C or SIGTERM, `question` is dropped, and the program ends once what it has consumed is
/// given back.
pub(crate) fn ask<T>(
    options: &SubjectOptions,
    subject: &Subject,
    output: &Output,
    question: impl AsyncFnOnce(&RateLimiter<Arc<dyn Remote>>, Key<'_>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let server = options.server.server()?;
    let settings = options.one.key.settings(&options.server)?;
    wait_for(async {
        let store: Arc<dyn Remote> = server.connect(settings).await?.into();
        let users = Arc::downgrade(&store);
        let limiter = RateLimiter::new(store, subject.limits.clone()).map_err(Failure::Limits)?;
        let signal = select! {
            biased;
            signal = Signal::received() => signal,
            answer = question(&limiter, subject.whom.key()) => return Ok(answer?),
        };
        drop(limiter);
        if let Err(reason) = given_back(&users).await {
            output.complain(&format!("a waiting call may stay counted: {reason}"));
        }
        Err(Failure::Interrupted(signal))
    })
}

/// Waits until the tasks that give back what dropped calls have consumed no longer use their store.
///
/// # Errors
///
/// Why it waits no longer.
async fn given_back(users: &Weak<dyn Remote>) -> Result<(), &'static str> {
    let unused = async {
        while users.strong_count() > 0 {
            sleep(LOOK).await;
        }
    };
    select! {
        biased;
        _ = Signal::received() => Err("interrupted again"),
        done = timeout(LONGEST_RETURN, unused) => done.map_err(|_| "the server does not answer"),
    }
}

/// Returns all states that `search` selects, each once.
pub(crate) async fn find(
    store: &dyn Remote,
    mut search: Search,
) -> Result<Vec<FoundState>, StoreError> {
    let mut found = Vec::new();
    while let Some(states) = store.find(&mut search).await? {
        for state in states {
            // A scan may return a key twice.
            if !found.contains(&state) {
                found.push(state);
            }
        }
    }
    found.sort_by_key(|state| (state.to_string(), state.rest.clone()));
    Ok(found)
}

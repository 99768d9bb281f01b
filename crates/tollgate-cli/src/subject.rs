//! `SubjectOptions`: one key on a live server, and the limits that a command asks about.

use std::sync::{Arc, Weak};
use std::time::Duration;

use clap::Args;
use tokio::select;
use tokio::time::{sleep, timeout};
use tollgate_core::{
    Algorithm, FixedWindow, Key, Limit, LimitError, Quota, RateLimiter, StoreError,
};

use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signal;
use crate::store::{KeyOptions, PATIENCE, Remote, ServerOptions, wait_for};

/// How long to wait for what is given back: the call on its way may take [`PATIENCE`], and so may its
/// refund.
const LONGEST_RETURN: Duration = PATIENCE.saturating_mul(2);
/// How often to look whether it is done.
const LOOK: Duration = Duration::from_millis(2);

/// The limits and the key of a command for a live server.
#[derive(Args, Clone, Debug)]
pub(crate) struct SubjectOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// A limit of the service, as NAME=ALGORITHM:N/WINDOW; repeat for several limits
    #[arg(long = "limit", required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    #[command(flatten)]
    pub(crate) key: KeyOptions,
}

/// Connects to the server of `options`, and calls `question` with its limits and key.
///
/// After Ctrl-C or SIGTERM, `question` is dropped, and the program ends once what it has consumed is
/// given back.
pub(crate) fn ask<T>(
    options: &SubjectOptions,
    output: &Output,
    question: impl AsyncFnOnce(&RateLimiter<Arc<dyn Remote>>, Key<'_>) -> Result<T, StoreError>,
) -> Result<(Vec<Limit>, T), Failure> {
    let server = options.server.server()?;
    let limits = limits(&options.limits)?;
    // Check the limits before sending anything.
    RateLimiter::new((), limits.clone()).map_err(Failure::Limits)?;
    let settings = options.key.settings(&options.server)?;
    let answer = wait_for(async {
        let store: Arc<dyn Remote> = server.connect(settings).await?.into();
        let users = Arc::downgrade(&store);
        let limiter = RateLimiter::new(store, limits.clone()).map_err(Failure::Limits)?;
        let signal = select! {
            biased;
            signal = Signal::received() => signal,
            answer = question(&limiter, options.key.key()) => return Ok(answer?),
        };
        drop(limiter);
        if let Err(reason) = given_back(&users).await {
            output.complain(&format!("a waiting call may stay counted: {reason}"));
        }
        Err(Failure::Interrupted(signal))
    })?;
    Ok((limits, answer))
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

/// Parses the limits of the command line, which have names.
fn limits(texts: &[String]) -> Result<Vec<Limit>, Failure> {
    let limit = |text: &String| {
        if text.parse::<Algorithm>().is_ok() {
            return Err(Failure::LimitUnnamed {
                limit: text.clone(),
            });
        }
        text.parse().map_err(|source: LimitError| Failure::Limit {
            limit: text.clone(),
            source,
        })
    };
    texts.iter().map(limit).collect()
}

/// Parses the limits of a command that asks each by itself: their names may be the same.
pub(crate) fn separate_limits(texts: &[String]) -> Result<Vec<Limit>, Failure> {
    let limits = limits(texts)?;
    for (index, limit) in limits.iter().enumerate() {
        if limits[..index].contains(limit) {
            return Err(Failure::LimitTwice {
                limit: texts[index].clone(),
            });
        }
    }
    Ok(limits)
}

/// Checks that `names` could be those of limits.
pub(crate) fn check_names(names: &[String]) -> Result<(), Failure> {
    for name in names {
        // The algorithm does not matter: this only validates the name.
        let named = Limit::new(name, FixedWindow::aligned(Quota::per_second(1)));
        named.map_err(|source| Failure::Limit {
            limit: name.clone(),
            source,
        })?;
    }
    Ok(())
}

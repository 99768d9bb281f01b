//! The points to measure: each subject through each client.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{
    Algorithm, CalendarUnit, CalendarWindow, FixedWindow, Gcra, Limit, LimitError, Quota,
    RateLimiter, SlidingBuckets, SlidingCounter, SlidingLog,
};

use super::afterwards;
use super::capture;
use super::clients::{self, Client, Clients, RedisRs};
use super::keys::Keys;
use super::measure::Plan;
use super::originals;
use super::raw::{ByHand, Decides, Increment, Nothing, Ping, Transaction};
use super::run::{Runs, Subject, erase};
use super::schedules;
use crate::{Outcome, Problem};

pub(crate) const INCREMENT: &str = "INCR";
pub(crate) const TRANSACTION: &str = "MULTI, INCR, PEXPIRE NX";
pub(crate) const ONE: &str = "gcra";
pub(crate) const TWO: &str = "two gcra together";
pub(crate) const FOUR: &str = "four gcra together";
pub(crate) const PLAIN: &str = "fixed window without scripts";
pub(crate) const LOG: &str = "sliding log of 100";
pub(crate) const LONG_LOG: &str = "sliding log of 10,000";
pub(crate) const COSTLY_LOG: &str = "sliding log of 100 calls that cost 1,000";

/// The default number of keys.
pub(crate) const KEYS: usize = 1_000;

/// One subject through one client.
pub(crate) struct Point {
    pub(crate) row: String,
    /// The name of the client.
    pub(crate) client: &'static str,
    pub(crate) runs: Box<dyn Runs>,
    pub(crate) keys: Arc<Keys>,
    /// How long the subject runs before each measurement.
    pub(crate) warm_up: Duration,
    /// The expected outcome of every call.
    pub(crate) expected: Option<Outcome>,
}

/// Returns the name of a row of decisions.
pub(crate) fn row(case: &str, outcome: Outcome) -> String {
    format!("{case}, {outcome:?}").to_lowercase()
}

/// Returns the name of the row in which the scripts of allowed calls are sent by hand.
pub(crate) fn by_hand(case: &str) -> String {
    format!("{case}, by hand")
}

/// Limits that decide together, and the keys to call.
struct Case {
    name: &'static str,
    outcome: Outcome,
    limits: Vec<Limit>,
    cost: u64,
    /// The longest delay to accept, if calls are reserved.
    within: Option<Duration>,
    keys: Arc<Keys>,
    /// The calls that each key makes before the measurement.
    filled: usize,
    /// How long calls must run until the size of the state is stable.
    settles: Option<Duration>,
}

/// Returns the points whose rows contain `filter`, and those that others are compared with.
///
/// For each case, the library and the script by hand use the same limits and keys.
pub(crate) async fn all(
    clients: &Clients,
    plan: &Plan,
    filter: &str,
) -> Result<Vec<Point>, Problem> {
    let always = [
        INCREMENT.to_owned(),
        TRANSACTION.to_owned(),
        row(ONE, Outcome::Allowed),
    ];
    let wanted = |row: &str| row.contains(filter) || always.iter().any(|other| other == row);
    let mut points = Vec::new();
    commands(&mut points, &clients.redis, plan).await?;
    commands(&mut points, &clients.fred, plan).await?;
    let cases = [allowed(plan)?, denied()?].concat();
    for case in &cases {
        let names = [row(case.name, case.outcome), by_hand(case.name)];
        if !names.iter().any(|name| wanted(name)) {
            continue;
        }
        fill(case, &clients.redis).await?;
        decisions(&mut points, case, &clients.redis, plan).await?;
        decisions(&mut points, case, &clients.fred, plan).await?;
    }
    plain(&mut points, &clients.redis, plan).await?;
    if schedules::rows().iter().any(|row| wanted(row)) {
        schedules::add(&mut points, &clients.redis, plan).await?;
        schedules::add(&mut points, &clients.fred, plan).await?;
    }
    if afterwards::rows().iter().any(|row| wanted(row)) {
        afterwards::add(&mut points, &clients.redis, plan)?;
        afterwards::add(&mut points, &clients.fred, plan)?;
    }
    points.extend(originals::all(&clients.redis, plan));
    points.retain(|point| wanted(&point.row));
    Ok(points)
}

/// Adds the commands that decisions consist of.
async fn commands<C: Client>(
    points: &mut Vec<Point>,
    client: &C,
    plan: &Plan,
) -> Result<(), Problem> {
    let keys = Arc::new(Keys::new(KEYS));
    let mut add = |row: &str, runs: Box<dyn Runs>| {
        points.push(Point {
            row: row.to_owned(),
            client: C::NAME,
            runs,
            keys: Arc::clone(&keys),
            warm_up: plan.warm_up,
            expected: None,
        });
    };
    add("PING", erase(Ping(client.clone())));
    add(
        INCREMENT,
        erase(Increment {
            client: client.clone(),
            keys: Arc::clone(&keys),
        }),
    );
    add(
        "EVALSHA of `return 1`",
        erase(Nothing {
            client: client.clone(),
            sha1: client.load("return 1").await?,
        }),
    );
    add(
        TRANSACTION,
        erase(Transaction {
            client: client.clone(),
            keys: Arc::clone(&keys),
        }),
    );
    Ok(())
}

/// Adds the decisions of a case through the library and, if they are allowed, by hand.
async fn decisions<C: Client>(
    points: &mut Vec<Point>,
    case: &Case,
    client: &C,
    plan: &Plan,
) -> Result<(), Problem> {
    if case.outcome == Outcome::Allowed {
        let sent = capture::sent(
            &clients::options(),
            &case.limits,
            case.cost,
            case.within,
            case.keys.names(),
        )
        .await?;
        // A script must be loaded before it can be called.
        if let Some(text) = sent.first().map(|sent| &sent.text) {
            client.load(text).await?;
        }
        let subject = ByHand {
            client: client.clone(),
            sent,
            keys: Arc::clone(&case.keys),
            allowed: 1,
        };
        points.push(case.point::<C>(by_hand(case.name), subject, plan));
    }
    let subject = Decides {
        limiter: RateLimiter::new(client.store()?, case.limits.iter().cloned())?,
        cost: case.cost,
        within: case.within,
        keys: Arc::clone(&case.keys),
    };
    points.push(case.point::<C>(row(case.name, case.outcome), subject, plan));
    Ok(())
}

impl Case {
    fn point<C: Client>(&self, row: String, subject: impl Subject, plan: &Plan) -> Point {
        Point {
            row,
            client: C::NAME,
            runs: erase(subject),
            keys: Arc::clone(&self.keys),
            warm_up: self.settles.unwrap_or(plan.warm_up),
            expected: Some(self.outcome),
        }
    }
}

impl Clone for Case {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            keys: Arc::clone(&self.keys),
            ..*self
        }
    }
}

/// Returns the cases in which every call is allowed.
///
/// Logs and buckets grow with the calls in their window, so these cases use a short window and run
/// for one full window before each measurement.
fn allowed(plan: &Plan) -> Result<Vec<Case>, LimitError> {
    let short = Quota::new(1_000_000, plan.window)?;
    let case = |name, algorithms: &[Algorithm]| -> Result<Case, LimitError> {
        Ok(Case {
            name,
            outcome: Outcome::Allowed,
            limits: limits(name, Outcome::Allowed, algorithms)?,
            cost: 1,
            within: None,
            keys: Arc::new(Keys::new(KEYS)),
            filled: 0,
            settles: None,
        })
    };
    let buckets = |name, count| -> Result<Case, LimitError> {
        Ok(Case {
            keys: Arc::new(Keys::new(64)),
            settles: Some(plan.window),
            ..case(name, &[SlidingBuckets::new(short, count)?.into()])?
        })
    };
    let log = |name, calls: u32, cost, most_keys| -> Result<Case, LimitError> {
        let quota = Quota::new(u64::from(calls) * cost, plan.window)?;
        Ok(Case {
            cost,
            keys: Arc::new(Keys::of_log(most_keys, calls, plan.window)),
            settles: Some(plan.window),
            ..case(name, &[SlidingLog::new(quota)?.into()])?
        })
    };
    let four = [
        Quota::per_second(1_000_000),
        Quota::per_minute(60_000_000),
        Quota::per_hour(3_600_000_000),
        Quota::new(86_400_000_000, Duration::from_secs(86_400))?,
    ];
    let four = gcras(&four)?;
    // Every key is called more often than this, so that nearly all starts are delayed.
    let slow = [
        Gcra::with_burst(Quota::per_minute(60), 1)?.into(),
        Gcra::with_burst(Quota::per_minute(30), 2)?.into(),
    ];
    let reserved = |name, algorithms: &[Algorithm]| -> Result<Case, LimitError> {
        Ok(Case {
            within: Some(Duration::MAX),
            ..case(name, algorithms)?
        })
    };
    let minutely = Quota::per_minute(1_000_000_000);
    let counted = Quota::per_minute(10_000_000);
    Ok(vec![
        case(ONE, &four[..1])?,
        case(TWO, &four[..2])?,
        case(FOUR, &four)?,
        reserved("gcra reserved", &slow[..1])?,
        reserved("two gcra reserved together", &slow)?,
        case("fixed window", &[FixedWindow::aligned(minutely).into()])?,
        case("calendar window", &[monthly(1_000_000_000)?])?,
        case("sliding counter", &[SlidingCounter::new(counted)?.into()])?,
        buckets("10 sliding buckets", 10)?,
        buckets("60 sliding buckets", 60)?,
        log(LOG, 100, 1, 2_000)?,
        log(LONG_LOG, 10_000, 1, 50)?,
        log(COSTLY_LOG, 100, 1_000, 2_000)?,
    ])
}

/// Returns the cases in which every call is denied; with several limits, by the last one.
fn denied() -> Result<Vec<Case>, LimitError> {
    let once = Quota::per_day(1);
    let case = |name, algorithms: &[Algorithm]| -> Result<Case, LimitError> {
        Ok(Case {
            name,
            outcome: Outcome::Denied,
            limits: limits(name, Outcome::Denied, algorithms)?,
            cost: 1,
            within: None,
            keys: Arc::new(Keys::new(KEYS)),
            filled: 1,
            settles: None,
        })
    };
    let log = |name, amount: u32, keys| -> Result<Case, LimitError> {
        Ok(Case {
            keys: Arc::new(Keys::new(keys)),
            filled: usize::try_from(amount).unwrap_or(usize::MAX),
            ..case(name, &[SlidingLog::new(Quota::per_day(amount))?.into()])?
        })
    };
    let four = gcras(&[
        Quota::per_second(1_000_000),
        Quota::per_minute(60_000_000),
        Quota::per_hour(3_600_000_000),
        once,
    ])?;
    Ok(vec![
        case(ONE, &four[3..])?,
        case(TWO, &[four[0], four[3]])?,
        case(FOUR, &four)?,
        case("fixed window", &[FixedWindow::anchored(once).into()])?,
        case("calendar window", &[monthly(1)?])?,
        case("sliding counter", &[SlidingCounter::new(once)?.into()])?,
        case(
            "10 sliding buckets",
            &[SlidingBuckets::new(once, 10)?.into()],
        )?,
        case(
            "60 sliding buckets",
            &[SlidingBuckets::new(once, 60)?.into()],
        )?,
        log(LOG, 100, 100)?,
        log(LONG_LOG, 10_000, 4)?,
    ])
}

fn monthly(amount: u64) -> Result<Algorithm, LimitError> {
    let window = CalendarWindow::new(amount, CalendarUnit::Month, "Europe/Berlin")?;
    Ok(window.into())
}

fn gcras(quotas: &[Quota]) -> Result<Vec<Algorithm>, LimitError> {
    let gcra = |&quota| Ok(Gcra::new(quota)?.into());
    quotas.iter().map(gcra).collect()
}

/// Returns limits with names that no other case uses.
fn limits(
    case: &str,
    outcome: Outcome,
    algorithms: &[Algorithm],
) -> Result<Vec<Limit>, LimitError> {
    let name = row(case, outcome).replace([' ', ','], "-");
    let numbered = algorithms.iter().enumerate();
    numbered
        .map(|(number, algorithm)| Limit::new(&format!("{name}-{number}"), *algorithm))
        .collect()
}

/// Makes the calls that a case needs before the measurement.
async fn fill(case: &Case, client: &impl Client) -> Result<(), Problem> {
    let limiter = Arc::new(RateLimiter::new(
        client.store()?,
        case.limits.iter().cloned(),
    )?);
    let callers = case
        .keys
        .names()
        .chunks(case.keys.names().len().div_ceil(64))
        .map(|names| {
            let (limiter, names, calls) = (Arc::clone(&limiter), names.to_vec(), case.filled);
            tokio::spawn(async move {
                for name in names
                    .iter()
                    .flat_map(|name| std::iter::repeat_n(name, calls))
                {
                    let _ = limiter.check(name.as_str()).await?;
                }
                Ok::<(), Problem>(())
            })
        });
    for caller in callers.collect::<Vec<_>>() {
        caller.await??;
    }
    Ok(())
}

/// Adds the fixed window without scripts, which one of the clients offers.
async fn plain(points: &mut Vec<Point>, client: &RedisRs, plan: &Plan) -> Result<(), Problem> {
    for (outcome, quota) in [
        (Outcome::Allowed, Quota::per_minute(1_000_000_000)),
        (Outcome::Denied, Quota::per_day(1)),
    ] {
        let window = match outcome {
            Outcome::Denied => FixedWindow::anchored(quota),
            _ => FixedWindow::aligned(quota),
        };
        let case = Case {
            name: PLAIN,
            outcome,
            limits: limits(PLAIN, outcome, &[window.into()])?,
            within: None,
            cost: 1,
            keys: Arc::new(Keys::new(KEYS)),
            filled: 0,
            settles: None,
        };
        let limiter = RateLimiter::new(client.plain(&case.limits)?, case.limits.iter().cloned())?;
        let keys = Arc::clone(&case.keys);
        if outcome == Outcome::Denied {
            for name in keys.names() {
                // If this fails, so does the measurement, and the point is left out.
                let _ = limiter.check(name.as_str()).await;
            }
        }
        let subject = Decides {
            limiter,
            within: None,
            cost: case.cost,
            keys,
        };
        points.push(case.point::<RedisRs>(row(PLAIN, outcome), subject, plan));
    }
    Ok(())
}

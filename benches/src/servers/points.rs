//! The points to measure: each subject through each client.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Limit, LimitError, RateLimiter};

use super::afterwards;
use super::clients::{Client, Clients, RedisRs, options};
use super::keys::Keys;
use super::measure::{KEYS, Plan, Point, row};
use super::originals;
use super::raw::{Command, Decides, NOTHING, What};
use super::run::{Subject, erase};
use super::schedules;
use crate::{Outcome, Problem};

pub(crate) const INCREMENT: &str = "INCR";
const ONE: &str = "gcra";
const IN_BATCHES: &str = "gcra in batches";
const PLAIN: &str = "fixed window without scripts";

/// Limits that decide together, and the keys to call.
struct Case {
    row: String,
    outcome: Outcome,
    limits: Vec<Limit>,
    cost: u64,
    /// The longest delay to accept, if calls are reserved.
    within: Option<Duration>,
    /// Whether calls are sent together.
    batches: bool,
    keys: Arc<Keys>,
    /// The calls that each key makes before the measurement.
    filled: usize,
    /// How long calls must run until the size of the state is stable.
    settles: Option<Duration>,
}

impl Case {
    /// Returns a case of these algorithms, whose limits have names that no other case uses.
    fn new(name: &str, outcome: Outcome, algorithms: &[&str]) -> Result<Self, LimitError> {
        let row = row(name, outcome);
        let named = row.replace([' ', ','], "-");
        let numbered = algorithms.iter().enumerate();
        let limits = numbered
            .map(|(number, algorithm)| format!("{named}-{number}={algorithm}").parse())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            row,
            outcome,
            limits,
            cost: 1,
            within: None,
            batches: false,
            keys: Arc::new(Keys::new(KEYS)),
            filled: usize::from(outcome == Outcome::Denied),
            settles: None,
        })
    }

    fn point<C: Client>(&self, subject: impl Subject, plan: &Plan) -> Point {
        Point {
            row: self.row.clone(),
            client: C::NAME,
            runs: erase(subject),
            keys: Arc::clone(&self.keys),
            warm_up: self.settles.unwrap_or(plan.warm_up),
            expected: Some(self.outcome),
        }
    }

    /// Returns the point of this case through a client.
    fn through<C: Client>(&self, client: &C, plan: &Plan) -> Result<Point, Problem> {
        let store = client.store(options(self.batches))?;
        let subject = Decides {
            limiter: RateLimiter::new(store, self.limits.iter().cloned())?,
            cost: self.cost,
            within: self.within,
            keys: Arc::clone(&self.keys),
        };
        Ok(self.point::<C>(subject, plan))
    }
}

/// Returns the points whose rows contain `filter`, and those that others are compared with.
pub(crate) async fn all(
    clients: &Clients,
    plan: &Plan,
    filter: &str,
) -> Result<Vec<Point>, Problem> {
    let always = [
        INCREMENT.to_owned(),
        row(ONE, Outcome::Allowed),
        row(IN_BATCHES, Outcome::Allowed),
    ];
    let wanted = |row: &str| row.contains(filter) || always.iter().any(|other| other == row);
    clients.redis.send("SCRIPT", &["LOAD", NOTHING[0]]).await?;
    let mut points = Vec::new();
    commands(&mut points, &clients.redis, plan);
    commands(&mut points, &clients.fred, plan);
    let cases = allowed(plan)?.into_iter().chain(denied()?);
    for case in cases.filter(|case| wanted(&case.row)) {
        fill(&case, &clients.redis).await?;
        points.push(case.through(&clients.redis, plan)?);
        points.push(case.through(&clients.fred, plan)?);
    }
    plain(&mut points, &clients.redis, plan).await?;
    if schedules::rows().iter().any(|row| wanted(row)) {
        schedules::add(&mut points, &clients.redis, plan).await?;
        schedules::add(&mut points, &clients.fred, plan).await?;
    }
    afterwards::add(&mut points, &clients.redis, plan)?;
    afterwards::add(&mut points, &clients.fred, plan)?;
    points.extend(originals::all(&clients.redis, plan));
    points.retain(|point| wanted(&point.row));
    Ok(points)
}

/// Adds the commands that decisions consist of.
fn commands<C: Client>(points: &mut Vec<Point>, client: &C, plan: &Plan) {
    let keys = Arc::new(Keys::new(KEYS));
    for (row, what) in [
        ("PING", What::Ping),
        (INCREMENT, What::Increment),
        ("EVALSHA of `return 1`", What::Script),
        ("MULTI, INCR, PEXPIRE NX", What::Transaction),
    ] {
        let subject = Command {
            client: client.clone(),
            what,
            keys: Arc::clone(&keys),
        };
        points.push(Point {
            row: row.to_owned(),
            client: C::NAME,
            runs: erase(subject),
            keys: Arc::clone(&keys),
            warm_up: plan.warm_up,
            expected: None,
        });
    }
}

/// Returns the cases in which every call is allowed.
///
/// Logs and buckets grow with the calls in their window, so these cases use a short window and run
/// for one full window before each measurement.
fn allowed(plan: &Plan) -> Result<Vec<Case>, LimitError> {
    let case = |name: &str, algorithms: &[&str]| Case::new(name, Outcome::Allowed, algorithms);
    let window = plan.window.as_millis();
    let buckets = |count| -> Result<Case, LimitError> {
        let text = format!("sliding-buckets:1000000/{window}ms,buckets={count}");
        Ok(Case {
            keys: Arc::new(Keys::new(64)),
            settles: Some(plan.window),
            ..case(&format!("{count} sliding buckets"), &[&text])?
        })
    };
    let log = |name, calls: u32, cost, most_keys| -> Result<Case, LimitError> {
        let text = format!("sliding-log:{}/{window}ms", u64::from(calls) * cost);
        Ok(Case {
            cost,
            keys: Arc::new(Keys::of_log(most_keys, calls, plan.window)),
            settles: Some(plan.window),
            ..case(name, &[&text])?
        })
    };
    let four = [
        "gcra:1000000/1s",
        "gcra:60000000/1m",
        "gcra:3600000000/1h",
        "gcra:86400000000/1d",
    ];
    // Every key is called more often than this, so that nearly all starts are delayed.
    let slow = ["gcra:60/1m,burst=1", "gcra:30/1m,burst=2"];
    let reserved = |name, algorithms| -> Result<Case, LimitError> {
        Ok(Case {
            within: Some(Duration::MAX),
            ..case(name, algorithms)?
        })
    };
    let one_key = || Arc::new(Keys::new(1));
    let hot = ["gcra:1000000000/1s"];
    Ok(vec![
        case(ONE, &four[..1])?,
        case("two gcra together", &four[..2])?,
        case("four gcra together", &four)?,
        Case {
            batches: true,
            ..case(IN_BATCHES, &four[..1])?
        },
        Case {
            keys: one_key(),
            ..case("gcra without batches, one key", &hot)?
        },
        Case {
            keys: one_key(),
            batches: true,
            ..case("gcra in batches, one key", &hot)?
        },
        reserved("gcra reserved", &slow[..1])?,
        reserved("two gcra reserved together", &slow)?,
        case("fixed window", &["fixed-window:1000000000/1m"])?,
        case(
            "calendar window",
            &["fixed-window:1000000000/month@Europe/Berlin"],
        )?,
        case("sliding counter", &["sliding-counter:10000000/1m"])?,
        buckets(10)?,
        buckets(60)?,
        log("sliding log of 100", 100, 1, 2_000)?,
        log("sliding log of 10,000", 10_000, 1, 50)?,
        log(
            "sliding log of 100 calls that cost 1,000",
            100,
            1_000,
            2_000,
        )?,
    ])
}

/// Returns the cases in which every call is denied; with several limits, by the last one.
fn denied() -> Result<Vec<Case>, LimitError> {
    let case = |name: &str, algorithms: &[&str]| Case::new(name, Outcome::Denied, algorithms);
    let log = |name, amount, keys| -> Result<Case, LimitError> {
        Ok(Case {
            keys: Arc::new(Keys::new(keys)),
            filled: amount,
            ..case(name, &[&format!("sliding-log:{amount}/1d")])?
        })
    };
    let four = [
        "gcra:1000000/1s",
        "gcra:60000000/1m",
        "gcra:3600000000/1h",
        "gcra:1/1d",
    ];
    Ok(vec![
        case(ONE, &four[3..])?,
        case("two gcra together", &[four[0], four[3]])?,
        case("four gcra together", &four)?,
        case("fixed window", &["fixed-window:1/1d,anchored"])?,
        case("calendar window", &["fixed-window:1/month@Europe/Berlin"])?,
        case("sliding counter", &["sliding-counter:1/1d"])?,
        case("10 sliding buckets", &["sliding-buckets:1/1d,buckets=10"])?,
        case("60 sliding buckets", &["sliding-buckets:1/1d,buckets=60"])?,
        log("sliding log of 100", 100, 100)?,
        log("sliding log of 10,000", 10_000, 4)?,
    ])
}

/// Makes the calls that a case needs before the measurement.
async fn fill(case: &Case, client: &impl Client) -> Result<(), Problem> {
    let store = client.store(options(true))?;
    let limiter = RateLimiter::new(store, case.limits.iter().cloned())?;
    let callers = case.keys.names();
    let callers = callers.chunks(case.keys.names().len().div_ceil(64));
    let callers: Vec<_> = callers
        .map(|names| {
            let (limiter, names, calls) = (limiter.clone(), names.to_vec(), case.filled);
            tokio::spawn(async move {
                let repeated = names.iter().flat_map(|name| vec![name; calls]);
                for name in repeated {
                    let _ = limiter.check(name.as_str()).await?;
                }
                Ok::<(), Problem>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

/// Adds the fixed window without scripts, which one of the clients offers.
async fn plain(points: &mut Vec<Point>, client: &RedisRs, plan: &Plan) -> Result<(), Problem> {
    for (outcome, text) in [
        (Outcome::Allowed, "fixed-window:1000000000/1m"),
        (Outcome::Denied, "fixed-window:1/1d,anchored"),
    ] {
        let case = Case::new(PLAIN, outcome, &[text])?;
        let limiter = RateLimiter::new(client.plain(&case.limits)?, case.limits.iter().cloned())?;
        for name in case.keys.names() {
            // If this fails, so does the measurement, and the point is left out.
            let _ = limiter.check(name.as_str()).await;
        }
        let subject = Decides {
            limiter,
            within: None,
            cost: case.cost,
            keys: Arc::clone(&case.keys),
        };
        points.push(case.point::<RedisRs>(subject, plan));
    }
    Ok(())
}

//! A second implementation, slow and plain, that shares no code with the program or its crates.
//!
//! It remembers everything and works each answer out from the whole history.

use std::collections::HashMap;

use serde_json::{Value, json};

/// A limit: its text, and what the text means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) text: &'static str,
    pub(crate) amount: i128,
    pub(crate) window_us: i128,
    pub(crate) kind: Kind,
    pub(crate) counts_denied: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Aligned,
    Anchored,
    Bucket { burst: i128 },
    Buckets { count: i128 },
    Counter,
    Log,
}

/// A request of an access log.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) at_us: i128,
    pub(crate) ip: String,
    pub(crate) user: String,
    pub(crate) path: String,
}

impl Hit {
    fn key(&self, parts: &str) -> Vec<String> {
        let part = |name| match name {
            "ip" => self.ip.clone(),
            "user" => self.user.clone(),
            "path" => self.path.clone(),
            _ => unreachable!("no such part"),
        };
        parts.split('+').map(part).collect()
    }
}

impl Limit {
    /// Returns whether a call at `now` is allowed; `history` holds the instants of counted calls.
    fn allows(&self, history: &[i128], now: i128) -> bool {
        let (amount, window) = (self.amount, self.window_us);
        let count = |wanted: &dyn Fn(i128) -> bool| {
            i128::try_from(history.iter().filter(|&&at| wanted(at)).count()).unwrap()
        };
        match self.kind {
            Kind::Aligned => count(&|at| at / window == now / window) < amount,
            Kind::Anchored => {
                let mut window_start = None;
                let mut used = 0;
                for &at in history {
                    if window_start.is_none_or(|start| at >= start + window) {
                        window_start = Some(at);
                        used = 0;
                    }
                    used += 1;
                }
                window_start.is_none_or(|start| now >= start + window) || used < amount
            }
            Kind::Bucket { burst } => {
                // A token adds `window` units of debt; `amount` units leak each microsecond.
                let mut debt = 0;
                let mut last = 0;
                for &at in history {
                    debt = (debt - amount * (at - last)).max(0) + window;
                    last = at;
                }
                (debt - amount * (now - last)).max(0) + window <= burst * window
            }
            Kind::Buckets { count: buckets } => {
                let length = (window + buckets - 1) / buckets;
                count(&|at| at / length >= now / length - buckets) < amount
            }
            Kind::Counter => {
                let current = count(&|at| at / window == now / window);
                let previous = count(&|at| at / window == now / window - 1);
                let left = window - now % window;
                let weighted = (previous * left + window - 1) / window;
                current + weighted < amount
            }
            Kind::Log => count(&|at| at > now - window) < amount,
        }
    }
}

/// Returns what `tollgate replay --json` should print for `hits`.
pub(crate) fn expected(mut hits: Vec<Hit>, skipped: usize, key: &str, limits: &[Limit]) -> Value {
    hits.sort_by_key(|hit| hit.at_us);
    let mut histories: HashMap<Vec<String>, Vec<Vec<i128>>> = HashMap::new();
    let mut denied: HashMap<Vec<String>, u64> = HashMap::new();
    let mut refused = vec![0; limits.len()];
    let mut allowed = 0;
    for hit in &hits {
        let key = hit.key(key);
        let history = histories
            .entry(key.clone())
            .or_insert_with(|| vec![Vec::new(); limits.len()]);
        let says: Vec<bool> = limits
            .iter()
            .zip(&*history)
            .map(|(limit, history)| limit.allows(history, hit.at_us))
            .collect();
        let is_allowed = says.iter().all(|&says| says);
        for (index, limit) in limits.iter().enumerate() {
            if is_allowed || limit.counts_denied {
                history[index].push(hit.at_us);
            }
            refused[index] += u64::from(!says[index]);
        }
        if is_allowed {
            allowed += 1;
        } else {
            *denied.entry(key).or_default() += 1;
        }
    }
    let mut top: Vec<(String, u64)> = denied
        .into_iter()
        .map(|(key, denied)| (key.join(" "), denied))
        .collect();
    top.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    top.truncate(10);
    let limits: Vec<Value> = limits
        .iter()
        .zip(refused)
        .map(|(limit, refused)| json!({"limit": limit.text, "refused": refused}))
        .collect();
    let top: Vec<Value> = top
        .into_iter()
        .map(|(key, denied)| json!({"key": key, "denied": denied}))
        .collect();
    json!({
        "requests": hits.len(),
        "skipped_lines": skipped,
        "keys": histories.len(),
        "allowed": allowed,
        "denied": hits.len() - allowed,
        "limits": limits,
        "top_denied": top,
    })
}

/// Returns the requests of an access log, and how many of its lines are not requests.
pub(crate) fn read(log: &str) -> (Vec<Hit>, usize) {
    let lines: Vec<Option<Hit>> = log.lines().map(read_line).collect();
    let skipped = lines.iter().filter(|line| line.is_none()).count();
    (lines.into_iter().flatten().collect(), skipped)
}

fn read_line(line: &str) -> Option<Hit> {
    let (who, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let mut who = who.splitn(3, ' ');
    let (ip, _, user) = (who.next()?, who.next()?, who.next()?);
    let request = rest.split_once("\" ")?.0;
    let path = request.split(' ').nth(1)?;
    Some(Hit {
        at_us: 1_000_000 * seconds(time)?,
        ip: ip.to_owned(),
        user: user.to_owned(),
        path: path.split('?').next()?.to_owned(),
    })
}

/// Returns the seconds since 1970 of a time such as `17/May/2015:10:05:03 +0000`.
fn seconds(time: &str) -> Option<i128> {
    let (time, zone) = time.split_once(' ')?;
    let fields: Vec<&str> = time.split(['/', ':']).collect();
    let [day, month, year, hour, minute, second] = fields[..] else {
        return None;
    };
    let number = |text: &str| text.parse::<i128>().ok();
    let names = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = names.find(month)? / 3;
    let year = number(year)?;
    let is_leap = |year: i128| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut days = number(day)? - 1;
    for year in 1970..year {
        days += if is_leap(year) { 366 } else { 365 };
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days += lengths[..month].iter().sum::<i128>();
    let zone = number(zone)?;
    let east = zone / 100 * 60 + zone % 100;
    Some(((days * 24 + number(hour)?) * 60 + number(minute)? - east) * 60 + number(second)?)
}

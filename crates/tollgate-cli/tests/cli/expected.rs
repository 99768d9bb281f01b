//! What a replay should print, worked out from the definitions of the conformance suite, and what an
//! access log holds, read by a parser that shares no code with the program.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollgate_conformance::naive::Naive;
use tollgate_core::{Algorithm, Limit};

fn naive(limit: &str) -> Naive {
    let algorithm: Algorithm = limit.parse().unwrap();
    Naive::of(&Limit::new("limit", algorithm).unwrap()).unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) at_us: u64,
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

/// Returns what `tollgate replay --json` should print for `hits`.
pub(crate) fn of_replay(mut hits: Vec<Hit>, skipped: usize, key: &str, limits: &[&str]) -> Value {
    hits.sort_by_key(|hit| hit.at_us);
    // Of each key, every limit's counted calls.
    let mut keys: HashMap<Vec<String>, Vec<Naive>> = HashMap::new();
    let mut denied: HashMap<Vec<String>, u64> = HashMap::new();
    let mut by_limit = vec![0; limits.len()];
    let mut allowed = 0;
    for hit in &hits {
        let key = hit.key(key);
        let naive = keys
            .entry(key.clone())
            .or_insert_with(|| limits.iter().map(|limit| naive(limit)).collect());
        let says = naive.iter().map(|naive| naive.admits(hit.at_us, 1));
        let says: Vec<bool> = says.collect();
        let is_allowed = says.iter().all(|&says| says);
        for (index, limit) in limits.iter().enumerate() {
            if is_allowed || limit.contains("count-denied") {
                naive[index].count(hit.at_us, 1);
            }
            by_limit[index] += u64::from(!says[index]);
        }
        if is_allowed {
            allowed += 1;
        } else {
            *denied.entry(key).or_default() += 1;
        }
    }
    let top = denied.into_iter();
    let mut top: Vec<(String, u64)> = top.map(|(key, denied)| (key.join(" "), denied)).collect();
    top.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    top.truncate(10);
    let limits = limits.iter().zip(by_limit);
    let limits = limits.map(|(limit, denied)| json!({"limit": limit, "denied": denied}));
    let top = top.into_iter();
    let top = top.map(|(key, denied)| json!({"key": key, "denied": denied}));
    json!({
        "requests": hits.len(),
        "skipped_lines": skipped,
        "keys": keys.len(),
        "allowed": allowed,
        "denied": hits.len() - allowed,
        "limits": limits.collect::<Value>(),
        "top_denied": top.collect::<Value>(),
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
    let at = jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", time);
    Some(Hit {
        at_us: u64::try_from(at.ok()?.as_microsecond()).ok()?,
        ip: ip.to_owned(),
        user: user.to_owned(),
        path: path.split('?').next()?.to_owned(),
    })
}

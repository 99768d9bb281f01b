//! Fields mean the same to `http-sf`, another implementation of structured fields, in Python.

use std::cmp::Reverse;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use http::HeaderMap;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tollgate_core::store::Verdict;
use tollgate_core::{Algorithm, Decision, Limit, Timestamp, Wait};
use tollgate_http::Hints;
use tollgate_http::inbound::{Draft, Fields};

use crate::support::*;

const CASES: usize = 2_000;
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Reads texts of some types.
const READ: &str = "
import json, sys
from http_sf import parse, to_json
print(to_json([parse(text.encode(), tltype=kind) for kind, text in json.load(sys.stdin)]))";

/// Writes lists of items.
const WRITE: &str = "
import json, sys
from http_sf import ser
from http_sf.util import json_load
fields = json.load(sys.stdin, object_hook=json_load)
print(json.dumps([ser([tuple(item) for item in field]) for field in fields]))";

/// Runs a program of Python on some values.
fn python(program: &str, values: &[Value]) -> Vec<Value> {
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../servers/http-sf-1.5.0");
    let path = packages.display();
    let holds = packages.is_dir();
    assert!(holds, "there is no {path}: run `cargo xtask servers`");
    let mut python = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", packages)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads everything before it writes.
    let input = serde_json::to_vec(values).unwrap();
    python.stdin.take().unwrap().write_all(&input).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "Python failed, and said why");
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), values.len());
    results
}

fn random<T>(strategy: &impl Strategy<Value = T>) -> impl Iterator<Item = T> {
    let mut runner = TestRunner::default();
    (0..CASES).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

/// Headers with their types and values.
type Headers = Vec<(&'static str, &'static str, Value)>;

/// Returns what should be read after a decision; `time` is how many microseconds what remains of a limit
/// is valid for.
fn expected(
    draft: Draft,
    hidden: &str,
    decision: &Decision<'_>,
    time: impl Fn(&Limit, Verdict) -> u64,
) -> Headers {
    let seconds = |time: Wait| time.as_secs_ceil().unwrap();
    let amount = |limit: &Limit| limit.algorithm().quota().amount().min(MAX_INTEGER);
    let window = |limit: &Limit| seconds(Wait::from_micros(limit.algorithm().quota().window_us()));
    let left = |verdict: Verdict| verdict.remaining().min(MAX_INTEGER);
    let item = |number: u64| json!([number, {}]);

    let shown = || {
        decision
            .verdicts()
            .filter(|(limit, _)| limit.name() != hidden)
    };
    let policies = shown().map(|(limit, _)| match draft {
        Draft::Eleven => json!([limit.name(), {"q": amount(limit), "w": window(limit)}]),
        _ => json!([amount(limit), {"w": window(limit)}]),
    });
    let mut headers: Headers = vec![("ratelimit-policy", "list", policies.collect())];
    // Of limits with the least left, the one of which that is all for longest.
    let all = decision
        .verdicts()
        .map(|(limit, verdict)| (left(verdict), Reverse(time(limit, verdict)), amount(limit)));
    let (left_of_one, Reverse(until), amount_of_one) =
        all.min_by_key(|(left, until, _)| (*left, *until)).unwrap();
    let one = [amount_of_one, left_of_one, until.div_ceil(1_000_000)].map(item);
    match draft {
        Draft::Six => {
            let names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
            headers.extend(
                names
                    .into_iter()
                    .zip(one)
                    .map(|(name, one)| (name, "item", one)),
            );
        }
        Draft::Seven => {
            let [limit, remaining, reset] = one;
            let limit = json!({"limit": limit, "remaining": remaining, "reset": reset});
            headers.push(("ratelimit", "dictionary", limit));
        }
        _ => {
            let limits = shown().map(|(limit, verdict)| {
                json!([limit.name(), {"r": left(verdict), "t": time(limit, verdict).div_ceil(1_000_000)}])
            });
            headers.push(("ratelimit", "list", limits.collect()));
        }
    }
    if headers[0].2 == json!([]) {
        headers.clear();
    }
    let wait = decision
        .retry_after()
        .as_secs_ceil()
        .filter(|wait| *wait > 0);
    headers.extend(wait.map(|wait| ("retry-after", "item", item(wait))));
    headers
}

#[test]
fn http_sf_reads_what_fields_say() {
    let huge = "fixed-window:9007199254740991/999d".to_owned();
    let limit = prop_oneof![20 => limit(), 1 => Just(huge)];
    let case = (
        btree_map("[-_.A-Za-z0-9]{1,64}", limit, 1..5),
        vec(1_u64..4, 0..9),
        select(vec![Draft::Six, Draft::Seven, Draft::Eleven]),
        any::<bool>(),
    );
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    for (limits, costs, draft, hides) in random(&case) {
        let (store, clock) = store();
        let named = limits.iter().map(|(name, limit)| format!("{name}={limit}"));
        let limiter = limiter(store, named.collect::<Vec<_>>());
        let mut decision = limiter.check("a").run().unwrap();
        for cost in costs {
            decision = limiter.check("a").cost(cost).run().unwrap();
        }
        // Other drafts say something about one limit only.
        let hides = hides && draft == Draft::Eleven;
        let hidden = limits.keys().next().filter(|_| hides);
        let hidden = hidden.map_or("", |name| name);
        let mut headers = HeaderMap::new();
        Fields::new()
            .draft(draft)
            .hide(hidden)
            .write(&decision, &mut headers);

        let time = |limit: &Limit, verdict: Verdict| {
            let until_reset = verdict.reset_after().as_micros().unwrap();
            match (limit.algorithm(), verdict.retry_after()) {
                // The first instant at which more is left.
                (Algorithm::Gcra(_), Wait::ZERO | Wait::NEVER) => {
                    let has_more = |micros: u64| {
                        let now = Timestamp::from_micros(START + micros);
                        clock.set(now.unwrap());
                        let later = limiter.peek("a").run().unwrap();
                        later.verdict(limit.name()).unwrap().remaining() > verdict.remaining()
                    };
                    let (mut without, mut with) = (0, until_reset);
                    while without < with {
                        let middle = without.midpoint(with);
                        if has_more(middle) {
                            with = middle;
                        } else {
                            without = middle + 1;
                        }
                    }
                    with
                }
                (_, Wait::ZERO | Wait::NEVER) => until_reset,
                (_, wait) => wait.as_micros().unwrap(),
            }
        };
        let expected = expected(draft, hidden, &decision, time);
        let found = headers.len();
        assert_eq!(found, expected.len(), "{headers:?}, not {expected:?}");
        for (name, kind, value) in expected {
            texts.push(json!([kind, headers[name].to_str().unwrap()]));
            values.push(value);
        }
    }
    for ((read, value), text) in python(READ, &texts).iter().zip(&values).zip(&texts) {
        assert_eq!(read, value, "{text}");
    }
}

#[test]
fn hints_read_what_http_sf_writes() {
    let other = select(vec![
        json!({"__type": "binary", "value": "OBZQ===="}),
        json!({"__type": "token", "value": "a/b"}),
        json!({"__type": "date", "value": 1_700_000_000}),
        json!({"__type": "displaystring", "value": "f\u{fc}r \"%"}),
        json!("a \\\"b;r=0,"),
        json!(true),
        json!(-1.5),
    ]);
    let number = || 0..=MAX_INTEGER;
    let limit = (
        [number(), number(), number(), number()],
        other.clone(),
        other,
    );
    // Names have quotes, backslashes, commas and semicolons.
    let case = btree_map("[ -~]{0,20}|[\"\\\\,; ]{1,9}", limit, 1..5);
    let cases: Vec<_> = random(&case).collect();
    let fields = cases.iter().flat_map(|limits| {
        let limits = || limits.iter();
        let policies = limits().map(|(name, ([amount, window, ..], _, other))| {
            json!([name, {"qu": other, "q": amount, "w": window, "pk": other}])
        });
        let rest = limits().map(|(name, ([.., left, reset], other, _))| {
            json!([name, {"pk": other, "r": left, "t": reset, "x": other}])
        });
        [policies.collect::<Value>(), rest.collect()]
    });
    let written = python(WRITE, &fields.collect::<Vec<_>>());
    for (limits, written) in cases.iter().zip(written.chunks(2)) {
        let mut headers = HeaderMap::new();
        for (name, value) in ["ratelimit-policy", "ratelimit"].into_iter().zip(written) {
            let _ = headers.append(name, value.as_str().unwrap().parse().unwrap());
        }
        let hints = Hints::read(&headers, SystemTime::UNIX_EPOCH);
        let read = hints.limits().iter().map(|limit| {
            let seconds = [limit.window(), limit.reset_after()].map(|time| time.unwrap().as_secs());
            let numbers = [
                limit.amount().unwrap(),
                seconds[0],
                limit.remaining().unwrap(),
                seconds[1],
            ];
            (limit.name().unwrap().to_owned(), numbers)
        });
        let expected = limits
            .iter()
            .map(|(name, (numbers, ..))| (name.clone(), *numbers));
        let found = read.collect::<Vec<_>>();
        assert_eq!(found, expected.collect::<Vec<_>>(), "{headers:?}");
    }
}

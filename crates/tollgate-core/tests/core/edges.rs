//! Edge cases around the state machines: names, ties, the size of a request, whole seconds.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::call::Companion;
use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::schedule::{self, Schedule};
use tollgate_core::store::{
    Check, Fingerprint, MAX_CHECKS, MAX_EXACT, Operation, Request, State, Verdict, Verdicts,
};
use tollgate_core::{
    ErrorKind, FixedWindow, Gcra, Key, Limit, LimitErrorKind, Quota, RateLimiter, Receipt,
    SlidingLog, StoreError, Timestamp, Wait, inside,
};

#[test]
fn the_first_limit_binds_if_several_are_equal() {
    let request = Request::new(Operation::Consume, [] as [Check<'_>; 0]);
    let of = |verdicts: &[Verdict]| {
        Verdicts::new(Fingerprint::of(&request), verdicts.iter().copied()).binding()
    };
    let (few, many) = (Verdict::allow(9, 1), Verdict::allow(9, 2));
    assert_eq!(of(&[few, few]), 0);
    assert_eq!(of(&[many, few, few]), 1);
    let soon = Verdict::deny(9, 0, Wait::from_micros(1));
    let late = Verdict::deny(9, 0, Wait::from_micros(2));
    assert_eq!(of(&[late, late]), 0);
    assert_eq!(of(&[few, soon, late, late]), 2);
}

#[test]
fn a_limit_in_shadow_binds_only_beside_others_in_shadow() {
    let request = Request::new(Operation::Consume, [] as [Check<'_>; 0]);
    let of = |verdicts: [Verdict; 2]| Verdicts::new(Fingerprint::of(&request), verdicts).binding();
    let soon = Verdict::deny(9, 0, Wait::from_micros(1));
    let late = Verdict::deny(9, 0, Wait::from_micros(2));
    let shadow = late.in_shadow(true);
    assert_eq!(of([shadow, soon]), 1);
    assert_eq!(of([shadow, Verdict::allow(9, 2)]), 1);
    assert_eq!(of([Verdict::allow(9, 2).in_shadow(true), shadow]), 1);
}

#[test]
fn a_request_holds_up_to_max_checks() {
    let limit = Limit::new("each", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let keys: Vec<String> = (0..=MAX_CHECKS).map(|key| key.to_string()).collect();
    let checks: Vec<Check<'_>> = keys.iter().map(|key| Check::new(&limit, key, 1)).collect();
    let of = |count: usize| {
        let request = Request::new(Operation::Consume, &checks[..count]);
        request
            .validate(Fingerprint::of)
            .map_err(|error| error.kind())
    };
    assert_eq!(of(0), Err(ErrorKind::Malformed));
    assert_eq!(of(1), Ok(()));
    assert_eq!(of(MAX_CHECKS), Ok(()));
    assert_eq!(of(MAX_CHECKS + 1), Err(ErrorKind::Malformed));
}

#[test]
fn a_request_holds_each_limit_and_key_once() {
    let limit = Limit::new("each", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let other = Limit::new("other", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let [a, b] = ["a", "b"].map(|key| Check::new(&limit, key, 1));
    let distinct = Request::consume(a).and(b).and(Check::new(&other, "a", 1));
    assert!(distinct.validate(Fingerprint::of).is_ok());
    let twice = distinct.and(Check::new(&limit, "b", 2));
    let refused = twice.validate(Fingerprint::of).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Malformed);
}

#[test]
fn waits_in_whole_seconds_are_rounded_up() {
    for (micros, seconds) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
        assert_eq!(Wait::from_micros(micros).as_secs_ceil(), Some(seconds));
    }
    assert_eq!(Wait::NEVER.as_secs_ceil(), None);
}

#[test]
fn a_name_is_1_to_64_letters_digits_dashes_underscores_and_dots() {
    let of = |name: &str| Limit::new(name, FixedWindow::aligned(Quota::per_minute(1)));
    for name in ["a", "Z9", "a-b_c.d", &"x".repeat(64)] {
        assert_eq!(of(name).unwrap().name(), name);
    }
    for name in ["", " ", "a b", "a:b", "a/b", "ä", &"x".repeat(65)] {
        assert_eq!(of(name).unwrap_err().kind(), LimitErrorKind::Name, "{name}");
    }
}

#[test]
fn identity_is_name_and_shape() {
    let limit = Limit::new("x", Gcra::new(Quota::per_minute(1)).unwrap()).unwrap();
    assert_eq!(limit.identity(), "x:gcra");
    let other = Limit::new("y", Gcra::new(Quota::per_minute(1)).unwrap()).unwrap();
    assert_eq!(
        inside::identity_hash(&limit),
        inside::identity_hash(&limit.clone())
    );
    assert_ne!(inside::identity_hash(&limit), inside::identity_hash(&other));
}

#[test]
fn limits_are_equal_by_name_and_algorithm() {
    let of = |name: &str, amount| {
        Limit::new(name, FixedWindow::aligned(Quota::per_minute(amount))).unwrap()
    };
    assert_eq!(of("a", 1), of("a", 1));
    assert_ne!(of("a", 1), of("b", 1));
    assert_ne!(of("a", 1), of("a", 2));
    assert_eq!(format!("{:?}", of("a", 1)), "Limit(a=fixed-window:1/1m)");
}

#[test]
fn debug_of_a_key_shows_only_its_lengths() {
    let key = Key::from("secret").with_rest("path");
    assert_eq!(format!("{key:?}"), "Key(6 + 4 bytes)");
}

#[test]
fn an_error_keeps_its_source_and_says_whether_it_is_retryable() {
    let error = StoreError::new(ErrorKind::Unavailable, "down");
    assert!(error.source().is_none());
    let error = error.with_source("refused");
    assert_eq!(error.source().unwrap().to_string(), "refused");
    for (kind, again) in [
        (ErrorKind::Full, true),
        (ErrorKind::Malformed, false),
        (ErrorKind::Misconfigured, false),
        (ErrorKind::Protocol, false),
        (ErrorKind::Unavailable, true),
        (ErrorKind::Unknown, false),
        (ErrorKind::Unsupported, false),
    ] {
        assert_eq!(StoreError::new(kind, "").is_retryable(), again, "{kind:?}");
    }
}

#[test]
fn an_evaluation_predicts_the_decision_and_its_writes() {
    let now = Timestamp::from_micros(1_000).unwrap();
    let quiet = Limit::new("quiet", FixedWindow::aligned(Quota::per_minute(2))).unwrap();
    let log = SlidingLog::new(Quota::per_minute(2)).unwrap();
    let counting = Limit::new("counting", log.count_denied()).unwrap();
    for (operation, costs, allowed, written) in [
        (Operation::Consume, [1, 2], true, [true, true]),
        (Operation::Consume, [1, 0], true, [true, false]),
        (Operation::Consume, [0, 1], true, [false, true]),
        (Operation::Consume, [3, 1], false, [false, true]),
        (Operation::Consume, [3, 0], false, [false, false]),
        (Operation::Peek, [1, 1], true, [false, false]),
        (Operation::Peek, [3, 3], false, [false, false]),
        (Operation::TakeUpTo, [3, 3], true, [true, true]),
    ] {
        let [one, two] = costs;
        let checks = [
            Check::new(&quiet, "k", one),
            Check::new(&counting, "k", two),
        ];
        let request = Request::new(operation, &checks);
        let mut states = [State::default(), State::default()];
        let evaluation = request.evaluate(&states, now);
        assert_eq!(evaluation.is_allowed(), allowed, "{request:?}");
        let writes = [0, 1].map(|index| evaluation.writes_to(index));
        assert_eq!(writes, written, "{request:?}");
        let fingerprint = Fingerprint::of(&request);
        let decision = evaluation.apply(fingerprint, &mut states);
        assert_eq!(decision.is_allowed(), allowed, "{request:?}");
    }
}

#[test]
fn a_refund_writes_only_where_something_was_consumed() {
    let now = Timestamp::from_micros(1_000).unwrap();
    let [a, b] = ["a", "b"]
        .map(|name| Limit::new(name, FixedWindow::aligned(Quota::per_minute(2))).unwrap());
    let mut states = [State::default(), State::default()];
    let spent = |cost| Request::consume(Check::new(&a, "k", cost)).and(Check::new(&b, "k", 1));
    assert!(spent(1).decide_on(&mut states, now).is_allowed());
    let receipt = spent(0).decide_on(&mut states, now).into_receipt().unwrap();
    let checks = [Check::new(&a, "k", 0), Check::new(&b, "k", 0)];
    let refund = Request::new(Operation::Refund(&receipt), &checks);
    let evaluation = refund.evaluate(&states, now);
    assert!(evaluation.is_allowed());
    assert_eq!(
        [0, 1].map(|index| evaluation.writes_to(index)),
        [false, true]
    );
}

#[test]
fn is_same_holds_for_clones_and_not_for_equal_limits() {
    let of = || Limit::new("a", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let limit = of();
    assert!(inside::is_same(&limit, &limit.clone()));
    assert!(!inside::is_same(&limit, &of()));
}

struct Beside(u32);
struct OfAnotherType;

impl Companion for Beside {
    fn given_back(&self, _key: Key<'_>) {}
}

impl Companion for OfAnotherType {
    fn given_back(&self, _key: Key<'_>) {}
}

#[test]
fn a_limiter_and_its_clones_have_one_companion_of_each_type() {
    let of = || RateLimiter::new((), ["a=gcra:1/1m"]).unwrap();
    let (limiter, other) = (of(), of());
    let numbered = |number| limiter.companion(|| Beside(number)).0;
    assert_eq!(numbered(1), 1);
    assert_eq!(numbered(2), 1);
    assert_eq!(limiter.clone().companion(|| Beside(2)).0, 1);
    // One of another type stands beside it.
    let _: &OfAnotherType = limiter.companion(|| OfAnotherType);
    assert_eq!(numbered(2), 1);
    assert_eq!(other.companion(|| Beside(2)).0, 2);
}

#[test]
fn a_limiter_has_1_to_max_checks_limits_of_different_names() {
    let of = |name: &str| Limit::new(name, FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let many = |count: usize| (0..count).map(|index| of(&index.to_string()));
    let limiter = |limits: Vec<Limit>| match RateLimiter::new((), limits) {
        Ok(made) => Ok(made.limits().len()),
        Err(error) => Err(error.kind()),
    };
    assert_eq!(limiter(Vec::new()), Err(LimitErrorKind::Count));
    assert_eq!(limiter(many(MAX_CHECKS).collect()), Ok(MAX_CHECKS));
    assert_eq!(
        limiter(many(MAX_CHECKS + 1).collect()),
        Err(LimitErrorKind::Count)
    );
    let twice = vec![of("a"), of("b"), of("a")];
    assert_eq!(limiter(twice), Err(LimitErrorKind::Name));
}

#[test]
fn lowering_writes_only_where_more_remains() {
    let limit: Limit = "a=gcra:3/1m".parse().unwrap();
    let now = Timestamp::from_micros(1_000_000).unwrap();
    let mut state = State::default();
    let taken = Request::consume(Check::new(&limit, "k", 1)).decide_on(&mut state, now);
    assert!(taken.is_allowed());
    for (remaining, writes) in [(0, true), (1, true), (2, false), (3, false)] {
        let request = Request::lower(Check::new(&limit, "k", remaining));
        let evaluation = request.evaluate(&state, now);
        assert_eq!(evaluation.writes_to(0), writes, "{remaining}");
    }
}

#[test]
fn a_limiter_takes_limits_as_text() {
    let limits = RateLimiter::new((), ["burst=gcra:3/1m", "hourly=fixed-window:20/1h"]).unwrap();
    let burst = Limit::new("burst", Gcra::new(Quota::per_minute(3)).unwrap()).unwrap();
    let hourly = Limit::new("hourly", FixedWindow::aligned(Quota::per_hour(20))).unwrap();
    assert_eq!(limits.limits(), [burst, hourly]);
    let owned = RateLimiter::new((), vec!["burst=gcra:3/1m".to_owned()]).unwrap();
    assert_eq!(owned.limits(), &limits.limits()[..1]);
    let texts = ["burst=gcra:3/1m".to_owned()];
    let borrowed = RateLimiter::new((), &texts).unwrap();
    assert_eq!(borrowed.limits(), owned.limits());
    let borrowed = RateLimiter::new((), limits.limits()).unwrap();
    assert_eq!(borrowed.limits(), limits.limits());
    let wrong = RateLimiter::new((), ["burst=gcra:3/1m", "hourly=fixed-window:20"]).unwrap_err();
    let found = (wrong.kind(), wrong.position());
    assert_eq!(found, (LimitErrorKind::Syntax, Some(22)));
    assert!(wrong.to_string().starts_with("\"hourly"), "{wrong}");
    // A decision tells its limits apart by their names.
    for second in ["a=gcra:4/1m", "a=sliding-log:3/1m"] {
        let twice = RateLimiter::new((), ["a=gcra:3/1m", second]).map(|_| ());
        assert_eq!(
            twice.unwrap_err().to_string(),
            "two limits of one limiter are called \"a\": give each a name of its own"
        );
    }
}

#[test]
fn the_last_instant_is_the_last_exact_double() {
    assert_eq!(Timestamp::from_micros(MAX_EXACT), Ok(Timestamp::MAX));
    let beyond = Timestamp::from_micros(MAX_EXACT + 1).unwrap_err();
    assert_eq!(beyond.kind(), LimitErrorKind::Instant);
    assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
    let second = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(1));
    assert_eq!(second.saturating_add(Duration::MAX), Timestamp::MAX);
}

#[test]
fn a_wait_is_written_to_the_millisecond() {
    for (micros, text) in [
        (0, "0s"),
        (1, "1ms"),
        (1_500, "2ms"),
        (12_000_001, "12.001s"),
        (59_999_974, "60s"),
        (u64::MAX - 1, "18446744073709.552s"),
        (u64::MAX, "never"),
    ] {
        assert_eq!(Wait::from_micros(micros).to_string(), text);
    }
}

/// A program may derive `Debug` for what holds them.
#[test]
fn limiters_and_schedules_can_be_shown_whatever_their_store() {
    fn shown(value: &impl fmt::Debug) -> String {
        format!("{value:?}")
    }
    let second = Duration::from_secs(1);
    let store: Option<Arc<dyn schedule::Store>> = None;
    let schedule = store.map(|store| Schedule::new(store, "plans", ["1/1m"]));
    assert_eq!(shown(&schedule), "None");
    let store: Option<Arc<dyn lease::Store>> = None;
    let places = store.map(|store| ConcurrencyLimiter::new(store, "uploads", 1, second));
    assert_eq!(shown(&places), "None");
    let schedule = Schedule::new((), "plans", ["1/1m"]).unwrap();
    assert!(shown(&schedule).contains("plans"));
    let places = ConcurrencyLimiter::new((), "uploads", 1, second).unwrap();
    assert!(shown(&places).contains("uploads"));
}

#[test]
fn what_is_forgotten_is_not_given_back() {
    let limits = ["a=gcra:9/1h", "b=fixed-window:9/1h"].map(|text| text.parse::<Limit>().unwrap());
    let checks = || limits.each_ref().map(|limit| Check::new(limit, "k", 2));
    let mut states = [State::default(), State::default()];
    let now = Timestamp::UNIX_EPOCH;
    let consumed = Request::new(Operation::Consume, checks()).decide_on(&mut states[..], now);
    let receipt = consumed.into_receipt().unwrap();
    states[1] = State::default();
    let refund = Request::new(Operation::Refund(&receipt), checks());
    let evaluation = refund.evaluate(&states[..], now);
    let writes = [0, 1].map(|index| evaluation.writes_to(index));
    assert_eq!(writes, [true, false]);
}

#[test]
fn a_charge_that_cannot_be_counted_exactly_is_refused() {
    // A unit of the last takes 6,000,000 parts.
    let limits = [
        ("fixed-window:5/1m", MAX_EXACT),
        ("sliding-log:5/1m", MAX_EXACT),
        ("gcra:10/1m", MAX_EXACT / 6_000_000),
    ];
    for (text, most) in limits {
        let limit: Limit = format!("l={text}").parse().unwrap();
        let charge = |cost| Request::charge(Check::new(&limit, "k", cost));
        let valid = |cost| charge(cost).validate(Fingerprint::of);
        valid(most).unwrap();
        let error = valid(most + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
        let mut state = State::default();
        let owes = charge(most).decide_on(&mut state, Timestamp::UNIX_EPOCH);
        assert_eq!((owes.is_allowed(), owes.remaining()), (true, 0), "{text}");
        let owed = if text.starts_with("sliding-log") {
            0
        } else {
            most - limit.algorithm().capacity()
        };
        assert_eq!(owes.as_slice()[0].owed(), owed, "{text}");
    }
}

#[test]
fn no_store_accepts_a_receipt_for_what_was_given_back() {
    let limit: Limit = "l=fixed-window:5/1m".parse().unwrap();
    let (check, now) = (Check::new(&limit, "k", 3), Timestamp::UNIX_EPOCH);
    let mut state = State::default();
    _ = Request::charge(check).decide_on(&mut state, now);
    let given = Request::give(check).decide_on(&mut state, now);
    assert_eq!((given.consumed(), given.remaining()), (3, 5));
    let receipt = given.into_receipt().unwrap();
    let refund = Request::refund(&receipt, check).validate(Fingerprint::of);
    assert_eq!(refund.unwrap_err().kind(), ErrorKind::Malformed);
}

/// Returns the receipt of a call under these limits, delayed if they are all GCRA.
fn receipt(texts: &[&str]) -> Receipt {
    let limits: Vec<Limit> = texts.iter().map(|text| text.parse().unwrap()).collect();
    let checks = limits.iter().map(|limit| Check::new(limit, "k", 2));
    let max_delay = Duration::from_secs(60);
    let operation = match texts.iter().all(|text| text.contains("gcra")) {
        true => Operation::Reserve { max_delay },
        false => Operation::Consume,
    };
    let request = Request::new(operation, checks);
    let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    let mut states: Vec<State> = limits.iter().map(|_| State::default()).collect();
    _ = request.decide_on(&mut states[..], now);
    let decided = request.decide_on(&mut states[..], now);
    decided.into_receipt().unwrap()
}

#[test]
fn a_receipt_is_read_as_it_was_written_and_damaged_bytes_are_an_error() {
    for texts in [
        &["a=sliding-log:10/1m"][..],
        &["a=gcra:2/1m"],
        &["a=gcra:2/1m", "b=gcra:3/1s"],
        &["a=sliding-log:10/1m", "b=gcra:5/1m", "c=fixed-window:9/1s"],
    ] {
        let receipt = receipt(texts);
        let bytes = receipt.to_bytes();
        assert_eq!(Receipt::from_bytes(&bytes).unwrap(), receipt, "{texts:?}");
        assert_eq!(Receipt::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        let is_malformed = |bytes: &[u8]| {
            Receipt::from_bytes(bytes).is_err_and(|error| error.kind() == ErrorKind::Malformed)
        };
        for end in 0..bytes.len() {
            assert!(is_malformed(&bytes[..end]), "{texts:?}: {end}");
            let mut damaged = bytes.clone();
            damaged[end] ^= 1;
            assert!(is_malformed(&damaged), "{texts:?}: {end}");
        }
        assert!(is_malformed(&[&bytes[..], &[0]].concat()));
    }
}

/// Returns these bytes with the sum that the bytes of a receipt end in.
fn summed(content: &[u8]) -> Vec<u8> {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let sum = content.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    [content, &sum.to_le_bytes()].concat()
}

/// Somebody may write other numbers into a receipt, and the sum that fits.
#[test]
fn no_number_in_a_receipt_stops_a_store() {
    const NUMBERS: [u64; 7] = [0, 1, 3, MAX_EXACT - 1, MAX_EXACT, MAX_EXACT + 1, u64::MAX];
    let texts = [
        &["a=sliding-log:10/1m", "b=gcra:5/1m", "c=fixed-window:9/1s"][..],
        &["a=sliding-counter:9/1m", "b=sliding-buckets:9/1m,buckets=6"],
        &["a=gcra:2/1m", "b=gcra:3/1s"],
    ];
    for texts in texts {
        let bytes = receipt(texts).to_bytes();
        let content = &bytes[..bytes.len() - 8];
        let limits: Vec<Limit> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let checks: Vec<_> = limits.iter().map(|of| Check::new(of, "k", 2)).collect();
        let now = Timestamp::from_micros(1_800_000_001_000_000).unwrap();
        let mut held: Vec<State> = limits.iter().map(|_| State::default()).collect();
        assert!(
            Request::new(Operation::Consume, &checks)
                .decide_on(&mut held[..], now)
                .is_allowed()
        );
        let places = || {
            (10..content.len())
                .step_by(8)
                .flat_map(|at| NUMBERS.map(|to| (at, to)))
        };
        for (first, second) in places().flat_map(|first| places().map(move |other| (first, other)))
        {
            let mut content = content.to_vec();
            for (at, number) in [first, second] {
                content[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            match Receipt::from_bytes(&summed(&content)) {
                Ok(receipt) => {
                    assert_eq!(receipt.to_bytes(), summed(&content));
                    for operation in [Operation::Refund(&receipt), Operation::Settle(&receipt)] {
                        let request = Request::new(operation, &checks);
                        request.validate(Fingerprint::of).unwrap();
                        assert!(request.decide_on(&mut held.clone()[..], now).is_allowed());
                    }
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed),
            }
        }
        for (at, byte) in (0..2).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut content = content.to_vec();
            content[at] = byte;
            if let Ok(receipt) = Receipt::from_bytes(&summed(&content)) {
                let (version, count) = (content[0], usize::from(content[1]));
                assert_eq!((version, count), (1, receipt.consumed().len()));
            }
        }
    }
}

/// What another process or an earlier release wrote must be read.
#[test]
fn the_bytes_of_a_receipt_stay_as_they_are() {
    let bytes = receipt(&["a=sliding-log:10/1m"]).to_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "0101684a3897c8a45f1402000000000000000080982817650600efc9ced1d5d7248b"
    );
}

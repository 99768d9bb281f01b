//! Decisions say what the verdicts say that they are made of, and are small.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{Fingerprint, Source, Verdict, Verdicts};
use tollgate_core::{Decision, Denied, RateLimiter, Receipt, StoreError, Timestamp, Wait};

/// `?` moves what a call returns. A larger one took as long to move as to decide.
#[test]
fn what_a_call_returns_is_small() {
    for (name, size, most) in [
        ("an error", size_of::<StoreError>(), 8),
        ("a decision", size_of::<Decision<'_>>(), 128),
        (
            "a result",
            size_of::<Result<Decision<'_>, StoreError>>(),
            128,
        ),
        ("a denied call", size_of::<Result<(), Denied>>(), 64),
        ("a receipt", size_of::<Option<Receipt>>(), 88),
    ] {
        assert!(size <= most, "{name} has {size} bytes");
    }
}

const LIMITS: [&str; 6] = [
    "a=gcra:3/1s",
    "b=gcra:3/1s,shadow",
    "c=fixed-window:3/1s",
    "d=gcra:3/1s",
    "e=gcra:3/1s",
    "f=gcra:3/1s",
];

/// Returns verdicts like those of limits of 3, and some that differ in what most have in common.
fn verdict() -> impl Strategy<Value = Verdict> {
    let numbers = (
        0..4_u64,
        0..3_u64,
        prop::sample::select(vec![0, 1, 2, u64::MAX]),
        0..3_u64,
    );
    let rarely = || prop::bool::weighted(0.05);
    let flags = (
        prop::bool::weighted(0.7),
        rarely(),
        rarely(),
        rarely(),
        prop::bool::weighted(0.2),
    );
    let verdict = |((remaining, reset, wait, consumed), flags): ((u64, u64, u64, u64), _)| {
        let (is_allowed, other_capacity, other_instant, is_odd, is_shadow) = flags;
        let capacity = if other_capacity { 7 } else { 3 };
        let at = Timestamp::saturating_from_micros(if other_instant { 4 } else { 5 });
        let wait = Wait::from_micros(wait);
        let verdict = match (is_allowed, is_odd) {
            (true, false) => Verdict::allow(capacity, remaining).with_consumed(consumed, at),
            (true, true) => Verdict::allow(capacity, remaining)
                .with_consumed(consumed, at)
                .with_delay(wait),
            (false, false) => Verdict::deny(capacity, remaining, wait).with_consumed(0, at),
            (false, true) => Verdict::deny(capacity, remaining, wait).with_consumed(consumed, at),
        };
        verdict
            .with_reset_after(Wait::from_micros(reset))
            .in_shadow(is_shadow)
    };
    (numbers, flags).prop_map(verdict)
}

proptest! {
    #[test]
    fn a_decision_says_what_its_verdicts_say(
        each in prop::collection::vec(verdict(), 1..=LIMITS.len()),
        (is_cached, age_us) in (any::<bool>(), 0..3_u64),
    ) {
        let limiter = RateLimiter::new((), LIMITS[..each.len()].iter().copied()).unwrap();
        let make = || {
            let made = Verdicts::new(Fingerprint::new(1), each.iter().copied());
            let source = if is_cached { Source::Cache } else { Source::Store };
            made.with_source(source).with_age(Duration::from_micros(age_us))
        };
        let (verdicts, decision) = (make(), limiter.decision(make()).unwrap());
        prop_assert_eq!(decision.is_allowed(), verdicts.is_allowed());
        prop_assert_eq!(decision.is_denied(), verdicts.is_denied());
        prop_assert_eq!(decision.capacity(), verdicts.capacity());
        prop_assert_eq!(decision.remaining(), verdicts.remaining());
        prop_assert_eq!(decision.retry_after(), verdicts.retry_after());
        prop_assert_eq!(decision.delay(), verdicts.delay());
        prop_assert_eq!(decision.reset_after(), verdicts.reset_after());
        prop_assert_eq!(decision.consumed(), verdicts.consumed());
        prop_assert_eq!(decision.source(), verdicts.source());
        prop_assert_eq!(decision.age(), verdicts.age());
        let binding = verdicts.binding();
        let (limit, verdict) = decision.binding();
        prop_assert_eq!((limit, verdict), (&limiter.limits()[binding], each[binding]));
        prop_assert!(decision.verdicts().map(|(_, verdict)| verdict).eq(each.iter().copied()));
        for ((limit, verdict), expected) in decision.verdicts().zip(&each) {
            prop_assert_eq!(verdict, *expected);
            prop_assert_eq!(decision.verdict(limit.name()), Some(verdict));
        }
        match decision.permit() {
            Ok(()) => prop_assert!(verdicts.is_allowed()),
            Err(denied) => prop_assert_eq!(denied.verdict(), &each[binding]),
        }
        prop_assert_eq!(&limiter.decision(make()).unwrap(), &decision);
        prop_assert_eq!(limiter.decision(make()).unwrap().into_verdicts(), make());
        prop_assert_eq!(decision.into_receipt(), verdicts.into_receipt());
    }
}

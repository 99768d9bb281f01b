//! Requests, verdicts and decisions return what they were made of, and fingerprints tell requests
//! apart.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use tollgate_core::store::{
    Check, Checks, Consumed, Fingerprint, Limits, Operation, Request, State, Verdict, Verdicts,
};
use tollgate_core::{
    Decision, ErrorKind, FixedWindow, Gcra, Key, Limit, Quota, RateLimiter, Receipt, SlidingLog,
    Store, StoreError, SyncStore, Timestamp, Wait, inside,
};

fn window(name: &str) -> Limit {
    Limit::new(name, FixedWindow::aligned(Quota::per_minute(5))).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Returns whether a decision is allowed, its binding limit and that limit's capacity, then
/// `remaining`, `retry_after`, `reset_after` and `consumed`.
fn said(decision: &Verdicts) -> (bool, usize, u64, u64, Wait, Wait, u64) {
    assert_ne!(decision.is_allowed(), decision.is_denied());
    (
        decision.is_allowed(),
        decision.binding(),
        decision.capacity(),
        decision.remaining(),
        decision.retry_after(),
        decision.reset_after(),
        decision.consumed(),
    )
}

#[test]
fn a_decision_combines_its_verdicts() {
    let fingerprint = Fingerprint::new(1);
    let micros = Wait::from_micros;
    let reset = |verdict: Verdict, after, charge| {
        let verdict = verdict.with_reset_after(Wait::from_micros(after));
        verdict.with_consumed(charge, at(charge))
    };
    let some = reset(Verdict::allow(9, 5), 30, 3);
    let few = reset(Verdict::allow(7, 2), 20, 2);
    let none = reset(Verdict::deny(6, 0, Wait::from_micros(10)), 40, 0);
    for (verdicts, expected) in [
        (&[][..], (false, 0, 0, 0, Wait::ZERO, Wait::ZERO, 0)),
        (&[some], (true, 0, 9, 5, Wait::ZERO, micros(30), 3)),
        (&[some, few], (true, 1, 7, 2, Wait::ZERO, micros(30), 2)),
        (&[few, some], (true, 0, 7, 2, Wait::ZERO, micros(30), 2)),
        (
            &[none],
            (false, 0, 6, 0, Wait::from_micros(10), micros(40), 0),
        ),
        (
            &[few, none, some],
            (false, 1, 6, 0, Wait::from_micros(10), micros(40), 0),
        ),
    ] {
        let decision = Verdicts::new(fingerprint, verdicts.iter().copied());
        assert_eq!(decision.as_slice(), verdicts);
        assert_eq!(said(&decision), expected);
        if let [verdict] = verdicts {
            assert_eq!(Verdicts::of_one(fingerprint, *verdict), decision);
            assert_eq!(said(&Verdicts::of_one(fingerprint, *verdict)), expected);
        }
        let charged: Vec<u64> = verdicts.iter().map(Verdict::consumed).collect();
        let receipt = decision.into_receipt();
        assert_eq!(receipt.is_some(), charged.iter().any(|&charge| charge > 0));
        if let Some(receipt) = receipt {
            let charges = receipt.consumed().iter().copied();
            assert_eq!(
                charges.clone().map(Consumed::cost).collect::<Vec<_>>(),
                charged
            );
            let instants = charged.iter().map(|&charge| at(charge));
            assert!(charges.map(Consumed::at).eq(instants));
        }
    }
}

#[test]
fn debug_of_verdicts_hides_their_fingerprint() {
    let decision = Verdicts::new(Fingerprint::new(1), [Verdict::allow(9, 5)]);
    let shown = format!("{decision:?}");
    assert!(
        shown.starts_with(
            "Verdicts { allowed: true, verdicts: [Verdict { allowed: true, capacity: 9"
        ),
        "{shown}"
    );
    assert!(!shown.contains("ingerprint"), "{shown}");
}

#[test]
fn decisions_are_equal_if_their_verdicts_are() {
    let of = |fingerprint, verdicts: &[Verdict]| {
        Verdicts::new(Fingerprint::new(fingerprint), verdicts.iter().copied())
    };
    let (allowed, denied) = (Verdict::allow(9, 5), Verdict::deny(9, 5, Wait::ZERO));
    assert_eq!(of(1, &[allowed]), of(2, &[allowed]));
    assert_ne!(of(1, &[allowed]), of(1, &[denied]));
    assert_ne!(of(1, &[allowed]), of(1, &[allowed, allowed]));
    assert_ne!(of(1, &[]), of(1, &[denied]));
}

/// Of limits with equal waits, one that refused binds before one that has to wait only because it
/// counted the attempt.
#[test]
fn a_limit_that_denied_binds_before_one_that_counted_the_denied_call() {
    let quota = Quota::per_minute(1);
    let log = SlidingLog::new(quota).unwrap().count_denied();
    let counting = Limit::new("counting", log).unwrap();
    let refusing = Limit::new("refusing", SlidingLog::new(quota).unwrap()).unwrap();
    for limits in [[&counting, &refusing], [&refusing, &counting]] {
        let mut states = [State::default(), State::default()];
        let place = usize::from(inside::is_same(limits[1], &refusing));
        let consumed = Request::consume(Check::new(&refusing, "k", 1));
        let mut alone = [State::default()];
        assert!(consumed.decide_on(&mut alone, at(1_000)).is_allowed());
        let [held] = alone;
        states[place] = held;
        let checks = limits.map(|limit| Check::new(limit, "k", 1));
        let request = Request::new(Operation::Consume, &checks);
        let decision = request.decide_on(&mut states, at(1_000));
        let waits = [0, 1].map(|index| decision.as_slice()[index].retry_after());
        assert_eq!(waits, [Wait::from_micros(60_000_000); 2]);
        assert!(decision.is_denied() && decision.as_slice()[1 - place].is_allowed());
        assert_eq!(decision.binding(), place);
    }
}

/// A limit that counts denials may have a longer wait than the limit that refused.
#[test]
fn the_binding_limit_has_the_longest_wait() {
    let pace = Gcra::with_burst(Quota::per_minute(1), 1).unwrap();
    let attempts = FixedWindow::aligned(Quota::per_hour(2)).count_denied();
    let limits = [
        Limit::new("pace", pace).unwrap(),
        Limit::new("attempts", attempts).unwrap(),
    ];
    let mut states = [State::default(), State::default()];
    let request =
        Request::consume(Check::new(&limits[0], "k", 1)).and(Check::new(&limits[1], "k", 1));
    let now = Timestamp::from_micros(800_000_000).unwrap();
    assert!(request.decide_on(&mut states, now).is_allowed());
    let denied = request.decide_on(&mut states, now);
    assert_eq!(denied.binding(), 1);
    let wait = Some(Duration::from_secs(2_800));
    assert_eq!(denied.retry_after().duration(), wait);
    assert_eq!(
        denied.as_slice()[0].retry_after().duration(),
        Some(Duration::from_secs(60))
    );
}

#[test]
fn checks_of_the_same_limit_and_key_share_a_state() {
    let [a, b] = ["a", "b"].map(window);
    let check = Check::new(&a, "k", 1);
    // Limits that differ in amount share a state; limits with different kinds of state do not.
    let larger = Limit::new("a", FixedWindow::aligned(Quota::per_minute(9))).unwrap();
    let bucket = Limit::new("a", Gcra::new(Quota::per_hour(5)).unwrap()).unwrap();
    for (other, shares) in [
        (Check::new(&a, "k", 2), true),
        (Check::new(&larger, "k", 1), true),
        (Check::new(&bucket, "k", 1), false),
        (Check::new(&b, "k", 1), false),
        (Check::new(&a, "l", 1), false),
        (Check::new(&a, Key::from("k").with_rest("r"), 1), false),
    ] {
        assert_eq!(check.shares_state_with(&other), shares, "{other:?}");
        assert_eq!(other.shares_state_with(&check), shares, "{other:?}");
    }
}

/// Returns the receipt of a call that consumed what `checks` cost.
fn receipt(checks: &[Check<'_>]) -> Receipt {
    let mut states: Vec<State> = checks.iter().map(|_| State::default()).collect();
    let request = Request::new(Operation::Consume, checks);
    let decision = request.decide_on(&mut states[..], at(1_000));
    decision.into_receipt().unwrap()
}

#[test]
fn a_receipt_fits_only_the_same_limits() {
    let [a, b] = ["a", "b"].map(window);
    let both = [Check::new(&a, "k", 1), Check::new(&b, "k", 1)];
    let (one, two) = (receipt(&both[..1]), receipt(&both));
    for (receipt, checks, valid) in [
        (&one, &both[..1], true),
        (&two, &both[..], true),
        (&one, &both[..], false),
        (&two, &both[..1], false),
        (&two, &[], false),
    ] {
        let refund = Request::new(Operation::Refund(receipt), checks);
        let kind = refund.validate_checks().map_err(|error| error.kind());
        assert_eq!(kind, valid.then_some(()).ok_or(ErrorKind::Malformed));
    }
    let refund = Request::refund(&one, both[0]);
    let own = Fingerprint::of(&Request::consume(both[0]));
    assert!(refund.validate(|_| own).is_ok());
    let other = Fingerprint::of(&Request::consume(both[1]));
    let error = refund.validate(|_| other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    // Only a refund has a receipt.
    assert!(Request::consume(both[0]).validate(|_| other).is_ok());
}

/// A store gives the answer that it has kept to whoever repeats the call.
#[test]
fn repeated_answer_has_the_receipt_of_the_first() {
    let limits = ["a=gcra:1/1s", "b=gcra:2/1s"].map(|text| text.parse::<Limit>().unwrap());
    let both = limits.each_ref().map(|limit| Check::new(limit, "k", 1));
    let mut states = [State::default(), State::default()];
    let max_delay = Duration::from_secs(9);
    for (operation, is_allowed, starts_at) in [
        (Operation::Consume, true, Some(5)),
        (Operation::Reserve { max_delay }, true, Some(1_000_005)),
        (Operation::Consume, false, None),
    ] {
        let before = states.clone();
        let first = Request::new(operation, both).decide_on(&mut states[..], at(5));
        let again = first.again();
        assert_eq!((again.is_allowed(), &again), (is_allowed, &first));
        let receipt = again.into_receipt();
        assert_eq!(receipt, first.into_receipt());
        let starts = receipt.iter().flat_map(|receipt| receipt.consumed());
        assert!(
            starts
                .clone()
                .all(|of| Some(of.at().as_micros()) == starts_at)
        );
        assert_eq!(starts.count(), if is_allowed { 2 } else { 0 });
        // It gives back what the first would.
        let Some(receipt) = receipt else { continue };
        let refund = Request::new(Operation::Refund(&receipt), both);
        refund.validate(Fingerprint::of).unwrap();
        let mut given_back = states.clone();
        let _ = refund.decide_on(&mut given_back[..], at(5));
        let peek = |states: &mut [State; 2]| {
            Request::new(Operation::Peek, both).decide_on(&mut states[..], at(5))
        };
        assert_eq!(peek(&mut given_back), peek(&mut before.clone()));
    }
}

#[test]
fn fingerprints_differ_by_limits_keys_order_and_clock() {
    let [a, b] = ["a", "b"].map(window);
    let key = |rest| Key::from("k").with_rest(rest);
    let of = |limit, key| Request::consume(Check::new(limit, key, 1));
    let distinct = [
        of(&a, Key::from("k")),
        of(&a, Key::from("k")).at(at(1)),
        of(&b, Key::from("k")),
        of(&a, Key::from("l")),
        of(&a, key("r")),
        of(&a, key("s")),
        of(&a, Key::from("kr")),
        of(&a, key("r")).and(Check::new(&a, key("s"), 1)),
        of(&a, key("s")).and(Check::new(&a, key("r"), 1)),
        of(&a, key("s")).and(Check::new(&a, key("r"), 1)).at(at(1)),
        of(&a, Key::from("k")).and(Check::new(&b, "k", 1)),
        of(&b, Key::from("k")).and(Check::new(&a, "k", 1)),
    ];
    let mut seen = HashMap::new();
    for request in &distinct {
        let shown = format!("{:?}", Fingerprint::of(request));
        if let Some(other) = seen.insert(shown, request) {
            panic!("{other:?} and {request:?} have the same fingerprint");
        }
    }
    // The operation, the cost and the value of the caller's time do not change a fingerprint.
    let fingerprint = Fingerprint::of(&distinct[0]);
    let check = Check::new(&a, "k", 7);
    assert_eq!(Fingerprint::of(&Request::consume(check)), fingerprint);
    assert_eq!(Fingerprint::of(&Request::peek(check)), fingerprint);
    let later = Request::take_up_to(check).at(at(2));
    assert_eq!(Fingerprint::of(&later), Fingerprint::of(&distinct[1]));
    assert_ne!(Fingerprint::new(1), Fingerprint::new(2));
}

/// A store that keeps the states of one key, and decides calls under two limits without a request.
struct OfTwo(Mutex<[State; 2]>);

impl SyncStore for OfTwo {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        Ok(request.decide_on(&mut *self.0.lock().unwrap(), at(7)))
    }

    fn consume_now<'l>(
        &self,
        limits: &'l Limits,
        _: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let mut states = self.0.lock().unwrap();
        let two: &[Limit; 2] = (**limits).try_into().unwrap();
        let fingerprint = Fingerprint::new(1);
        let decided = inside::consume_few(limits, two, fingerprint, cost, &mut *states, at(7));
        Ok(decided.unwrap())
    }

    fn reset_now(&self, _: &[Check<'_>]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Store for OfTwo {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&'a self, _: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _: &Request<'a>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn calls_without_a_request_are_decided_as_requests_are_from_the_first_on() {
    let algorithms = [
        "gcra:3/1s",
        "fixed-window:3/1s",
        "fixed-window:3/1s,anchored",
        "sliding-counter:3/1s",
        "sliding-log:3/1s",
        "sliding-buckets:3/1s,buckets=2",
    ];
    for (first, second) in algorithms
        .iter()
        .flat_map(|of| algorithms.map(|other| (of, other)))
    {
        let limits = [format!("a={first}"), format!("b={second}")];
        let store = OfTwo(Mutex::new([State::default(), State::default()]));
        let limiter = RateLimiter::new(store, limits.each_ref().map(|limit| &**limit)).unwrap();
        let mut states = [State::default(), State::default()];
        for cost in [1, 4, 2, 1] {
            let decision = limiter
                .check("key")
                .cost(cost)
                .run()
                .unwrap()
                .into_verdicts();
            let request = Request::consume_all(limiter.limits(), "key", cost);
            let expected = request.decide_on(&mut states, at(7));
            assert_eq!(decision.as_slice(), expected.as_slice(), "{limits:?}");
        }
    }
}

//! What stores keep: states, answers to calls with an id, and receipts.

use std::slice;
use std::time::Duration;

use tollgate_core::store::{
    BlockSpan, Check, MAX_EXACT, Operation, Prefetch, Request, State, Verdicts,
};
use tollgate_core::{ErrorKind, Limit, Receipt, StoreError, Timestamp, lease, schedule};

use crate::server::{LIMITS, NOW, QUOTAS};

/// When calls are decided, in microseconds after [`NOW`]: also at the epoch and at the end of time.
const LATER: [i64; 6] = [i64::MIN, -9, 3, 2_000_000, 90_000_000, i64::MAX];
const COSTS: [u64; 4] = [1, 3, 1 << 40, MAX_EXACT];

/// Reads what a store keeps, of the kind that the first byte says. What is accepted is written as the same bytes,
/// and all that calls make of it can be read.
pub fn states(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let limits = LIMITS.map(|text| text.parse::<Limit>());
    let limits = limits.map(|limit| limit.unwrap_or_else(|error| panic!("{error}")));
    let accepted = match usize::from(choice) % 12 {
        8 => answer(&limits[..1], bytes),
        9 => answer(&limits[..3], bytes),
        10 => events(bytes),
        11 => leases(bytes),
        limit => state(&limits[limit], bytes),
    };
    match accepted {
        Ok(written) => assert_eq!(written, bytes),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Protocol, "{error}"),
    }
}

fn calls() -> impl Iterator<Item = (Timestamp, u64)> {
    LATER.into_iter().flat_map(|later| {
        let now = NOW.as_micros().saturating_add_signed(later);
        COSTS.map(|cost| (Timestamp::saturating_from_micros(now), cost))
    })
}

/// Returns what was read, which must not be an error.
fn fine<T>(read: Result<T, StoreError>) -> T {
    read.unwrap_or_else(|error| panic!("{error}"))
}

/// Decides a request if it is valid, and returns its receipt.
fn decide(request: &Request<'_>, states: &mut [State], now: Timestamp) -> Option<Receipt> {
    request.validate_checks().ok()?;
    request.validate_operation().ok()?;
    let verdicts = request.decide_on(states, now);
    for (check, state) in request.checks().iter().zip(states) {
        fine(State::from_bytes(check.limit(), &state.to_bytes()));
    }
    let read = fine(Verdicts::from_bytes(request, &verdicts.to_bytes()));
    assert_eq!(read, verdicts);
    let receipt = verdicts.into_receipt()?;
    assert_eq!(fine(Receipt::from_bytes(&receipt.to_bytes())), receipt);
    Some(receipt)
}

/// Gives a receipt back, and settles it.
fn give_back(receipt: &Receipt, checks: &[Check<'_>], states: &[State], now: Timestamp) {
    for operation in [Operation::Refund(receipt), Operation::Settle(receipt)] {
        decide(&Request::new(operation, checks), &mut states.to_vec(), now);
    }
}

fn state(limit: &Limit, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let state = State::from_bytes(limit, bytes)?;
    for (now, cost) in calls() {
        let check = Check::new(limit, "k", cost);
        let max_delay = Duration::MAX;
        for operation in [
            Operation::Consume,
            Operation::Peek,
            Operation::Prefetch(Prefetch::new(cost, Duration::from_micros(cost))),
            Operation::TakeUpTo,
            Operation::Charge,
            Operation::Give,
            Operation::Lower,
            Operation::Reserve { max_delay },
            Operation::Block(BlockSpan::Usual),
            Operation::Block(BlockSpan::Until(now)),
        ] {
            // Also with receipts of calls that this state does not hold.
            for mut held in [state.clone(), State::default()] {
                let request = Request::new(operation, [check]);
                if let Some(receipt) = decide(&request, slice::from_mut(&mut held), now) {
                    give_back(&receipt, &[check], &[held], now);
                    give_back(&receipt, &[check], slice::from_ref(&state), now);
                }
            }
        }
    }
    Ok(state.to_bytes())
}

fn answer(limits: &[Limit], bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let checks = |cost| limits.iter().map(move |limit| Check::new(limit, "k", cost));
    let request = Request::new(Operation::Consume, checks(1));
    let answer = Verdicts::from_bytes(&request, bytes)?;
    let written = answer.to_bytes();
    if let Some(receipt) = answer.into_receipt() {
        for (now, cost) in calls() {
            let mut held = vec![State::default(); limits.len()];
            decide(&request, &mut held, now);
            give_back(&receipt, &checks(cost).collect::<Vec<_>>(), &held, now);
        }
    }
    Ok(written)
}

fn events(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let terms = schedule::Terms::new("l", QUOTAS);
    let terms = terms.unwrap_or_else(|error| panic!("{error}"));
    let state = schedule::State::from_bytes(&terms, bytes)?;
    for (now, weight) in calls() {
        let event = |id| schedule::Event::new(id, now.saturating_add(Duration::from_secs(3)));
        for operation in [
            schedule::Operation::Add(vec![event("a").with_weight(weight), event("c")]),
            schedule::Operation::Reschedule(event("a")),
            schedule::Operation::ReserveNext(event("c").with_weight(weight)),
            schedule::Operation::Cancel(b"a"),
        ] {
            let request = schedule::Request::new(&terms, "k", operation);
            let mut next = state.clone();
            let _ = request.decide_on(&mut next, now);
            fine(schedule::State::from_bytes(&terms, &next.to_bytes()));
        }
    }
    Ok(state.to_bytes())
}

fn leases(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let terms = lease::Terms::new("l", 5, Duration::from_secs(30));
    let terms = terms.unwrap_or_else(|error| panic!("{error}"));
    let state = lease::State::from_bytes(&terms, bytes)?;
    let (id, token) = (b"a", state.last_token());
    for (now, weight) in calls() {
        for operation in [
            lease::Operation::Acquire { id, weight },
            lease::Operation::Renew { id, token },
            lease::Operation::Release { id, token },
        ] {
            let mut next = state.clone();
            let _ = lease::Request::new(&terms, "k", operation).decide_on(&mut next, now);
            fine(lease::State::from_bytes(&terms, &next.to_bytes()));
        }
    }
    Ok(state.to_bytes())
}

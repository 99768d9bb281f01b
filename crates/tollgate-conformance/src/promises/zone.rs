//! Promises about limits that count in the time zone of the call.

use std::sync::Arc;

use jiff::tz::TimeZone;
use proptest::collection::vec;
use tollgate_core::store::{Check, Request, Verdict};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Receipt, Store, StoreError, Timestamp};

use crate::clock::takes;
use crate::harness::{OwnedKey, Stores};
use crate::history::{Act, Acts, LONGEST, Start, Step, histories, settled, starts};
use crate::naive::{Answer, Naive};
use crate::plan::{Outcome, Plan, Stop};
use crate::session::Session;

/// The zones that calls are made in. Two of them have other days at every instant.
const ZONES: [&str; 3] = ["Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"];
/// The day that calls in each of them bring.
const DAYS: [u8; 3] = [1, 31, 15];

/// A call counts in the zone that it is made in, by the local dates there, whatever calls for the same key
/// have counted in others; one without a zone fails and changes nothing.
pub async fn a_call_counts_in_its_own_zone(harness: &Stores, plan: &Plan) {
    let zones = ZONES.map(|name| TimeZone::get(name).unwrap());
    plan.check_each(
        |limit| {
            let fixed = limit.in_zone(&zones[0]).unwrap();
            let fixed = fixed.on_day(DAYS[0]).unwrap();
            let history = histories(&fixed, 1, Acts::FORWARD_REFUNDS);
            (starts(&fixed), history, vec(0..ZONES.len(), LONGEST))
        },
        async |limit, (start, history, places)| {
            follows(harness, limit, &zones, start, (&history, &places)).await
        },
    );
}

/// What was consumed in a zone and not given back yet.
struct Held {
    zone: usize,
    receipt: Receipt,
    verdict: Verdict,
}

async fn follows(
    harness: &Stores,
    limit: &Limit,
    zones: &[TimeZone; 3],
    start: Start,
    (history, places): (&[Step], &[usize]),
) -> Outcome {
    let mut session = Session::open(harness, start.0).await;
    let fixed = [0, 1, 2].map(|place| {
        let limit = limit.in_zone(&zones[place]).unwrap();
        limit.on_day(DAYS[place]).unwrap()
    });
    if !takes(&*session.store, &fixed[0], start.0) {
        return Err(Stop::Moot);
    }
    let mut naive = fixed.each_ref().map(|limit| Naive::of(limit).unwrap());
    let limiter = RateLimiter::new(Arc::clone(&session.store), [limit]).unwrap();
    let within = [0, 1, 2].map(|place| {
        let limiter = limiter.in_zone(&zones[place]).unwrap();
        limiter.on_day(DAYS[place]).unwrap()
    });
    let alice = OwnedKey::fresh("alice");
    let mut held: Vec<Held> = Vec::new();
    for (step, &place) in history.iter().zip(places) {
        session.travel(step.time);
        let (now, cost) = (session.now, step.planned[0].cost);
        refuses_without_zone(&session, &limiter, &alice, now).await?;
        let key = alice.key();
        let micros = now.as_micros();
        let (answer, defined) = match step.act {
            Act::Consume | Act::Peek | Act::TakeUpTo => {
                let (call, defined) = match step.act {
                    Act::Consume => {
                        let call = within[place].check(key).cost(cost).at(now);
                        (call.await, naive[place].consume(micros, cost))
                    }
                    Act::Peek => {
                        let call = within[place].peek(key).cost(cost).at(now);
                        (call.await, naive[place].peek(micros, cost))
                    }
                    _ => {
                        let call = within[place].take_up_to(key, cost).at(now);
                        (call.await, naive[place].take_up_to(micros, cost))
                    }
                };
                let decision = done(&session, call)?;
                let verdict = decision.binding().1;
                held.extend(decision.into_receipt().map(|receipt| Held {
                    zone: place,
                    receipt,
                    verdict,
                }));
                (verdict, defined)
            }
            Act::Refund(index) | Act::Settle(index) if !held.is_empty() => {
                let Held {
                    zone: place,
                    receipt,
                    verdict,
                } = held.swap_remove(index % held.len());
                let (at, was) = (verdict.decided_at().as_micros(), verdict.consumed());
                let another = within[(place + 1) % ZONES.len()];
                // In another zone, it is the receipt of another limit.
                let refused = another.refund(key, receipt).at(now).await;
                let receipt = match refused {
                    Err(error) if error.kind() == ErrorKind::Malformed => error.into_receipt(),
                    other => return Err(session.failure(&format!("another zone: {other:?}"))),
                };
                let receipt = receipt.ok_or_else(|| session.failure("the receipt is lost"))?;
                let (left, defined) = if let Act::Refund(_) = step.act {
                    let call = within[place].refund(key, receipt).at(now);
                    (call.await, naive[place].refund(micros, at, was))
                } else {
                    let cost = settled(&fixed[place], cost);
                    let call = within[place].settle(key, receipt, cost).at(now);
                    (call.await, naive[place].settle(micros, at, was, cost))
                };
                let left = done(&session, left.map_err(StoreError::from))?;
                (left.decision().binding().1, defined)
            }
            Act::Charge => {
                let cost = settled(&fixed[place], cost);
                let call = within[place].charge(key).cost(cost).at(now);
                let left = done(&session, call.await)?;
                (
                    left.decision().binding().1,
                    naive[place].charge(micros, cost),
                )
            }
            Act::Give => {
                let call = within[place].give(key).cost(cost).at(now);
                let left = done(&session, call.await)?;
                (left.decision().binding().1, naive[place].give(micros, cost))
            }
            Act::Lower => {
                let call = within[place].lower(key, cost).at(now);
                let left = done(&session, call.await)?;
                let defined = naive[place].lower(micros, cost);
                (left.decision().binding().1, defined)
            }
            _ => continue,
        };
        let answer = Answer::from(&answer);
        session.ensure(answer == defined, || {
            let zone = ZONES[place];
            format!("in {zone}, the definition says\n  {defined:?}, not\n  {answer:?}")
        })?;
    }
    // A reset forgets what was counted in its zone alone.
    let now = session.now.as_micros();
    done(&session, within[0].reset(alice.key()).await)?;
    naive[0] = Naive::of(&fixed[0]).unwrap();
    for (limiter, naive) in within.iter().zip(&naive) {
        let peek = limiter.peek(alice.key()).at(session.now);
        let remaining = done(&session, peek.await)?.remaining();
        let defined = naive.peek(now, 1).remaining;
        session.ensure(i128::from(remaining) == defined, || {
            format!(
                "{remaining} instead of {defined} remain after a reset in {}",
                ZONES[0]
            )
        })?;
    }
    Ok(())
}

fn done<T>(session: &Session, answer: Result<T, StoreError>) -> Outcome<T> {
    answer.map_err(|error| session.failure(&format!("a call in a zone failed: {error:?}")))
}

/// A limiter and a store both refuse a call without the zone.
async fn refuses_without_zone(
    session: &Session,
    limiter: &RateLimiter<Arc<dyn Store>>,
    key: &OwnedKey,
    now: Timestamp,
) -> Outcome {
    let check = Check::new(&limiter.limits()[0], key.key(), 1);
    let calls = [
        limiter.check(key.key()).await.map(drop),
        limiter.check(key.key()).at(now).await.map(drop),
        limiter.peek(key.key()).at(now).await.map(drop),
        limiter.lower(key.key(), 0).at(now).await.map(drop),
        limiter.reset(key.key()).await,
    ];
    let mut kinds: Vec<_> = calls.into_iter().collect();
    for request in [
        Request::consume(check),
        Request::peek(check),
        Request::take_up_to(check),
    ] {
        let decided = session.store.decide(request.at(now)).await;
        kinds.push(decided.map(drop));
    }
    let is_malformed = |call: &Result<(), StoreError>| {
        call.as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Malformed)
    };
    session.ensure(kinds.iter().all(is_malformed), || {
        format!("without a zone: {kinds:?}")
    })
}

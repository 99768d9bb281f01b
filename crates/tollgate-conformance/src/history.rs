//! Random histories: operations on limits and keys, and the time between them.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use tollgate_core::store::Prefetch;
use tollgate_core::{Algorithm, CalendarUnit, Limit, Timestamp};

use crate::naive::Calendar;

/// The longest history.
pub(crate) const LONGEST: usize = 40;

/// One operation of a history.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) time: Move,
    pub(crate) act: Act,
    pub(crate) planned: Vec<PlannedCheck>,
}

impl Step {
    /// Returns a step for the first limit and key.
    fn of_first(time: Move, act: Act, cost: u64) -> Self {
        let planned = vec![PlannedCheck {
            limit: 0,
            key: 0,
            cost,
        }];
        Self { time, act, planned }
    }
}

/// How the clock moves before a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Back(u64),
    Forward(u64),
    /// Same instant as the previous step.
    Stay,
}

/// The operation of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Blocks the keys under the limits that can.
    Block(Span),
    /// Charges, as [`settled`] says.
    Charge,
    Consume,
    Peek,
    /// Consumes, and asks for units ahead.
    Prefetch(Prefetch),
    TakeUpTo,
    /// Gives back the newest units.
    Give,
    /// Lowers what remains to the planned costs.
    Lower,
    /// Gives back the receipt at this index, modulo the number of receipts not given back yet.
    Refund(usize),
    /// Reserves a start at most this many microseconds away.
    Reserve(u64),
    Reset,
    /// Settles the receipt at this index, as [`settled`] says.
    Settle(usize),
}

/// How long a step blocks a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    Usual,
    /// Until this number of microseconds after the step, or before it if negative.
    Until(i64),
    Lasting(Duration),
}

/// Returns what a call under `limit` is settled at, or charged, if `planned` is the cost of the step.
pub(crate) fn settled(limit: &Limit, planned: u64) -> u64 {
    planned.min(limit.algorithm().capacity().saturating_mul(3))
}

/// A check, with its limit and key as indexes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCheck {
    pub(crate) limit: usize,
    pub(crate) key: usize,
    pub(crate) cost: u64,
}

/// Which operations and clock moves histories may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acts {
    /// Refunds, settlements, charges, and lowerings.
    pub(crate) refunds: bool,
    /// What is given back without a receipt, which may be more than a bound holds.
    pub(crate) gives: bool,
    pub(crate) resets: bool,
    pub(crate) back: bool,
    /// Units ahead.
    pub(crate) ahead: bool,
}

impl Acts {
    /// All operations, with a clock that may step back.
    pub(crate) const ALL: Self = Self {
        refunds: true,
        gives: true,
        resets: true,
        back: true,
        ahead: true,
    };
    /// Calls, peeks, refunds and the like, with a clock that may step back.
    pub(crate) const REFUNDS: Self = Self {
        refunds: true,
        gives: false,
        resets: false,
        back: true,
        ahead: false,
    };
    /// Calls and peeks, with a clock that may step back.
    pub(crate) const CALLS: Self = Self {
        refunds: false,
        gives: false,
        resets: false,
        back: true,
        ahead: false,
    };
    /// Calls, peeks, refunds and the like, with a clock that only moves forward.
    pub(crate) const FORWARD_REFUNDS: Self = Self {
        refunds: true,
        gives: false,
        resets: false,
        back: false,
        ahead: false,
    };
    /// Calls and peeks, with a clock that only moves forward.
    pub(crate) const FORWARD: Self = Self {
        refunds: false,
        gives: false,
        resets: false,
        back: false,
        ahead: false,
    };
    /// Calls, charges, gives and the like, and units ahead, with a clock that only moves forward. Without
    /// refunds: what was given back may be refunded once more, and how much of it depends on the algorithm.
    pub(crate) const FORWARD_GIVES: Self = Self {
        refunds: false,
        gives: true,
        ..Self::FORWARD_AHEAD
    };
    /// Calls, refunds and the like, and units ahead, with a clock that only moves forward.
    pub(crate) const FORWARD_AHEAD: Self = Self {
        ahead: true,
        ..Self::FORWARD_REFUNDS
    };
}

/// The instant at which a history starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start(pub(crate) Timestamp);

/// Returns start instants for histories of `limit`: mostly realistic ones near a window boundary,
/// sometimes the earliest or latest that can be represented.
pub(crate) fn starts(limit: &Limit) -> impl Strategy<Value = Start> + use<> {
    let window_us = limit.algorithm().quota().window_us();
    let realistic = 1_780_000_000_000_000;
    let boundary = match limit.algorithm() {
        // The day when clocks went forward in Berlin, and the week when they went back on Lord Howe Island.
        Algorithm::CalendarWindow(window) => {
            let noon = match window.unit() {
                CalendarUnit::Day => 1_774_785_600_000_000,
                _ => 1_775_174_400_000_000,
            };
            u64::try_from(Calendar::of(window).start(noon)).unwrap()
        }
        _ => realistic - realistic % window_us,
    };
    let from_end = (0..=window_us.saturating_mul(4))
        .prop_map(|us| Timestamp::MAX.as_micros().saturating_sub(us));
    prop_oneof![
        2 => Just(boundary),
        1 => Just(boundary + window_us - 1),
        4 => (0..window_us).prop_map(move |us| boundary + us),
        1 => 0..=window_us,
        1 => from_end,
    ]
    .prop_map(|micros| Start(Timestamp::saturating_from_micros(micros)))
}

/// Returns the times between calls of `limit`, mostly around the boundaries of its window.
pub(crate) fn moves(limit: &Limit, back: bool) -> impl Strategy<Value = Move> + use<> {
    let quota = limit.algorithm().quota();
    let (window_us, each_us) = (quota.window_us(), quota.window_us() / quota.amount().max(1));
    let forward = prop_oneof![
        8 => Just(0),
        3 => Just(1),
        2 => Just(each_us),
        1 => Just(each_us + 1),
        2 => 0..=each_us,
        4 => 0..=window_us,
        1 => Just(window_us - 1),
        1 => Just(window_us),
        1 => Just(window_us + 1),
        1 => window_us..=2 * window_us + 1,
        1 => Just(10 * window_us),
    ]
    .prop_map(Move::Forward);
    let backward = prop_oneof![Just(1), 1..=each_us.max(1), 1..=2 * window_us].prop_map(Move::Back);
    prop_oneof![
        12 => forward,
        u32::from(back) => backward,
    ]
}

/// Returns costs around 0, 1 and the bounds of `limit`.
pub(crate) fn costs(limit: &Limit) -> impl Strategy<Value = u64> + use<> {
    let capacity = limit.algorithm().capacity();
    prop_oneof![
        8 => Just(1),
        1 => Just(0),
        2 => Just(2),
        3 => 0..=capacity,
        1 => Just(capacity / 2),
        1 => Just(capacity.saturating_sub(1)),
        1 => Just(capacity),
        1 => Just(capacity + 1),
        1 => Just(u64::MAX),
    ]
}

fn acts(acts: Acts) -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => Just(Act::Consume),
        2 => Just(Act::Peek),
        2 => Just(Act::TakeUpTo),
        4 * u32::from(acts.ahead) => ahead().prop_map(Act::Prefetch),
        3 * u32::from(acts.refunds) => (0..LONGEST).prop_map(Act::Refund),
        2 * u32::from(acts.refunds) => (0..LONGEST).prop_map(Act::Settle),
        u32::from(acts.refunds || acts.gives) => Just(Act::Charge),
        u32::from(acts.gives) => Just(Act::Give),
        u32::from(acts.refunds || acts.gives) => Just(Act::Lower),
        u32::from(acts.resets) => Just(Act::Reset),
    ]
}

/// Returns how many units a call asks for ahead, mostly few, and for times of all lengths.
fn ahead() -> impl Strategy<Value = Prefetch> {
    let most = prop_oneof![4 => 0..=12_u64, 1 => any::<u64>()];
    let within = (0..=33_u32).prop_flat_map(|bits| 0..=1_u64 << bits);
    let parts = prop_oneof![2 => Just(1), 1 => 0..=4_u32];
    (most, within, parts).prop_map(|(most, within, parts)| {
        Prefetch::new(most, Duration::from_micros(within)).one_of(parts)
    })
}

/// Returns steps that use some units, ask several times for others ahead just before the first leave the window,
/// give all of these back but the first, and take what is left.
fn given_back(limit: &Limit) -> impl Strategy<Value = Vec<Step>> + use<> {
    let window_us = limit.algorithm().quota().window_us();
    let used = limit.algorithm().capacity() / 5 * 3;
    let ahead = move |most| Prefetch::new(most, Duration::from_micros(window_us / 10));
    vec(2..=5_u64, 5..=8).prop_map(move |most| {
        let first = [
            (0, Act::Consume, used),
            (window_us - window_us / 20, Act::Peek, 1),
        ];
        let grants = most.iter().map(|&most| (1, Act::Prefetch(ahead(most)), 1));
        // The second grant, and then the newest, whose receipt takes the place of the one before.
        let refunds = most[1..].iter().map(|_| (1, Act::Refund(2), 0));
        let all = first.into_iter().chain(grants).chain(refunds);
        let all = all.chain([(0, Act::TakeUpTo, u64::MAX)]);
        all.map(|(micros, act, cost)| Step::of_first(Move::Forward(micros), act, cost))
            .collect()
    })
}

/// Returns histories of calls under one limit for `keys` keys.
pub(crate) fn histories(
    limit: &Limit,
    keys: usize,
    kind: Acts,
) -> impl Strategy<Value = Vec<Step>> + use<> {
    let planned = (0..keys, costs(limit)).prop_map(|(key, cost)| {
        vec![PlannedCheck {
            limit: 0,
            key,
            cost,
        }]
    });
    let step = (moves(limit, kind.back), acts(kind), planned)
        .prop_map(|(time, act, planned)| Step { time, act, planned });
    let first = prop_oneof![
        1 => Just(Vec::new()),
        3 * u32::from(kind.ahead && kind.refunds) => given_back(limit),
    ];
    (first, vec(step, 0..=LONGEST)).prop_map(|(mut first, steps)| {
        first.extend(steps);
        first.truncate(LONGEST);
        first
    })
}

/// Returns histories of reservations and other calls, each with one to all of `limits`, each limit
/// for one of `keys` keys, and no pair twice. Some of the calls are given back if `kind` says so.
pub(crate) fn reservations(
    limits: &[Limit],
    keys: usize,
    kind: Acts,
) -> impl Strategy<Value = Vec<Step>> + use<> {
    let windows: Vec<_> = limits
        .iter()
        .map(|limit| limit.algorithm().quota().window_us())
        .collect();
    let within = proptest::sample::select(windows).prop_flat_map(|window_us| {
        prop_oneof![
            1 => Just(0),
            1 => Just(1),
            2 => 0..=window_us,
            4 => Just(10 * window_us),
            1 => Just(u64::MAX),
        ]
    });
    let reserve = within.prop_map(Act::Reserve);
    let act = prop_oneof![3 => reserve, 2 => acts(kind)];
    let calls = composites(limits, keys, kind);
    let calls = (calls, vec(act, LONGEST)).prop_map(|(calls, acts)| {
        let calls = calls.into_iter().zip(acts);
        calls.map(|(step, act)| Step { act, ..step }).collect()
    });
    let lines = limits
        .iter()
        .enumerate()
        .map(|(index, limit)| line(index, limit, kind).boxed());
    prop_oneof![calls, Union::new(lines)]
}

/// Returns steps of one limit at one instant: calls that start at once or wait for each other, of which some are
/// given back.
fn line(index: usize, limit: &Limit, kind: Acts) -> impl Strategy<Value = Vec<Step>> + use<> {
    let within = limit.algorithm().quota().window_us() * 10;
    let act = prop_oneof![
        2 => Just(Act::Consume),
        3 => Just(Act::Reserve(within)),
        3 * u32::from(kind.refunds) => (0..LONGEST).prop_map(Act::Refund),
    ];
    let step = (act, prop_oneof![1..=3_u64, costs(limit)]).prop_map(move |(act, cost)| {
        let mut step = Step::of_first(Move::Stay, act, cost);
        step.planned[0].limit = index;
        step
    });
    vec(step, 2..=12)
}

/// Returns histories that try to break the bound: they take everything around window boundaries,
/// and refund or settle much of it.
pub(crate) fn assaults(limit: &Limit) -> impl Strategy<Value = Vec<Step>> + use<> {
    let window_us = limit.algorithm().quota().window_us();
    let most = limit.algorithm().capacity() + 1;
    let time = prop_oneof![
        6 => Just(Move::Forward(0)),
        2 => Just(Move::Forward(1)),
        2 => Just(Move::Forward(window_us - 1)),
        1 => Just(Move::Forward(window_us)),
        2 => moves(limit, true),
    ];
    let act = prop_oneof![
        3 => Just((Act::Consume, 1)),
        3 => Just((Act::TakeUpTo, u64::MAX)),
        2 => (0..LONGEST).prop_map(|index| (Act::Refund(index), 0)),
        2 => (0..LONGEST, 0..=most).prop_map(|(index, cost)| (Act::Settle(index), cost)),
    ];
    let one = |(time, (act, cost))| Step::of_first(time, act, cost);
    // Refund the first call of a window at the window's end, then take what that frees.
    let take = (Act::TakeUpTo, u64::MAX);
    let worst = [
        (Move::Stay, (Act::Consume, 1)),
        (Move::Forward(window_us - 1), take),
        (Move::Stay, (Act::Refund(0), 0)),
        (Move::Stay, take),
        (Move::Forward(1), take),
    ];
    let worst: Vec<_> = worst.into_iter().map(one).collect();
    (
        any::<bool>(),
        vec((time, act).prop_map(one), 0..=LONGEST - worst.len()),
    )
        .prop_map(move |(worst_first, steps)| {
            let first = if worst_first {
                worst.clone()
            } else {
                Vec::new()
            };
            first.into_iter().chain(steps).collect()
        })
}

/// Returns histories whose requests each check one to five of `limits`, each limit for one of
/// `keys` keys, and no pair twice.
pub(crate) fn composites(
    limits: &[Limit],
    keys: usize,
    kind: Acts,
) -> impl Strategy<Value = Vec<Step>> + use<> {
    let moves = Union::new(limits.iter().map(|limit| moves(limit, kind.back).boxed()));
    let places: Vec<_> = (0..limits.len())
        .flat_map(|limit| (0..keys).map(move |key| (limit, key)))
        .collect();
    let costs: Vec<_> = limits.iter().map(|limit| costs(limit).boxed()).collect();
    let most = places.len().min(5);
    let planned = proptest::sample::subsequence(places, 1..=most)
        .prop_shuffle()
        .prop_flat_map(move |places| {
            let planned = places.into_iter().map(|(limit, key)| {
                // Most costs are small; otherwise nearly all composite requests would be denied.
                let cost = prop_oneof![4 => 0..=2u64, 1 => costs[limit].clone()];
                cost.prop_map(move |cost| PlannedCheck { limit, key, cost })
            });
            planned.collect::<Vec<_>>()
        });
    let step =
        (moves, acts(kind), planned).prop_map(|(time, act, planned)| Step { time, act, planned });
    vec(step, 0..=LONGEST)
}

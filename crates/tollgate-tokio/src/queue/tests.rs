//! Tests of `Queue`: it is compared with deficit round robin written plainly.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// With this urgency, flow and cost.
    Enter(u8, Option<u8>, u64),
    /// The next call is taken.
    Take,
    /// Any waiting call is taken.
    TakeAny(Index),
    Leave(Index),
    /// These concern a call that was taken.
    PutBack(Index),
    GiveUp(Index),
    Done(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let urgency =
        prop_oneof![4 => Just(USUAL), 1 => Just(0), 1 => Just(5), 1 => Just(LEAST_URGENT)];
    let cost = prop_oneof![6 => 1..4_u64, 2 => 4..13_u64, 1 => 40..61_u64];
    let enter = (urgency, prop::option::of(0..6_u8), cost);
    let enter = enter.prop_map(|(urgency, flow, cost)| Step::Enter(urgency, flow, cost));
    let index = any::<Index>;
    let step = prop_oneof![
        8 => enter,
        6 => Just(Step::Take),
        1 => index().prop_map(Step::TakeAny),
        2 => index().prop_map(Step::Leave),
        2 => index().prop_map(Step::PutBack),
        1 => index().prop_map(Step::GiveUp),
        3 => index().prop_map(Step::Done),
    ];
    prop::collection::vec(step, 1..120)
}

fn class(urgency: u8, flow: Option<u8>) -> Class {
    let mut class = Class::default();
    class.set_urgency(urgency);
    if let Some(flow) = flow {
        class.set_flow(Key::from(&flow.to_string()));
    }
    class
}

/// Deficit round robin, round by round.
#[derive(Clone, Default)]
struct Plain(BTreeMap<u8, PlainLevel>, u64);

#[derive(Clone, Default)]
struct PlainLevel {
    owed: u64,
    flows: Vec<PlainFlow>,
}

#[derive(Clone)]
struct PlainFlow {
    name: Option<u8>,
    since: u64,
    was_served: bool,
    units: i64,
    waiting: BTreeMap<u64, u64>,
    taken: usize,
}

impl PlainFlow {
    /// Returns how much more than the cost of its first call it has, and that call's number.
    fn surplus(&self) -> Option<(i64, u64)> {
        let (number, cost) = self.waiting.first_key_value()?;
        Some((self.units - i64::try_from(*cost).unwrap(), *number))
    }
}

impl PlainLevel {
    /// Plays rounds until a flow can pay. Returns its first call.
    fn play(&mut self) -> Option<u64> {
        self.flows.iter().find(|flow| !flow.waiting.is_empty())?;
        loop {
            let able = self.flows.iter().filter_map(|flow| {
                let (surplus, number) = flow.surplus()?;
                let age = Reverse((flow.was_served, flow.since));
                (surplus >= 0).then_some((surplus, age, number))
            });
            if let Some((.., number)) = able.max() {
                return Some(number);
            }
            self.flows.iter_mut().for_each(|flow| flow.units += 1);
        }
    }

    fn flow(&mut self, name: Option<u8>) -> &mut PlainFlow {
        let at = self.flows.iter().position(|flow| flow.name == name);
        let at = at.unwrap_or_else(|| {
            self.flows.push(PlainFlow {
                name,
                since: 0,
                was_served: false,
                units: 0,
                waiting: BTreeMap::new(),
                taken: 0,
            });
            self.flows.len() - 1
        });
        &mut self.flows[at]
    }

    fn first_cost(&self) -> Option<u64> {
        let number = self.clone().play()?;
        let mut flows = self.flows.iter();
        flows.find_map(|flow| flow.waiting.get(&number).copied())
    }
}

/// A call of a history, and what it did to credits when it was taken.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    urgency: u8,
    flow: Option<u8>,
    cost: u64,
    was_most_urgent: bool,
    paid: u64,
}

impl Plain {
    fn waiting(&self) -> impl Iterator<Item = (u8, &PlainLevel, u64)> {
        let levels = self.0.iter();
        levels.filter_map(|(urgency, level)| Some((*urgency, level, level.first_cost()?)))
    }

    fn price(&self, cost: u64) -> u64 {
        let levels = u64::try_from(self.waiting().count()).unwrap();
        7 * cost * levels.saturating_sub(1).max(1)
    }

    fn first(&self) -> Option<u64> {
        let most_urgent = self.waiting().next()?.1;
        let less_urgent = self.waiting().skip(1);
        let owed = less_urgent.filter(|(_, level, cost)| level.owed >= self.price(*cost));
        let owed = owed.max_by_key(|(_, level, cost)| level.owed - self.price(*cost));
        owed.map_or(most_urgent, |(_, level, _)| level)
            .clone()
            .play()
    }

    fn enter(&mut self, call: Call) {
        let level = self.0.entry(call.urgency).or_default();
        if level.first_cost().is_none() {
            level.owed = 0;
        }
        let flow = level.flow(call.flow);
        if flow.waiting.is_empty() {
            flow.units = flow.units.min(0);
            (flow.since, flow.was_served) = (call.number, false);
        }
        flow.waiting.insert(call.number, call.cost);
    }

    fn take(&mut self, call: &mut Call) {
        let price = self.price(call.cost);
        let most_urgent = self.waiting().next().map(|(urgency, ..)| urgency);
        call.was_most_urgent = most_urgent == Some(call.urgency);
        let level = self.0.get_mut(&call.urgency).unwrap();
        if level.clone().play() == Some(call.number) {
            level.play();
        }
        call.paid = level.owed.min(price);
        level.owed -= call.paid;
        let flow = level.flow(call.flow);
        flow.units -= i64::try_from(flow.waiting.remove(&call.number).unwrap()).unwrap();
        flow.taken += 1;
        (flow.since, flow.was_served) = (self.1, true);
        self.1 += 1;
        self.pass(call, |owed, cost| owed + cost);
    }

    /// Changes what less urgent levels are owed because of a call.
    fn pass(&mut self, call: &Call, change: impl Fn(u64, u64) -> u64) {
        for (urgency, level) in &mut self.0 {
            if call.was_most_urgent && *urgency > call.urgency && level.first_cost().is_some() {
                level.owed = change(level.owed, call.cost);
            }
        }
    }

    fn untake(&mut self, call: &Call, waits: bool) {
        let level = self.0.get_mut(&call.urgency).unwrap();
        level.owed += call.paid;
        let flow = level.flow(call.flow);
        if waits {
            if flow.waiting.is_empty() {
                flow.units = flow.units.min(1);
            }
            flow.waiting.insert(call.number, call.cost);
        }
        flow.units += i64::try_from(call.cost).unwrap();
        flow.taken -= 1;
        self.pass(call, u64::saturating_sub);
        self.tidy();
    }

    fn done(&mut self, call: &Call) {
        self.0.get_mut(&call.urgency).unwrap().flow(call.flow).taken -= 1;
        self.tidy();
    }

    fn leave(&mut self, call: &Call) {
        let flow = self.0.get_mut(&call.urgency).unwrap().flow(call.flow);
        flow.waiting.remove(&call.number);
        if let Some(cost) = flow.waiting.values().next() {
            flow.units = flow.units.min(i64::try_from(*cost).unwrap());
        }
        let first = self.0[&call.urgency].first_cost();
        let most = first.map_or(0, |cost| 7 * 7 * cost);
        let level = self.0.get_mut(&call.urgency).unwrap();
        level.owed = level.owed.min(most);
        self.tidy();
    }

    fn tidy(&mut self) {
        self.0.retain(|_, level| {
            let flows = &mut level.flows;
            flows.retain(|flow| !flow.waiting.is_empty() || flow.taken > 0);
            !flows.is_empty()
        });
    }
}

#[test]
fn order_is_that_of_deficit_round_robin_written_plainly() {
    // How often each kind of event happened.
    let seen = RefCell::new(BTreeMap::<&str, usize>::new());
    let config = ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let run = TestRunner::new(config).run(&steps(), |steps| {
        let mut seen = seen.borrow_mut();
        let (mut queue, mut plain) = (Queue::default(), Plain::default());
        let (mut waiting, mut taken) = (Vec::<(Call, Ticket)>::new(), Vec::new());
        for (number, step) in (0..).zip(&steps) {
            let before = plain.first();
            let mut see = |event, happened| {
                *seen.entry(event).or_default() += usize::from(happened);
            };
            match step {
                &Step::Enter(urgency, flow, cost) => {
                    let call = Call {
                        number,
                        urgency,
                        flow,
                        cost,
                        was_most_urgent: false,
                        paid: 0,
                    };
                    let ticket = Ticket::new(number, class(urgency, flow), cost);
                    plain.enter(call);
                    queue.enter(&ticket, cost.into());
                    waiting.push((call, ticket));
                    see(
                        "entered first",
                        plain.first() == Some(number) && before.is_some(),
                    );
                    let flows = plain.waiting().map(|(_, level, _)| level.flows.len());
                    see("many flows", flows.sum::<usize>() >= 8);
                }
                Step::Take | Step::TakeAny(_) if waiting.is_empty() => {}
                Step::Take | Step::TakeAny(_) => {
                    let of_first = |(call, _): &(Call, _)| Some(call.number) == before;
                    let at = match step {
                        Step::TakeAny(index) => index.index(waiting.len()),
                        _ => waiting.iter().position(of_first).unwrap(),
                    };
                    let (mut call, mut ticket) = waiting.remove(at);
                    plain.take(&mut call);
                    queue.take(&mut ticket);
                    see("costly call", call.cost >= 40);
                    let in_turn = Some(call.number) == before;
                    see("share", in_turn && !call.was_most_urgent);
                    see(
                        "later call",
                        in_turn && waiting.iter().any(|(other, _)| other.number < call.number),
                    );
                    taken.push((call, ticket));
                }
                Step::Leave(_) if waiting.is_empty() => {}
                Step::Leave(index) => {
                    let (call, ticket) = waiting.remove(index.index(waiting.len()));
                    plain.leave(&call);
                    queue.leave(&ticket);
                    see("first left", Some(call.number) == before);
                    see("other left", Some(call.number) != before);
                }
                _ if taken.is_empty() => {}
                Step::PutBack(index) | Step::GiveUp(index) | Step::Done(index) => {
                    let (call, ticket) = taken.remove(index.index(taken.len()));
                    match step {
                        Step::PutBack(_) => {
                            plain.untake(&call, true);
                            queue.put_back(&ticket, call.cost.into());
                            see("put back", true);
                            see("put back, not first", plain.first() != Some(call.number));
                            waiting.push((call, ticket));
                        }
                        Step::GiveUp(_) => {
                            plain.untake(&call, false);
                            queue.give_up(&ticket);
                            see("given up", true);
                        }
                        _ => {
                            plain.done(&call);
                            queue.done(&ticket);
                        }
                    }
                }
            }
            let first = queue.first().map(|(number, _)| number);
            assert_eq!(first, plain.first(), "after {step:?}");
        }
        for (call, ticket) in waiting {
            let sum = queue.cost_of(&class(call.urgency, call.flow)).unwrap();
            assert!(sum.of(0) >= call.cost.into());
            queue.leave(&ticket);
        }
        taken.iter().for_each(|(_, ticket)| queue.done(ticket));
        let Queue { usual, others, .. } = queue;
        assert!(usual.named.is_empty() && usual.order.is_empty() && others.is_empty());
        assert_eq!(usual.unnamed.cost.of(0), 0);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    // Each kind happens in histories of this length.
    let seen = seen.into_inner();
    assert!(seen.values().all(|count| *count > 40), "{seen:?}");
}

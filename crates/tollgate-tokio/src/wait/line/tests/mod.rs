//! Tests of lines: who asks when, what an answer changes, and who is refused.

mod answers;
mod asking;
mod deadlines;
mod flows;
mod leaving;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::store::{Operation, State, Verdict, Verdicts};
use tollgate_core::{Key, Limit, Timestamp, Wait};

use super::{Kept, Line, Position, Start, Starts, TICK, Turn};
use crate::costs::LimitCosts;
use crate::queue::{Class, Ticket};
use crate::wait::Patience;
use crate::wait::caller::Asker;
use crate::wait::error::{TooLong, WaitError};
use crate::wait::forecast::tests::{DECIDED, alice};

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
/// What the store's clock says when a scene starts.
const STORE_START: u64 = 1_700_000_000_000_000;

/// A line, the store that its calls ask, and the time. Nothing happens by itself.
struct Scene {
    limits: Vec<Limit>,
    store: Vec<State>,
    line: Line,
    now: Instant,
    started: Instant,
}

/// A call in the line.
struct Caller {
    position: Position,
    wake: Arc<Notify>,
}

impl Caller {
    /// Returns whether it was woken since this was last asked.
    fn was_woken(&self) -> bool {
        self.wake.notified().now_or_never().is_some()
    }
}

fn asker(limits: &[Limit]) -> Asker<'_> {
    Asker { limits }
}

impl Scene {
    fn new(limits: &[&str]) -> Self {
        let limits: Vec<Limit> = limits.iter().map(|text| text.parse().unwrap()).collect();
        let now = Instant::now();
        Self {
            store: vec![State::default(); limits.len()],
            limits,
            line: Line::new(false, now),
            now,
            started: now,
        }
    }

    fn try_enter(&mut self, cost: u64, longest: Duration) -> Result<Caller, TooLong> {
        self.try_enter_as(&Class::default(), cost, longest)
    }

    fn try_enter_as(
        &mut self,
        class: &Class,
        cost: u64,
        longest: Duration,
    ) -> Result<Caller, TooLong> {
        let patience = Patience {
            since: self.now,
            longest,
            most: usize::MAX,
        };
        self.enter_with(class, cost, patience)
            .map_err(|error| match error {
                WaitError::TooLong(refused) => refused,
                error => panic!("{error}"),
            })
    }

    fn enter_with(
        &mut self,
        class: &Class,
        cost: u64,
        patience: Patience,
    ) -> Result<Caller, WaitError> {
        let (asker, wake) = (asker(&self.limits), Arc::new(Notify::new()));
        let (line, woken) = (&mut self.line, Arc::clone(&wake));
        let position = line.enter(asker, class, cost.into(), patience, self.now, woken)?;
        Ok(Caller { position, wake })
    }

    fn enter(&mut self, cost: u64) -> Caller {
        self.try_enter(cost, Duration::MAX).unwrap()
    }

    /// Returns for how long a call of this cost would have to wait.
    fn wait_of(&mut self, cost: u64) -> Duration {
        match self.try_enter(cost, Duration::ZERO) {
            Ok(caller) => {
                self.leave(&caller);
                Duration::ZERO
            }
            Err(refused) => refused.wait().duration().unwrap(),
        }
    }

    fn is_idle(&self) -> bool {
        self.line.idle_from().is_some_and(|from| from <= self.now)
    }

    fn turn(&mut self, caller: &Caller) -> Turn {
        let asker = asker(&self.limits);
        self.line.turn(asker, &caller.position, self.now)
    }

    #[track_caller]
    fn asks(&mut self, caller: &Caller) {
        let turn = self.turn(caller);
        assert!(matches!(turn, Turn::Ask(_)), "{}", shown(&turn));
    }

    /// Returns how long the call waits from now, at most.
    #[track_caller]
    fn waits(&mut self, caller: &Caller) -> Option<Duration> {
        match self.turn(caller) {
            Turn::Wait(until) => until.map(|until| until.duration_since(self.now)),
            turn => panic!("{} instead of a wait", shown(&turn)),
        }
    }

    #[track_caller]
    fn is_admitted(&mut self, caller: &Caller) -> Start {
        match self.turn(caller) {
            Turn::Admitted(start) => start,
            turn => panic!("{} instead of a start", shown(&turn)),
        }
    }

    #[track_caller]
    fn is_too_long(&mut self, caller: &Caller) -> TooLong {
        match self.turn(caller) {
            Turn::TooLong(refused) => refused,
            turn => panic!("{} instead of a refusal", shown(&turn)),
        }
    }

    /// The store decides on a call of this cost now.
    fn decide(&mut self, cost: u64) -> Verdicts {
        self.decide_by(Operation::Consume, cost)
    }

    fn decide_by(&mut self, operation: Operation<'_>, cost: u64) -> Verdicts {
        let passed = self.now.duration_since(self.started).as_micros();
        let now = Timestamp::from_micros(STORE_START + u64::try_from(passed).unwrap());
        let asker = asker(&self.limits);
        let request = asker.request(operation, &cost.into(), alice);
        request.decide_on(&mut self.store[..], now.unwrap())
    }

    /// The answer to a call that was sent at `asked` arrives. Returns what the call may use now.
    fn answer(
        &mut self,
        caller: &Caller,
        asked: Instant,
        answer: Option<&Verdicts>,
    ) -> Option<Start> {
        let answer = answer.map(Verdicts::again);
        self.answer_to(caller, (asked, Operation::Consume), answer)
    }

    fn answer_to(
        &mut self,
        caller: &Caller,
        (asked, operation): (Instant, Operation<'_>),
        answer: Option<Verdicts>,
    ) -> Option<Start> {
        let asker = asker(&self.limits);
        let answered =
            self.line
                .answered(asker, &caller.position, asked, operation, answer, self.now);
        answered.unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// The call asks, is decided and answered now. Tells whether it was allowed.
    #[track_caller]
    fn ask(&mut self, caller: &Caller) -> bool {
        self.asks(caller);
        let answer = self.decide(caller.position.cost.of(0));
        self.answer(caller, self.now, Some(&answer));
        answer.is_allowed()
    }

    fn leave(&mut self, caller: &Caller) {
        let asker = asker(&self.limits);
        self.line.leave(asker, caller.position.number, self.now);
    }
}

/// Returns the ticket of the call with this number, which costs 1, as it was taken.
fn taken(starts: &mut Starts, number: u64) -> Ticket {
    let mut ticket = Ticket::new(number, Class::default(), 1);
    starts.enter(&mut ticket, &1.into(), Instant::now());
    starts.take_waiting(&mut ticket, &1.into());
    ticket
}

fn shown(turn: &Turn) -> String {
    match turn {
        Turn::Ask(operation) => format!("Ask({operation:?})"),
        Turn::Admitted(_) => "Admitted".to_owned(),
        Turn::Wait(until) => format!("Wait({until:?})"),
        Turn::TooLong(refused) => format!("TooLong({refused})"),
        Turn::Gone => "Gone".to_owned(),
    }
}

/// Returns a line of three calls that have reserved starts, 10 ms apart.
fn with_starts() -> (Scene, [Caller; 3]) {
    let mut scene = Scene::new(&["l=gcra:100/1s,burst=1"]);
    scene.line = Line::new(true, scene.now);
    let operation = Operation::Reserve { max_delay: SECOND };
    let mut reserve = || {
        let caller = scene.enter(1);
        scene.asks(&caller);
        let answer = scene.decide_by(operation, 1);
        let start = scene.answer_to(&caller, (scene.now, operation), Some(answer));
        (caller, start)
    };
    assert!(reserve().1.is_some());
    let callers = [10, 20, 30].map(|wait| {
        let (caller, start) = reserve();
        assert!(start.is_none());
        (caller, Duration::from_millis(wait))
    });
    let callers = callers.map(|(caller, wait)| {
        caller.was_woken();
        assert_eq!(scene.waits(&caller), Some(wait));
        caller
    });
    (scene, callers)
}

//! Loading a script fails: which errors callers get.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Key, StoreError};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

use crate::engine::{limit, now};

/// What comes of something that is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The script is not known.
    NoScript,
    /// The connection is lost before the reply comes.
    Lost,
    /// No reply comes before the deadline.
    Silence,
    /// It is done, with a reply that allows the first call.
    Done,
}

use Outcome::{Done, Lost, NoScript, Silence};

/// Answers each script, and each script that is loaded, with the next of these.
struct Scripted {
    runs: Mutex<Vec<Outcome>>,
    loads: Mutex<Vec<Outcome>>,
    /// What `Debug` shows of the calls.
    shown: Mutex<String>,
}

fn next(outcomes: &Mutex<Vec<Outcome>>) -> Outcome {
    outcomes.lock().unwrap().remove(0)
}

async fn come(outcome: Outcome) -> Result<Vec<u8>, Failure> {
    match outcome {
        NoScript => Err(Failure::refused("NOSCRIPT No matching script.", "NOSCRIPT")),
        Lost => Err(Failure::lost("the connection was lost")),
        Silence => std::future::pending().await,
        Done => {
            let mut reply = vec![1];
            reply.extend_from_slice(&5_f64.to_le_bytes());
            reply.extend_from_slice(&0_u16.to_le_bytes());
            Ok(reply)
        }
    }
}

impl Engine for Scripted {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        *self.shown.lock().unwrap() += &format!("{call:?} {call:#?}");
        come(next(&self.runs)).await
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        come(next(&self.loads)).await.map(drop)
    }

    async fn forget(&self, _keys: &[Vec<u8>]) -> Result<(), Failure> {
        Ok(())
    }

    /// What does not come at once does not come before the deadline.
    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let mut work = pin!(work);
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_clustered(&self) -> bool {
        false
    }
}

fn store(runs: &[Outcome], loads: &[Outcome]) -> WireStore<Scripted> {
    let engine = Scripted {
        runs: Mutex::new(runs.to_vec()),
        loads: Mutex::new(loads.to_vec()),
        shown: Mutex::default(),
    };
    WireStore::new(engine, Options::new())
}

/// Consumes one unit, and checks that everything was sent that is scripted.
fn consume(runs: &[Outcome], loads: &[Outcome]) -> Result<(), StoreError> {
    let store = store(runs, loads);
    let limit = limit("gcra:5/1s");
    let outcome = now(store.execute(&Request::consume(Check::new(&limit, "k", 1))));
    let Scripted { runs, loads, .. } = store.engine();
    assert!(runs.lock().unwrap().is_empty() && loads.lock().unwrap().is_empty());
    outcome.map(drop)
}

#[track_caller]
fn fails(kind: ErrorKind, runs: &[Outcome], loads: &[Outcome]) {
    let error = consume(runs, loads).unwrap_err();
    assert_eq!(error.kind(), kind, "{runs:?} {loads:?}: {error}");
}

#[test]
fn a_call_is_sent_again_after_loading_its_script() {
    consume(&[NoScript, Done], &[Done]).unwrap();
    consume(&[NoScript, NoScript, Done], &[Done, Done]).unwrap();
}

#[test]
fn a_timeout_while_loading_a_script_counts_nothing() {
    fails(ErrorKind::Unavailable, &[NoScript], &[Silence]);
    fails(
        ErrorKind::Unavailable,
        &[NoScript, NoScript],
        &[Done, Silence],
    );
}

#[test]
fn a_lost_connection_while_loading_a_script_counts_nothing() {
    fails(ErrorKind::Unavailable, &[NoScript], &[Lost]);
}

#[test]
fn a_call_that_was_sent_may_have_been_counted() {
    for last in [Silence, Lost] {
        fails(ErrorKind::Unknown, &[last], &[]);
        // Once the script is loaded, the call is out again.
        fails(ErrorKind::Unknown, &[NoScript, last], &[Done]);
    }
}

#[test]
fn a_script_that_cannot_be_kept_loaded_counts_nothing() {
    fails(ErrorKind::Unavailable, &[NoScript; 5], &[Done; 4]);
}

#[test]
fn debug_of_a_call_shows_no_key() {
    let store = store(&[Done], &[]);
    let limit = limit("gcra:5/1s");
    let key = Key::from("carol4711").with_rest("dave0815");
    let _ = now(store.execute(&Request::consume(Check::new(&limit, key, 1)))).unwrap();
    let shown = store.engine().shown.lock().unwrap();
    assert!(shown.contains("keys: 1") && shown.contains("argument_bytes: "));
    for secret in [&b"carol4711"[..], b"dave0815"] {
        let text = std::str::from_utf8(secret).unwrap();
        let digits = format!("{secret:?}");
        let digits = digits.trim_matches(['[', ']']);
        assert!(!shown.contains(text) && !shown.contains(digits), "{shown}");
    }
}

//! How large a decision's future is: it is allocated and copied for every call.

use std::future;
use std::time::{Duration, SystemTime};

use tollgate_core::store::{Check, Request};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

use crate::engine::{limit, never_waits};

const LARGE: usize = 4_096;

/// An engine whose futures are as large as those of some client crates.
struct Large;

async fn large() -> Vec<u8> {
    let held = [0; LARGE];
    future::ready(()).await;
    held.to_vec()
}

impl Engine for Large {
    async fn run(&self, _: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        Ok(large().await)
    }

    async fn load(&self, _: &ScriptCall<'_>) -> Result<(), Failure> {
        large().await;
        Ok(())
    }

    async fn forget(&self, _: &[Vec<u8>]) -> Result<(), Failure> {
        large().await;
        Ok(())
    }

    never_waits!();

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn is_clustered(&self) -> bool {
        false
    }
}

#[test]
fn a_decision_holds_the_engines_future_once() {
    let store = WireStore::new(Large, Options::new());
    let limit = limit("gcra:10/1m");
    let request = Request::consume(Check::new(&limit, "k", 1));
    let decision = size_of_val(&store.execute(&request));
    assert!(decision < LARGE + LARGE / 4, "{decision} bytes");
    let reset = size_of_val(&store.reset(request.checks()));
    assert!(reset < LARGE + LARGE / 4, "{reset} bytes");
}

//! Flows take turns, and urgent calls go first: for checks, for calls to a service, and for leases.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;
use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_memory::MemoryStore;
use tollgate_tokio::{LeaseGuard, Outbound, WaitUpTo};

use crate::clock::TokioClock;
use crate::waiting::{Limiter, MINUTE, Remote, limiter};

/// One call is served in this time.
const TIME: Duration = Duration::from_millis(50);
const USUAL: u8 = 3;

/// What serves calls one after the other.
#[derive(Clone)]
enum Server {
    Check(Limiter),
    Outbound(Outbound<Arc<Remote>>),
    Lease(ConcurrencyLimiter<Arc<MemoryStore>>),
}

fn servers() -> [Server; 4] {
    let check = |limit| Server::Check(limiter(&[limit]).1);
    let outbound = Outbound::builder(Remote::new(), ["l=gcra:20/1s,burst=1"]).build();
    let store = Arc::new(MemoryStore::builder().clock(TokioClock::new()).build());
    [
        check("l=sliding-log:1/50ms"),
        check("l=gcra:20/1s,burst=1"),
        Server::Outbound(outbound.unwrap()),
        Server::Lease(ConcurrencyLimiter::new(store, "l", 1, MINUTE).unwrap()),
    ]
}

impl Server {
    async fn serve(&self, (urgency, flow): Call) {
        match self {
            Self::Check(limiter) => {
                let call = limiter.check("key").wait_up_to(MINUTE);
                call.flow(flow).urgency(urgency).await.unwrap();
            }
            Self::Outbound(outbound) => {
                let call = outbound.call("key").wait_up_to(MINUTE);
                call.flow(flow).urgency(urgency).await.unwrap();
            }
            Self::Lease(limiter) => {
                let call = LeaseGuard::acquire(limiter, "key").wait_up_to(MINUTE);
                let guard = call.flow(flow).urgency(urgency).await.unwrap();
                tokio::spawn(async move {
                    sleep(TIME).await;
                    drop(guard);
                });
            }
        }
    }
}

/// The urgency and the flow of a call.
type Call = (u8, &'static str);

/// Calls that were started, and those that were served, in this order.
struct Calls {
    server: Server,
    started: Vec<JoinHandle<()>>,
    served: Arc<Mutex<Vec<Call>>>,
}

impl Calls {
    fn new(server: Server) -> Self {
        Self {
            server,
            started: Vec::new(),
            served: Arc::default(),
        }
    }

    async fn start(&mut self, call: Call, count: usize) {
        for _ in 0..count {
            let (server, served) = (self.server.clone(), Arc::clone(&self.served));
            self.started.push(tokio::spawn(async move {
                server.serve(call).await;
                served.lock().unwrap().push(call);
            }));
            yield_now().await;
        }
    }

    /// Lets this many calls be served, and returns the flows of all that were, as letters.
    async fn served(&self, count: usize) -> String {
        let all = || self.served.lock().unwrap().len();
        let until = all() + count;
        while all() < until {
            sleep(TIME / 10).await;
        }
        let served = self.served.lock().unwrap();
        served.iter().map(|(_, flow)| *flow).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn least_urgent_calls_get_their_share_of_a_permanent_load() {
    for server in servers() {
        let mut calls = Calls::new(server);
        for (urgency, flow, count) in [(7, "7", 10), (USUAL, "3", 10), (0, "0", 100)] {
            calls.start((urgency, flow), count).await;
        }
        // The first ones of 7 did not wait, or were on their way before the others came.
        let before = calls.served(4).await.len();
        let served = calls.served(64).await;
        let count = |flow| served[before..].matches(flow).count();
        assert_eq!(["0", "3", "7"].map(count), [56, 4, 4], "{served}");
    }
}

/// Whether it is the next one or not, also if it has asked the store.
#[tokio::test(start_paused = true)]
async fn call_that_leaves_changes_nothing_for_other_flows() {
    for server in servers() {
        let mut calls = Calls::new(server);
        calls.start((USUAL, "a"), 30).await;
        calls.start((USUAL, "b"), 30).await;
        for leaves in [20, 25, 3, 40, 6, 5, 7, 8, 41, 33, 34, 9] {
            calls.started[leaves].abort();
            calls.served(1).await;
            sleep(TIME / 2).await;
        }
        let served = calls.served(24).await;
        assert!(
            !served.contains("bb") && !served[2..].contains("aa"),
            "{served}"
        );
    }
}

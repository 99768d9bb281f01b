//! Several processes of a fleet, played by as many `Outbound`s on one store, call a service that
//! enforces a limit of its own when their requests arrive. It refuses none of them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_conformance::naive::Naive;
use tollgate_http::outbound::OutboundLayer;
use tollgate_tokio::Outbound;
use tower::{Layer, Service as _, ServiceExt, service_fn};

use super::remote::{key, request, store};

const PROCESSES: usize = 4;
/// How many requests of each process wait at a time.
const WAITING: usize = 20;
const SPAN: Duration = Duration::from_secs(3);
/// By how much journeys to the service differ.
const MARGIN: Duration = Duration::from_millis(150);

/// What the service has counted, how many requests it has accepted, and the latest random number.
struct Counted(Naive, u64, u64);

/// Calls a service that enforces `rule` from all processes, which keep to `limit`. Returns how many
/// requests it accepted.
async fn accepted(rule: &str, limit: &str) -> u64 {
    let counted = Naive::of(&rule.parse().unwrap()).unwrap();
    let counted = Arc::new(Mutex::new(Counted(counted, 0, 1)));
    let (store, started) = (store(), Instant::now());
    let mut calling = JoinSet::new();
    for _ in 0..PROCESSES {
        let outbound = Outbound::builder(Arc::clone(&store), [limit]);
        let outbound = outbound.margin(MARGIN).build().unwrap();
        let layer = OutboundLayer::new(outbound, key, SPAN);
        for _ in 0..WAITING {
            let counted = Arc::clone(&counted);
            let mut client = layer.layer(service_fn(move |_: Request<String>| {
                let counted = Arc::clone(&counted);
                async move {
                    let random = {
                        let random = &mut counted.lock().unwrap().2;
                        *random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        u32::try_from(*random >> 32).unwrap()
                    };
                    sleep(MARGIN * (random % 151) / 150).await;
                    let now = u64::try_from(started.elapsed().as_micros()).unwrap();
                    let mut counted = counted.lock().unwrap();
                    assert!(counted.0.consume(now, 1).allowed, "refused at {now} us");
                    counted.1 += 1;
                    Ok::<_, Infallible>(Response::new(()))
                }
            }));
            calling.spawn(async move {
                loop {
                    let response = client.ready().await.unwrap().call(request("GET"));
                    // The last permits would come after the end.
                    let Ok(Ok(_)) = timeout_at(started + SPAN, response).await else {
                        return;
                    };
                }
            });
        }
    }
    while let Some(done) = calling.join_next().await {
        done.unwrap();
    }
    counted.lock().unwrap().1
}

#[tokio::test(start_paused = true)]
async fn a_service_refuses_nothing_whatever_journeys_take() {
    for (rule, limit, least) in [
        // 40 per 400 ms; the end of the last window may be missed.
        ("fixed-window:40/250ms", "sliding-log:40/250ms", 280),
        ("sliding-log:40/250ms", "sliding-log:40/250ms", 280),
        ("gcra:200/1s,burst=40", "gcra:200/1s,burst=40", 550),
    ] {
        let accepted = accepted(&format!("service={rule}"), &format!("api={limit}")).await;
        assert!(accepted >= least, "{rule}: {accepted}");
    }
}

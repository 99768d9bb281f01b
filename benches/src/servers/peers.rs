//! Other rate limiters, as subjects to compare the library with.

use std::sync::Arc;

use super::Connect;
use super::clients::{Client, RedisRs};
use super::keys::Keys;
use super::measure::{KEYS, Plan, Point, row};
use super::run::{Subject, erase};
use crate::{Outcome, Peer, Problem};

/// A peer, and its keys.
struct Called {
    peer: Box<dyn Peer>,
    outcome: Outcome,
    keys: Arc<Keys>,
}

impl Called {
    /// Calls the peer with a key that it has under no other quota.
    async fn check(&self, key: &str) -> Result<bool, Problem> {
        self.peer.check(&format!("{:?}:{key}", self.outcome)).await
    }
}

impl Subject for Called {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        self.check(self.keys.name(turn)).await
    }
}

/// Returns the points of the peers that `connect` returns, if their rows contain `filter`.
pub(crate) async fn all(
    url: &str,
    plan: &Plan,
    filter: &str,
    connect: Connect,
) -> Result<Vec<Point>, Problem> {
    let mut points = Vec::new();
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        for (name, peer) in connect(url, outcome).await? {
            let keys = Arc::new(Keys::new(KEYS));
            let subject = Called {
                peer,
                outcome,
                keys: Arc::clone(&keys),
            };
            if outcome == Outcome::Denied {
                for key in keys.names() {
                    subject.check(key).await?;
                }
            }
            points.push(Point {
                row: row(&format!("peer: {name}"), outcome),
                client: RedisRs::NAME,
                runs: erase(subject),
                keys,
                warm_up: plan.warm_up,
                expected: Some(outcome),
            });
        }
    }
    points.retain(|point| point.row.contains(filter));
    Ok(points)
}

//! `Places`: how many calls may be in flight, and how clients connect again between them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::interfaces::ClientLike;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{self, Instant};

use crate::connection::{Clients, MOST_IN_FLIGHT};

/// The longest time that calls wait for clients that connect again; later, fred refuses them.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A permit for each call that may be in flight.
#[derive(Debug)]
pub(crate) struct Places {
    permits: Arc<Semaphore>,
    connected: Mutex<Instant>,
}

impl Places {
    pub(crate) fn new() -> Self {
        let all = usize::try_from(MOST_IN_FLIGHT).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(all)),
            connected: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a place; the call is over when it is dropped.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes the semaphore.
        self.permits.acquire().await.ok()
    }

    /// Connects `clients` again in the background, unless that was done less than `interval` ago.
    ///
    /// It takes all places first. So no call is in flight when fred drops the connections, and none
    /// loses its reply.
    pub(crate) fn connect_again(&self, clients: &impl Clients, interval: Duration) {
        {
            let connected = self.connected.lock();
            let mut connected = connected.unwrap_or_else(PoisonError::into_inner);
            if connected.elapsed() < interval {
                return;
            }
            *connected = Instant::now();
        }
        let (permits, clients) = (Arc::clone(&self.permits), clients.clone());
        tokio::spawn(async move {
            let _all = permits.acquire_many(MOST_IN_FLIGHT).await;
            let clients = clients.all().iter();
            let connected = join_all(clients.map(ClientLike::force_reconnection));
            // fred goes on connecting if this ends first.
            let _ = time::timeout(LONGEST_WAIT, connected).await;
        });
    }
}

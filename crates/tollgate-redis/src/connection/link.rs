//! `Link`: one connection to a server, from the attempt to connect until it is of no more use.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, PushInfo, PushKind, RedisError, RedisResult};
use tokio::sync::watch;
use tollgate_wire::Failure;

use super::multiplexed;
use crate::failure;

/// How long a server's refusal to let the client in answers further calls, so that not every call
/// asks it.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// One attempt to connect, and the connection that it made.
///
/// A task connects, so it goes on if the call that needed the connection ends first. The task ends
/// with its runtime, and so does the one that drives the connection.
pub(super) struct Link {
    begun: Instant,
    /// Whether the connection is lost, or leads to a server that is out of service.
    is_spent: Arc<AtomicBool>,
    outcome: watch::Receiver<Option<RedisResult<MultiplexedConnection>>>,
}

impl Link {
    /// Starts to connect to the server of `client`, on the current runtime.
    pub(super) fn open(client: &Client) -> Self {
        let is_spent = Arc::<AtomicBool>::default();
        let mut config = multiplexed();
        let settings = client.get_connection_info().redis_settings();
        if settings.protocol().supports_resp3() {
            let is_spent = Arc::clone(&is_spent);
            config = config.set_push_sender(move |news: PushInfo| {
                if news.kind == PushKind::Disconnection {
                    is_spent.store(true, Ordering::Release);
                }
                Ok::<(), ()>(())
            });
        }
        let (tell, outcome) = watch::channel(None);
        let client = client.clone();
        tokio::spawn(async move {
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            tell.send_replace(Some(connection.await));
            // Until nothing needs the connection any more.
            tell.closed().await;
        });
        Self {
            begun: Instant::now(),
            is_spent,
            outcome,
        }
    }

    /// Returns the connection once there is one, or why there is none.
    pub(super) async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        if let Some(outcome) = &*self.outcome.borrow() {
            return outcome.clone();
        }
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Err(unsent("the runtime that connected has ended")),
        }
    }

    /// Returns the connection, or after `patience` an error that says that nothing was sent.
    pub(super) async fn within(&self, patience: Duration) -> RedisResult<MultiplexedConnection> {
        match tokio::time::timeout(patience, self.connection()).await {
            Ok(connection) => connection.map_err(not_sent),
            Err(_) => Err(unsent(format!("connecting takes longer than {patience:?}"))),
        }
    }

    /// Returns whether calls need another connection.
    pub(super) fn is_over(&self) -> bool {
        let has_lost_its_runtime = self.outcome.has_changed().is_err();
        has_lost_its_runtime
            || self.is_spent.load(Ordering::Acquire)
            || match &*self.outcome.borrow() {
                Some(Err(error)) => error.is_io_error() || self.begun.elapsed() >= PAUSE,
                Some(Ok(_)) | None => false,
            }
    }

    /// Takes note of how a call ended. A server that is out of service is left once the connection
    /// is as old as `patience`.
    pub(super) fn ended(&self, error: &RedisError, patience: Duration) {
        let is_broken = error.is_unrecoverable_error();
        if is_broken || self.begun.elapsed() >= patience && failure::is_out_of_service(error) {
            self.is_spent.store(true, Ordering::Release);
        }
    }
}

/// Returns an error of connecting, so that it says that nothing was sent.
fn not_sent(error: RedisError) -> RedisError {
    match failure::of(error.clone()) {
        Failure::Lost(_) | Failure::Malformed(_) => unsent(error),
        _ => error,
    }
}

/// Returns an error that says that nothing was sent: a refused connection.
pub(super) fn unsent(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionRefused, reason).into()
}

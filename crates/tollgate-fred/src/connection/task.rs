//! `Connection`: the task of a client, which is restarted when it stops by itself.

use std::future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::ConnectHandle;
use tokio::task::JoinHandle;
use tokio::time;

/// How long to wait before a client that has stopped is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// The task of a client, which is restarted when it stops by itself, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection(JoinHandle<()>);

impl Connection {
    pub(crate) async fn open(client: &Client) -> Result<Self, Error> {
        // Not `init`: if this future were dropped while it waits, fred's task would go on forever.
        let mut connected = pin!(client.wait_for_connect());
        // Poll it before connecting, because it only sees what happens after its first poll.
        let first = future::poll_fn(|context| Poll::Ready(connected.as_mut().poll(context))).await;
        let task = Task(client.connect());
        match first {
            Poll::Ready(already) => already?,
            Poll::Pending => connected.await?,
        }
        Ok(Self(tokio::spawn(keep(client.clone(), task))))
    }

    /// Returns whether the task has ended: with its runtime, or after someone called the client's
    /// `quit`.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// fred's task, which ends when this is dropped.
struct Task(ConnectHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps `client` running until someone calls its `quit`.
///
/// fred's task ends on some passing failures, such as a full queue at the moment when the
/// connection is lost. Nothing would connect the client again then.
async fn keep(client: Client, mut task: Task) {
    loop {
        match (&mut task.0).await {
            Ok(Ok(())) => return,
            Err(error) if error.is_cancelled() => return,
            Ok(Err(_)) | Err(_) => {}
        }
        time::sleep(RESTART_PAUSE).await;
        task = Task(client.connect());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fred::error::ErrorKind;
    use tollgate_testkit::FakeServer;

    use super::super::builder;
    use super::*;

    /// Keeps a client whose task is `task`, and returns whether and when it was started again.
    async fn restarted(task: ConnectHandle) -> Option<Duration> {
        let server = FakeServer::start(|_| "+OK\r\n".into());
        let builder = builder(server.url(), Duration::from_millis(500)).unwrap();
        let client = builder.build().unwrap();
        let begun = Instant::now();
        let kept = keep(client.clone(), Task(task));
        let connected = async {
            client.wait_for_connect().await.unwrap();
            begun.elapsed()
        };
        tokio::select! {
            () = kept => None,
            after = connected => Some(after),
        }
    }

    #[tokio::test]
    async fn a_client_that_stopped_by_itself_is_started_again() {
        let failed = tokio::spawn(async { Err(Error::new(ErrorKind::IO, "queue full")) });
        assert!(restarted(failed).await.unwrap() >= RESTART_PAUSE);
        let panicked = tokio::spawn(async { panic!("a task of fred") });
        assert!(restarted(panicked).await.unwrap() >= RESTART_PAUSE);
    }

    #[tokio::test]
    async fn a_client_that_was_stopped_is_left_alone() {
        assert_eq!(restarted(tokio::spawn(async { Ok(()) })).await, None);
        let aborted = tokio::spawn(future::pending());
        aborted.abort();
        assert_eq!(restarted(aborted).await, None);
    }
}

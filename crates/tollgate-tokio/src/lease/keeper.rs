//! `Keeper`: the background task that renews a lease, and gives it back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::lease::{self, ConcurrencyLimiter, Lease};
use tollgate_core::{ErrorKind, Key, StoreError};

use super::guard::LeaseGuard;
use super::line::{Lines, Release};
use super::standing::Standing;
use crate::key::OwnedKey;

/// A lease is renewed after this part of the time for which it is valid: one in three.
const RENEWALS: u32 = 3;

/// After a renewal failed, the next one follows after this part of that time.
const RETRIES: u32 = 20;

/// Who asks the background task to release the lease; dropping this does so, too.
pub(super) type Stop = oneshot::Sender<oneshot::Sender<Result<bool, StoreError>>>;

/// Starts the background task of a lease that was asked for at `asked`.
pub(super) fn hold<S: lease::Store + 'static>(
    limiter: ConcurrencyLimiter<S>,
    key: OwnedKey,
    lease: Lease,
    asked: Instant,
) -> LeaseGuard {
    let (standing, observed) = watch::channel(Standing::Held(asked + lease.valid_for()));
    let (stop, stopped) = oneshot::channel();
    let handover = Arc::new(Handover {
        lines: Lines::of(&limiter),
        key,
        stage: Mutex::new(Stage::Held),
    });
    let keeper = Keeper {
        limiter,
        lease: lease.clone(),
        standing,
        end: End(Arc::clone(&handover)),
    };
    tokio::spawn(keeper.run(asked, stopped));
    LeaseGuard {
        lease,
        standing: observed,
        stop: Some(stop),
        handover,
    }
}

/// What a guard and its background task know of each other.
pub(super) struct Handover {
    lines: Arc<Lines>,
    key: OwnedKey,
    stage: Mutex<Stage>,
}

/// Who cares for a lease.
enum Stage {
    /// The guard holds it.
    Held,
    /// The guard has gone, and the background task is about to release the lease.
    Releasing {
        /// Dropping this tells those who wait for the release.
        _release: Release,
    },
    /// The background task has ended, or does nothing more for the guard.
    Over,
}

impl Handover {
    /// Begins the release, if the background task can still do it. From now on, acquisitions of the
    /// same key wait for it.
    pub(super) fn begin(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Held) {
            let _release = self.lines.release(&self.key);
            *stage = Stage::Releasing { _release };
        }
    }

    fn end(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = Stage::Over;
    }
}

/// Ends a release when the background task ends, even if that ends with its runtime.
struct End(Arc<Handover>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The background task that renews a lease.
struct Keeper<S> {
    limiter: ConcurrencyLimiter<S>,
    lease: Lease,
    standing: watch::Sender<Standing>,
    end: End,
}

/// A renewal that has not been answered.
type Asked<'k> =
    std::pin::Pin<Box<dyn Future<Output = Result<Option<Lease>, StoreError>> + Send + 'k>>;

/// The result of trying to renew a lease until it ends.
enum Renewal<'k> {
    /// How long the lease is valid from when it was asked for.
    Renewed(Instant, Duration),
    /// The store has ended it.
    Ended,
    /// The time is over.
    Over {
        /// A renewal that the store has not answered.
        late: Option<Asked<'k>>,
        /// Whether the store may have executed one that failed.
        may_be_renewed: bool,
    },
}

impl<S: lease::Store> Keeper<S> {
    fn key(&self) -> Key<'_> {
        self.end.0.key.as_key()
    }

    /// Renews the lease until the guard is dropped or released, or the lease is lost.
    async fn run(
        self,
        mut asked: Instant,
        mut stopped: oneshot::Receiver<oneshot::Sender<Result<bool, StoreError>>>,
    ) {
        let mut valid_for = self.lease.valid_for();
        let (late, may_be_renewed) = loop {
            let renewal = tokio::select! {
                biased;
                answer = &mut stopped => {
                    let released = self.limiter.release(self.key(), &self.lease).await;
                    if let Ok(answer) = answer {
                        // Nobody may be waiting any more.
                        let _ = answer.send(released);
                    }
                    return;
                }
                renewal = self.renew(asked, valid_for) => renewal,
            };
            match renewal {
                Renewal::Renewed(at, lasts) if self.prolong(at + lasts) => {
                    (asked, valid_for) = (at, lasts);
                }
                Renewal::Renewed(..) => break (None, true),
                Renewal::Over {
                    late,
                    may_be_renewed,
                } => break (late, may_be_renewed),
                Renewal::Ended => {
                    self.standing.send_replace(Standing::Lost);
                    return;
                }
            }
        };
        self.standing.send_replace(Standing::Lost);
        drop(stopped);
        self.end.0.end();
        // The store may execute a renewal that it answers too late. Then the lease would keep a place
        // that nobody believes to have. If it cannot be given back, it ends by itself.
        let may_be_renewed = match late {
            Some(late) => !matches!(late.await, Ok(None)),
            None => may_be_renewed,
        };
        if !may_be_renewed {
            return;
        }
        let Handover { lines, key, .. } = &*self.end.0;
        let _release = lines.release(key);
        let _ = self.limiter.release(self.key(), &self.lease).await;
    }

    /// Holds the lease until `deadline`, and returns whether the renewal came in time: if not, the
    /// lease is lost, because somebody may have been told so.
    fn prolong(&self, deadline: Instant) -> bool {
        self.standing.send_if_modified(|standing| {
            let is_held = standing.is_held();
            if is_held {
                *standing = Standing::Held(deadline);
            }
            is_held
        })
    }

    /// Waits until a part of the time has passed, and then tries to renew the lease until it ends.
    async fn renew(&self, asked: Instant, valid_for: Duration) -> Renewal<'_> {
        let deadline = asked + valid_for;
        let mut next = asked + valid_for / RENEWALS;
        let mut may_be_renewed = false;
        loop {
            sleep_until(next.min(deadline)).await;
            let asked = Instant::now();
            if asked >= deadline {
                return Renewal::Over {
                    late: None,
                    may_be_renewed,
                };
            }
            let mut call = self.limiter.renew(self.key(), &self.lease).into_future();
            match timeout_at(deadline, &mut call).await {
                Ok(Ok(Some(lease))) => return Renewal::Renewed(asked, lease.valid_for()),
                Ok(Ok(None)) => return Renewal::Ended,
                Ok(Err(error)) => {
                    may_be_renewed |= error.kind() == ErrorKind::Unknown;
                    next = Instant::now() + valid_for / RETRIES;
                }
                Err(_) => {
                    return Renewal::Over {
                        late: Some(call),
                        may_be_renewed,
                    };
                }
            }
        }
    }
}

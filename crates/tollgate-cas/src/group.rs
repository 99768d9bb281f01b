//! `Groups`: which calls of a runtime are decided together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_tokio::inside::{answered, random};

use crate::batch::{Batch, Stage, lock, too_late, unknown};
use crate::book::Book;
use crate::marks::Marks;
use crate::rows::Rows;

/// After one in so many rows of batches, some rows are removed that are over.
const BETWEEN_SWEEPS: u64 = 100;
/// How long that may take.
const SWEEP: Duration = Duration::from_secs(60);

/// Whose calls are decided together: those of one runtime, as another may rest, with the same first row.
type Group = (Id, Vec<u8>);

/// The batches of a store.
pub(crate) struct Groups<T> {
    pub(crate) rows: T,
    marks: Marks,
    /// The batches of each group that are decided after the one that is being decided now.
    groups: Mutex<HashMap<Group, VecDeque<Arc<Batch>>>>,
    /// Since when a task sweeps: one at a time, but the runtime of another may rest.
    sweeping: Mutex<Option<Instant>>,
}

/// A call in a batch; dropping it leaves the batch.
struct Member(Arc<Batch>);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What a call has decided, each time.
type Answers<A> = Vec<(usize, Result<A, StoreError>)>;

impl<T: Rows + 'static> Groups<T> {
    pub(crate) fn new(rows: T) -> Arc<Self> {
        Arc::new(Self {
            rows,
            marks: Marks::new(),
            groups: Mutex::default(),
            sweeping: Mutex::default(),
        })
    }

    /// Decides a call on the rows of `keys`, and returns its answer when that counts, before this `deadline`.
    /// `decide` may be called several times, on different rows, and says whether it changes any.
    pub(crate) async fn decide<A: Send>(
        self: &Arc<Self>,
        keys: &[Vec<u8>],
        deadline: Duration,
        mut decide: impl FnMut(&mut Book) -> Result<(A, bool), StoreError> + Send,
    ) -> Result<A, StoreError> {
        let mut answers = Answers::new();
        // Whether an answer may count, whatever happens now.
        let mut may_count = false;
        let call = async {
            loop {
                let member = self.enter(keys, deadline);
                let mut stage = member.0.watch();
                answers.clear();
                match follow(
                    &member.0,
                    &mut stage,
                    &mut decide,
                    &mut answers,
                    &mut may_count,
                )
                .await
                {
                    Some(answer) => return answer,
                    None => {
                        may_count = false;
                        // A runtime that ends loses each batch at once.
                        yield_now().await;
                    }
                }
            }
        };
        match answered(deadline, call).await {
            Some(answer) => answer,
            None if may_count => Err(unknown()),
            None => Err(too_late()),
        }
    }

    /// Puts a call into the last batch of its group, and starts that if nothing is decided there now.
    fn enter(self: &Arc<Self>, keys: &[Vec<u8>], deadline: Duration) -> Member {
        let group = (
            Handle::current().id(),
            keys.first().cloned().unwrap_or_default(),
        );
        let mut groups = lock(&self.groups);
        let is_new = !groups.contains_key(&group);
        let batches = groups.entry(group.clone()).or_default();
        if batches.back().is_none_or(|batch| batch.is_full()) {
            batches.push_back(Arc::default());
        }
        let batch = &batches[batches.len() - 1];
        batch.add(keys);
        let member = Member(Arc::clone(batch));
        drop(groups);
        if is_new {
            let running = Running {
                groups: Arc::clone(self),
                group,
                deadline,
                batch: Some(Arc::clone(&member.0)),
            };
            drop(tokio::spawn(running.run()));
        }
        member
    }

    /// Returns the next batch of a group, which others may still enter; without one, the group ends.
    fn next(&self, group: &Group) -> Option<Arc<Batch>> {
        let mut groups = lock(&self.groups);
        let next = groups.get(group).and_then(|of| of.front().cloned());
        if next.is_none() {
            groups.remove(group);
        }
        next
    }

    /// Lets calls enter another batch than this one, which was next.
    fn close(&self, group: &Group, batch: &Arc<Batch>) {
        let mut groups = lock(&self.groups);
        if let Some(group) = groups.get_mut(group) {
            group.retain(|next| !Arc::ptr_eq(next, batch));
        }
    }

    /// Now and then, after a batch of so many rows, removes rows that are over, in the background.
    fn sweep(self: &Arc<Self>, rows: usize) {
        let mut since = lock(&self.sweeping);
        let is_due = random() % BETWEEN_SWEEPS < u64::try_from(rows).unwrap_or(u64::MAX);
        if is_due && since.is_none_or(|of| of.elapsed() > SWEEP) {
            *since = Some(Instant::now());
            let groups = Arc::clone(self);
            tokio::spawn(async move {
                let _ = timeout(SWEEP, groups.rows.sweep()).await;
                *lock(&groups.sweeping) = None;
            });
        }
    }
}

/// Decides whenever the batch is open, and returns the answer that counts; `None` if it is to enter another
/// batch, and nothing was counted.
async fn follow<A>(
    batch: &Batch,
    stage: &mut watch::Receiver<Stage>,
    decide: &mut impl FnMut(&mut Book) -> Result<(A, bool), StoreError>,
    answers: &mut Answers<A>,
    may_count: &mut bool,
) -> Option<Result<A, StoreError>> {
    loop {
        let now = stage.borrow_and_update().clone();
        match now {
            Stage::Open(time) if answers.last().is_none_or(|last| last.0 != time) => {
                if let Some(decided) = batch.decide(time, &mut *decide) {
                    let answer = decided.map(|(answer, changes)| {
                        *may_count |= changes;
                        answer
                    });
                    answers.push((time, answer));
                }
            }
            Stage::Waiting => *may_count &= batch.is_unknown(),
            Stage::Open(_) | Stage::Writing => {}
            Stage::Done(time) => {
                let mut answers = answers.drain(..);
                // A call that was not polled while the batch was open has decided nothing.
                return Some(answers.find(|answer| answer.0 == time)?.1);
            }
            // What nobody knows is about the changes of other calls.
            Stage::Failed(error) if *may_count || error.kind() != ErrorKind::Unknown => {
                return Some(Err(error));
            }
            Stage::Failed(_) | Stage::Lost => return None,
        }
        if stage.changed().await.is_err() {
            return None;
        }
    }
}

/// The task that runs the batches of a group, one after the other.
struct Running<T: Rows + 'static> {
    groups: Arc<Groups<T>>,
    group: Group,
    deadline: Duration,
    /// The batch that is being decided.
    batch: Option<Arc<Batch>>,
}

impl<T: Rows + 'static> Running<T> {
    async fn run(mut self) {
        let groups = Arc::clone(&self.groups);
        while let Some(batch) = self.batch.clone() {
            groups.close(&self.group, &batch);
            batch.run(&groups.rows, &groups.marks, self.deadline).await;
            groups.sweep(batch.rows());
            self.batch = groups.next(&self.group);
        }
    }
}

/// The runtime may end before the task does, or before it begins.
impl<T: Rows + 'static> Drop for Running<T> {
    fn drop(&mut self) {
        let mut lost = self.batch.take();
        while let Some(batch) = lost {
            self.groups.close(&self.group, &batch);
            batch.give_up(Stage::Lost);
            lost = self.groups.next(&self.group);
        }
    }
}

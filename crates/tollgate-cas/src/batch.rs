//! `Batch`: calls of one runtime that are decided together, on rows that are read and written once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_tokio::inside::{answered, random};

use crate::book::{Book, Fate, Mark};
use crate::marks::Marks;
use crate::rows::Rows;

/// How long a batch waits for calls that are not polled, at first; then each time half as long.
const SLOW: Duration = Duration::from_millis(20);

/// From how many rows on a batch takes no more calls, which need 33 at most: databases limit what they change at once.
const FULL: usize = 64;

/// Calls that are decided together.
#[derive(Default)]
pub(crate) struct Batch {
    stage: watch::Sender<Stage>,
    /// The rows that its calls need.
    keys: Mutex<BTreeSet<Vec<u8>>>,
    /// The rows, while calls may be decided.
    book: Mutex<Option<Book>>,
    /// How many calls are in it, and how many of them have decided since it was opened.
    members: AtomicUsize,
    decided: AtomicUsize,
    changed: Notify,
    /// Whether something was sent of which nobody knows whether it was made.
    is_unknown: AtomicBool,
}

/// How far a batch is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stage {
    /// It has not been opened yet, or its rows are read once more.
    #[default]
    Waiting,
    /// Its calls decide, for this time.
    Open(usize),
    /// What was decided this time is written.
    Writing,
    /// What was decided this time counts.
    Done(usize),
    /// Nothing that was decided counts, or nobody knows.
    Failed(StoreError),
    /// The runtime of its task has ended before anything was written.
    Lost,
}

pub(crate) fn unknown() -> StoreError {
    StoreError::new(
        ErrorKind::Unknown,
        "the database did not say in time whether the call was counted: do not send it again without an id",
    )
}

pub(crate) fn too_late() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "the database did not answer in time, or others changed the key each time: nothing was counted",
    )
}

impl Batch {
    /// Adds a call that needs these rows.
    pub(crate) fn add(&self, keys: &[Vec<u8>]) {
        self.members.fetch_add(1, Ordering::SeqCst);
        lock(&self.keys).extend(keys.iter().cloned());
    }

    /// Returns whether no more calls are to be added.
    pub(crate) fn is_full(&self) -> bool {
        self.rows() >= FULL
    }

    /// Returns how many rows its calls need.
    pub(crate) fn rows(&self) -> usize {
        lock(&self.keys).len()
    }

    /// Removes a call, whatever it has decided.
    pub(crate) fn leave(&self) {
        self.members.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_one();
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// Lets a call decide if the batch is still open for this time.
    pub(crate) fn decide<T>(&self, time: usize, decide: impl FnOnce(&mut Book) -> T) -> Option<T> {
        let mut book = lock(&self.book);
        let is_open = matches!(*self.stage.borrow(), Stage::Open(open) if open == time);
        let answer = decide(book.as_mut().filter(|_| is_open)?);
        drop(book);
        self.decided.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
        Some(answer)
    }

    /// Returns whether nobody knows what becomes of something that was decided before, or is written now.
    pub(crate) fn is_unknown(&self) -> bool {
        let is_writing = matches!(*self.stage.borrow(), Stage::Writing);
        is_writing || self.is_unknown.load(Ordering::SeqCst)
    }

    /// Ends the batch before anything counts: so, or because nobody knows.
    pub(crate) fn give_up(&self, stage: Stage) {
        self.end(match self.is_unknown() {
            true => Stage::Failed(unknown()),
            false => stage,
        });
    }

    fn end(&self, stage: Stage) {
        let _ = self.stage.send_replace(stage);
    }

    /// Reads the rows, lets the calls decide, and writes the rows, until that succeeds or this time is over.
    pub(crate) async fn run(&self, rows: &dyn Rows, marks: &Marks, within: Duration) {
        let keys: Vec<Vec<u8>> = lock(&self.keys).iter().cloned().collect();
        let sent = Sent(Vec::new(), marks);
        match answered(within, self.attempts(rows, &keys, sent)).await {
            Some(stage) => self.end(stage.unwrap_or_else(Stage::Failed)),
            None => self.give_up(Stage::Failed(too_late())),
        }
    }

    async fn attempts(
        &self,
        rows: &dyn Rows,
        keys: &[Vec<u8>],
        mut sent: Sent<'_>,
    ) -> Result<Stage, StoreError> {
        let marks = sent.1;
        for time in 0.. {
            let read = rows.read(keys).await;
            let book = match read.and_then(|snapshot| Book::read(keys, snapshot)) {
                Ok(book) => book,
                Err(error) if sent.0.is_empty() => return Err(error),
                // The database may be back in time to say what became of the change.
                Err(_) => {
                    pause(time).await;
                    continue;
                }
            };
            let fates: Vec<Fate> = sent.0.iter().map(|(_, mark)| book.fate(*mark)).collect();
            if let Some(made) = fates.iter().position(|fate| *fate == Fate::Made) {
                return Ok(Stage::Done(sent.0[made].0));
            } else if fates.contains(&Fate::Unknown) {
                return Err(unknown());
            }
            let mut book = self.decisions(time, book).await;
            if !book.is_changed() {
                if sent.0.is_empty() {
                    return Ok(Stage::Done(time));
                }
                // What was sent could otherwise still be made, though its calls are told something else.
                book.touch();
            }
            let mark = Mark {
                version: marks.send(),
                at: book.now.as_micros(),
            };
            sent.0.push((time, mark));
            match rows.replace(&book.changes(mark, marks)).await {
                Ok(true) => return Ok(Stage::Done(time)),
                Err(error) if error.kind() == ErrorKind::Unknown => {}
                not_made => {
                    sent.pop();
                    // Without an error, others were faster.
                    if let Err(error) = not_made
                        && sent.0.is_empty()
                    {
                        return Err(error);
                    }
                }
            }
            self.is_unknown.store(!sent.0.is_empty(), Ordering::SeqCst);
            self.end(Stage::Waiting);
            pause(time).await;
        }
        Err(too_late())
    }

    /// Opens the batch until all calls have decided, or those that have not are not polled. Returns the rows
    /// as they are then.
    async fn decisions(&self, time: usize, book: Book) -> Book {
        self.decided.store(0, Ordering::SeqCst);
        *lock(&self.book) = Some(book);
        self.end(Stage::Open(time));
        let all = async {
            while self.decided.load(Ordering::SeqCst) < self.members.load(Ordering::SeqCst) {
                self.changed.notified().await;
            }
        };
        let _ = timeout(SLOW / (1 << time.min(4)), all).await;
        let mut book = lock(&self.book);
        self.end(Stage::Writing);
        match book.take() {
            Some(book) => book,
            None => unreachable!("nobody else takes it"),
        }
    }
}

/// Waits until others may have written, longer after each attempt.
async fn pause(attempt: usize) {
    let longest = 500 << attempt.min(6);
    sleep(Duration::from_micros(random() % (longest + 1))).await;
}

/// Changes that were sent, and may have been made, each with the time when it was decided.
struct Sent<'m>(Vec<(usize, Mark)>, &'m Marks);

impl Sent<'_> {
    /// Removes the last one, which was not made, and will not be.
    fn pop(&mut self) {
        if let Some((_, mark)) = self.0.pop() {
            self.1.forget(mark.version);
        }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            self.pop();
        }
    }
}

/// Locks `mutex`; a thread that panicked while it held the lock has changed nothing by halves.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

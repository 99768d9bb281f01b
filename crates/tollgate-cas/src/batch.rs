//! `Batch`: calls of one process that are decided together, on rows that are read and written once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::{ErrorKind, StoreError};

use crate::book::{Book, Fate, Mark};
use crate::marks::{Marks, random};
use crate::rows::Rows;

/// How long a batch waits for calls that are not polled.
const SLOW: Duration = Duration::from_millis(20);

/// Calls that are decided together.
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
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It has not been opened yet, or its rows are read once more.
    Waiting,
    /// Its calls decide, for this time.
    Open(usize),
    /// What was decided this time is written.
    Writing,
    /// What was decided this time counts.
    Done(usize),
    /// Nothing that was decided counts, or nobody knows.
    Failed(Failure),
    /// The runtime of its task has ended before anything was written.
    Lost,
}

/// An error for each call of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    message: String,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind, failure.message)
    }
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
    pub(crate) fn new() -> Self {
        Self {
            stage: watch::Sender::new(Stage::Waiting),
            keys: Mutex::default(),
            book: Mutex::default(),
            members: AtomicUsize::new(0),
            decided: AtomicUsize::new(0),
            changed: Notify::new(),
            is_unknown: AtomicBool::new(false),
        }
    }

    /// Adds a call that needs these rows.
    pub(crate) fn add(&self, keys: &[Vec<u8>]) {
        self.members.fetch_add(1, Ordering::SeqCst);
        lock(&self.keys).extend(keys.iter().cloned());
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

    /// Ends the batch because its runtime ends.
    pub(crate) fn lose(&self) {
        let is_writing = matches!(*self.stage.borrow(), Stage::Writing);
        let is_unknown = is_writing || self.is_unknown.load(Ordering::SeqCst);
        self.end(match is_unknown {
            true => Stage::Failed(unknown().into()),
            false => Stage::Lost,
        });
    }

    fn end(&self, stage: Stage) {
        let _ = self.stage.send_replace(stage);
    }

    /// Reads the rows, lets the calls decide, and writes the rows, until that succeeds or this time is over.
    pub(crate) async fn run(&self, rows: &dyn Rows, marks: &Marks, within: Duration) {
        let keys: Vec<Vec<u8>> = lock(&self.keys).iter().cloned().collect();
        let until = Instant::now() + within;
        let sent = Sent(Vec::new(), marks);
        let stage = self.attempts(rows, &keys, until, sent).await;
        self.end(stage.unwrap_or_else(|error| Stage::Failed(error.into())));
    }

    async fn attempts(
        &self,
        rows: &dyn Rows,
        keys: &[Vec<u8>],
        until: Instant,
        mut sent: Sent<'_>,
    ) -> Result<Stage, StoreError> {
        let marks = sent.1;
        for time in 0.. {
            let left = until.saturating_duration_since(Instant::now());
            let read = timeout(left, rows.read(keys)).await;
            let read = read.unwrap_or_else(|_| Err(too_late()));
            let read = read.and_then(|snapshot| Book::read(keys, snapshot));
            let book = read.map_err(|error| sent.failed(error))?;
            for (of, mark) in &sent.0 {
                match book.fate(*mark) {
                    Fate::Made => return Ok(Stage::Done(*of)),
                    Fate::Unknown => return Err(unknown()),
                    Fate::NotMade => {}
                }
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
            let changes = book.changes(mark, marks);
            let left = until.saturating_duration_since(Instant::now());
            let longest = match timeout(left, rows.replace(&changes)).await {
                Ok(Ok(true)) => return Ok(Stage::Done(time)),
                Err(_) => 0,
                Ok(Err(error)) if error.kind() == ErrorKind::Unknown => 0,
                not_made => {
                    sent.pop();
                    match not_made {
                        Ok(Err(error)) => return Err(sent.failed(error)),
                        // Others were faster.
                        _ => 500 << time.min(6),
                    }
                }
            };
            self.is_unknown.store(!sent.0.is_empty(), Ordering::SeqCst);
            self.end(Stage::Waiting);
            let jitter = Duration::from_micros(random() % (longest + 1));
            if Instant::now() + jitter >= until {
                return Err(sent.failed(too_late()));
            }
            sleep(jitter).await;
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
        let _ = timeout(SLOW, all).await;
        let mut book = lock(&self.book);
        self.end(Stage::Writing);
        match book.take() {
            Some(book) => book,
            None => unreachable!("nobody else takes it"),
        }
    }
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

    /// Returns the error of calls of which nothing counts but perhaps what was sent.
    fn failed(&self, error: StoreError) -> StoreError {
        match self.0.is_empty() {
            true => error,
            false => unknown(),
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

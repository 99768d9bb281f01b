//! `Book`: the rows of one batch while its calls are decided on them.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::inside::encoding::micros_ceil;
use tollgate_core::store::State;
use tollgate_core::{ErrorKind, Limit, StoreError, Timestamp, lease, schedule};

use crate::marks::Marks;
use crate::rows::{After, Change, Row, Snapshot};

/// For how long a row is kept at least, and remembers by whom it was changed: longer than a call looks for its
/// change, and than a change can be late that was not answered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How many changes before the last one it remembers, at most.
const MOST_REMEMBERED: usize = 16;
/// The first byte of each value.
const VERSION: u8 = 1;

/// What a row holds for its key.
pub(crate) trait Content: Sized + Default {
    /// What the bytes are read by, and what says when they are over.
    type Of;

    fn read(of: &Self::Of, bytes: &[u8]) -> Result<Self, StoreError>;

    fn write(&self) -> Vec<u8>;

    /// Returns whether the row may be removed at `now`.
    fn is_over(&self, of: &Self::Of, now: Timestamp) -> bool;
}

/// Implements [`Content`] for states that are read by these terms.
macro_rules! content {
    ($state:ty, $of:ty, |$kept:ident, $terms:ident, $now:ident| $is_over:expr) => {
        impl Content for $state {
            type Of = $of;

            fn read(of: &$of, bytes: &[u8]) -> Result<Self, StoreError> {
                Self::from_bytes(of, bytes)
            }

            fn write(&self) -> Vec<u8> {
                self.to_bytes()
            }

            fn is_over(&self, $terms: &$of, $now: Timestamp) -> bool {
                let $kept = self;
                $is_over
            }
        }
    };
}

content!(State, Limit, |state, limit, now| state.is_fresh(limit, now));
content!(schedule::State, schedule::Terms, |state, terms, now| state
    .is_fresh(terms, now));
content!(lease::State, lease::Terms, |state, _terms, now| state
    .is_fresh(now));

/// The rows of one batch.
pub(crate) struct Book {
    /// The database's time.
    pub(crate) now: Timestamp,
    pages: BTreeMap<Vec<u8>, Page>,
}

/// A row, as it was read, and what it becomes.
struct Page {
    read: Option<Head>,
    /// An error if it is damaged, or something else wrote it: then it stays as it is.
    body: Result<Vec<u8>, StoreError>,
    ends: Timestamp,
    is_changed: bool,
}

/// What a row says about its changes.
#[derive(Default)]
struct Head {
    version: u64,
    /// When it was changed last.
    at: u64,
    /// Earlier changes, with their times, the oldest first.
    earlier: Vec<(u64, u64)>,
    /// When the latest of the changes was that are no longer remembered.
    forgotten: u64,
}

/// A change that was sent, and perhaps made.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) version: u64,
    /// The database's time when the rows were read.
    pub(crate) at: u64,
}

/// What the rows say about a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Made,
    NotMade,
    /// Too many changes followed it.
    Unknown,
}

impl Book {
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] for another number of rows. One that this store cannot read is an error of the calls
    /// that need it.
    pub(crate) fn read(keys: &[Vec<u8>], snapshot: Snapshot) -> Result<Self, StoreError> {
        if snapshot.rows.len() != keys.len() {
            return Err(damaged(
                "the table returned another number of rows than it was asked for",
            ));
        }
        let pages = snapshot.rows.into_iter();
        let pages = pages.map(|row| row.map_or_else(Page::default, Page::read));
        Ok(Self {
            now: snapshot.now,
            pages: keys.iter().cloned().zip(pages).collect(),
        })
    }

    /// Returns what the row of `key` holds; nothing if there is no row.
    pub(crate) fn get<C: Content>(&self, key: &[u8], of: &C::Of) -> Result<C, StoreError> {
        match self.bytes(key)? {
            [] => Ok(C::default()),
            bytes => C::read(of, bytes),
        }
    }

    /// Changes what the row of `key` holds. It is kept until it is over: from the database's time on, for as long
    /// as it lasts from the caller's instant on, if the caller brings one.
    pub(crate) fn put<C: Content>(&mut self, key: &[u8], of: &C::Of, content: &C, keep: Keep) {
        let from = keep.at.unwrap_or(self.now);
        let over = first(from.as_micros(), |at| {
            content.is_over(of, Timestamp::saturating_from_micros(at))
        });
        let lasts = over - from.as_micros();
        let lasts = keep.least_us.max(lasts);
        self.set(
            key,
            content.write(),
            self.now.as_micros().saturating_add(lasts),
        );
    }

    /// Changes the bytes of the row of `key`; without any, it holds nothing.
    pub(crate) fn set(&mut self, key: &[u8], body: Vec<u8>, ends: u64) {
        if let Some(page) = self.pages.get_mut(key) {
            page.body = Ok(body);
            page.ends = Timestamp::saturating_from_micros(ends);
            page.is_changed = true;
        }
    }

    /// Returns the bytes of the row of `key`: none if it holds nothing.
    pub(crate) fn bytes(&self, key: &[u8]) -> Result<&[u8], StoreError> {
        let body = self.pages.get(key).map(|page| page.body.as_deref());
        body.unwrap_or(Ok(&[])).map_err(Clone::clone)
    }

    /// Returns whether the change with this mark was made, by what the rows say.
    pub(crate) fn fate(&self, mark: Mark) -> Fate {
        let heads = || self.pages.values().filter_map(|page| page.read.as_ref());
        let is_in = |head: &Head| {
            head.version == mark.version || head.earlier.iter().any(|of| of.0 == mark.version)
        };
        if heads().any(is_in) {
            Fate::Made
        } else if heads().any(|head| head.forgotten >= mark.at) {
            Fate::Unknown
        } else {
            Fate::NotMade
        }
    }

    /// Returns whether a row is to be changed.
    pub(crate) fn is_changed(&self) -> bool {
        self.pages.values().any(|page| page.is_changed)
    }

    /// Changes all rows to what they are, so that no change that was sent before is made any more.
    pub(crate) fn touch(&mut self) {
        for page in self.pages.values_mut() {
            page.is_changed = true;
        }
    }

    /// Returns the changes to send, which have this mark. All rows are compared, also those that stay: of those
    /// that are not there, one without content is made.
    pub(crate) fn changes(&self, mark: Mark, marks: &Marks) -> Vec<Change> {
        let changes = self.pages.iter().map(|(key, page)| Change {
            key: key.clone(),
            before: page.read.as_ref().map(|head| head.version),
            after: page.after(self.now, mark, marks),
        });
        changes.collect()
    }
}

/// For how long what a row holds is kept.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// The caller's instant.
    pub(crate) at: Option<Timestamp>,
    /// The least time.
    pub(crate) least_us: u64,
}

impl Page {
    fn read(row: Row) -> Self {
        let mut rest = Bytes(&row.value);
        // Unless it says so, nobody knows which changes were made.
        let mut head = Head {
            version: row.version,
            forgotten: u64::MAX,
            ..Head::default()
        };
        let body = head.read(&mut rest).map(|()| rest.0.to_vec());
        Self {
            read: Some(head),
            body,
            ends: row.ends,
            is_changed: false,
        }
    }

    fn after(&self, now: Timestamp, mark: Mark, marks: &Marks) -> After {
        let body = match &self.body {
            Ok(body) if self.read.is_none() || self.is_changed => body,
            _ => return After::Same,
        };
        let since = now.as_micros().saturating_sub(micros_ceil(REMEMBERED));
        let mut forgotten = 0;
        let mut earlier = Vec::new();
        if let Some(head) = &self.read {
            earlier.clone_from(&head.earlier);
            earlier.push((head.version, head.at));
            earlier.retain(|(version, _)| !marks.is_known(*version));
            forgotten = head.forgotten;
            let mut over = earlier.len().saturating_sub(MOST_REMEMBERED);
            earlier.retain(|(_, at)| {
                let stays = over == 0 && *at > since;
                over = over.saturating_sub(1);
                if !stays {
                    forgotten = forgotten.max(*at);
                }
                stays
            });
        }
        let mut value = vec![VERSION, u8::try_from(earlier.len()).unwrap_or(u8::MAX)];
        let numbers = [mark.at, forgotten].into_iter();
        for number in numbers.chain(earlier.into_iter().flat_map(|(version, at)| [version, at])) {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(body);
        After::Row(Row {
            version: mark.version,
            value,
            ends: self.ends.max(now.saturating_add(REMEMBERED)),
        })
    }
}

impl Head {
    fn read(&mut self, from: &mut Bytes<'_>) -> Result<(), StoreError> {
        match from.byte()? {
            VERSION => {}
            later if later > VERSION => {
                return Err(damaged(
                    "a newer version of tollgate wrote this row: update this program, too",
                ));
            }
            _ => {
                return Err(damaged(
                    "a row is not from tollgate: give it a table of its own",
                ));
            }
        }
        let count = from.byte()?;
        let (at, forgotten) = (from.number()?, from.number()?);
        let earlier = (0..count).map(|_| Ok((from.number()?, from.number()?)));
        self.earlier = earlier.collect::<Result<_, StoreError>>()?;
        (self.at, self.forgotten) = (at, forgotten);
        Ok(())
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            read: None,
            body: Ok(Vec::new()),
            ends: Timestamp::UNIX_EPOCH,
            is_changed: false,
        }
    }
}

/// Bytes that are read from the front.
pub(crate) struct Bytes<'b>(pub(crate) &'b [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, StoreError> {
        let (first, rest) = self.0.split_first().ok_or_else(short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, StoreError> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*first))
    }
}

#[cold]
fn short() -> StoreError {
    damaged("a row is too short, so it is damaged: delete it")
}

#[cold]
fn damaged(message: &'static str) -> StoreError {
    StoreError::new(ErrorKind::Protocol, message)
}

/// Returns the first number from `from` on of which `is_so` holds, as it does of all after it.
fn first(from: u64, is_so: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut step) = (from, 1_u64);
    let most = Timestamp::MAX.as_micros();
    let mut high = from;
    while high < most && !is_so(high) {
        low = high + 1;
        high = high.saturating_add(step).min(most);
        step = step.saturating_mul(2);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_so(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

//! `Shard`: the part of the hash tables behind one lock, and how expired states leave it.

use std::array;

use hashbrown::HashTable;
use smallvec::SmallVec;
use tollgate_core::store::{Check, Fingerprint, Request, State, States, Verdict, Verdicts};
use tollgate_core::{Limit, Timestamp, inside};

use crate::probe::{KeyHasher, Probe, StoredKey};

/// The most states in a row.
pub(crate) const WIDEST: usize = 4;

/// Hash tables of states, behind one lock.
///
/// States of one key that are called together are in one row. A key has at most one row of several
/// states, more than half of which are there; whatever is not in it has a row of its own. No state is in
/// two rows.
#[derive(Default)]
pub(crate) struct Shard {
    /// Rows of one state, by key and limit.
    ones: Table<1, Line>,
    /// Rows of up to two states, by key.
    pairs: Table<2>,
    /// Rows of up to four states, by key.
    fours: Table<WIDEST>,
}

#[derive(Default)]
struct Table<const N: usize, A = ()> {
    rows: HashTable<Row<N, A>>,
    /// The next bucket to check for expired states.
    hand: usize,
}

/// States of one key, side by side.
struct Row<const N: usize, A = ()> {
    key: StoredKey,
    slots: [Slot; N],
    /// Aligns the row.
    _aligned: [A; 0],
}

/// Aligns a row of one state to the cache line that it fills.
#[derive(Default)]
#[repr(align(64))]
struct Line;

/// A state, or room for one.
#[derive(Default)]
pub(crate) struct Slot {
    /// The limit that last changed the state, by which it expires; `None` if there is no state.
    limit: Option<Limit>,
    pub(crate) state: State,
}

/// Where a state is, until rows are inserted or removed.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub(crate) struct Place {
    /// How many states the rows of the table have.
    width: usize,
    bucket: usize,
    slot: usize,
}

impl Place {
    /// Returns whether both are in one row.
    fn is_beside(&self, other: &Self) -> bool {
        self.width == other.width && self.bucket == other.bucket
    }
}

impl Slot {
    /// Returns whether this is the state under `limit`, or a clone of it.
    #[inline(always)]
    fn is_same(&self, limit: &Limit) -> bool {
        inside::is_some_same(self.limit.as_ref(), limit)
    }

    /// Returns whether this is the state under `limit`, or one that shares its states.
    #[inline(always)]
    fn is_of(&self, limit: &Limit) -> bool {
        self.is_same(limit) || self.is_equivalent(limit)
    }

    #[cold]
    fn is_equivalent(&self, limit: &Limit) -> bool {
        let held = self.limit.as_ref();
        held.is_some_and(|held| held.identity() == limit.identity())
    }

    /// Consumes the cost of `check`, which must not be zero, if it fits.
    #[inline(always)]
    pub(crate) fn consume(&mut self, check: &Check<'_>, now: Timestamp) -> Verdict {
        let verdict = inside::consume(check, &mut self.state, now);
        if verdict.is_allowed() || check.limit().algorithm().counts_denied() {
            self.adopt(check.limit());
        }
        verdict
    }

    /// Decides a request that concerns this state alone.
    pub(crate) fn decide(
        &mut self,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Verdicts {
        let limit = request.checks()[0].limit();
        request.decide_with(fingerprint, &mut Alone { slot: self, limit }, now)
    }

    /// Makes the state expire by `limit`, which may have changed since the state was made.
    #[inline(always)]
    pub(crate) fn adopt(&mut self, limit: &Limit) {
        if !self.is_same(limit) {
            self.replace_limit(limit);
        }
    }

    #[cold]
    fn replace_limit(&mut self, limit: &Limit) {
        self.limit = Some(limit.clone());
    }

    fn is_held(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns whether the state has expired at `now`.
    fn is_over(&self, now: Timestamp) -> bool {
        let held = self.limit.as_ref();
        held.is_some_and(|limit| self.state.is_fresh(limit, now))
    }
}

/// A state, and the limit that will have changed it.
struct Alone<'s> {
    slot: &'s mut Slot,
    limit: &'s Limit,
}

impl States for Alone<'_> {
    #[inline]
    fn state(&self, _: usize) -> &State {
        &self.slot.state
    }

    #[inline]
    fn state_mut(&mut self, _: usize) -> &mut State {
        self.slot.adopt(self.limit);
        &mut self.slot.state
    }
}

/// Returns which of the states of a key is under `limit`.
#[inline(always)]
fn position(slots: &[Slot], limit: &Limit) -> Option<usize> {
    match slots.iter().position(|slot| slot.is_same(limit)) {
        None => slots.iter().position(|slot| slot.is_equivalent(limit)),
        found => found,
    }
}

fn held(slots: &[Slot]) -> usize {
    slots.iter().filter(|slot| slot.is_held()).count()
}

impl<const N: usize, A> Table<N, A> {
    fn hash(row: &Row<N, A>, hasher: &KeyHasher) -> u64 {
        let limit = row.slots[0].limit.as_ref().filter(|_| N == 1);
        hasher.hash(&row.key) ^ limit.map_or(0, inside::identity_hash)
    }

    /// Returns the row in which the state of `probe` would be, and the hash that finds it.
    #[inline(always)]
    fn sought(probe: &Probe<'_, '_>) -> (u64, impl Fn(&Row<N, A>) -> bool) {
        let is_it = |row: &Row<N, A>| {
            row.key == probe.key && (N > 1 || row.slots[0].is_of(probe.check.limit()))
        };
        (if N > 1 { probe.key_hash } else { probe.hash }, is_it)
    }

    #[inline(always)]
    fn find_mut(&mut self, probe: &Probe<'_, '_>) -> Option<&mut Slot> {
        let (hash, is_it) = Self::sought(probe);
        let slots = &mut self.rows.find_mut(hash, is_it)?.slots;
        let slot = if N > 1 {
            position(slots, probe.check.limit())?
        } else {
            0
        };
        Some(&mut slots[slot])
    }

    /// Returns where `slot` finds one in the row of `probe`.
    #[inline]
    fn place(
        &self,
        probe: &Probe<'_, '_>,
        slot: impl Fn(&[Slot]) -> Option<usize>,
    ) -> Option<Place> {
        if self.rows.is_empty() {
            return None;
        }
        let (hash, is_it) = Self::sought(probe);
        let bucket = self.rows.find_bucket_index(hash, is_it)?;
        let slot = slot(&self.rows.get_bucket(bucket)?.slots)?;
        Some(Place {
            width: N,
            bucket,
            slot,
        })
    }

    #[inline]
    fn at(&self, place: Place) -> Option<&Slot> {
        let row = self.rows.get_bucket(place.bucket)?;
        Some(&row.slots[place.slot])
    }

    #[inline]
    fn at_mut(&mut self, place: Place) -> Option<&mut Slot> {
        let row = self.rows.get_bucket_mut(place.bucket)?;
        Some(&mut row.slots[place.slot])
    }

    /// Inserts a row that is not in the table yet, and returns where its last state is.
    fn insert(
        &mut self,
        key: StoredKey,
        slots: impl IntoIterator<Item = Slot>,
        hasher: &KeyHasher,
    ) -> Place {
        let mut slots = slots.into_iter();
        let row = Row {
            key,
            slots: array::from_fn(|_| slots.next().unwrap_or_default()),
            _aligned: [],
        };
        let slot = held(&row.slots) - 1;
        let hash = Self::hash(&row, hasher);
        let inserted = self
            .rows
            .insert_unique(hash, row, |row| Self::hash(row, hasher));
        Place {
            width: N,
            bucket: inserted.bucket_index(),
            slot,
        }
    }

    /// Removes the row of `probe`, and returns its states.
    fn take(&mut self, probe: &Probe<'_, '_>) -> Option<[Slot; N]> {
        let (hash, is_it) = Self::sought(probe);
        let found = self.rows.find_entry(hash, is_it).ok()?;
        Some(found.remove().0.slots)
    }

    /// Removes the row in a bucket, and returns it, if at most half of its states are there.
    fn take_sparse(&mut self, bucket: usize) -> Option<Row<N, A>> {
        let row = self.rows.get_bucket(bucket)?;
        if held(&row.slots) > N / 2 {
            return None;
        }
        let row = self.rows.get_bucket_entry(bucket).ok()?;
        Some(row.remove().0)
    }

    /// Checks the next `buckets`, wrapping around, drops states that have expired at `now`, and returns how
    /// many. Calls `sparse` with rows that have too few left, which are no longer in the table then.
    fn sweep(
        &mut self,
        buckets: usize,
        now: Timestamp,
        hasher: &KeyHasher,
        mut sparse: impl FnMut(Row<N, A>),
    ) -> usize {
        let all = self.rows.num_buckets();
        if all < 8 && self.rows.is_empty() {
            return 0;
        }
        let mut dropped = 0;
        for _ in 0..buckets.min(all) {
            if self.hand >= all {
                self.hand = 0;
            }
            let slots = self.rows.get_bucket_mut(self.hand);
            let slots = slots.map_or(&mut [][..], |row| &mut row.slots);
            let over = slots.iter_mut().filter(|slot| slot.is_over(now));
            let swept = over.map(|slot| *slot = Slot::default()).count();
            if swept > 0 {
                dropped += swept;
                self.take_sparse(self.hand)
                    .into_iter()
                    .for_each(&mut sparse);
            }
            self.hand += 1;
        }
        // Returns memory to the system once a table is mostly empty: also of a small one, since its states may
        // be in another table now. That moves rows, so it must come last.
        let held = self.rows.len();
        if held < all / 8 {
            self.rows.shrink_to(held * 2, |row| Self::hash(row, hasher));
        }
        dropped
    }

    /// Drops every state, and returns how many there were.
    fn clear(&mut self) -> usize {
        let dropped = self.rows.iter().map(|row| held(&row.slots)).sum();
        self.rows.clear();
        dropped
    }

    fn bytes(&self) -> usize {
        let states = self.rows.iter().flat_map(|row| &row.slots);
        let beside = states.map(|slot| inside::heap_bytes(&slot.state));
        self.rows.allocation_size() + beside.sum::<usize>()
    }
}

#[cold]
fn find_in_rows<'t>(
    pairs: &'t mut Table<2>,
    fours: &'t mut Table<WIDEST>,
    probe: &Probe<'_, '_>,
) -> Option<&'t mut Slot> {
    match pairs.find_mut(probe) {
        None => fours.find_mut(probe),
        found => found,
    }
}

/// Inserts what is left of a row of two.
fn part(ones: &mut Table<1, Line>, row: Row<2>, hasher: &KeyHasher) {
    for slot in row.slots.into_iter().filter(Slot::is_held) {
        ones.insert(row.key, [slot], hasher);
    }
}

/// Inserts what is left of a row of four, at most two states.
fn narrow(ones: &mut Table<1, Line>, pairs: &mut Table<2>, row: Row<WIDEST>, hasher: &KeyHasher) {
    let left: SmallVec<[Slot; 2]> = row.slots.into_iter().filter(Slot::is_held).collect();
    let key = row.key;
    match left.into_inner() {
        Ok(pair) => {
            pairs.insert(key, pair, hasher);
        }
        Err(left) => {
            for slot in left {
                ones.insert(key, [slot], hasher);
            }
        }
    }
}

/// Returns which of the states of a key are under `limits`.
#[cold]
fn scattered<const N: usize>(slots: &[Slot], limits: &[Limit; N]) -> Option<[usize; N]> {
    let mut places = [0; N];
    for (place, limit) in places.iter_mut().zip(limits) {
        *place = slots.iter().position(|slot| slot.is_same(limit))?;
    }
    Some(places)
}

impl Shard {
    /// Returns the state of `probe`, unless it is beside others.
    #[inline(always)]
    pub(crate) fn find_alone(&mut self, probe: &Probe<'_, '_>) -> Option<&mut Slot> {
        self.ones.find_mut(probe)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, probe: &Probe<'_, '_>) -> Option<&mut Slot> {
        match self.ones.find_mut(probe) {
            None => find_in_rows(&mut self.pairs, &mut self.fours, probe),
            found => found,
        }
    }

    /// Returns where the state of `probe` is.
    pub(crate) fn place(&self, probe: &Probe<'_, '_>) -> Option<Place> {
        let of = |slots: &[Slot]| position(slots, probe.check.limit());
        let in_row = self.in_row(probe, of);
        in_row.or_else(|| self.ones.place(probe, of))
    }

    /// Returns where the states of up to four `probes` are, or `None` if one is missing.
    fn places(&self, probes: &[Probe<'_, '_>]) -> Option<[Place; WIDEST]> {
        let mut places = [Place::default(); WIDEST];
        for (place, probe) in places.iter_mut().zip(probes) {
            *place = self.place(probe)?;
        }
        Some(places)
    }

    #[inline]
    pub(crate) fn at(&self, place: Place) -> Option<&Slot> {
        match place.width {
            1 => self.ones.at(place),
            2 => self.pairs.at(place),
            _ => self.fours.at(place),
        }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place) -> Option<&mut Slot> {
        match place.width {
            1 => self.ones.at_mut(place),
            2 => self.pairs.at_mut(place),
            _ => self.fours.at_mut(place),
        }
    }

    /// Returns the states of a key, which has this `hash`, under different `limits`, or `None` unless all of
    /// them are in one row, and these limits were the last to change them.
    #[inline(always)]
    pub(crate) fn find_few<const N: usize>(
        &mut self,
        hash: u64,
        key: &StoredKey,
        limits: &[Limit; N],
    ) -> Option<[&mut Slot; N]> {
        let pair = match N {
            2 => self.pairs.rows.find_mut(hash, |row| row.key == *key),
            _ => None,
        };
        let slots: &mut [Slot] = match pair {
            Some(pair) => &mut pair.slots,
            None => &mut self.fours.rows.find_mut(hash, |row| row.key == *key)?.slots,
        };
        let mut places = array::from_fn(|index| index);
        if !slots
            .iter()
            .zip(limits)
            .all(|(slot, limit)| slot.is_same(limit))
        {
            places = scattered(slots, limits)?;
        }
        slots.get_disjoint_mut(places).ok()
    }

    /// Returns the state of `probe`, inserting a fresh one if needed, and makes it expire by `probe`'s limit.
    /// `kept` are the probes of a call that have a state or get one.
    pub(crate) fn find_or_insert(
        &mut self,
        probe: &Probe<'_, '_>,
        kept: &[Probe<'_, '_>],
        hasher: &KeyHasher,
    ) -> &mut State {
        let limit = probe.check.limit();
        let place = self.place(probe);
        let place = place.unwrap_or_else(|| self.insert(probe, kept, State::default(), hasher));
        let Some(slot) = self.at_mut(place) else {
            unreachable!("it was found or inserted")
        };
        slot.adopt(limit);
        &mut slot.state
    }

    /// Inserts the state of `probe`, which is not in a table yet: beside those of the same key that are `kept`
    /// for a call, if a row has as many.
    pub(crate) fn insert(
        &mut self,
        probe: &Probe<'_, '_>,
        kept: &[Probe<'_, '_>],
        state: State,
        hasher: &KeyHasher,
    ) -> Place {
        let slot = Slot {
            limit: Some(probe.check.limit().clone()),
            state,
        };
        self.insert_slot(probe, kept, slot, hasher)
    }

    /// Returns where the states of up to four `probes` are, or `None` if one is missing. Moves those of one key
    /// into one row, if it has room.
    pub(crate) fn joined(
        &mut self,
        probes: &[Probe<'_, '_>],
        hasher: &KeyHasher,
    ) -> Option<[Place; WIDEST]> {
        let all = self.places(probes)?;
        let places = &all[..probes.len()];
        let [first, others @ ..] = probes else {
            return Some(all);
        };
        let apart = places.iter().filter(|place| place.width == 1).count();
        let is_scattered = places.iter().any(|place| !place.is_beside(&places[0]));
        if apart == 0 || !is_scattered || others.iter().any(|other| other.key != first.key) {
            return Some(all);
        }
        if apart + self.held_in_row(first) > WIDEST {
            return Some(all);
        }
        for probe in probes {
            if let Some([slot]) = self.ones.take(probe) {
                self.insert_slot(probe, probes, slot, hasher);
            }
        }
        self.places(probes)
    }

    /// Returns where `slot` finds one in the row of several states of a key.
    fn in_row(
        &self,
        probe: &Probe<'_, '_>,
        slot: impl Fn(&[Slot]) -> Option<usize>,
    ) -> Option<Place> {
        let in_pair = self.pairs.place(probe, &slot);
        in_pair.or_else(|| self.fours.place(probe, &slot))
    }

    /// Returns how many states are in the row of several of a key; none, if there is no such row.
    fn held_in_row(&self, probe: &Probe<'_, '_>) -> usize {
        let row = self.in_row(probe, |slots| Some(held(slots)));
        row.map_or(0, |row| row.slot)
    }

    fn insert_slot(
        &mut self,
        probe: &Probe<'_, '_>,
        kept: &[Probe<'_, '_>],
        slot: Slot,
        hasher: &KeyHasher,
    ) -> Place {
        let free = |slots: &[Slot]| slots.iter().position(|slot| !slot.is_held());
        if let Some(place) = self.in_row(probe, free)
            && let Some(room) = self.at_mut(place)
        {
            *room = slot;
            return place;
        }
        let Some(beside) = self.beside(probe, kept) else {
            return self.ones.insert(probe.key, [slot], hasher);
        };
        let pair = self.pairs.take(probe).into_iter().flatten();
        let mut slots: SmallVec<[Slot; WIDEST]> = pair.collect();
        let width = slots.len() + beside.len();
        let ones = beside.iter().filter_map(|other| self.ones.take(other));
        slots.extend(ones.flatten());
        slots.push(slot);
        if width > 2 {
            self.fours.insert(probe.key, slots, hasher)
        } else {
            self.pairs.insert(probe.key, slots, hasher)
        }
    }

    /// Returns whose states are to be in one row with that of `probe`, apart from those of a pair: the ones of
    /// the same key, and its own. Returns `None` if it is called alone, or if a row has not so many.
    fn beside<'p, 'r, 'k>(
        &self,
        probe: &Probe<'_, '_>,
        kept: &'p [Probe<'r, 'k>],
    ) -> Option<SmallVec<[&'p Probe<'r, 'k>; WIDEST]>> {
        let mut beside: SmallVec<[_; WIDEST]> = SmallVec::new();
        for other in kept.iter().filter(|other| other.key == probe.key) {
            if beside
                .iter()
                .all(|known: &&Probe<'_, '_>| known.hash != other.hash)
            {
                beside.push(other);
            }
            if beside.len() > WIDEST {
                return None;
            }
        }
        if beside.len() < 2 {
            return None;
        }
        beside.retain(|other| {
            let of = |slots: &[Slot]| position(slots, other.check.limit());
            self.pairs.place(other, of).is_none()
        });
        // The row is full: a state for which it had room would be there.
        let width = beside.len() + self.held_in_row(probe);
        (width <= WIDEST).then_some(beside)
    }

    /// Removes the state of `probe`, and returns whether there was one.
    pub(crate) fn remove(&mut self, probe: &Probe<'_, '_>, hasher: &KeyHasher) -> bool {
        let Some(place) = self.place(probe) else {
            return false;
        };
        if let Some(slot) = self.at_mut(place) {
            *slot = Slot::default();
        }
        let Self { ones, pairs, fours } = self;
        match place.width {
            1 => drop(ones.take_sparse(place.bucket)),
            2 => {
                if let Some(row) = pairs.take_sparse(place.bucket) {
                    part(ones, row, hasher);
                }
            }
            _ => {
                if let Some(row) = fours.take_sparse(place.bucket) {
                    narrow(ones, pairs, row, hasher);
                }
            }
        }
        true
    }

    /// Checks the next `buckets` of each table, wrapping around, drops states that have expired at `now`, and
    /// returns how many.
    pub(crate) fn sweep(&mut self, buckets: usize, now: Timestamp, hasher: &KeyHasher) -> usize {
        let Self { ones, pairs, fours } = self;
        let from_fours = fours.sweep(buckets, now, hasher, |row| {
            narrow(ones, pairs, row, hasher);
        });
        let from_pairs = pairs.sweep(buckets, now, hasher, |row| part(ones, row, hasher));
        from_fours + from_pairs + ones.sweep(buckets, now, hasher, drop)
    }

    /// Drops every state, and returns how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        self.ones.clear() + self.pairs.clear() + self.fours.clear()
    }

    /// Returns the number of buckets of the largest table.
    pub(crate) fn buckets(&self) -> usize {
        let several = self
            .pairs
            .rows
            .num_buckets()
            .max(self.fours.rows.num_buckets());
        self.ones.rows.num_buckets().max(several)
    }

    /// Returns the bytes used by the tables and by what states have allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.ones.bytes() + self.pairs.bytes() + self.fours.bytes()
    }
}

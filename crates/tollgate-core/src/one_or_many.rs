//! `OneOrMany`: a list of small values that usually holds one.

use std::ops::{Deref, DerefMut};
use std::{fmt, slice};

/// A list of values: up to four without an allocation.
///
/// Each length up to four has a variant of its own, so that each value is written once, in place,
/// and nothing else is.
// Not a `SmallVec`, which is invariant in its items: a `Request` with a longer lifetime could not
// be used where one with a shorter lifetime is expected.
#[derive(Clone)]
pub(crate) enum OneOrMany<T> {
    One(T),
    Two([T; 2]),
    Three([T; 3]),
    Four([T; 4]),
    /// None, or more than four.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// Returns the list of `length` values that `value` returns for the indices in order.
    #[inline]
    pub(crate) fn from_fn(length: usize, mut value: impl FnMut(usize) -> T) -> Self {
        match length {
            1 => Self::One(value(0)),
            2 => Self::Two([value(0), value(1)]),
            3 => Self::Three([value(0), value(1), value(2)]),
            4 => Self::Four([value(0), value(1), value(2), value(3)]),
            _ => Self::Many((0..length).map(value).collect()),
        }
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Many(values) => values.capacity() * size_of::<T>(),
            _ => 0,
        }
    }
}

impl<T: Copy> OneOrMany<T> {
    /// Adds a value at the end.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self {
            Self::One(first) => *self = Self::Two([*first, value]),
            Self::Two([first, second]) => *self = Self::Three([*first, *second, value]),
            Self::Three([first, second, third]) => {
                *self = Self::Four([*first, *second, *third, value]);
            }
            Self::Four(values) => *self = Self::Many([&values[..], &[value]].concat()),
            Self::Many(values) => values.push(value),
        }
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(value) => slice::from_ref(value),
            Self::Two(values) => values,
            Self::Three(values) => values,
            Self::Four(values) => values,
            Self::Many(values) => values,
        }
    }
}

impl<T> DerefMut for OneOrMany<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(value) => slice::from_mut(value),
            Self::Two(values) => values,
            Self::Three(values) => values,
            Self::Four(values) => values,
            Self::Many(values) => values,
        }
    }
}

impl<T: Copy> FromIterator<T> for OneOrMany<T> {
    #[inline(always)]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else {
            return Self::Many(Vec::new());
        };
        let mut list = Self::One(first);
        for value in values {
            list.push(value);
        }
        list
    }
}

/// Shows the values as a list, whichever variant holds them.
impl<T: fmt::Debug> fmt::Debug for OneOrMany<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Compares the values, whichever variant holds them.
impl<T: PartialEq> PartialEq for OneOrMany<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for OneOrMany<T> {}

//! `OneOrMany`: a list of small values that usually holds one.

use std::fmt;
use std::ops::Deref;
use std::slice;

/// The most values that are stored without an allocation.
const INLINE: usize = 4;

/// A list of values: up to four without an allocation.
///
/// A single value has a variant of its own because most decisions are about one limit: it is
/// written once, in place, without filling the other slots.
// Not a `SmallVec`, which is invariant in its items: a `Request` with a longer lifetime could not
// be used where one with a shorter lifetime is expected.
#[derive(Clone)]
pub(crate) enum OneOrMany<T> {
    One(T),
    /// The number of values in use, and the slots; unused slots hold copies.
    Few(u8, [T; INLINE]),
    Many(Vec<T>),
}

impl<T: Copy> OneOrMany<T> {
    /// Adds a value at the end.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self {
            Self::One(first) => {
                let mut values = [*first; INLINE];
                values[1] = value;
                *self = Self::Few(2, values);
            }
            Self::Few(count, values) => {
                if let Some(place) = values.get_mut(usize::from(*count)) {
                    *place = value;
                    *count += 1;
                } else {
                    let mut values = values.to_vec();
                    values.push(value);
                    *self = Self::Many(values);
                }
            }
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
            Self::Few(count, values) => &values[..usize::from(*count)],
            Self::Many(values) => values,
        }
    }
}

impl<T: Copy> FromIterator<T> for OneOrMany<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else {
            return Self::Many(Vec::new());
        };
        let Some(second) = values.next() else {
            return Self::One(first);
        };
        let mut few = [first; INLINE];
        few[1] = second;
        let mut count = 2;
        while let Some(place) = few.get_mut(usize::from(count)) {
            let Some(value) = values.next() else {
                return Self::Few(count, few);
            };
            *place = value;
            count += 1;
        }
        let mut list = Self::Few(count, few);
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

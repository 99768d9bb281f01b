//! `OneOrMany`: a short list of small values, mostly of one.

use std::ops::Deref;
use std::slice;

/// The most values that are held without an allocation.
const INLINE: usize = 4;

/// One value, or several: up to four without an allocation.
///
/// One is a case of its own because nearly every decision is about one limit: written once, in
/// place, it costs what its fields cost.
// Not a `SmallVec`, which is invariant in its items: a `Request` with a longer lifetime could not
// be used where one with a shorter lifetime is expected.
#[derive(Clone, Debug)]
pub(crate) enum OneOrMany<T> {
    One(T),
    /// The first so many of the values; the rest fill the place.
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

/// Equal when the values are, however they are held.
impl<T: PartialEq> PartialEq for OneOrMany<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for OneOrMany<T> {}

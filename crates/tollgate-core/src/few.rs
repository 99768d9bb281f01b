//! A short list that is mostly one item, and rarely more than four.

use std::ops::Deref;
use std::slice;

use smallvec::SmallVec;

/// Items that a list holds without allocating.
const INLINE: usize = 4;

/// One item, or several: up to four without allocating.
///
/// One is a case of its own because it is what nearly every decision is about: written once, in
/// place, it costs what its fields cost.
#[derive(Clone, Debug)]
pub(crate) enum Few<T> {
    One(T),
    Many(SmallVec<[T; INLINE]>),
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(item) => slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let Some(first) = items.next() else {
            return Self::Many(SmallVec::new());
        };
        let Some(second) = items.next() else {
            return Self::One(first);
        };
        let mut many = SmallVec::new();
        many.push(first);
        many.push(second);
        many.extend(items);
        Self::Many(many)
    }
}

/// Equal when the items are, however they are held.
impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

#![doc = include_str!("../README.md")]

mod faulty;
mod mock;

pub use faulty::{Fault, FaultyStore};
pub use mock::{Answer, Expectation, Matcher, MockStore, TimesRange};
#[doc(no_inline)]
pub use mockall::{Sequence, predicate};
#[doc(inline)]
pub use tollgate_core::*;

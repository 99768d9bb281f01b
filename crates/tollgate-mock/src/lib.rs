#![doc = include_str!("../README.md")]

mod faulty;
mod mock;

pub use faulty::{Fault, FaultyStore};
pub use mock::{Expectation, MockStore, TimesRange};
#[doc(inline)]
pub use tollgate_core::*;

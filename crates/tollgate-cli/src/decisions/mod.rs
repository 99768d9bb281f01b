//! What limits decide about the requests of a trace, and what is counted of it.

mod comparison;
mod in_memory;
mod summary;
mod windows;

pub(crate) use comparison::{Comparison, Judgement, Outcome};
pub(crate) use in_memory::{limiter, replay_in_memory};
pub(crate) use summary::{Summary, Tally};
pub(crate) use windows::Windows;

#![doc = include_str!("../README.md")]

mod hints;
mod spelled;
mod standard;
mod times;

pub use hints::{Hints, LimitHint};

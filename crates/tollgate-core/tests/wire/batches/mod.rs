//! Calls that are sent together: decided as if each came after the other, each with its own fate.

mod alike;
mod fates;
mod gate;
mod lanes;
mod servers;
mod tasks;

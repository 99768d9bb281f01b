//! Calls that are sent together: decided as if each came after the other, each with its own fate.

mod alike;
mod fates;
mod gate;
mod queues;
mod servers;
mod stalled;
mod tasks;
mod wakers;

//! The promises: one function each, named after what it promises.

mod agreement;

pub use agreement::{agrees_with_the_definition, agrees_with_the_machine};

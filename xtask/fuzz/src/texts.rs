//! The texts that people write into configurations and command lines.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use tollgate_core::schedule::Quota;
use tollgate_core::{Limit, LimitError};

/// Reads the text of a limit, such as `login=sliding-log:5/1m`.
pub fn limits(data: &[u8]) {
    is_stable::<Limit>(data);
}

/// Reads the text of a schedule's quota or closed times, such as `closed 22:00-08:00@local`.
pub fn quotas(data: &[u8]) {
    is_stable::<Quota>(data);
}

/// Reads a text. What is read must be written as a text that reads the same, and is written the same.
fn is_stable<T: Debug + Display + FromStr<Err = LimitError> + PartialEq>(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            let again = written.parse::<T>();
            let again = again.unwrap_or_else(|error| panic!("{text:?} is {written:?}: {error}"));
            assert_eq!(again, value, "{text:?} is {written:?}");
            assert_eq!(again.to_string(), written);
        }
        // An error says something.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

//! The feature `serde`: limits, algorithms, and quotas, also of schedules, as strings, in any format.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::algorithm::Algorithm;
use crate::error::LimitError;
use crate::limit::Limit;
use crate::quota::Quota;
use crate::schedule;

/// Deserializes a string as a `T`.
struct Text<T> {
    example: &'static str,
    read: PhantomData<T>,
}

impl<T: FromStr<Err = LimitError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string such as {:?}", self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($of:ty: $example:literal)+) => {$(
        /// Serializes the text that `Display` writes.
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        /// Deserializes the text that `FromStr` reads.
        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text {
                    example: $example,
                    read: PhantomData,
                })
            }
        }
    )+};
}

as_text! {
    Limit: "login=gcra:10/1m"
    Algorithm: "gcra:10/1m"
    Quota: "10/1m"
    schedule::Quota: "hourly=5/1h"
}

//! The feature `serde`: limits, algorithms, and quotas, also of schedules, as strings, in any format.

use std::fmt::{self, Display};
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
    expected: &'static str,
    read: PhantomData<T>,
}

impl<T: FromStr<Err = LimitError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string such as {}", self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

fn read<'de, T, D>(expected: &'static str, deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = LimitError>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_str(Text {
        expected,
        read: PhantomData,
    })
}

fn write<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serializes the text that `Display` writes.
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, serializer)
    }
}

/// Deserializes the text that `FromStr` reads.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read("\"login=gcra:10/1m\"", deserializer)
    }
}

/// Serializes the text that `Display` writes.
impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, serializer)
    }
}

/// Deserializes the text that `FromStr` reads.
impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read("\"gcra:10/1m\"", deserializer)
    }
}

/// Serializes the text that `Display` writes.
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, serializer)
    }
}

/// Deserializes the text that `FromStr` reads.
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read("\"10/1m\"", deserializer)
    }
}

/// Serializes the text that `Display` writes.
impl Serialize for schedule::Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, serializer)
    }
}

/// Deserializes the text that `FromStr` reads.
impl<'de> Deserialize<'de> for schedule::Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read("\"hourly=5/1h\"", deserializer)
    }
}

//! A `LimitSet` from a configuration, in any format of serde.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tollgate_core::Limit;

use super::set::{LimitSet, OFF, check_name, limit};

/// Deserializes a map from names to limits.
impl<'de> Deserialize<'de> for LimitSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = LimitSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits by name, such as `login = \"sliding-log:5/1m\"`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitSet, A::Error> {
        let mut set = LimitSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let limits = map.next_value_seed(Entry(&name))?;
            if set.get(&name).is_some() {
                return Err(of(&name, "there are two entries of this name"));
            }
            set.insert(&name, limits)
                .map_err(|error| of(&name, &error))?;
        }
        Ok(set)
    }
}

/// Returns an error that says which entry it is about.
fn of<E: Error>(entry: &str, error: impl fmt::Display) -> E {
    E::custom(format_args!("limits of {entry:?}: {error}"))
}

/// Reads what the entry of this name has: a limit, or a list of them.
#[derive(Clone, Copy)]
struct Entry<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = Vec<Limit>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = Vec<Limit>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0;
        write!(
            f,
            "limits of {name:?}: a text such as \"gcra:10/1m\", a table of `algorithm`, `amount` and \
             `window`, or a list of those"
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let limit = limit(self.0, text).map_err(|error| of(self.0, &error))?;
        Ok(limit.into_iter().collect())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let entry = self.0;
        let table = Table::deserialize(MapAccessDeserializer::new(map));
        let table = table.map_err(|error| of::<A::Error>(entry, error))?;
        let Some(text) = table.text else {
            return Ok(Vec::new());
        };
        let mut limits = self.visit_str(&text)?;
        // What is switched off must be known, too.
        for option in table.without {
            let _ = self.visit_str::<A::Error>(&format!("{text},{option}"))?;
        }
        if table.is_off {
            limits.clear();
        }
        Ok(limits)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut limits, mut is_empty) = (Vec::new(), true);
        while let Some(more) = list.next_element_seed(self)? {
            limits.extend(more);
            is_empty = false;
        }
        if is_empty {
            // As a template writes it that has nothing to write.
            let error = "the list is empty: write a limit, or \"off\" to switch them off";
            return Err(of(self.0, error));
        }
        Ok(limits)
    }
}

/// A limit that is written as a table.
#[derive(Default)]
struct Table {
    /// Its text, unless all that it says is that it is off.
    text: Option<String>,
    is_off: bool,
    /// The options that are `false`.
    without: Vec<String>,
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of `algorithm`, `amount` and `window`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
        let mut keys = BTreeSet::new();
        let (mut name, mut algorithm, mut window) = (None, None, None);
        let (mut amount, mut options) = (None, String::new());
        let mut table = Table::default();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "name" => name = Some(map.next_value::<Word>()?.0),
                "algorithm" => algorithm = Some(map.next_value::<Word>()?.0),
                "amount" => amount = Some(map.next_value::<u64>()?),
                "window" => window = Some(map.next_value::<Word>()?.0),
                OFF => table.is_off = map.next_value()?,
                option => match (word(option)?, map.next_value()?) {
                    (option, Setting::Is(true)) => options += &format!(",{option}"),
                    (option, Setting::Is(false)) => table.without.push(option.to_owned()),
                    (option, Setting::Number(number)) => {
                        options += &format!(",{option}={number}");
                    }
                },
            }
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("`{key}` is given twice")));
            }
        }
        if table.is_off && keys.len() == 1 {
            return Ok(table);
        }
        let algorithm = algorithm.ok_or_else(|| A::Error::missing_field("algorithm"))?;
        let window = window.ok_or_else(|| A::Error::missing_field("window"))?;
        let name = match name {
            Some(name) => {
                check_name(&name).map_err(A::Error::custom)?;
                name + "="
            }
            None => String::new(),
        };
        table.text = Some(match amount {
            Some(amount) => format!("{name}{algorithm}:{amount}/{window}{options}"),
            None if algorithm == BLOCK => format!("{name}{algorithm}:{window}{options}"),
            None => return Err(A::Error::missing_field("amount")),
        });
        Ok(table)
    }
}

/// A part of the text of a limit, which cannot be taken for several.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let _ = word(&text)?;
        Ok(Self(text))
    }
}

fn word<E: Error>(text: &str) -> Result<&str, E> {
    // The name of a time zone may have a slash.
    let before = text.split('@').next().unwrap_or(text);
    let has_mark = text.contains([':', ',', '=']) || before.contains('/');
    if text.is_empty() || has_mark {
        return Err(E::custom(format_args!("{text:?} is not one word")));
    }
    Ok(text)
}

/// The algorithm that has no amount.
const BLOCK: &str = "block";

/// The value of an algorithm's option.
enum Setting {
    Is(bool),
    Number(u64),
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Settings)
    }
}

struct Settings;

impl Visitor<'_> for Settings {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, `true` or `false`")
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<Setting, E> {
        Ok(Setting::Is(is))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Setting, E> {
        Ok(Setting::Number(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Setting, E> {
        let number = u64::try_from(number);
        number
            .map(Setting::Number)
            .map_err(|_| E::custom("a number must not be negative"))
    }
}

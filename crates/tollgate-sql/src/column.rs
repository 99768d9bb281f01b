//! Names of tables, and what stands in their columns.

use sqlx::{ColumnIndex, Decode, Row, Type};
use tollgate_core::{ErrorKind, StoreError, Timestamp};

/// Returns `name` if it may stand in a statement as it is.
pub(crate) fn table(name: &str) -> Result<&str, StoreError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    // PostgreSQL would cut a longer one.
    if begins && name.len() <= 63 && name.chars().all(is_plain) {
        return Ok(name);
    }
    Err(StoreError::new(
        ErrorKind::Malformed,
        "the name of a table has at most 63 letters, digits and `_`, and begins with no digit",
    ))
}

/// Returns a number below 2^63 as the databases have it, with a sign.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns an instant from a column.
pub(crate) fn instant(micros: i64) -> Timestamp {
    Timestamp::saturating_from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Returns what the columns `version`, `value` and `ends` say, or `None` for a key without a row.
pub(crate) fn row<'r, R: Row>(columns: &'r R) -> Result<Option<tollgate_cas::Row>, sqlx::Error>
where
    usize: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let Some(version) = columns.try_get::<Option<i64>, _>(0)? else {
        return Ok(None);
    };
    Ok(Some(tollgate_cas::Row {
        version: u64::try_from(version).map_err(|error| sqlx::Error::Decode(error.into()))?,
        value: columns.try_get(1)?,
        ends: instant(columns.try_get(2)?),
    }))
}

//! `CasStore` on tables in memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod calls;
mod conformance;

use std::collections::BTreeMap;
use std::sync::Mutex;

use tollgate_cas::{After, Change, Row};

/// The rows of a table.
type Held = Mutex<BTreeMap<Vec<u8>, Row>>;

/// Makes all changes, or returns `false`.
fn make(rows: &Held, changes: &[Change]) -> bool {
    let mut rows = rows.lock().unwrap();
    let version = |key| rows.get(key).map(|row| row.version);
    if changes.iter().any(|of| version(&of.key) != of.before) {
        return false;
    }
    for Change { key, after, .. } in changes {
        match after {
            After::Same => None,
            After::Row(row) => rows.insert(key.clone(), row.clone()),
        };
    }
    true
}

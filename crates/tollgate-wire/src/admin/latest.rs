//! Reads the latest instant in the states of leases and schedules, which their scripts write.

use tollgate_core::inside::twins::integer;

/// The bytes before the first record of a state of leases, and those of a record.
const HEADER: usize = 24;
const RECORD: usize = 34;

/// The field of a schedule's hash that begins with the latest instant at which an event was planned.
pub(super) const CLOCK: &[u8] = b"c";

/// Returns the latest instant in a state of leases, or `None` if the script writes no such state.
pub(super) fn of_leases(state: &[u8]) -> Option<u64> {
    let (clock, records) = (state.first_chunk()?, state.get(HEADER..)?);
    integer(*clock).filter(|_| records.len().is_multiple_of(RECORD))
}

/// Returns the latest instant in a schedule that is a string, or in the [`CLOCK`] of one that is a
/// hash: both begin with it.
pub(super) fn of_events(state: &[u8]) -> Option<u64> {
    integer(*state.first_chunk()?)
}

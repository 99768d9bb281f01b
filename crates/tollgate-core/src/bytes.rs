//! `Writer` and `Reader`: the numbers of states and answers as bytes.

use std::ops::RangeInclusive;

use crate::error::{ErrorKind, StoreError};
use crate::time::MAX_EXACT;

/// The first bytes of what is not the state of a limit; larger ones are for later versions.
pub(crate) const SCHEDULE: u8 = 0xe0;
pub(crate) const LEASES: u8 = 0xe1;
pub(crate) const ANSWER: u8 = 0xe2;

pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Writes a number in LEB128: seven bits a byte, the lowest first.
    pub(crate) fn number(&mut self, number: u64) {
        let low = number.to_le_bytes()[0];
        if number < 0x80 {
            self.0.push(low);
        } else {
            self.0.push(low | 0x80);
            self.number(number >> 7);
        }
    }

    /// Writes numbers, but for zeros at the end.
    pub(crate) fn numbers(&mut self, numbers: &[u64]) {
        let held = numbers.iter().rposition(|number| *number > 0);
        let held = &numbers[..held.map_or(0, |last| last + 1)];
        held.iter().for_each(|number| self.number(*number));
    }

    /// Writes twice the difference from `base` to `number`, both at most [`MAX_EXACT`]; less one if it is negative.
    pub(crate) fn difference(&mut self, base: u64, number: u64) {
        self.number(match number.checked_sub(base) {
            Some(more) => 2 * more,
            None => 2 * (base - number) - 1,
        });
    }

    /// Writes the length of an id, and the id.
    pub(crate) fn id(&mut self, id: &[u8]) {
        self.number(id.len() as u64);
        self.0.extend_from_slice(id);
    }
}

/// The bytes that are left to read. What nothing writes is `None`, or is [found out](decode) afterwards.
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number within this range; at the end it is zero.
    pub(crate) fn number(&mut self, range: RangeInclusive<u64>) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1).map_or(0, |byte| byte[0]);
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return range.contains(&number).then_some(number);
            }
        }
        None
    }

    /// Reads a number up to [`MAX_EXACT`].
    pub(crate) fn exact(&mut self) -> Option<u64> {
        self.number(0..=MAX_EXACT)
    }

    /// Reads the number, up to [`MAX_EXACT`], whose difference from `base` follows.
    pub(crate) fn difference(&mut self, base: u64) -> Option<u64> {
        let twice = self.number(0..=2 * MAX_EXACT)?;
        let number = match twice % 2 {
            0 => base + twice / 2,
            _ => base.checked_sub(twice.div_ceil(2))?,
        };
        (number <= MAX_EXACT).then_some(number)
    }

    /// Reads an id of 1 to `longest` bytes.
    pub(crate) fn id(&mut self, longest: usize) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number(1..=longest as u64)?);
        self.take(length.ok()?)
    }
}

/// Returns what `read` makes of `bytes`, if `write` makes just these of it again: so there is one form of each
/// value, and nothing is left unread.
pub(crate) fn decode<T>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
    read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    write: impl FnOnce(&T) -> Vec<u8>,
) -> Result<T, StoreError> {
    let value = read(&mut Reader(bytes)).filter(|value| write(value) == bytes);
    value.ok_or_else(|| {
        let message = match bytes.first() {
            Some(&first) if first > ANSWER => {
                format!(
                    "a newer version of tollgate wrote {}: update this program",
                    what()
                )
            }
            _ => format!(
                "{} is damaged, or something else wrote it: delete it",
                what()
            ),
        };
        StoreError::new(ErrorKind::Protocol, message)
    })
}

//! The answer to a call with an id as bytes.

use super::fingerprint::Fingerprint;
use super::request::Request;
use super::source::Source;
use super::verdicts::Verdicts;
use crate::algorithm::Reserved;
use crate::bytes::{ANSWER, Reader, Writer, decode};
use crate::error::StoreError;
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

impl Verdicts {
    /// Returns these verdicts and their receipt as bytes, for a store that keeps the answers to calls with an
    /// [id](crate::CallId) elsewhere: see [`again`](Self::again).
    ///
    /// They are 0xe2; 1 if the call is allowed, and 2 if it starts later; the fingerprint in eight bytes,
    /// the lowest first; and of each limit 1 if it allows the call, 2 if it owes, 4 if the call starts later and
    /// 8 in shadow; the capacity; what remains; the wait and the time until all is left, each one more, or 0 if it
    /// never ends; and what was consumed, and when. What cancels a later start follows: five numbers, as in
    /// [states](crate::store::State::to_bytes).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(vec![ANSWER, flags([self.allowed, self.reserved.is_some()])]);
        to.0.extend(self.fingerprint.value().to_le_bytes());
        for (index, of) in self.verdicts.iter().enumerate() {
            to.0.push(flags([of.allowed, of.owes, of.starts_later, of.shadow]));
            let [wait, reset_after] = [of.wait, of.reset_after].map(Wait::as_micros);
            let [wait, reset_after] = [wait, reset_after].map(|of| of.map_or(0, |of| of + 1));
            for number in [of.capacity, of.remaining, wait, reset_after, of.consumed] {
                to.number(number);
            }
            to.number(of.at.as_micros());
            if let Some(of) = self.reserved.as_deref().and_then(|each| each.get(index)) {
                let numbers = [of.start, of.at, of.before, of.unit, of.starts];
                numbers.iter().for_each(|number| to.number(*number));
            }
        }
        to.0
    }

    /// Returns the verdicts that [`to_bytes`](Self::to_bytes) wrote of the first answer to this `request`, as of
    /// [`Source::Store`].
    ///
    /// # Errors
    ///
    /// As [those of states](crate::store::State::from_bytes).
    pub fn from_bytes(request: &Request<'_>, bytes: &[u8]) -> Result<Self, StoreError> {
        let first = request.checks().first();
        let name = first.map_or("", |check| check.limit().name());
        let what = || format!("the answer that was kept for limit `{name}`");
        let count = request.checks().len();
        decode(bytes, what, |from| read(count, from), Self::to_bytes)
    }
}

fn read(count: usize, from: &mut Reader<'_>) -> Option<Verdicts> {
    let &[ANSWER, about] = from.take(2)? else {
        return None;
    };
    let fingerprint = u64::from_le_bytes(*from.take(8)?.first_chunk()?);
    let (mut verdicts, mut reserved) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let &[flags] = from.take(1)? else { return None };
        let mut number = || from.number(0..=u64::MAX);
        verdicts.push(Verdict {
            allowed: flags & 1 > 0,
            owes: flags & 2 > 0,
            starts_later: flags & 4 > 0,
            shadow: flags & 8 > 0,
            capacity: number()?,
            remaining: number()?,
            wait: Wait::from_micros(number()?.wrapping_sub(1)),
            reset_after: Wait::from_micros(number()?.wrapping_sub(1)),
            consumed: number()?,
            at: Timestamp::saturating_from_micros(number()?),
        });
        if about & 2 > 0 {
            reserved.push(Reserved {
                start: from.exact()?,
                at: from.exact()?,
                before: from.exact()?,
                unit: from.exact()?,
                starts: from.exact()?,
            });
        }
    }
    Some(Verdicts {
        allowed: about & 1 > 0,
        verdicts: verdicts.into_iter().collect(),
        fingerprint: Fingerprint::new(fingerprint),
        reserved: (about & 2 > 0).then(|| Box::new(reserved.into_iter().collect())),
        source: Source::Store,
        age_us: 0,
    })
}

/// Returns a byte of these bits, the lowest first.
fn flags<const N: usize>(bits: [bool; N]) -> u8 {
    bits.iter()
        .rev()
        .fold(0, |flags, bit| flags << 1 | u8::from(*bit))
}

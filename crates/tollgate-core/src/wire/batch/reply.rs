//! The argument of the script for several requests, and its reply.

use std::ops::Range;

use super::departure::Unit;

/// Appends a unit that stands for so many equal `calls`.
pub(super) fn push_unit(text: &mut Vec<u8>, unit: &Unit, calls: u32) {
    let keys = unit.keys.len() - usize::from(unit.has_id);
    let length = u32::try_from(unit.argument.len()).unwrap_or(u32::MAX);
    text.extend_from_slice(&length.to_le_bytes());
    text.extend_from_slice(&u16::try_from(keys).unwrap_or(u16::MAX).to_le_bytes());
    text.extend_from_slice(&calls.to_le_bytes());
    text.push(u8::from(unit.has_id));
    text.extend_from_slice(&unit.argument);
}

/// What the script replied about a group of equal calls.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// None was sent.
    Nothing,
    /// The server's error.
    Refused(Range<usize>),
    /// The reply, and how many of the calls are admitted.
    Reply(Range<usize>, u32),
}

/// Reads where the reply to each group of so many calls is, or returns `None` if no script replies
/// so.
pub(super) fn read(sent: impl Iterator<Item = u32>, reply: &[u8]) -> Option<Vec<Answer>> {
    let mut answers = Vec::with_capacity(sent.size_hint().0);
    let mut left = reply;
    for calls in sent {
        if calls == 0 {
            answers.push(Answer::Nothing);
            continue;
        }
        let (&[is_done], rest) = left.split_first_chunk()?;
        let (admitted, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let start = reply.len() - rest.len();
        (_, left) = rest.split_at_checked(length)?;
        let text = start..start + length;
        let admitted = u32::from_le_bytes(*admitted);
        answers.push(match is_done {
            0 => Answer::Refused(text),
            1 if admitted <= calls => Answer::Reply(text, admitted),
            _ => return None,
        });
    }
    left.is_empty().then_some(answers)
}

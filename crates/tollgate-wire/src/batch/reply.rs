//! The argument and the reply of the script of a batch.

use std::ops::Range;

use super::call::Kind;
use super::calls::Group;

/// Returns the argument for groups of calls. `shares` says whether several groups may use the same key.
pub(super) fn argument<'g>(
    shares: bool,
    kinds: &[Kind],
    groups: impl Iterator<Item = &'g Group>,
) -> Vec<u8> {
    let lengths = kinds.iter().map(|kind| kind.argument.len() + 7);
    let mut text = Vec::with_capacity(lengths.sum::<usize>() + 512);
    text.push(shares.into());
    push_short(&mut text, kinds.len());
    for kind in kinds {
        let length = u32::try_from(kind.argument.len()).unwrap_or(u32::MAX);
        text.extend_from_slice(&length.to_le_bytes());
        push_short(&mut text, kind.limits());
        text.push(kind.has_id.into());
        text.extend_from_slice(&kind.argument);
    }
    let mut groups = groups.map(|group| (group.kind, group.calls)).peekable();
    while let Some((kind, calls)) = groups.next() {
        let mut groups_in_run = 1;
        while groups.next_if_eq(&(kind, calls)).is_some() {
            groups_in_run += 1;
        }
        push_short(&mut text, kind);
        text.extend_from_slice(&calls.to_le_bytes());
        push_short(&mut text, groups_in_run);
    }
    text
}

/// Appends a small number, of kinds or of limits.
fn push_short(text: &mut Vec<u8>, number: usize) {
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    text.extend_from_slice(&number.to_le_bytes());
}

/// The script's answer to a group of equal calls.
#[derive(Clone)]
pub(super) enum Answer {
    /// The group was not sent.
    Nothing,
    /// The server's error line.
    Refused(Range<usize>),
    /// The reply, and how many of the calls are admitted.
    Reply(Range<usize>, u32),
}

/// Returns where in `reply` the answer to each group is, or `None` if the script never gives such a
/// reply. `sent` holds the number of calls of each group.
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

//! Writes text that is usually short, without an allocation then.

use std::fmt::{self, Write};

use smallvec::{Array, SmallVec};

struct Writer<'b, A: Array<Item = u8>>(&'b mut SmallVec<A>);

impl<A: Array<Item = u8>> Write for Writer<'_, A> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends `text` to `bytes`.
pub(super) fn append<A: Array<Item = u8>>(bytes: &mut SmallVec<A>, text: fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = Writer(bytes).write_fmt(text);
}

/// Appends the decimal digits of `number`, in a fraction of the time of [`append`].
pub(super) fn append_number<A: Array<Item = u8>>(
    bytes: &mut SmallVec<A>,
    number: impl itoa::Integer,
) {
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Text of up to 128 bytes. What is longer is left out.
pub(super) struct Line {
    bytes: [u8; 128],
    length: usize,
}

// Inlined, so that few bytes are a store each: a `SmallVec` makes room for them first.
impl Line {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; 128],
            length: 0,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, text: &[u8]) {
        let room = self.bytes.get_mut(self.length..);
        if let Some((room, _)) = room.and_then(|room| room.split_at_mut_checked(text.len())) {
            room.copy_from_slice(text);
            self.length += text.len();
        }
    }

    pub(super) fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

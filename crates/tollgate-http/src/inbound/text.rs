//! `Line`: writes text that is short, without an allocation.

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

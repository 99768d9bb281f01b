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

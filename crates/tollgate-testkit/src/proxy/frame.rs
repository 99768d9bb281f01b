//! `Frames`: splits a byte stream into requests or replies.

/// A buffer for bytes as they arrive, from which whole requests or replies are taken.
#[derive(Debug, Default)]
pub(super) struct Frames(Vec<u8>);

/// A request or a reply.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Frame(pub(super) Vec<u8>);

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Removes and returns the oldest request or reply, once all of it has arrived.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let end = end(&self.0)?;
        Some(Frame(self.0.drain(..end).collect()))
    }
}

impl Frame {
    /// Returns whether this is a push message, not a reply.
    pub(super) fn is_push(&self) -> bool {
        self.0.first() == Some(&b'>')
    }

    /// Returns the command name of a request.
    pub(super) fn command(&self) -> &[u8] {
        let text = &self.0;
        if text.first() != Some(&b'*') {
            // An inline request, as typed in a terminal.
            let end = text.iter().position(u8::is_ascii_whitespace);
            return &text[..end.unwrap_or(text.len())];
        }
        let mut lines = text.split(|&byte| byte == b'\n').skip(2);
        lines.next().unwrap_or_default().trim_ascii_end()
    }
}

/// Returns the end of the first value in `bytes`, if it is complete.
fn end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    // How many values are missing until the first is complete.
    let mut left: u64 = 1;
    while left > 0 {
        let rest = bytes.get(at..)?;
        let line = rest.iter().position(|&byte| byte == b'\n')?;
        let (kind, number) = (*rest.first()?, number(rest.get(1..line)?));
        at += line + 1;
        left -= 1;
        match (kind, number) {
            // A length of -1 is null, which has no bytes and no line end.
            (b'$' | b'=' | b'!', Some(length)) => at += usize::try_from(length).ok()? + 2,
            (b'*' | b'~' | b'>', Some(count)) => left += count,
            (b'%', Some(count)) => left += 2 * count,
            // Attributes precede a value and do not count as one.
            (b'|', Some(count)) => left += 2 * count + 1,
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// Parses a length or count; `None` if it is negative.
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

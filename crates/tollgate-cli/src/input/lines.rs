//! Splits a stream into lines, in large blocks and without copying each line.

use std::io::{self, ErrorKind, Read};

/// The size of a read: large enough to make calls rare, small enough to stay in the cache.
const BLOCK: usize = 256 * 1024;

/// The longest line that is parsed, so that a file without line ends does not fill the memory.
const LONGEST: usize = 1024 * 1024;

/// A line without its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line<'a> {
    TooLong,
    Whole(&'a [u8]),
}

/// Calls `each` with every line of `reader`; read errors are converted by `fail`.
pub(crate) fn for_each<E>(
    reader: &mut impl Read,
    fail: impl Fn(io::Error) -> E,
    mut each: impl FnMut(Line<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; BLOCK];
    // The bytes in the buffer after the last line end.
    let mut held = 0;
    let mut too_long = false;
    loop {
        let read = match reader.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(fail(error)),
        };
        let (searched, filled) = (held, held + read);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &buffer[searched..filled]) {
            let end = searched + end;
            if std::mem::take(&mut too_long) {
                each(Line::TooLong)?;
            } else {
                each(whole(&buffer[start..end]))?;
            }
            start = end + 1;
        }
        buffer.copy_within(start..filled, 0);
        held = filled - start;
        if too_long {
            held = 0;
        } else if held == buffer.len() {
            if held < LONGEST {
                buffer.resize(LONGEST, 0);
            } else {
                too_long = true;
                held = 0;
            }
        }
    }
    if too_long {
        each(Line::TooLong)
    } else if held > 0 {
        each(whole(&buffer[..held]))
    } else {
        Ok(())
    }
}

#[inline]
fn whole(line: &[u8]) -> Line<'_> {
    Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns at most a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(text: &[u8], step: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Vec::new();
        let done: Result<(), io::Error> = for_each(
            &mut Trickle(text, step),
            |e| e,
            |line| {
                lines.push(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::TooLong => None,
                });
                Ok(())
            },
        );
        done.unwrap();
        lines
    }

    #[test]
    fn lines_are_whole_whatever_the_block_size() {
        let text = b"first\r\n\nthird\xff\nlast";
        let expected: Vec<_> = [&b"first"[..], b"", b"third\xff", b"last"]
            .iter()
            .map(|line| Some(line.to_vec()))
            .collect();
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(lines(text, step), expected);
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn lines_that_are_too_long_are_skipped() {
        let mut text = b"one\n".to_vec();
        text.resize(3 * LONGEST, b'x');
        text.extend_from_slice(b"\nthree\n");
        let expected = [Some(b"one".to_vec()), None, Some(b"three".to_vec())];
        assert_eq!(lines(&text, usize::MAX), expected);
        text.resize(5 * LONGEST, b'x');
        assert_eq!(lines(&text, usize::MAX).len(), 4);
    }

    #[test]
    fn a_line_longer_than_a_block_is_whole() {
        let mut text = vec![b'x'; BLOCK + 10];
        text.extend_from_slice(b"\nnext");
        let found = lines(&text, usize::MAX);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].as_ref().map(Vec::len), Some(BLOCK + 10));
        assert_eq!(found[1].as_deref(), Some(&b"next"[..]));
    }
}

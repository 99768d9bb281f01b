//! `Lines`: reads a stream in blocks of whole lines.

use std::io::{self, BufRead, Read};

use memchr::memchr;

/// How much is read at least, unless the stream ends.
const BLOCK: usize = 256 * 1024;

/// The longest line that is parsed, so that a file without line ends does not fill the memory.
const LONGEST: usize = 1024 * 1024;

/// A line without its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Line<'a> {
    TooLong,
    Whole(&'a [u8]),
}

/// A stream, and the lines that were read from it last.
pub(super) struct Lines<R> {
    reader: R,
    block: Vec<u8>,
    has_ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            block: Vec::with_capacity(BLOCK),
            has_ended: false,
        }
    }

    /// Reads the next lines; `false` at the end of the stream, after which it is not read again.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        self.block.clear();
        while !self.has_ended && self.block.len() < BLOCK {
            let most = u64::try_from(LONGEST + 1).unwrap_or(u64::MAX);
            let read = self
                .reader
                .by_ref()
                .take(most)
                .read_until(b'\n', &mut self.block)?;
            if self.block.last() != Some(&b'\n') {
                // Only the start of a long line is kept, and the end of the stream is one of a line.
                let is_long = read > LONGEST;
                self.has_ended = !is_long || self.reader.skip_until(b'\n')? == 0;
                if read > 0 {
                    self.block.push(b'\n');
                }
            }
            self.has_ended |= read == 0;
        }
        Ok(!self.block.is_empty())
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.block
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest = self.text();
        std::iter::from_fn(move || {
            let end = memchr(b'\n', rest)?;
            let line = &rest[..end];
            rest = &rest[end + 1..];
            Some(if line.len() > LONGEST {
                Line::TooLong
            } else {
                Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(text: &[u8], step: usize) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        let mut lines = Lines::new(BufReader::with_capacity(step, text));
        while lines.read().unwrap() {
            found.extend(lines.iter().map(|line| match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            }));
        }
        found
    }

    #[test]
    fn lines_are_whole_wherever_a_read_ends() {
        let of = |line: &[u8]| Some(line.to_vec());
        for step in [1, 3, 100] {
            let expected = [of(b"first"), of(b""), of(b"third\xff"), of(b"last")];
            assert_eq!(lines(b"first\r\n\nthird\xff\nlast", step), expected);
            assert!(lines(b"", step).is_empty());
        }
        for length in [255, BLOCK - 1, BLOCK, LONGEST - 1, LONGEST] {
            let line = vec![b'x'; length];
            let text = [&line[..], b"\n"].concat().repeat(3 * BLOCK / length + 2);
            let expected = vec![Some(line); 3 * BLOCK / length + 2];
            assert_eq!(lines(&text, 100_001), expected, "{length}");
            // The last line may have no end.
            assert_eq!(lines(&text[..text.len() - 1], 8_192), expected, "{length}");
        }
    }

    #[test]
    fn lines_that_are_too_long_are_skipped() {
        for length in [LONGEST + 1, LONGEST + 2, 3 * LONGEST] {
            let long = vec![b'x'; length];
            let expected = [Some(b"one".to_vec()), None, Some(b"three".to_vec()), None];
            for end in [&b""[..], b"\n"] {
                let text = [&b"one\n"[..], &long, b"\nthree\n", &long, end].concat();
                assert_eq!(lines(&text, 100_001), expected, "{length}");
            }
        }
    }

    #[test]
    fn a_stream_is_not_read_after_its_end() {
        struct Once(bool);

        impl Read for Once {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                assert!(!std::mem::replace(&mut self.0, true), "read again");
                Ok(0)
            }
        }

        let mut lines = Lines::new(BufReader::new(Once(false)));
        assert!(!lines.read().unwrap());
        assert!(!lines.read().unwrap());
    }
}

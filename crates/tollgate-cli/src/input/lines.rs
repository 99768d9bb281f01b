//! Reads a stream in blocks of whole lines, without copying each line.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memrchr};

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

/// Some lines of a stream.
pub(crate) struct Block {
    /// Zeroed once, and then reused.
    buffer: Vec<u8>,
    filled: usize,
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; BLOCK],
            filled: 0,
        }
    }

    /// Returns the lines as one text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Returns the lines; the last one of a stream may have no end.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest = self.text();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let line;
            (line, rest) = match memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &[][..]),
            };
            Some(if line.len() > LONGEST {
                Line::TooLong
            } else {
                Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))
            })
        })
    }
}

/// Cuts a stream into blocks.
pub(crate) struct Cutter<R> {
    reader: R,
    /// What was read after the last line end.
    rest: Vec<u8>,
    /// The stream is within a line whose start was passed on as one that is too long.
    is_too_long: bool,
    has_ended: bool,
}

impl<R: Read> Cutter<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            rest: Vec::new(),
            is_too_long: false,
            has_ended: false,
        }
    }

    /// Fills `block` with the next lines; `false` at the end of the stream.
    pub(crate) fn fill(&mut self, block: &mut Block) -> io::Result<bool> {
        // A read needs room; what another, larger block has left may be long.
        if block.buffer.len() <= self.rest.len() {
            block.buffer.resize(LONGEST + 1, 0);
        }
        block.filled = self.rest.len();
        block.buffer[..self.rest.len()].copy_from_slice(&self.rest);
        self.rest.clear();
        while !self.has_ended {
            let start = block.filled;
            let read = match self.reader.read(&mut block.buffer[start..]) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.has_ended = read == 0;
            block.filled += read;
            if self.is_too_long {
                self.pass_over(block);
            } else if block.filled == block.buffer.len() && self.cut(block) {
                break;
            }
        }
        Ok(block.filled > 0)
    }

    /// Keeps what follows the last line end for the next block; `false` if there is no line end, and
    /// may be one further on.
    fn cut(&mut self, block: &mut Block) -> bool {
        match memrchr(b'\n', &block.buffer) {
            Some(end) => {
                self.rest.extend_from_slice(&block.buffer[end + 1..]);
                block.filled = end + 1;
                true
            }
            None if block.filled <= LONGEST => {
                block.buffer.resize(LONGEST + 1, 0);
                false
            }
            None => {
                self.is_too_long = true;
                true
            }
        }
    }

    /// Removes from `block` the rest of a line that is too long.
    fn pass_over(&mut self, block: &mut Block) {
        let start = match memchr(b'\n', &block.buffer[..block.filled]) {
            Some(end) => {
                self.is_too_long = false;
                end + 1
            }
            None => block.filled,
        };
        block.buffer.copy_within(start..block.filled, 0);
        block.filled -= start;
    }
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
        let mut cutter = Cutter::new(Trickle(text, step));
        let mut block = Block::new();
        while cutter.fill(&mut block).unwrap() {
            lines.extend(block.lines().map(|line| match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            }));
        }
        lines
    }

    #[test]
    fn lines_are_whole_whatever_a_read_returns() {
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
    fn lines_are_whole_wherever_a_block_ends() {
        for length in [1, 2, 255, 1_000, BLOCK - 1, BLOCK, BLOCK + 1] {
            let line = vec![b'x'; length];
            let count = 3 * BLOCK / length + 2;
            let mut text = [&line[..], b"\n"].concat().repeat(count);
            let expected = vec![Some(line); count];
            assert_eq!(lines(&text, usize::MAX), expected, "{length}");
            assert_eq!(lines(&text, 100_001), expected, "{length}");
            // The last line may have no end.
            text.pop();
            assert_eq!(lines(&text, usize::MAX), expected, "{length}");
        }
    }

    #[test]
    fn lines_that_are_too_long_are_skipped() {
        for length in [LONGEST + 1, 3 * LONGEST, 3 * LONGEST + 1] {
            for step in [100_001, usize::MAX] {
                let long = vec![b'x'; length];
                let text = [&b"one\n"[..], &long, b"\nthree\n"].concat();
                let expected = [Some(b"one".to_vec()), None, Some(b"three".to_vec())];
                assert_eq!(lines(&text, step), expected, "{length}");
                // Also as the last line, without an end.
                let text = [&text[..], &long].concat();
                assert_eq!(lines(&text, step).len(), 4, "{length}");
                assert_eq!(lines(&text, step)[..3], expected, "{length}");
            }
        }
    }

    #[test]
    fn the_longest_line_is_parsed() {
        for length in [BLOCK + 10, LONGEST] {
            let long = vec![b'x'; length];
            let text = [&long[..], b"\nnext"].concat();
            let expected = [Some(long), Some(b"next".to_vec())];
            assert_eq!(lines(&text, usize::MAX), expected, "{length}");
        }
    }

    #[test]
    fn a_block_of_any_size_takes_what_another_has_left() {
        for left in [BLOCK - 1, BLOCK, BLOCK + 1, LONGEST - 20] {
            // The larger block ends within the second line.
            let (first, second) = (vec![b'x'; LONGEST - left], vec![b'y'; left + 10]);
            let text = [&first[..], b"\n", &second, b"\n", &second].concat();
            let mut cutter = Cutter::new(&text[..]);
            let mut found = Vec::new();
            loop {
                let mut block = Block::new();
                if !cutter.fill(&mut block).unwrap() {
                    break;
                }
                found.extend(block.lines().map(|line| format!("{line:?}")));
            }
            let expected = [first, second.clone(), second];
            let expected = expected.map(|line| format!("{:?}", Line::Whole(&line)));
            assert_eq!(found, expected, "{left}");
        }
    }

    #[test]
    fn a_stream_is_not_read_after_its_end() {
        struct Once(bool);

        impl Read for Once {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(!std::mem::replace(&mut self.0, true), "read again");
                let _ = buffer;
                Ok(0)
            }
        }

        let mut cutter = Cutter::new(Once(false));
        assert!(!cutter.fill(&mut Block::new()).unwrap());
        assert!(!cutter.fill(&mut Block::new()).unwrap());
    }
}

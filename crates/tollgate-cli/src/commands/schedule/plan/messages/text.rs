//! `Text`: the text of a file of messages, read in pieces of bounded size.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// The longest record that is read, so that a file without line ends does not fill the memory.
pub(super) const LONGEST: usize = 1024 * 1024;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// What some programs begin a UTF-8 file with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The text of a file, without a byte order mark and empty lines at its start.
pub(super) struct Text<R> {
    reader: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    /// The number of the first line that is not empty.
    pub(super) first_line: u64,
}

impl<R: Read> Text<R> {
    pub(super) fn new(mut reader: R) -> io::Result<Self> {
        let mut start = Vec::with_capacity(MARK.len());
        (&mut reader)
            .take(MARK.len() as u64)
            .read_to_end(&mut start)?;
        if start == MARK {
            start.clear();
        }
        let reader = Cursor::new(start).chain(reader);
        let mut text = Self {
            reader: BufReader::with_capacity(BLOCK, reader),
            first_line: 1,
        };
        text.skip_space()?;
        Ok(text)
    }

    fn skip_space(&mut self) -> io::Result<()> {
        loop {
            let block = self.reader.fill_buf()?;
            let space = block.iter().take_while(|byte| byte.is_ascii_whitespace());
            let space = space.count();
            let is_over = space < block.len() || block.is_empty();
            let ends = block[..space].iter().filter(|&&byte| byte == b'\n');
            self.first_line += u64::try_from(ends.count()).unwrap_or(u64::MAX);
            self.reader.consume(space);
            if is_over {
                return Ok(());
            }
        }
    }

    /// Returns the first byte of the text, or `None` if there is no text.
    pub(super) fn first(&mut self) -> io::Result<Option<u8>> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    /// Reads the next line into `line`, with its end; `false` at the end of the text.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::FileTooLarge`] if the line is longer than [`LONGEST`], and those of the file.
    pub(super) fn next_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let most = LONGEST as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', line)?;
        if line.len() > LONGEST && line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(read > 0)
    }

    /// Returns the text for a reader of records.
    pub(super) fn into_metered(self) -> Metered<impl Read> {
        Metered {
            reader: self.reader,
            left: LONGEST,
            block: Vec::new(),
            end: 0,
        }
    }
}

/// A text of records, each of which may have [`LONGEST`] bytes.
pub(super) struct Metered<R> {
    reader: R,
    /// How many bytes may be read for this record.
    left: usize,
    /// What was read last, and where in the text it ends.
    block: Vec<u8>,
    end: u64,
}

impl<R> Metered<R> {
    /// Begins the next record.
    pub(super) fn begin(&mut self) {
        self.left = LONGEST;
    }

    /// Returns whether a line ends right before the position `end`, which the last read has reached.
    pub(super) fn is_line_end(&self, end: u64) -> bool {
        let back = usize::try_from(self.end.saturating_sub(end)).ok();
        let at = back.and_then(|back| self.block.len().checked_sub(back + 1));
        at.and_then(|at| self.block.get(at)) == Some(&b'\n')
    }
}

/// Fails with [`io::ErrorKind::FileTooLarge`] in a record that is too long.
impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = buffer.len().min(self.left);
        let read = self.reader.read(&mut buffer[..most])?;
        self.left -= read;
        if read > 0 {
            self.block.clear();
            self.block.extend_from_slice(&buffer[..read]);
            self.end += read as u64;
        }
        Ok(read)
    }
}

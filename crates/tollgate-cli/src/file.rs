//! Input files, plain or gzip, and standard input.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;

use crate::failure::Failure;
use crate::progress::Progress;

/// How many bytes at the start of a file tell what it is.
const START: u64 = 512;

/// The first bytes of every gzip stream.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// An input file before it is opened for reading.
pub(crate) struct Source<'p> {
    path: &'p Path,
}

/// Content that is not text in UTF-8 with line ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotText {
    #[error(
        "its lines end in CR without LF: convert it with `tr '\\r' '\\n'`, and give the result"
    )]
    CarriageReturns,
    #[error("its text is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`, and give the result")]
    Utf16,
}

impl From<NotText> for io::Error {
    fn from(found: NotText) -> Self {
        Self::new(ErrorKind::InvalidData, found)
    }
}

pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns whether `log` and `path` are the same regular file, under whatever names: writing to
/// `path` would then destroy the log.
pub(crate) fn is_read_from(log: &Path, path: &Path) -> bool {
    // The shell may have redirected a file to standard input, so look at that file.
    let log = if is_standard_input(log) {
        Path::new("/dev/stdin")
    } else {
        log
    };
    // Terminals and pipes may be read and written.
    path.is_file() && is_same_file(log, path).unwrap_or(false)
}

/// Compares inodes, since symbolic and hard links give one file several names.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let [one, other] = [fs::metadata(one)?, fs::metadata(other)?];
    Ok(one.dev() == other.dev() && one.ino() == other.ino())
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(fs::canonicalize(one)? == fs::canonicalize(other)?)
}

/// The decompressed text of a source.
type Reader<'g> = Box<dyn Read + 'g>;

impl<'p> Source<'p> {
    /// Checks that `path` can be read, before any file is read; `-` is standard input.
    ///
    /// Keeps no file open, because there may be more logs than files that can be open at once.
    pub(crate) fn new(path: &'p Path) -> Result<Self, Failure> {
        let look = || {
            let metadata = fs::metadata(path)?;
            if metadata.is_dir() {
                return Err(io::Error::from(ErrorKind::IsADirectory));
            }
            if metadata.is_file() {
                // Only opening it shows whether it is readable. A pipe can be opened only once, so
                // it is not tried.
                drop(File::open(path)?);
            }
            Ok(())
        };
        if !is_standard_input(path) {
            look().map_err(|error| unreadable(path, error))?;
        }
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &'p Path {
        self.path
    }

    /// Returns when the file was changed last; now for a pipe, or if the system does not say.
    pub(crate) fn changed(&self) -> SystemTime {
        let metadata = fs::metadata(self.path).ok();
        let file = metadata.filter(Metadata::is_file);
        let changed = file.and_then(|file| file.modified().ok());
        changed.unwrap_or_else(SystemTime::now)
    }

    /// Opens the file and returns its text, decompressed if it starts like gzip, whatever its name.
    pub(crate) fn reader(self, progress: &Progress) -> io::Result<Reader<'_>> {
        let file: Box<dyn Read> = if is_standard_input(self.path) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(self.path)?)
        };
        let mut file = Metered { file, progress };
        let mut start = start_of(&mut file)?;
        let mut text: Reader<'_> = Box::new(file);
        if start.starts_with(GZIP) {
            let packed = BufReader::with_capacity(64 * 1024, Cursor::new(start).chain(text));
            text = Box::new(MultiGzDecoder::new(packed));
            start = start_of(&mut text)?;
        }
        if is_utf16(&start) {
            return Err(NotText::Utf16.into());
        }
        Ok(Box::new(Cursor::new(start).chain(text)))
    }
}

fn start_of(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(START).read_to_end(&mut start)?;
    Ok(start)
}

/// Returns whether `start` has the byte order mark of UTF-16, or a zero in every other byte.
fn is_utf16(start: &[u8]) -> bool {
    match *start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, b, c, d, ..] => matches!(
            [a == 0, b == 0, c == 0, d == 0],
            [false, true, false, true] | [true, false, true, false]
        ),
        _ => false,
    }
}

/// Returns whether the lines of `text`, the start of a file, end in CR alone.
pub(crate) fn has_bare_returns(text: &[u8]) -> bool {
    memchr::memchr(b'\n', text).is_none()
        && memchr::memchr(b'\r', text).is_some_and(|at| at + 1 < text.len())
}

/// Returns the failure to read `path`; `source` may hold a [`NotText`].
pub(crate) fn unreadable(path: &Path, source: io::Error) -> Failure {
    let path = path.to_owned();
    if source.get_ref().is_some_and(|inner| inner.is::<NotText>()) {
        Failure::Content { path, source }
    } else {
        Failure::Read { path, source }
    }
}

/// A file that reports what is read to the progress bar.
struct Metered<'g> {
    file: Box<dyn Read>,
    progress: &'g Progress,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.progress.advance(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_refused() {
        assert!(!is_utf16(b"\0\0\0\0"));
        assert!(!has_bare_returns(b"one\r\ntwo\r"));
        assert!(!has_bare_returns(b"one\r"));
    }
}

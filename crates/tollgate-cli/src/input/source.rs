//! `Source`: an input file, plain or gzip, or standard input.

use std::fs::{self, File};
use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::failure::Failure;
use crate::progress::Progress;

/// The first bytes of every gzip stream.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An input file before it is opened for reading.
pub(crate) struct Source<'p> {
    path: &'p Path,
    bytes: u64,
}

/// Returns whether `path` means standard input.
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
pub(crate) enum Reader<'g> {
    Gzip(Box<MultiGzDecoder<BufReader<Raw<'g>>>>),
    Plain(Raw<'g>),
}

type Raw<'g> = Chain<Cursor<Vec<u8>>, Metered<'g>>;

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
                File::open(path)?;
            }
            Ok(metadata.len())
        };
        let bytes = if is_standard_input(path) {
            0
        } else {
            look().map_err(|error| super::unreadable(path, error))?
        };
        Ok(Self { path, bytes })
    }

    pub(crate) fn path(&self) -> &'p Path {
        self.path
    }

    /// Returns the size of the file, compressed if it is; 0 if unknown.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Opens the file and returns its text, decompressed if it starts like gzip, whatever its name.
    pub(crate) fn reader(self, progress: &Progress) -> io::Result<Reader<'_>> {
        let file: Box<dyn Read + Send> = if is_standard_input(self.path) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(self.path)?)
        };
        let mut file = Metered { file, progress };
        let mut start = Vec::with_capacity(GZIP.len());
        (&mut file).take(2).read_to_end(&mut start)?;
        let is_gzip = start == GZIP;
        let raw = Cursor::new(start).chain(file);
        Ok(if is_gzip {
            let packed = BufReader::with_capacity(64 * 1024, raw);
            Reader::Gzip(Box::new(MultiGzDecoder::new(packed)))
        } else {
            Reader::Plain(raw)
        })
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(reader) => reader.read(buffer),
            Self::Plain(reader) => reader.read(buffer),
        }
    }
}

/// A file that reports what is read to the progress bar.
pub(crate) struct Metered<'g> {
    file: Box<dyn Read + Send>,
    progress: &'g Progress,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.progress.advance(count);
        Ok(count)
    }
}

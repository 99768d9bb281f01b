//! Files to read: plain, gzip, or standard input.

use std::fs::{self, File};
use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::failure::Failure;
use crate::progress::Progress;

/// How every gzip stream starts.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file that could be opened.
pub(crate) struct Source<'p> {
    path: &'p Path,
    file: Box<dyn Read>,
    bytes: u64,
}

/// Returns whether `path` stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns whether what is read from `log` is the regular file at `path`, however the two are
/// called: writing to `path` would lose the log.
pub(crate) fn is_read_from(log: &Path, path: &Path) -> bool {
    // A shell opens the file that standard input is, so its name has to be asked for.
    let log = if is_standard_input(log) {
        Path::new("/dev/stdin")
    } else {
        log
    };
    // A terminal or pipe may well be read and written.
    path.is_file() && is_same_file(log, path).unwrap_or(false)
}

/// Names may differ by links of both kinds, which share an inode.
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

/// The text of a source.
pub(crate) enum Reader<'g> {
    Gzip(Box<MultiGzDecoder<BufReader<Raw<'g>>>>),
    Plain(Raw<'g>),
}

type Raw<'g> = Chain<Cursor<Vec<u8>>, Metered<'g>>;

impl<'p> Source<'p> {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &'p Path) -> Result<Self, Failure> {
        if is_standard_input(path) {
            return Ok(Self {
                path,
                file: Box::new(io::stdin().lock()),
                bytes: 0,
            });
        }
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::from(ErrorKind::IsADirectory));
            }
            Ok((file, metadata.len()))
        };
        let (file, bytes) = open().map_err(|error| super::unreadable(path, error))?;
        Ok(Self {
            path,
            file: Box::new(file),
            bytes,
        })
    }

    pub(crate) fn path(&self) -> &'p Path {
        self.path
    }

    /// Returns the size of the file, compressed if it is; 0 if it is not known.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the text, unpacked if the first bytes say that it is packed, whatever the name says.
    pub(crate) fn reader(self, progress: &Progress) -> io::Result<Reader<'_>> {
        let mut file = Metered {
            file: self.file,
            progress,
        };
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

/// A file whose reading is shown as progress.
pub(crate) struct Metered<'g> {
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

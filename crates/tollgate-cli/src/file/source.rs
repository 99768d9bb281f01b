//! `Source`: an input file, plain or gzip, or standard input.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;
use std::time::SystemTime;

use flate2::bufread::GzDecoder;

use super::content::{GZIP, NotText, START, not_text, unreadable};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::grouped;

/// An input file before it is opened for reading.
pub(crate) struct Source<'p> {
    path: &'p Path,
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
pub(crate) type Reader<'g> = Box<dyn Read + 'g>;

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
                start_of(&mut File::open(path)?)?;
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
    ///
    /// Fails with a [`NotText`] inside if the content is neither text nor gzip.
    pub(crate) fn reader(self, progress: &Progress) -> io::Result<Reader<'_>> {
        let file: Box<dyn Read> = if is_standard_input(self.path) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(self.path)?)
        };
        let mut file = Metered { file, progress };
        let start = start_of(&mut file)?;
        let is_gzip = start.starts_with(GZIP);
        let raw = Cursor::new(start).chain(file);
        if !is_gzip {
            return Ok(Box::new(raw));
        }
        let raw = BufReader::with_capacity(64 * 1024, raw);
        let mut text = Members {
            member: Some(GzDecoder::new(raw)),
            name: self.path.display().to_string(),
            progress,
        };
        let start = start_of(&mut text)?;
        if start.starts_with(GZIP) {
            return Err(io::Error::new(ErrorKind::InvalidData, NotText::GzipTwice));
        }
        Ok(Box::new(Cursor::new(start).chain(text)))
    }
}

/// Reads the first bytes of a file, and fails if they say that it is neither text nor gzip.
fn start_of(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START);
    let most = u64::try_from(START).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut start)?;
    match not_text(&start) {
        Some(found) => Err(io::Error::new(ErrorKind::InvalidData, found)),
        None => Ok(start),
    }
}

/// The members of a gzip file, as `cat a.gz b.gz` writes them. Zeros after one, as on tapes and at the end
/// of files of a fixed size, are ignored with a warning.
struct Members<'g, R> {
    /// `None` once the last one has ended.
    member: Option<GzDecoder<R>>,
    name: String,
    progress: &'g Progress,
}

impl<R: BufRead> Read for Members<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.member.take() {
            let read = member.read(buffer);
            if !matches!(read, Ok(0)) || buffer.is_empty() {
                self.member = Some(member);
                return read;
            }
            let mut packed = member.into_inner();
            let mut zeros = 0_u64;
            while next(&mut packed)? == Some(0) {
                packed.consume(1);
                zeros += 1;
            }
            if zeros > 0 {
                self.progress.finish();
                let (name, zeros) = (&self.name, grouped(zeros));
                let said = format!("{name}: ignored zeros after the end of its gzip data: {zeros}");
                Output::new().complain(&said);
            }
            let is_followed = next(&mut packed)?.is_some();
            self.member = is_followed.then(|| GzDecoder::new(packed));
        }
        Ok(0)
    }
}

/// Returns the next byte of a file, without taking it.
fn next(packed: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        match packed.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map(|bytes| bytes.first().copied()),
        }
    }
}

/// A file that reports what is read to the progress bar.
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

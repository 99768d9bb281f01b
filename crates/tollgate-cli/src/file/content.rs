//! `NotText`: content that is not read, and how to make a log of it.

use std::io;
use std::path::Path;

use crate::failure::Failure;

/// How many bytes at the start of a file tell what it is.
pub(crate) const START: usize = 512;

/// The first bytes of every gzip stream.
pub(crate) const GZIP: &[u8] = &[0x1f, 0x8b];

/// Content that is not text in UTF-8 with line ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NotText {
    #[error(
        "its lines end in CR without LF: convert it with `tr '\\r' '\\n'`, and give the result"
    )]
    CarriageReturns,
    #[error("it is gzip within gzip: unpack it once with `gzip -dc`, and give the result")]
    GzipTwice,
    #[error("{format} is not read: unpack it with `{tool}`, and give the result")]
    Packed {
        format: &'static str,
        tool: &'static str,
    },
    #[error("its text is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`, and give the result")]
    Utf16,
}

/// The formats of archives: their first bytes, their names, and what unpacks them.
const ARCHIVES: [(&[u8], &str, &str); 7] = [
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"\x1f\x9d", "compress", "uncompress -c"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x -so"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
];

/// Where a tar archive says what it is.
const TAR: usize = 257;

/// Returns why content that starts like this is not read; `None` if it may be text or gzip.
pub(crate) fn not_text(start: &[u8]) -> Option<NotText> {
    let archive = ARCHIVES.iter().find(|(magic, ..)| start.starts_with(magic));
    if let Some(&(_, format, tool)) = archive {
        return Some(NotText::Packed { format, tool });
    }
    if start
        .get(TAR..)
        .is_some_and(|rest| rest.starts_with(b"ustar"))
    {
        return Some(NotText::Packed {
            format: "tar",
            tool: "tar -xOf",
        });
    }
    is_utf16(start).then_some(NotText::Utf16)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_refused() {
        assert_eq!(not_text(b"\0\0\0\0"), None);
        assert!(!has_bare_returns(b"one\r\ntwo\r"));
        assert!(!has_bare_returns(b"one\r"));
    }
}

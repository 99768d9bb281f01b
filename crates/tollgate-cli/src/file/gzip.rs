//! `Members`: the text of a gzip file, which may have several members and zeros between them.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// Decompresses one gzip member after another, as `cat a.gz b.gz` writes them.
///
/// Zeros after a member are skipped: tapes and pre-allocated files are padded with them.
pub(crate) struct Members<R> {
    /// `None` once the stream has ended.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub(crate) fn new(packed: R) -> Self {
        Self {
            member: Some(GzDecoder::new(packed)),
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            // The member has ended, and its checksum was right.
            self.member = match self.member.take().map(GzDecoder::into_inner) {
                Some(mut packed) => is_followed(&mut packed)?.then(|| GzDecoder::new(packed)),
                None => None,
            };
        }
        Ok(0)
    }
}

/// Skips zeros, and returns whether anything follows them.
fn is_followed(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = match packed.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let is_followed = zeros < bytes.len();
        packed.consume(zeros);
        if is_followed {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::{BufReader, Write};

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(content: &[u8], step: usize) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let packed = BufReader::with_capacity(step, content);
        Members::new(packed).read_to_end(&mut text).map(|_| text)
    }

    #[test]
    fn zeros_around_members_are_skipped() {
        let (one, two) = (packed(b"one "), packed(b"two"));
        for zeros in [0, 1, 511, 512, 100_000] {
            let zeros = vec![0; zeros];
            let content = [&*one, &zeros, &two, &zeros].concat();
            for step in [1, 3, 64 * 1024] {
                assert_eq!(unpacked(&content, step).unwrap(), b"one two");
            }
        }
        let empty = [packed(b""), packed(b"x")].concat();
        assert_eq!(unpacked(&empty, 100).unwrap(), b"x");
    }

    #[test]
    fn other_text_after_a_member_is_an_error() {
        for garbage in [&b"\0\0garbage"[..], b"\x1f", b"\x1f\x8b"] {
            assert!(unpacked(&[&packed(b"one"), garbage].concat(), 100).is_err());
        }
        let mut broken = packed(b"one");
        broken.pop();
        assert!(unpacked(&broken, 100).is_err());
    }
}

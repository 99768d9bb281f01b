//! `Reader`: reads the text of a limit from left to right, and knows where it is.

use crate::error::LimitError;

/// A text, and how far it has been read.
pub(crate) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Returns a reader of `text` from the byte `at` on.
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    /// Returns how many bytes have been read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns what has not been read.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Returns whether everything has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Reads `mark` if it comes next, and returns whether it did.
    pub(crate) fn skip(&mut self, mark: char) -> bool {
        let comes = self.rest().starts_with(mark);
        if comes {
            self.at += mark.len_utf8();
        }
        comes
    }

    /// Reads up to the next `:`, `,`, `=` or `/`.
    pub(crate) fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let word = rest.split([':', ',', '=', '/']).next().unwrap_or(rest);
        self.at += word.len();
        word
    }

    /// Reads a number in decimal digits.
    ///
    /// # Errors
    ///
    /// [`LimitError::Syntax`] if none comes next, or if it does not fit 64 bits.
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, LimitError> {
        let (rest, start) = (self.rest(), self.at);
        let length = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = &rest[..length];
        self.at += length;
        digits.parse().map_err(|_| self.expected(start, expected))
    }

    /// Returns the error that `expected` should have stood at the byte `at`.
    pub(crate) fn expected(&self, at: usize, expected: &'static str) -> LimitError {
        LimitError::Syntax {
            text: self.text.to_owned(),
            at,
            expected,
        }
    }
}

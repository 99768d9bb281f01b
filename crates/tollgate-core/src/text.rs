//! `Reader`: reads the text of a limit from left to right, and tracks its position. `from_texts`: conversions.

use std::borrow::Cow;

use crate::error::{LimitError, Problem};

/// Reads a type from owned and borrowed texts, as its `FromStr` does.
macro_rules! from_texts {
    ($of:ty) => { from_texts!($of: &str, String, &String); };
    ($of:ty: $($text:ty),+) => {$(
        /// Reads the text as [`FromStr`] does.
        impl TryFrom<$text> for $of {
            type Error = LimitError;

            fn try_from(text: $text) -> Result<Self, LimitError> {
                text.parse()
            }
        }
    )+};
}
pub(crate) use from_texts;

/// A text and the current position in it.
pub(crate) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Returns a reader of `text` that starts at the byte `at`.
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    /// Returns the current position, in bytes from the start of the text.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text that has not been read.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Returns whether all text has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns where the next `mark` is, if there is one.
    pub(crate) fn find(&self, mark: char) -> Option<usize> {
        self.rest().find(mark).map(|after| self.at + after)
    }

    /// Reads up to the next `,`.
    pub(crate) fn until_comma(&mut self) -> &'t str {
        let rest = self.rest();
        let read = rest.split(',').next().unwrap_or(rest);
        self.at += read.len();
        read
    }

    /// Reads `mark` if it comes next, and returns whether it did.
    pub(crate) fn skip(&mut self, mark: char) -> bool {
        let comes = self.rest().starts_with(mark);
        if comes {
            self.at += mark.len_utf8();
        }
        comes
    }

    /// Reads `word` if it comes next, and is not the beginning of a longer one. Returns whether it did.
    #[cfg(feature = "calendar")]
    pub(crate) fn skip_word(&mut self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        let comes = after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()));
        if comes {
            self.at += word.len();
        }
        comes
    }

    /// Reads up to the next `:`, `,`, `=`, `/` or `@`.
    pub(crate) fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let word = rest.split([':', ',', '=', '/', '@']).next().unwrap_or(rest);
        self.at += word.len();
        word
    }

    /// Reads a number in decimal digits.
    ///
    /// # Errors
    ///
    /// [`Syntax`](crate::LimitErrorKind::Syntax) if no number comes next, or if it does not fit into 64 bits.
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, LimitError> {
        let (rest, start) = (self.rest(), self.at);
        let length = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = &rest[..length];
        self.at += length;
        digits.parse().map_err(|_| {
            self.expected(
                start,
                if digits.is_empty() {
                    expected
                } else {
                    "a smaller number: 9007199254740991, which is 2^53 - 1, at most"
                },
            )
        })
    }

    /// Returns the error that the value at the byte `at` is not possible.
    pub(crate) fn bad_value(&self, at: usize, error: LimitError) -> LimitError {
        LimitError(Problem::BadValue {
            text: self.text.to_owned(),
            at,
            error: Box::new(error),
        })
    }

    /// Returns the error that `expected` is missing at the byte `at`.
    pub(crate) fn expected(&self, at: usize, expected: impl Into<Cow<'static, str>>) -> LimitError {
        LimitError(Problem::Syntax {
            text: self.text.to_owned(),
            at,
            expected: expected.into(),
        })
    }
}

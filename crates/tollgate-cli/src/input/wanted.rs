//! `Wanted`: which requests are counted, and which values that needs.

use memchr::memmem;

use super::key::{KeyParts, Part};
use super::options::{Filters, LogOptions};
use super::record::{Record, Skip};
use crate::failure::Failure;

/// Which requests are counted: those that are like one of each list, or of any list that is empty.
pub(super) struct Wanted<'o> {
    filters: &'o Filters,
    pub(super) needs: Needs,
}

/// Which values of a request are needed besides its time, for the key or for a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) client: bool,
    pub(super) method: bool,
    pub(super) path: bool,
    pub(super) status: bool,
    pub(super) user: bool,
}

impl<'o> Wanted<'o> {
    pub(super) fn new(options: &'o LogOptions, key: &KeyParts) -> Result<Self, Failure> {
        let filters = &options.filters;
        let bad = |option, text: &str, reason| Err(Failure::wrong(option, text, reason));
        for path in &filters.paths {
            if path.contains('?') {
                let reason =
                    "paths are compared without their query strings; leave out what begins with ?";
                return bad("--path", path, reason);
            }
            if !path.starts_with(['/', '*']) {
                let reason = "give a whole path, such as /login, or a part with * for the rest, such as '/api/*'";
                return bad("--path", path, reason);
            }
        }
        for method in &filters.methods {
            if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                let reason = "give the name of a method, such as POST";
                return bad("--method", method, reason);
            }
        }
        for status in &filters.statuses {
            let is_status = |text: &[u8]| match text {
                [b'1'..=b'9', rest @ ..] if rest.len() == 2 => {
                    rest == b"xx" || rest.iter().all(u8::is_ascii_digit)
                }
                _ => false,
            };
            if !is_status(status.as_bytes()) {
                return bad("--status", status, "give three digits, such as 401, or 4xx");
            }
        }
        let needs = Needs {
            client: key.contains(Part::Client) || key.contains(Part::Ip),
            method: !filters.methods.is_empty(),
            path: key.contains(Part::Path) || !filters.paths.is_empty(),
            status: !filters.statuses.is_empty(),
            user: key.contains(Part::User),
        };
        Ok(Self { filters, needs })
    }

    /// Returns [`Skip::LeftOut`] if `record` is not wanted.
    #[inline]
    pub(super) fn check(&self, record: &Record<'_>) -> Result<(), Skip> {
        let Filters {
            paths,
            methods,
            statuses,
        } = self.filters;
        let is_method = |it: &String| record.method.eq_ignore_ascii_case(it.as_bytes());
        let is_wanted = (paths.is_empty() || paths.iter().any(|it| is_path(it, record.path)))
            && (methods.is_empty() || methods.iter().any(is_method))
            && (statuses.is_empty() || statuses.iter().any(|it| is_status(it, record.status)));
        is_wanted.then_some(()).ok_or(Skip::LeftOut)
    }
}

fn is_status(wanted: &str, status: &[u8]) -> bool {
    let mut digits = wanted.bytes().zip(status);
    status.len() == 3 && digits.all(|(wanted, digit)| wanted == b'x' || wanted == *digit)
}

/// Returns whether `path` is `wanted`, in which each `*` stands for any text.
fn is_path(wanted: &str, path: &[u8]) -> bool {
    let Some((start, rest)) = wanted.split_once('*') else {
        return wanted.as_bytes() == path;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = path.strip_prefix(start.as_bytes());
    let Some(mut inner) = inner.and_then(|inner| inner.strip_suffix(end.as_bytes())) else {
        return false;
    };
    middle.split('*').all(|part| {
        let found = memmem::find(inner, part.as_bytes());
        found.map(|at| inner = &inner[at + part.len()..]).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_of_a_path() {
        for (wanted, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/", false),
            ("/a*", "/a", true),
            ("/a/*", "/a", false),
            ("/a/*", "/a/b/c", true),
            ("*.php", "/x.php", true),
            ("*.php", "/x.php5", false),
            ("/ab*ba", "/aba", false),
            ("/a*c*e", "/abcde", true),
            ("/a*c*c", "/abc", false),
            ("/a*c*b*e", "/abcde", false),
            ("*", "", true),
        ] {
            let found = is_path(wanted, path.as_bytes());
            assert_eq!(found, expected, "{wanted} {path}");
        }
    }

    #[test]
    fn a_class_of_statuses_has_three_digits() {
        for (wanted, status, expected) in [
            ("401", "401", true),
            ("401", "403", false),
            ("4xx", "499", true),
            ("4xx", "500", false),
            ("4xx", "4", false),
            ("4xx", "-", false),
        ] {
            let found = is_status(wanted, status.as_bytes());
            assert_eq!(found, expected, "{wanted} {status}");
        }
    }
}

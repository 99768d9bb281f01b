//! `Matcher`: which names, keys and costs an expectation accepts.

use std::fmt::Display;

use mockall::Predicate;
use tollgate_core::Key;
use tollgate_core::store::Check;

use super::limit::{joined, literal};

/// Which names of limits (`str`), [`Key`]s or costs (`u64`) an expectation accepts.
///
/// - A value: a name as text, a key as every limiter takes it, a cost as a number.
/// - A [predicate](crate::predicate) of `mockall`, on `str` for a name or a key and on `u64` for a
///   cost; `always()` accepts any. A predicate on a key sees both parts, concatenated, with `\u{fffd}`
///   in place of bytes that are not UTF-8.
/// - A closure: `|name: &str| ..`, `|key: &Key| ..` or `|cost| ..`, which returns a `bool`.
///
/// The compiler infers `BY`, which of the three it is.
///
/// # Examples
///
/// ```
/// use tollgate_mock::predicate::{always, ge, str::starts_with};
/// use tollgate_mock::{Key, MockStore, RateLimiter};
///
/// let mut store = MockStore::new();
/// store.expect_check("api", "alice").cost(1).allow();
/// store.expect_check(always(), starts_with("user:")).cost(ge(2)).allow();
/// store.expect_check("api", |key: &Key| key.rest() == b"/login").cost(|cost| cost < 9).allow();
///
/// let limiter = RateLimiter::new(store, ["api=gcra:10/1s"])?;
/// assert!(limiter.check("alice").run()?.is_allowed());
/// assert!(limiter.check("user:17").cost(2).run()?.is_allowed());
/// assert!(limiter.check(("alice", "/login")).cost(5).run()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Matcher<T: ?Sized, const BY: u8> {
    #[doc(hidden)]
    fn into_test(self) -> Test;
}

/// What is expected, in the words of messages, and whether a check is so.
pub(super) type Test = (String, Box<dyn Fn(&Check<'_>) -> bool + Send>);

const VALUE: u8 = 0;
const PREDICATE: u8 = 1;
const CLOSURE: u8 = 2;

impl<V: AsRef<str>> Matcher<str, VALUE> for V {
    fn into_test(self) -> Test {
        let name = self.as_ref().to_owned();
        let text = format!("limit `{name}`");
        (text, Box::new(move |check| check.limit().name() == name))
    }
}

impl<'k, V: Into<Key<'k>>> Matcher<Key<'static>, VALUE> for V {
    fn into_test(self) -> Test {
        let key = joined(self.into());
        let text = format!("key {}", literal(&key));
        (text, Box::new(move |check| joined(check.key()) == key))
    }
}

impl Matcher<Self, VALUE> for u64 {
    fn into_test(self) -> Test {
        let text = format!("cost {self}");
        (text, Box::new(move |check| check.cost() == self))
    }
}

impl<P: Predicate<str> + Send + 'static> Matcher<str, PREDICATE> for P {
    fn into_test(self) -> Test {
        let text = predicated("limit", &self);
        (text, Box::new(move |check| self.eval(check.limit().name())))
    }
}

impl<P: Predicate<str> + Send + 'static> Matcher<Key<'static>, PREDICATE> for P {
    fn into_test(self) -> Test {
        let text = predicated("key", &self);
        let test = move |key: &[u8]| self.eval(&String::from_utf8_lossy(key));
        (text, Box::new(move |check| test(&joined(check.key()))))
    }
}

impl<P: Predicate<u64> + Send + 'static> Matcher<u64, PREDICATE> for P {
    fn into_test(self) -> Test {
        let text = predicated("cost", &self);
        (text, Box::new(move |check| self.eval(&check.cost())))
    }
}

impl<F: Fn(&str) -> bool + Send + 'static> Matcher<str, CLOSURE> for F {
    fn into_test(self) -> Test {
        let text = "a limit that a closure accepts".to_owned();
        (text, Box::new(move |check| self(check.limit().name())))
    }
}

impl<F: Fn(&Key<'_>) -> bool + Send + 'static> Matcher<Key<'static>, CLOSURE> for F {
    fn into_test(self) -> Test {
        let text = "a key that a closure accepts".to_owned();
        (text, Box::new(move |check| self(&check.key())))
    }
}

impl<F: Fn(u64) -> bool + Send + 'static> Matcher<u64, CLOSURE> for F {
    fn into_test(self) -> Test {
        let text = "a cost that a closure accepts".to_owned();
        (text, Box::new(move |check| self(check.cost())))
    }
}

/// Returns the words for what `predicate` accepts.
fn predicated(noun: &str, predicate: &impl Display) -> String {
    match predicate.to_string().as_str() {
        "true" => format!("any {noun}"),
        text => format!("a {noun} where {text}"),
    }
}

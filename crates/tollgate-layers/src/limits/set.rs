//! `LimitSet`: limits by name, as a configuration says them.

use std::collections::BTreeMap;

use tollgate_core::{Gcra, Limit, LimitError, LimitErrorKind, Quota, RateLimiter};

/// Limits by name, as a configuration says them: of a route, a plan or a tenant.
///
/// A name has one limit, several that are decided together, or none if it is switched off:
///
/// ```
/// use tollgate_layers::limits::LimitSet;
///
/// let set: LimitSet = toml::from_str(
///     r#"
///     login = ["login-minute=sliding-log:5/min", "login-hour=sliding-log:20/hour"]
///     search = "gcra:10/s"
///     upload = "off"
///
///     [api]
///     algorithm = "gcra"
///     amount = 100
///     window = "1m"
///     burst = 20
///     "#,
/// )?;
/// assert_eq!(set.get("login").unwrap()[1].name(), "login-hour");
/// assert_eq!(set.get("search").unwrap()[0].to_string(), "search=gcra:10/1s");
/// assert_eq!(set.get("upload"), Some(&[][..]));
/// assert_eq!(set.get("api").unwrap()[0].to_string(), "api=gcra:100/1m,burst=20");
/// assert_eq!(set.get("logout"), None);
///
/// let error = toml::from_str::<LimitSet>(r#"api = "gcra:100/1m,brust=20""#).unwrap_err();
/// assert!(error.to_string().contains("one of the options `burst=NUMBER` or `shadow`, once"));
/// # Ok::<(), toml::de::Error>(())
/// ```
///
/// A limit is its text, with or without a name, or a table of `algorithm`, `amount`, `window` and
/// the algorithm's options, which are those of the text, and of `name` and `shadow`. A limit without
/// a name of its own has that of its entry, so only one of an entry can. `off`, `name=off` and
/// `off = true` switch a limit off; the rest of a table must be right all the same. An empty list is
/// an error.
///
/// Limits of two entries that have the same name share what they count for a key: two plans may, so
/// that a customer who changes the plan keeps what was counted; two routes should not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LimitSet {
    pub(super) entries: BTreeMap<Box<str>, Box<[Limit]>>,
}

impl LimitSet {
    /// Returns a set without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry of these limits, in the place of one of the same name; `["off"]` switches it off.
    ///
    /// # Errors
    ///
    /// Those of [`RateLimiter::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_layers::limits::LimitSet;
    ///
    /// let set = LimitSet::new().with("search", ["gcra:10/1s"])?;
    /// assert_eq!(set.get("search").unwrap()[0].to_string(), "search=gcra:10/1s");
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn with<T: AsRef<str>>(
        mut self,
        name: &str,
        limits: impl IntoIterator<Item = T>,
    ) -> Result<Self, LimitError> {
        let (mut on, mut is_empty) = (Vec::new(), true);
        for text in limits {
            on.extend(limit(name, text.as_ref())?);
            is_empty = false;
        }
        if is_empty {
            return Err(LimitError::new(
                LimitErrorKind::Count,
                format!("`{name}` needs at least one limit, such as `gcra:10/1m`, or `off`"),
            ));
        }
        self.insert(name, on)?;
        Ok(self)
    }

    /// Returns the limits of an entry, none if it is switched off, or `None` if there is no such
    /// entry.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[Limit]> {
        self.entries.get(name).map(|limits| &**limits)
    }

    /// Returns the names of the entries, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    pub(super) fn insert(&mut self, name: &str, limits: Vec<Limit>) -> Result<(), LimitError> {
        if !limits.is_empty() {
            let _ = RateLimiter::new((), &limits)?;
        }
        let _ = self.entries.insert(name.into(), limits.into());
        Ok(())
    }
}

/// Reads a limit of the entry called `entry`, or `None` if it is switched off.
pub(super) fn limit(entry: &str, text: &str) -> Result<Option<Limit>, LimitError> {
    // An `=` after a colon belongs to an option.
    let is_named = |(name, _): (&str, &str)| !name.contains(':');
    let is_whole = text == OFF || text.split_once('=').is_some_and(is_named);
    let read = match is_whole {
        true => text.parse(),
        false => format!("{entry}={text}").parse(),
    };
    match read {
        Err(error) if LimitError::kind(&error) == LimitErrorKind::Off => Ok(None),
        read => read.map(Some),
    }
}

/// Returns the error of a name that no limit can have.
pub(super) fn check_name(name: &str) -> Result<(), LimitError> {
    let any = Gcra::new(Quota::per_second(1))?;
    Limit::new(name, any).map(drop)
}

/// The text of a limit that is switched off.
pub(super) const OFF: &str = "off";

//! Limits in a file, which is looked at every second.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, thread};

use super::{Change, LimitSet, Limits, UnknownName};

/// How often the file is read.
const EVERY: Duration = Duration::from_secs(1);

/// Why a file's limits were not put into force: those before stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The file cannot be read.
    #[error("cannot read limits from {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        error: io::Error,
    },
    /// The text is not a set of limits.
    #[error("{} has no limits that can be put into force: {error}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        error: String,
    },
    /// A name is missing that the program [requires](Limits::require).
    #[error("{} cannot be put into force, since the program needs them: {error}", path.display())]
    Required {
        /// The file.
        path: PathBuf,
        /// Which name is missing.
        #[source]
        error: UnknownName,
    },
    /// No thread can be started to watch the file.
    #[error("cannot start a thread that watches limits: {0}")]
    Thread(#[source] io::Error),
}

impl Limits {
    /// Reads limits from a file, and puts them into force anew whenever it changes, until the last
    /// clone is dropped.
    ///
    /// `parse` reads the text, in any format that serde has, such as `|text| toml::from_str(text)`.
    /// A thread reads the file every second, whatever it is reached by: links may change on the way, as
    /// in the volumes of Kubernetes. A text is put into force when it has not changed between two
    /// looks, so that none is half written. Then `report` gets what has changed; or, once, why the
    /// limits before stay in force.
    ///
    /// With the feature `metrics`, the gauge `tollgate_limits_last_reload_successful` is 0 while
    /// something else is in force than what the file says, and 1 otherwise.
    ///
    /// # Errors
    ///
    /// If the file has no valid limits at the start.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_layers::limits::Limits;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("limits.toml");
    /// # std::fs::write(&path, r#"login = "sliding-log:5/1m""#)?;
    /// let limits = Limits::watch(path, |text| toml::from_str(text), |reload| match reload {
    ///     Ok(changes) => changes.iter().for_each(|change| println!("{change}")),
    ///     Err(error) => eprintln!("{error}; the limits before stay in force"),
    /// })?;
    /// limits.require(["login"])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch<E: Display>(
        path: impl Into<PathBuf>,
        parse: impl Fn(&str) -> Result<LimitSet, E> + Send + 'static,
        report: impl Fn(Result<&[Change], &WatchError>) + Send + 'static,
    ) -> Result<Self, WatchError> {
        let path = path.into();
        let text = read(&path)?;
        let limits = Self::new(parsed(&path, &parse, &text)?);
        let metered = Metered::new();
        metered.record(true);
        let state = Arc::downgrade(&limits.0);
        let watch = move || {
            let mut file = File::new(text);
            loop {
                thread::sleep(EVERY);
                let Some(limits) = state.upgrade().map(Self) else {
                    return;
                };
                let loaded = match file.look(read(&path)) {
                    Some(Ok(text)) => parsed(&path, &parse, &text).and_then(|set| {
                        let path = path.clone();
                        let replaced = limits.replace(set);
                        replaced.map_err(|error| WatchError::Required { path, error })
                    }),
                    Some(Err(error)) => Err(error),
                    None => continue,
                };
                metered.record(loaded.is_ok());
                report(loaded.as_deref());
            }
        };
        let builder = thread::Builder::new().name("tollgate-limits".to_owned());
        drop(builder.spawn(watch).map_err(WatchError::Thread)?);
        Ok(limits)
    }
}

fn read(path: &Path) -> Result<String, WatchError> {
    fs::read_to_string(path).map_err(|error| WatchError::Read {
        path: path.to_owned(),
        error,
    })
}

fn parsed<E: Display>(
    path: &Path,
    parse: impl Fn(&str) -> Result<LimitSet, E>,
    text: &str,
) -> Result<LimitSet, WatchError> {
    parse(text).map_err(|error| WatchError::Parse {
        path: path.to_owned(),
        error: error.to_string(),
    })
}

/// What was seen of a file: its text, or that it cannot be read.
struct File {
    /// What was put into force, or refused.
    known: Option<String>,
    /// Something else at the last look.
    next: Option<Option<String>>,
}

impl File {
    fn new(text: String) -> Self {
        Self {
            known: Some(text),
            next: None,
        }
    }

    /// Returns what was seen now if it is new, and the same as at the last look.
    fn look<E>(&mut self, now: Result<String, E>) -> Option<Result<String, E>> {
        let seen = now.as_ref().ok();
        if seen == self.known.as_ref() {
            self.next = None;
            return None;
        }
        if self.next.as_ref().map(Option::as_ref) != Some(seen) {
            self.next = Some(seen.cloned());
            return None;
        }
        self.known = seen.cloned();
        self.next = None;
        Some(now)
    }
}

/// Whether the limits in the file are in force, as a metric.
struct Metered(#[cfg(feature = "metrics")] metrics::Gauge);

#[cfg(feature = "metrics")]
impl Metered {
    fn new() -> Self {
        let name = "tollgate_limits_last_reload_successful";
        metrics::describe_gauge!(name, "Whether the limits in the file are in force: 1, or 0");
        Self(metrics::gauge!(name))
    }

    fn record(&self, successful: bool) {
        self.0.set(f64::from(u8::from(successful)));
    }
}

#[cfg(not(feature = "metrics"))]
impl Metered {
    fn new() -> Self {
        Self()
    }

    fn record(&self, _: bool) {}
}

#[cfg(test)]
mod tests {
    use super::File;

    #[test]
    fn a_text_counts_once_it_is_the_same_at_two_looks() {
        let mut file = File::new("a".to_owned());
        for (seen, expected) in [
            (Ok("a"), None),
            (Ok("hal"), None),
            (Ok("half"), None),
            (Ok("half"), Some(Ok("half"))),
            (Ok("half"), None),
            (Ok("x"), None),
            (Ok("half"), None),
            (Ok("x"), None),
            (Err("gone"), None),
            (Ok("x"), None),
            (Err("gone"), None),
            (Err("gone"), Some(Err("gone"))),
            (Err("gone"), None),
            (Ok("half"), None),
            (Ok("half"), Some(Ok("half"))),
        ] {
            let found = file.look(seen.map(str::to_owned));
            assert_eq!(
                found,
                expected.map(|seen| seen.map(str::to_owned)),
                "{seen:?}"
            );
        }
    }
}

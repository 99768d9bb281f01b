//! Limits in a file, which is looked at every second.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, thread};

use super::{Change, LimitSet, Limits, NotMet};

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
    /// The text is not a set of limits, or is empty, as a file is before it is written.
    #[error("{} has no limits that can be put into force: {error}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        error: String,
    },
    /// They lack what the program requires: a [name](Limits::require), or support for
    /// [calls](super::Limiters::require).
    #[error("{} cannot be put into force, since the program needs more: {error}", path.display())]
    Required {
        /// The file.
        path: PathBuf,
        /// What is missing.
        #[source]
        error: NotMet,
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
    /// in the volumes of Kubernetes. A change is put into force when the text is the same at two looks,
    /// so that none is half written, unless its writer pauses for longer: to be sure, write another
    /// file and rename it. Then `report` gets what has changed, which is nothing if a mistake was taken
    /// back; or, once, why the limits before stay in force. [Replaced](Self::replace) limits are in force until the file changes.
    ///
    /// With the feature `metrics`, the gauge `tollgate_limits_last_reload_successful`, with the path as
    /// the label `file`, is 0 while the file's text is refused, and 1 otherwise.
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
    ///     // Nothing has changed if a mistake was taken back.
    ///     Ok([]) => println!("the file has the limits in force"),
    ///     Ok(changes) => changes.iter().for_each(|change| println!("{change}")),
    ///     Err(error) => eprintln!("the limits before stay in force: {error}"),
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
        let state = Arc::downgrade(&limits.0);
        let metered = Metered::new(&path);
        metered.record(true);
        let watch = move || {
            let (mut file, mut is_current) = (File::new(text), true);
            loop {
                thread::sleep(EVERY);
                let Some(limits) = state.upgrade().map(Self) else {
                    return;
                };
                let loaded = file.look(read(&path)).map(|text| {
                    let set = parsed(&path, &parse, &text?)?;
                    limits.replace(set).map_err(|error| WatchError::Required {
                        path: path.clone(),
                        error,
                    })
                });
                drop(limits);
                is_current = loaded.as_ref().map_or(is_current, Result::is_ok);
                metered.record(is_current);
                if let Some(loaded) = loaded {
                    // A report that panics must not end the watch.
                    let report = AssertUnwindSafe(|| report(loaded.as_deref()));
                    let _ = catch_unwind(report);
                }
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
    let refused = |error: String| WatchError::Parse {
        path: path.to_owned(),
        error,
    };
    if text.trim().is_empty() {
        return Err(refused("the file is empty".to_owned()));
    }
    match catch_unwind(AssertUnwindSafe(|| parse(text))) {
        Ok(set) => set.map_err(|error| refused(error.to_string().trim_end().to_owned())),
        Err(_) => Err(refused("what reads it panicked".to_owned())),
    }
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

/// Whether the limits in a file are in force, as a metric.
struct Metered {
    #[cfg(feature = "metrics")]
    file: String,
    /// Of the recorder of the thread that began the watch.
    #[cfg(feature = "metrics")]
    gauge: metrics::Gauge,
}

#[cfg(feature = "metrics")]
impl Metered {
    fn new(path: &Path) -> Self {
        let file = path.display().to_string();
        Self {
            gauge: Self::gauge(&file),
            file,
        }
    }

    fn gauge(file: &str) -> metrics::Gauge {
        let name = "tollgate_limits_last_reload_successful";
        metrics::describe_gauge!(name, "Whether the limits in the file are in force: 1, or 0");
        metrics::gauge!(name, "file" => file.to_owned())
    }

    /// Records it at each look, also for a recorder that is installed later.
    fn record(&self, successful: bool) {
        for gauge in [&self.gauge, &Self::gauge(&self.file)] {
            gauge.set(f64::from(u8::from(successful)));
        }
    }
}

#[cfg(not(feature = "metrics"))]
impl Metered {
    fn new(_: &Path) -> Self {
        Self {}
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
            let wanted = expected.map(|seen| seen.map(str::to_owned));
            assert_eq!(found, wanted, "{seen:?}");
        }
    }
}

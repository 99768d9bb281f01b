//! `LimitOptions`: the limits that a command asks about, in full, by name in the service's file of
//! limits, or as `explain` and `list` print them.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use clap::Args;
use jiff::tz::TimeZone;
use tollgate_core::{Algorithm, FixedWindow, Limit, LimitError, Quota, RateLimiter};
use tollgate_layers::limits::LimitSet;
use tollgate_wire::TimeSource;
use tollgate_wire::operate::{FoundState, Search};

use crate::failure::Failure;
use crate::store::TimeSource as Clock;
use crate::time::no_zone;

/// The letters that stand in the text of a state for the numbers that its key does not show, and
/// numbers to replace them: they do not change the keys that a limit reads.
const LETTERS: [(&str, &str); 3] = [(":N/", ":1/"), ("/WINDOW", "/1s"), (":LENGTH", ":1s")];

/// What comes before the rest of a state.
const OF_REST: &str = " of the rest ";

/// The limits of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitOptions {
    /// A limit of the service, as NAME=ALGORITHM:N/WINDOW, or its name in the file of --limits; repeat
    /// for several
    #[arg(long = "limit", value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// The service's file of limits, TOML or JSON, which --limit then takes names from
    #[arg(long = "limits", value_name = "FILE")]
    pub(crate) limits_file: Option<PathBuf>,

    /// The time zone in which limits `@local` count: the one that the service gives its calls for the key
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    /// The day of the month from which limits `day=local` count: the one that the service gives its calls for
    /// the key
    #[arg(long, value_name = "DAY", value_parser = clap::value_parser!(u8).range(1..=31))]
    pub(crate) day: Option<u8>,
}

/// The limits of a service, as its file has them.
pub(crate) struct LimitsFile {
    path: PathBuf,
    set: LimitSet,
}

/// Limits that read the same states, such as those of several plans.
pub(crate) struct Sharing {
    pub(crate) limits: Vec<Limit>,
    /// How many of them, from the first, the command asks about.
    pub(crate) asked: usize,
}

impl Sharing {
    fn identity(&self) -> &str {
        self.limits[0].identity()
    }
}

/// Which states a command is about.
#[derive(Default)]
pub(crate) struct Selected {
    /// Those that these limits read.
    pub(crate) limits: Vec<Limit>,
    /// Those of these names.
    names: Vec<String>,
    /// Those that are shown so.
    shown: Vec<String>,
}

impl LimitOptions {
    pub(crate) fn file(&self) -> Result<Option<LimitsFile>, Failure> {
        self.limits_file
            .as_deref()
            .map(LimitsFile::read)
            .transpose()
    }

    /// Returns limits that decide a call together; those of names are of `file`, as below.
    pub(crate) fn together(&self, file: Option<&LimitsFile>) -> Result<Vec<Limit>, Failure> {
        if let Some(file) = file.filter(|_| self.limits.is_empty()) {
            return Err(file.which());
        }
        let mut limits = Vec::new();
        for text in &self.limits {
            let found = in_full(file, text)?;
            if let Some(file) = file {
                file.check_one(text, &found)?;
            }
            limits.extend(found);
        }
        RateLimiter::new((), limits.clone()).map_err(Failure::Limits)?;
        self.in_zone(limits)
    }

    /// Returns `limits` in the zone of `--zone` and on the day of `--day`, which they may need.
    fn in_zone(&self, limits: Vec<Limit>) -> Result<Vec<Limit>, Failure> {
        let limits = self.in_zone_if_given(limits)?;
        for limit in &limits {
            if limit.needs_zone() {
                return Err(Failure::LimitWithoutZone(limit.to_string()));
            }
            if limit.needs_day() {
                return Err(Failure::LimitWithoutDay(limit.to_string()));
            }
        }
        Ok(limits)
    }

    /// Returns `limits` in the zone of `--zone` and on the day of `--day`, if they are given.
    pub(crate) fn in_zone_if_given(&self, limits: Vec<Limit>) -> Result<Vec<Limit>, Failure> {
        let on_day = |limit: Limit| match self.day {
            Some(day) => limit.on_day(day),
            None => Ok(limit),
        };
        let limits = limits.into_iter().map(on_day).collect::<Result<_, _>>();
        let limits: Vec<Limit> = limits.map_err(Failure::Limits)?;
        let Some(name) = &self.zone else {
            return Ok(limits);
        };
        let unknown = || no_zone("--zone", name);
        let zone = TimeZone::get(name).map_err(|_| unknown())?;
        let limits = limits.iter().map(|limit| limit.in_zone(&zone));
        limits.collect::<Result<_, _>>().map_err(|_| unknown())
    }

    /// Returns limits that decide each by itself: their names may be the same. Without any, these are
    /// all of the file.
    pub(crate) fn separate(&self, file: Option<&LimitsFile>) -> Result<Vec<Limit>, Failure> {
        if let Some(file) = file.filter(|_| self.limits.is_empty()) {
            return self.in_zone(file.limits());
        }
        let mut limits = Vec::new();
        for text in &self.limits {
            for limit in in_full(file, text)? {
                if limits.contains(&limit) {
                    let (option, text) = ("--limit", text.clone());
                    return Err(Failure::Twice { option, text });
                }
                limits.push(limit);
            }
        }
        self.in_zone(limits)
    }

    /// Returns limits that decide each by itself, with those of the file that read the same states:
    /// plans may share a name.
    pub(crate) fn sharing(&self, file: Option<&LimitsFile>) -> Result<Vec<Sharing>, Failure> {
        let asked = self.separate(file)?;
        let all = file.map(LimitsFile::limits).unwrap_or_default();
        let all = self.in_zone_if_given(all)?;
        let mut groups: Vec<Sharing> = Vec::new();
        for (index, limit) in asked.iter().chain(&all).enumerate() {
            let is_asked = index < asked.len();
            let same = |group: &&mut Sharing| group.identity() == limit.identity();
            match groups.iter_mut().find(same) {
                Some(group) if group.limits.contains(limit) => {}
                Some(group) => {
                    group.limits.push(limit.clone());
                    group.asked += usize::from(is_asked);
                }
                None if is_asked => groups.push(Sharing {
                    limits: vec![limit.clone()],
                    asked: 1,
                }),
                None => {}
            }
        }
        Ok(groups)
    }

    /// Returns the states to look for; `None` for all.
    pub(crate) fn selected(&self, file: Option<&LimitsFile>) -> Result<Option<Selected>, Failure> {
        let mut selected = Selected::default();
        for text in &self.limits {
            selected.add(file, text)?;
        }
        selected.limits = self.in_zone(selected.limits)?;
        Ok((!self.limits.is_empty()).then_some(selected))
    }
}

/// Returns the limits that `text` means, to decide by.
fn in_full(file: Option<&LimitsFile>, text: &str) -> Result<Vec<Limit>, Failure> {
    if let Some(limits) = file.map(|file| file.called(text)).transpose()?.flatten() {
        return Ok(limits);
    }
    if let Some(shown) = without_numbers(text) {
        let limits = file.map(|file| file.reading(&shown)).unwrap_or_default();
        if !limits.is_empty() {
            return Ok(limits);
        }
        let reason = "the letters stand for numbers that a key does not show; give the service's numbers, or its file of limits with --limits";
        return Err(file.map_or_else(|| wrong(text, reason), |file| file.unknown(text)));
    }
    if !is_word(text) {
        return Ok(vec![limit(text)?]);
    }
    let reason = "that is a name; give the limit as the service defines it, such as login=gcra:10/1m, or the service's file of limits with --limits";
    Err(file.map_or_else(|| wrong(text, reason), |file| file.unknown(text)))
}

/// Parses a limit of the command line, which has a name.
fn limit(text: &str) -> Result<Limit, Failure> {
    if text.parse::<Algorithm>().is_ok() {
        let reason = "a limit on a server has a name; give the one that the service gives it, such as login=gcra:10/1m";
        return Err(wrong(text, reason));
    }
    text.parse().map_err(|error: LimitError| wrong(text, error))
}

fn wrong(limit: &str, reason: impl fmt::Display) -> Failure {
    Failure::wrong("--limit", limit, reason)
}

/// Returns whether `text` could be a name, and no limit.
fn is_word(text: &str) -> bool {
    !text.contains([':', '='])
}

/// Returns a limit that reads the states that are shown as `text`, such as `login=gcra:N/WINDOW`.
fn without_numbers(text: &str) -> Option<Limit> {
    let (name, algorithm) = text.split_once('=')?;
    let with_numbers = LETTERS
        .iter()
        .fold(algorithm.to_owned(), |text, (from, to)| {
            text.replacen(from, to, 1)
        });
    let limit = format!("{name}={with_numbers}");
    (limit != text).then(|| limit.parse().ok()).flatten()
}

/// Checks that `name` could be that of a limit.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    // The algorithm does not matter: this only validates the name.
    let named = Limit::new(name, FixedWindow::aligned(Quota::per_second(1)));
    named.map(drop).map_err(|error| wrong(name, error))
}

impl LimitsFile {
    fn read(path: &Path) -> Result<Self, Failure> {
        let failure = |reason: String| Failure::LimitsFile {
            path: path.to_owned(),
            reason: reason.trim_end().replace('\n', " "),
        };
        let text = fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let set = if is_json {
            serde_json::from_str(&text).map_err(|error| failure(error.to_string()))
        } else {
            toml::from_str(&text).map_err(|error| failure(error.to_string()))
        };
        let set: LimitSet = set?;
        if set.names().next().is_none() {
            return Err(failure("there are no limits in it".to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            set,
        })
    }

    /// Returns all limits, each once.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let entries = self.set.names().filter_map(|name| self.set.get(name));
        let mut limits: Vec<Limit> = Vec::new();
        for limit in entries.flatten() {
            if !limits.contains(limit) {
                limits.push(limit.clone());
            }
        }
        limits
    }

    /// Returns the limits of the entry, or else those of the name `text`.
    fn called(&self, text: &str) -> Result<Option<Vec<Limit>>, Failure> {
        match self.set.get(text) {
            Some([]) => {
                let path = self.path.display();
                let reason = format!("it is off in {path}, so it decides nothing");
                Err(wrong(text, reason))
            }
            Some(limits) => Ok(Some(limits.to_vec())),
            None => {
                let mut limits = self.limits();
                limits.retain(|limit| limit.name() == text);
                Ok((!limits.is_empty()).then_some(limits))
            }
        }
    }

    /// Returns the limits that read the same states as `limit`.
    pub(crate) fn reading(&self, limit: &Limit) -> Vec<Limit> {
        let mut limits = self.limits();
        limits.retain(|other| other.identity() == limit.identity());
        limits
    }

    /// Checks that `text` does not mean limits of several entries, of which one decides a call.
    fn check_one(&self, text: &str, found: &[Limit]) -> Result<(), Failure> {
        let has_twin = |index: usize| {
            let before = &found[..index];
            before.iter().any(|it| it.name() == found[index].name())
        };
        if !(0..found.len()).any(has_twin) {
            return Ok(());
        }
        let has = |entry: &&str| {
            let limits = self.set.get(entry).unwrap_or_default();
            limits.iter().any(|limit| found.contains(limit))
        };
        let entries: Vec<&str> = self.set.names().filter(has).collect();
        let reason = format!(
            "several limits in {} have that name, and one of them decides a call; give the entry: {}",
            self.path.display(),
            entries.join(", ")
        );
        Err(wrong(text, reason))
    }

    pub(crate) fn which(&self) -> Failure {
        let known = self.known();
        Failure::LimitsFile {
            path: self.path.clone(),
            reason: format!("say which limits decide the call with --limit: {known}"),
        }
    }

    fn unknown(&self, limit: &str) -> Failure {
        let (path, known) = (self.path.display(), self.known());
        let reason = format!("there are no limits of that name in {path}; it has {known}");
        wrong(limit, reason)
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.set.names().collect();
        names.join(", ")
    }
}

impl Selected {
    fn add(&mut self, file: Option<&LimitsFile>, text: &str) -> Result<(), Failure> {
        if let Some(limits) = file.map(|file| file.called(text)).transpose()?.flatten() {
            self.limits.extend(limits);
        } else if without_numbers(text).is_some() || text.contains(' ') && name_in(text).is_some() {
            self.shown.push(text.to_owned());
        } else if is_word(text) {
            check_name(text)?;
            self.names.push(text.to_owned());
        } else {
            self.limits.push(limit(text)?);
        }
        Ok(())
    }

    /// Returns whether these are limits only, whose keys are known.
    pub(crate) fn is_exact(&self) -> bool {
        self.names.is_empty() && self.shown.is_empty()
    }

    pub(crate) fn narrow(&self, search: Search) -> Search {
        let limits = self.limits.iter().map(Limit::name);
        let names = self.names.iter().map(String::as_str);
        let shown = self.shown.iter().filter_map(|text| name_in(text));
        let mut all: Vec<_> = limits.chain(names).chain(shown).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().fold(search, Search::with_limit)
    }

    pub(crate) fn has(&self, state: &FoundState) -> bool {
        let clocks = [TimeSource::Server, TimeSource::Caller];
        let is_read = |limit: &Limit| clocks.iter().any(|&clock| state.is_of(limit, clock));
        self.limits.iter().any(is_read)
            || self.names.contains(&state.name)
            || self.shown.iter().any(|text| is_shown(text, state))
    }
}

/// Returns what stands after the text of a state of this rest, if it has one.
pub(crate) fn of_rest(rest: &str) -> String {
    match rest {
        "" => String::new(),
        rest => format!("{OF_REST}{rest}"),
    }
}

/// Returns what stands after the text of a state whose rest is another one than was asked for.
pub(crate) fn of_other_rest(rest: &str) -> String {
    match rest {
        "" => " without a rest".to_owned(),
        rest => of_rest(rest),
    }
}

/// Returns whether a command shows `state` as `text`, with or without its rest and clock.
fn is_shown(text: &str, state: &FoundState) -> bool {
    let Some(after) = text.strip_prefix(&state.to_string()) else {
        return false;
    };
    let rest = of_rest(&String::from_utf8_lossy(&state.rest));
    let after = after.strip_prefix(&rest).unwrap_or(after);
    after.is_empty() || after == Clock::from(state.clock).beside(Clock::Server)
}

/// Returns the name in the text of a state, as `explain` and `list` print it.
fn name_in(text: &str) -> Option<&str> {
    let starts = [
        "the leases called ",
        "the schedule called ",
        "the answer to a call with an id, kept by ",
    ];
    let called = starts.iter().find_map(|start| text.strip_prefix(start));
    let called = called.map(|name| {
        let name = name.split(OF_REST).next().unwrap_or(name);
        name.split(',').next().unwrap_or(name)
    });
    called.or_else(|| text.split_once('=').map(|(name, _)| name))
}

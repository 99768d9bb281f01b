//! `tollgate reset --all`: deletes the states of all keys.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tollgate_core::StoreError;
use tollgate_wire::operate::{Clear, Cleared, Search};

use super::options::ResetOptions;
use crate::failure::Failure;
use crate::limits::check_name;
use crate::output::{Output, say, status};
use crate::store::{Remote, TimeSource, wait_for};
use crate::text::plural;

/// How far the clocks of healthy servers may be apart.
const APART: Duration = Duration::from_secs(1);

pub(super) fn run(options: &ResetOptions, output: &Output) -> Result<ExitCode, Failure> {
    let server = options.server.server()?;
    let settings = options.server.settings(TimeSource::Server)?;
    let what = what(options)?;
    let mut forgotten = None;
    let mut absent = None;
    let cleared = wait_for(async {
        let store = server.connect(settings).await?;
        absent = Absent::find(&*store, &options.limits.limits).await?;
        let mut show = |so_far: &Cleared| {
            forgotten = Some(so_far.cleared);
        };
        Ok(store.clear(&what, &mut show).await?)
    });
    let cleared = cleared.map_err(|failure| match forgotten {
        None | Some(0) => failure,
        Some(forgotten) => Failure::HalfForgotten {
            forgotten,
            failure: Box::new(failure),
        },
    })?;
    let is_nothing = absent.is_some() && cleared.found == 0;
    let answer = Answer::new(options, &cleared, absent);
    say(options.server.json, output, &answer, || answer.to_text())?;
    Ok(status(!is_nothing))
}

/// Names that have no state.
#[derive(Serialize)]
struct Absent {
    absent: Vec<String>,
    /// Those that have some.
    names: BTreeSet<String>,
}

impl Absent {
    /// Looks for states of each of `names`, until there is one of each.
    async fn find(store: &dyn Remote, names: &[String]) -> Result<Option<Self>, StoreError> {
        let mut absent = names.to_vec();
        let mut found = BTreeSet::new();
        let mut search = Search::new();
        while !absent.is_empty() {
            let Some(states) = store.find(&mut search).await? else {
                let names = found;
                return Ok(Some(Self { absent, names }));
            };
            found.extend(states.into_iter().map(|state| state.name));
            absent.retain(|name| !found.contains(name));
        }
        Ok(None)
    }

    fn to_text(&self) -> String {
        let names: Vec<_> = self.names.iter().map(String::as_str).collect();
        let names = match &*names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        format!(
            "The server holds no state of {}; it has states of {names}.\n",
            self.absent.join(", ")
        )
    }
}

fn what(options: &ResetOptions) -> Result<Clear, Failure> {
    let mut what = Clear::new();
    for name in &options.limits.limits {
        check_name(name)?;
        what = what.with_limit(name);
    }
    if options.ahead {
        what = what.ahead_by(APART);
    }
    Ok(if options.dry_run {
        what.dry_run()
    } else {
        what
    })
}

#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    prefix: &'a str,
    limits: &'a [String],
    ahead: bool,
    dry_run: bool,
    servers: usize,
    found: u64,
    forgotten: u64,
    left: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    absent: Option<Absent>,
}

impl<'a> Answer<'a> {
    fn new(options: &'a ResetOptions, cleared: &Cleared, absent: Option<Absent>) -> Self {
        Self {
            command: "reset",
            prefix: &options.server.prefix,
            limits: &options.limits.limits,
            ahead: options.ahead,
            dry_run: options.dry_run,
            servers: cleared.servers,
            found: cleared.found,
            forgotten: cleared.cleared,
            left: cleared.skipped,
            absent,
        }
    }

    fn to_text(&self) -> String {
        let (count, done) = if self.dry_run {
            (self.found, "would be forgotten")
        } else {
            (self.forgotten, "forgotten")
        };
        let states = plural(count, "state", "states");
        let mut text = format!("reset {}: {states} {done}", self.prefix);
        if !self.limits.is_empty() {
            text += &format!(" of {}", self.limits.join(", "));
        }
        if self.ahead {
            text += ", all of them ahead of the server's clock";
        }
        if self.servers > 1 {
            text += &format!(", on {} servers", self.servers);
        }
        text.push('\n');
        if self.left > 0 {
            text += &format!(
                "({} left: written by another release, or by no limit)\n",
                plural(self.left, "key was", "keys were")
            );
        }
        let absent = self.absent.as_ref().map(Absent::to_text);
        text + &absent.unwrap_or_default()
    }
}

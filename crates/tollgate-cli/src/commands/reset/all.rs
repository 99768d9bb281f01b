//! `tollgate reset --all`: deletes the states of all keys.

use std::time::Duration;

use serde::Serialize;
use tollgate_wire::{Clear, Cleared};

use super::options::ResetOptions;
use crate::failure::Failure;
use crate::limits::check_name;
use crate::output::{Output, say};
use crate::store::{TimeSource, wait_for};
use crate::text::plural;

/// How far the clocks of healthy servers may be apart.
const APART: Duration = Duration::from_secs(1);

/// Runs `tollgate reset --all`.
pub(super) fn run(options: &ResetOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let settings = options.server.settings(TimeSource::Server)?;
    let what = what(options)?;
    let mut forgotten = None;
    let cleared = wait_for(async {
        let store = server.connect(settings).await?;
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
    let answer = Answer::new(options, &cleared);
    say(options.server.json, output, &answer, || answer.to_text())
}

/// Returns which states to delete.
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

/// The answer of `reset --all`.
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
}

impl<'a> Answer<'a> {
    fn new(options: &'a ResetOptions, cleared: &Cleared) -> Self {
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
        text
    }
}

//! `tollgate reset KEY`: deletes states of one key.

use std::process::ExitCode;

use serde::Serialize;
use tokio::select;
use tollgate_wire::operate::{Encoding, FoundState};

use super::options::ResetOptions;
use crate::doubt::doubt;
use crate::failure::Failure;
use crate::limits::{Selected, of_rest};
use crate::output::{Output, say, status};
use crate::signals::Signal;
use crate::store::{Remote, TimeSource, Whom, wait_for};
use crate::subject::find;
use crate::text::{bullets, plural};

pub(super) fn run(options: &ResetOptions, output: &Output) -> Result<ExitCode, Failure> {
    let server = options.server.server()?;
    let whom = options.key.whom()?;
    let file = options.limits.file()?;
    if let Some(file) = file.as_ref().filter(|_| options.limits.limits.is_empty()) {
        return Err(file.which());
    }
    let selected = options.limits.selected(file.as_ref())?;
    let settings = options.key.settings(&options.server)?;
    let (states, forgotten, others, doubt) = wait_for(async {
        let store = server.connect(settings).await?;
        let work = async {
            let mut states = states(&*store, options, &whom, selected.as_ref()).await?;
            // Another release knows what they are.
            states.retain(|state| state.encoding != Encoding::Other);
            let forgotten = if options.dry_run {
                0
            } else {
                store.forget(&states).await?
            };
            let others = if states.is_empty() {
                let mut others = find(&*store, whom.search()).await?;
                others.retain(|state| whom.has(state) || whom.is_of_network(state));
                others
            } else {
                Vec::new()
            };
            let doubt = if states.is_empty() && others.is_empty() {
                doubt(&*store, &options.key, &whom, &[]).await?
            } else {
                None
            };
            Ok((states, forgotten, others, doubt))
        };
        select! {
            biased;
            signal = Signal::received() => Err(Failure::Interrupted(signal)),
            done = work => done,
        }
    })?;
    let answer = Answer {
        command: "reset",
        key: &whom.partition,
        rest: &whom.rest,
        limits: &options.limits.limits,
        dry_run: options.dry_run,
        forgotten,
        states: states.iter().map(State::new).collect(),
        other_states: others.iter().map(State::new).collect(),
        doubt,
    };
    say(options.server.json, output, &answer, || {
        answer.to_text(&whom)
    })?;
    Ok(status(!states.is_empty()))
}

async fn states(
    store: &dyn Remote,
    options: &ResetOptions,
    whom: &Whom,
    selected: Option<&Selected>,
) -> Result<Vec<FoundState>, Failure> {
    let is_exact = options.key.rest.is_some();
    let mut search = whom.search();
    if let Some(selected) = selected {
        // What limits of the service read of a key needs no search.
        if selected.is_exact() && (is_exact || !whom.is_client()) {
            return Ok(store.held(&selected.limits, whom.key()).await?);
        }
        search = selected.narrow(search);
    }
    let mut found = find(store, search).await?;
    found.retain(|state| state.is_exact || !is_exact && whom.has(state));
    found.retain(|state| selected.is_none_or(|selected| selected.has(state)));
    Ok(found)
}

#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    limits: &'a [String],
    dry_run: bool,
    forgotten: u64,
    /// Those that were found to be deleted.
    states: Vec<State>,
    /// Other states of the key, if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_states: Vec<State>,
    /// Why the service may write the key in another way, if it has no states.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<String>,
}

#[derive(Serialize)]
struct State {
    state: String,
    clock: TimeSource,
    rest: String,
    /// Whether this release does not know what it is.
    #[serde(skip)]
    is_foreign: bool,
}

impl State {
    fn new(state: &FoundState) -> Self {
        Self {
            state: state.to_string(),
            clock: state.clock.into(),
            rest: String::from_utf8_lossy(&state.rest).into_owned(),
            is_foreign: state.encoding == Encoding::Other,
        }
    }

    fn to_text(&self) -> String {
        let clock = self.clock.beside(TimeSource::Server);
        format!("{}{}{clock}", self.state, of_rest(&self.rest))
    }
}

impl Answer<'_> {
    fn to_text(&self, whom: &Whom) -> String {
        let list = |states: &[State]| bullets(states.iter().map(State::to_text));
        if !self.states.is_empty() {
            let (count, done) = if self.dry_run {
                (u64::try_from(self.states.len()), "would be forgotten")
            } else {
                (Ok(self.forgotten), "forgotten")
            };
            let count = plural(count.unwrap_or(u64::MAX), "state", "states");
            let mut text = format!("reset {whom}: {count} {done}\n{}", list(&self.states));
            if whom.is_whole_network() && self.states.iter().any(|state| !state.rest.is_empty()) {
                text += "These are of all clients of the network: --address is for one of them.\n";
            }
            return text;
        }
        let mut text = format!("reset {whom}: there is nothing to forget\n");
        if self.other_states.is_empty() {
            text += "The server holds no state of this key. ";
            text +=
                "`tollgate list` shows the limits that have states, `tollgate top` their keys.\n";
            if let Some(doubt) = &self.doubt {
                text += &format!("Perhaps this is not the key that the service counts: {doubt}.\n");
            }
        } else {
            text += "The server holds other states of this key:\n";
            text += &list(&self.other_states);
            if let Some(state) = self.other_states.iter().find(|state| !state.is_foreign) {
                let limit = &state.state;
                text += &format!(
                    "Reset all of them without --limit and --rest, or those of one limit, whatever their rests, such as with --limit '{limit}'.\n"
                );
            }
            if self.other_states.iter().any(|state| state.is_foreign) {
                text += "Those of another release are reset by its own `tollgate`; left alone, they expire.\n";
            }
        }
        text
    }
}

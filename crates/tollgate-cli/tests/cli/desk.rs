//! `Desk`: a live server to ask, with keys of its own.

use std::process::{Command, Output};

use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_core::schedule::Schedule;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, shared};

use crate::program::{has_fields, stderr, stdout, tollgate, words};
use crate::servers::{keys, prefix};

/// A server, and a key prefix on it that no other test uses.
pub(crate) struct Desk {
    pub(crate) server: shared::SharedServer,
    pub(crate) scheme: &'static str,
    pub(crate) prefix: String,
    /// What every command line begins with, and what it is about.
    command: &'static str,
    subject: String,
}

impl Desk {
    pub(crate) fn new(scheme: &'static str) -> Self {
        Self {
            server: shared::standalone(Flavor::System),
            scheme,
            prefix: prefix(),
            command: "",
            subject: String::new(),
        }
    }

    pub(crate) fn about(mut self, subject: &str) -> Self {
        subject.clone_into(&mut self.subject);
        self
    }

    /// Asks `tollgate schedule`, about alice's reminders.
    pub(crate) fn of_reminders(scheme: &'static str) -> Self {
        let mut desk = Self::new(scheme).about("--schedule reminders --key alice");
        desk.command = "schedule";
        desk
    }

    /// Returns a command that asks the server with the words of `line`.
    pub(crate) fn command(&self, line: &str) -> Command {
        let store = format!("{}://{}", self.scheme, self.server.address());
        let mut command = tollgate();
        for words in [self.command, line, &self.subject].map(words) {
            command.args(words);
        }
        command.args(["--store", &store, "--prefix", &self.prefix]);
        command
    }

    pub(crate) fn ask(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Returns what is printed for people.
    pub(crate) fn text(&self, line: &str) -> String {
        stdout(&self.ask(line))
    }

    pub(crate) fn says(&self, status: i32, line: &str) -> Value {
        let output = self.ask(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
        assert_eq!(stderr(&output), "", "{line}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command for each line of `script`, which has the exit status before it, and after `=>` what
    /// [`has_fields`] finds in the answer: `0 peek alice --limit login=gcra:5/1d => remaining=5`.
    #[track_caller]
    pub(crate) fn plays(&self, script: &str) {
        for line in script.trim().lines() {
            let (command, fields) = line.split_once(" => ").unwrap_or((line, ""));
            let (status, command) = command.trim().split_once(' ').unwrap();
            let answer = self.says(status.parse().unwrap(), command);
            has_fields(&answer, fields);
        }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = keys(&self.server.address(), &self.prefix);
        keys.sort_unstable();
        keys
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Plans an event of alice in an hour, in the schedule `mails`.
    pub(crate) fn plan_mail(&self) {
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let event = ("m", &*soon.to_string(), 1);
        let (store, terms) = (self.server.url(), ("mails", "5/1h"));
        plan(&store, &self.prefix, terms, "alice", event);
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        for key in keys(&self.server.address(), &self.prefix) {
            self.server.command(&["DEL", &key]);
        }
    }
}

/// Plans an event as a service does: in the schedule `name` with the quota `quota`, with an id, a time
/// and a weight.
pub(crate) fn plan(
    store: &str,
    prefix: &str,
    (name, quota): (&str, &str),
    key: &str,
    (id, time, weight): (&str, &str, u64),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let time: jiff::Timestamp = time.parse().unwrap();
    let time = Timestamp::from_micros(time.as_microsecond().try_into().unwrap()).unwrap();
    let planned = async {
        let store = RedisStore::builder().prefix(prefix).connect(store).await?;
        let schedule = Schedule::new(store, name, [quota]).unwrap();
        schedule.add(key, id, time).weight(weight).await
    };
    assert!(runtime.unwrap().block_on(planned).unwrap().is_planned());
}

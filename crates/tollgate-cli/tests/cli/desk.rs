//! `Desk`: a live server to ask, with keys of its own.

use std::process::Output;

use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_core::schedule::Schedule;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, shared};

use crate::program::{stderr, tollgate};
use crate::servers::{keys, prefix};

/// A server, and a key prefix on it that no other test uses.
pub(crate) struct Desk {
    pub(crate) server: shared::SharedServer,
    scheme: &'static str,
    pub(crate) prefix: String,
    /// What every command line begins with, and what it is about.
    command: &'static [&'static str],
    subject: &'static [&'static str],
}

impl Desk {
    pub(crate) fn new(scheme: &'static str) -> Self {
        Self {
            server: shared::standalone(Flavor::System),
            scheme,
            prefix: prefix(),
            command: &[],
            subject: &[],
        }
    }

    /// Asks `tollgate schedule`, about alice's reminders.
    pub(crate) fn of_reminders(scheme: &'static str) -> Self {
        let mut desk = Self::new(scheme);
        desk.command = &["schedule"];
        desk.subject = &["--schedule", "reminders", "--key", "alice"];
        desk
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        self.ask_with(arguments, &[])
    }

    pub(crate) fn ask_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.ask_through(self.scheme, arguments, variables)
    }

    pub(crate) fn ask_through(
        &self,
        scheme: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Output {
        let store = format!("{scheme}://{}", self.server.address());
        tollgate()
            .args(self.command)
            .args(arguments)
            .args(self.subject)
            .args(["--store", &store, "--prefix", &self.prefix])
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    pub(crate) fn says(&self, status: i32, arguments: &[&str]) -> Value {
        let output = self.ask(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = keys(&self.server.address(), &self.prefix);
        keys.sort_unstable();
        keys
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
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

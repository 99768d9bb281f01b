//! `tollgate doctor`: checks a live server for problems that endanger limits.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tollgate_wire::operate::{Diagnosis, Finding, Severity};

use crate::failure::Failure;
use crate::output::{Output, say, status};
use crate::store::{ServerOptions, TimeSource, wait_for};
use crate::text::{Table, bullets};

#[derive(Args, Debug)]
#[command(after_help = DOCTOR)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    /// The least severity at which the exit status is 1
    #[arg(long, value_enum, default_value_t = FailOn::Serious, value_name = "SEVERITY")]
    pub(crate) fail_on: FailOn,
}

/// The least severity at which `doctor` fails.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FailOn {
    /// What may exceed limits or fail calls once something else goes wrong
    Warning,
    /// What exceeds limits or fails calls
    #[value(alias = "error")]
    Serious,
}

pub(super) fn run(options: &DoctorOptions, output: &Output) -> Result<ExitCode, Failure> {
    let server = options.server.server()?;
    if server.is_database() {
        let why = "there are no checks of databases: give a server with the Redis protocol";
        return Err(Failure::wrong("--store", server.shown(), why));
    }
    let settings = options.server.settings(options.time_source)?;
    let diagnosis = wait_for(async {
        let store = server.connect(settings).await?;
        Ok(store.diagnose().await)
    })?;
    let answer = Answer {
        command: "doctor",
        store: server.shown(),
        worst: diagnosis.worst().to_string(),
        findings: diagnosis.findings().iter().map(Found::new).collect(),
    };
    say(options.server.json, output, &answer, || {
        to_text(&answer, &diagnosis)
    })?;
    let least = match options.fail_on {
        FailOn::Warning => Severity::Warning,
        FailOn::Serious => Severity::Serious,
    };
    Ok(status(diagnosis.worst() < least))
}

#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    store: &'a str,
    worst: String,
    findings: Vec<Found<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    severity: String,
    check: &'static str,
    server: &'a str,
    found: &'a str,
    advice: &'a str,
}

impl<'a> Found<'a> {
    fn new(finding: &'a Finding) -> Self {
        Self {
            severity: finding.severity.to_string(),
            check: finding.check,
            server: &finding.server,
            found: &finding.found,
            advice: &finding.advice,
        }
    }
}

fn to_text(answer: &Answer<'_>, diagnosis: &Diagnosis) -> String {
    let mut table = Table::new(&["SEVERITY", "SERVER", "CHECK", "FOUND"], 1);
    // Advice for several servers is printed once.
    let mut advice: Vec<String> = Vec::new();
    for finding in diagnosis.findings() {
        table.row([
            finding.severity.to_string(),
            finding.server.clone(),
            finding.check.to_owned(),
            finding.found.clone(),
        ]);
        let line = format!("{}: {}", finding.check, finding.advice);
        if !finding.advice.is_empty() && !advice.contains(&line) {
            advice.push(line);
        }
    }
    let mut text = format!("doctor {}: {}\n\n{table}", answer.store, answer.worst);
    if !advice.is_empty() {
        text += &format!("\nWhat to do:\n{}", bullets(advice));
    }
    text
}

const DOCTOR: &str = "\
A few keys of its own are written under the prefix, and deleted. What a server does not say is
reported as unknown. Whether the states fit the service's file of limits is another question, which
`tollgate list --limits FILE` answers.

Exit status: 0 if nothing is serious, 1 if something is, 2 if the server cannot be asked. With
`--fail-on warning`, it is 1 for warnings, too.

Examples:
  tollgate doctor --store redis://127.0.0.1:6379
  tollgate doctor --store redis://127.0.0.1:6379 --fail-on warning --json";

//! The program `tollgate`: tests limits on access logs, and inspects limits on live servers.

mod advise;
mod ask;
mod clear;
mod cli;
#[cfg_attr(not(feature = "servers"), path = "no_clients.rs")]
mod clients;
mod compare;
mod demo;
mod doctor;
mod failure;
mod input;
mod jobs;
mod key;
mod lanes;
mod output;
mod progress;
mod replay;
mod report;
mod schedule;
mod secrets;
mod signals;
mod store;
mod summary;
mod text;
mod trace;
mod windows;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let output = Output::new();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(output.explain(&error)),
    };
    let done = match &cli.command {
        Command::Advise(options) => advise::run(options, &output).map(|()| ExitCode::SUCCESS),
        Command::Block(options) => ask::block(options, &output),
        Command::Check(options) => ask::check(options, &output),
        Command::Demo(options) => demo::run(options, &output).map(|()| ExitCode::SUCCESS),
        Command::Doctor(options) => doctor::run(options, &output),
        Command::Peek(options) => ask::peek(options, &output),
        Command::Replay(options) => replay::run(options, &output).map(|()| ExitCode::SUCCESS),
        Command::Reset(options) => match options.subject() {
            Some(subject) => ask::reset(&subject, &output),
            None => clear::run(options, &output).map(|()| ExitCode::SUCCESS),
        },
        Command::Schedule(options) => schedule::run(options, &output),
    };
    match done {
        Ok(status) => status,
        // The reader has seen enough, as in `tollgate ... | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output.complain(&failure);
            ExitCode::from(failure.exit_status())
        }
    }
}

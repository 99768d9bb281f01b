//! The command line, and the command that it names: each command has a file or a folder here, with
//! its options. No command uses another one.

mod advise;
mod block;
mod check;
mod demo;
mod doctor;
mod explain;
mod list;
mod replay;
mod reset;
mod schedule;
mod top;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

/// Exact rate limiting: test limits on access logs, and inspect limits on live servers
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read access logs and propose limits that few keys would notice
    Advise(advise::AdviseOptions),
    /// Deny every call of a key on a live server for some time
    Block(block::BlockOptions),
    /// Count units that a key has used already on a live server, also beyond its limits
    Charge(units::UnitsOptions),
    /// Decide a call on a live server and count it
    Check(check::CheckOptions),
    /// Compare every algorithm on a day of synthetic traffic with an abusive client
    Demo(demo::DemoOptions),
    /// Check a live server for problems that endanger limits, and say how to fix them
    Doctor(doctor::DoctorOptions),
    /// Show every state of a key on a live server, and what limits say of it
    Explain(explain::ExplainOptions),
    /// Give a key the newest units back that it has used on a live server
    Give(units::UnitsOptions),
    /// List the limits that have states on a live server, and how many
    List(list::ListOptions),
    /// Show what `check` would answer on a live server, without counting the call
    Peek(check::CallOptions),
    /// Replay access logs through limits and show who would have been denied
    Replay(replay::ReplayOptions),
    /// Reset one key or all keys on a live server
    Reset(reset::ResetOptions),
    /// Plan events ahead, so that no window around any of them holds too many
    Schedule(schedule::ScheduleOptions),
    /// Show the keys on a live server that are nearest to their limits
    Top(top::TopOptions),
}

pub(crate) fn run(cli: &Cli, output: &Output) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Advise(options) => advise::run(options, output).map(|()| ExitCode::SUCCESS),
        Command::Block(options) => block::run(options, output),
        Command::Charge(options) => units::run("charge", options, output),
        Command::Check(options) => check::check(options, output),
        Command::Demo(options) => demo::run(options, output).map(|()| ExitCode::SUCCESS),
        Command::Doctor(options) => doctor::run(options, output),
        Command::Explain(options) => explain::run(options, output).map(|()| ExitCode::SUCCESS),
        Command::Give(options) => units::run("give", options, output),
        Command::List(options) => list::run(options, output).map(|()| ExitCode::SUCCESS),
        Command::Peek(options) => check::peek(options, output),
        Command::Replay(options) => replay::run(options, output).map(|()| ExitCode::SUCCESS),
        Command::Reset(options) => reset::run(options, output),
        Command::Schedule(options) => schedule::run(options, output),
        Command::Top(options) => top::run(options, output).map(|()| ExitCode::SUCCESS),
    }
}

//! Prints how long each algorithm takes relative to governor, point by point.

use std::process::ExitCode;

use clap::Parser;
use tollgate_benches::{ended, ratios};

fn main() -> ExitCode {
    ended(ratios::run(&ratios::Arguments::parse(), |_| Ok(Vec::new())))
}

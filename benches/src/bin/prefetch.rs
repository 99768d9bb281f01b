//! Measures units ahead on a server, beside calls that each ask it.

use std::process::ExitCode;

use clap::Parser;
use tollgate_benches::{ended, prefetch};

fn main() -> ExitCode {
    ended(prefetch::run(&prefetch::Arguments::parse()))
}

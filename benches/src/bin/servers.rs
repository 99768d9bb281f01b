//! Measures decisions on real servers, next to the commands they consist of.

use std::process::ExitCode;

use clap::Parser;
use tollgate_benches::{ended, servers};

fn main() -> ExitCode {
    let arguments = servers::Arguments::parse();
    ended(servers::run(&arguments, |_, _| {
        Box::pin(async { Ok(Vec::new()) })
    }))
}

//! Measures what criterion does not: the processor time of servers, and units ahead.

mod prefetch;
mod processor;
mod run;
mod servers;

use clap::Parser;

/// Measures on servers that it starts.
#[derive(Debug, Parser)]
enum Arguments {
    Servers(servers::Arguments),
    Prefetch(prefetch::Arguments),
}

fn main() -> Result<(), run::Problem> {
    // A single thread: with several, they compete with the server for two cores, and results vary by half from one
    // minute to the next.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match Arguments::parse() {
        Arguments::Servers(these) => runtime.block_on(servers::run(&these)),
        Arguments::Prefetch(these) => runtime.block_on(prefetch::run(&these)),
    }
}

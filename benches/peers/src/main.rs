//! Measures rate limiters of others beside those of this library.

mod layers;
mod memory;
mod server;

use std::process::ExitCode;

use clap::Parser;
use tollgate_benches::{admitted, ended, ratios, servers};

/// Measures rate limiters of others beside those of this library.
#[derive(Debug, Parser)]
enum Arguments {
    Admitted(admitted::Arguments),
    Ratios(ratios::Arguments),
    Servers(servers::Arguments),
}

fn main() -> ExitCode {
    ended(match Arguments::parse() {
        Arguments::Admitted(these) => admitted::run(&these, memory::bounded, server::bounded),
        Arguments::Ratios(these) => {
            ratios::run(&these, memory::subjects).and_then(|()| layers::run(&these))
        }
        Arguments::Servers(these) => servers::run(&these, |url, outcome| {
            Box::pin(server::subjects(url, outcome))
        }),
    })
}

//! The program `cargo xtask`, which runs the project's commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run()
}

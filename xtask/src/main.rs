//! The commands of the project.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run()
}

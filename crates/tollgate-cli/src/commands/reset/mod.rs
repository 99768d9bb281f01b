//! `tollgate reset`: forgets what was counted for one key or for all keys.

mod all;
mod one;
mod options;

pub(super) use options::ResetOptions;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(options: &ResetOptions, output: &Output) -> Result<ExitCode, Failure> {
    if options.all {
        all::run(options, output)
    } else {
        one::run(options, output)
    }
}

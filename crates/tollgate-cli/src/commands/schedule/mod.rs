//! `tollgate schedule`: events at times to come, within quotas around each of them.

mod events;
mod options;
mod plan;
mod terms;

pub(super) use options::ScheduleOptions;

use std::process::ExitCode;

use self::options::ScheduleCommand;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(options: &ScheduleOptions, output: &Output) -> Result<ExitCode, Failure> {
    match &options.command {
        ScheduleCommand::Cancel(options) => events::cancel(options, output),
        ScheduleCommand::List(options) => events::list(options, output),
        ScheduleCommand::Plan(options) => plan::run(options, output),
    }
}

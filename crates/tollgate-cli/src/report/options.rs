//! `AnswerOptions`: how commands that read logs answer.

use std::path::PathBuf;

use clap::Args;

/// How `advise` and `replay` answer.
#[derive(Args, Debug)]
pub(crate) struct AnswerOptions {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The number of keys to show, those that are denied most
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

//! What every report has: its file, its start with the conclusion, tiles and a legend.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};

use super::svg::Escaped;
use crate::failure::Failure;
use crate::file::is_read_from;
use crate::text::Grouped;

const STYLE: &str = include_str!("style.css");

/// Returns an error if the report would be written over one of the logs.
pub(crate) fn spare_logs(report: Option<&Path>, logs: &[PathBuf]) -> Result<(), Failure> {
    let Some(report) = report else {
        return Ok(());
    };
    match logs.iter().find(|log| is_read_from(log, report)) {
        Some(log) => Err(Failure::ReportOverLog {
            report: report.to_owned(),
            log: log.clone(),
        }),
        None => Ok(()),
    }
}

/// Writes `page` to `path`.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    fs::write(path, page).map_err(|source| Failure::Report {
        path: path.to_owned(),
        source,
    })
}

/// Writes the start of a page: its title, the conclusion in one sentence, and what it is about, which
/// is HTML.
pub(crate) fn start(
    f: &mut impl Write,
    title: &str,
    conclusion: &str,
    about: fmt::Arguments<'_>,
) -> fmt::Result {
    writeln!(
        f,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - tollgate</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <header><h1>{title}</h1><p class=\"conclusion\">{}</p><p class=\"sub\">{about}</p></header>",
        Escaped(conclusion),
        title = Escaped(title),
    )
}

/// Writes a tile: a number with its name, and more below it.
pub(crate) fn tile(
    f: &mut impl Write,
    class: &str,
    number: u64,
    name: &str,
    more: &str,
) -> fmt::Result {
    writeln!(
        f,
        "<li class=\"{class}\"><b>{}</b> {name}<small>{}</small></li>",
        Grouped(number),
        Escaped(more),
    )
}

/// Writes the legend of the two colours.
pub(super) fn legend(f: &mut impl Write) -> fmt::Result {
    f.write_str("<p class=\"legend\"><i class=\"a\"></i> admitted <i class=\"d\"></i> denied</p>\n")
}

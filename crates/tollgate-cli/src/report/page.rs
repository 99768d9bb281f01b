//! What every report has: its file, its start with the conclusion, tiles and a legend.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::file::is_read_from;
use crate::text::{grouped, shortened};

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

/// Text, escaped for HTML.
pub(crate) struct Escaped<'t>(pub(crate) &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
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

/// Writes tiles: each has a class, a number with its name, and more below it.
pub(crate) fn tiles<'n>(
    f: &mut impl Write,
    tiles: impl IntoIterator<Item = (&'static str, u64, &'n str, String)>,
) -> fmt::Result {
    f.write_str("<ul class=\"tiles\">\n")?;
    for (class, number, name, more) in tiles {
        writeln!(
            f,
            "<li class=\"{class}\"><b>{}</b> {name}<small>{}</small></li>",
            grouped(number),
            Escaped(&more),
        )?;
    }
    f.write_str("</ul>\n")
}

/// Writes the legend of the two colours.
pub(crate) fn legend(f: &mut impl Write, [admitted, denied]: [&str; 2]) -> fmt::Result {
    writeln!(
        f,
        "<p class=\"legend\"><span><i class=\"a\"></i> {admitted}</span> \
         <span><i class=\"d\"></i> {denied}</span></p>",
    )
}

/// A cell of a table.
pub(crate) enum Cell {
    /// Bars beside each other, each with its class and its length in thousandths of the column.
    Bars([(&'static str, u64); 2]),
    Code(String),
    Number(String),
    /// Text, of which only the start is shown if it is long.
    Text(String),
}

/// How many characters of a text are shown; its tooltip shows the whole.
const SHOWN: usize = 200;

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bars(bars) => {
                f.write_str("<td class=\"bars\">")?;
                for (class, length) in bars.iter().filter(|(_, length)| *length > 0) {
                    let (percent, tenths) = (length / 10, length % 10);
                    write!(
                        f,
                        "<i class=\"{class}\" style=\"width:{percent}.{tenths}%\"></i>"
                    )?;
                }
                f.write_str("</td>")
            }
            Self::Code(text) => write!(f, "<td><code>{}</code></td>", Escaped(text)),
            Self::Number(text) => write!(f, "<td class=\"n\">{}</td>", Escaped(text)),
            Self::Text(text) if text.chars().count() <= SHOWN => {
                write!(f, "<td class=\"key\">{}</td>", Escaped(text))
            }
            Self::Text(text) => {
                let (whole, shown) = (Escaped(text), shortened(text, SHOWN));
                write!(
                    f,
                    "<td class=\"key\" title=\"{whole}\">{}</td>",
                    Escaped(&shown)
                )
            }
        }
    }
}

/// Returns the length of a bar for `part` of `whole`, in thousandths; one above 0 is visible.
pub(crate) fn thousandths(part: u64, whole: u64) -> u64 {
    let length = u128::from(part) * 1_000 / u128::from(whole.max(1));
    u64::try_from(length)
        .unwrap_or(1_000)
        .max(u64::from(part > 0))
}

/// Writes a table; the headings of columns with numbers begin with `#`. The first of `rows` is marked
/// if it `is_marked`, and so on.
pub(crate) fn table(
    f: &mut impl Write,
    headings: &[&str],
    rows: impl IntoIterator<Item = (bool, Vec<Cell>)>,
) -> fmt::Result {
    // A table that is wider than the screen is scrolled by itself; a shadow shows where it is cut.
    f.write_str("<div class=\"wide\" tabindex=\"0\"><table><thead><tr>")?;
    for heading in headings {
        match heading.strip_prefix('#') {
            Some(number) => write!(f, "<th class=\"n\">{number}</th>")?,
            None => write!(f, "<th>{heading}</th>")?,
        }
    }
    f.write_str("</tr></thead><tbody>\n")?;
    for (is_marked, cells) in rows {
        f.write_str(if is_marked {
            "<tr class=\"proposed\">"
        } else {
            "<tr>"
        })?;
        for cell in cells {
            write!(f, "{cell}")?;
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</tbody></table></div>\n")
}

/// Writes the end of a page, with a sentence about how it came about.
pub(crate) fn end(f: &mut impl Write, how: &str) -> fmt::Result {
    writeln!(
        f,
        "<footer>{how} Written by tollgate.</footer>\n</main></body></html>"
    )
}

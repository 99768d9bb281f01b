//! `Page`: what every report has: its start with the conclusion, tiles, legends and tables, and its file.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::file::is_read_from;
use crate::text::{grouped, plural, share, shortened};

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

pub(crate) struct Page(String);

impl Page {
    /// Begins a page with its title, the conclusion in one sentence, and what it is about, which is HTML.
    pub(crate) fn new(title: &str, conclusion: &str, about: &str) -> Self {
        let (title, conclusion) = (Escaped(title), Escaped(conclusion));
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} - tollgate</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
             <header><h1>{title}</h1><p class=\"conclusion\">{conclusion}</p><p class=\"sub\">{about}</p></header>\n",
        ))
    }

    /// Ends the page with a sentence about how it came about, and writes it to `path`.
    pub(crate) fn write(mut self, how: &str, path: &Path) -> Result<(), Failure> {
        self.add(&format!(
            "<footer>{how} Written by tollgate.</footer>\n</main></body></html>"
        ));
        fs::write(path, self.0).map_err(|source| Failure::Report {
            path: path.to_owned(),
            source,
        })
    }

    pub(crate) fn add(&mut self, html: &str) {
        self.0 += html;
        self.0.push('\n');
    }

    pub(crate) fn section(&mut self, title: &str, fill: impl FnOnce(&mut Self)) {
        self.add(&format!("<section><h2>{}</h2>", Escaped(title)));
        fill(self);
        self.add("</section>");
    }

    /// Adds tiles: each has a class, a number with its noun for one and for many, and more below it.
    pub(crate) fn tiles(&mut self, tiles: &[(&str, u64, [&str; 2], &str)]) {
        self.add("<ul class=\"tiles\">");
        for &(class, number, [one, many], more) in tiles {
            let (count, more) = (plural(number, one, many), Escaped(more));
            let (number, name) = count.split_once(' ').unwrap_or((&count, ""));
            self.add(&format!(
                "<li class=\"{class}\"><b>{number}</b> {name}<small>{more}</small></li>"
            ));
        }
        self.add("</ul>");
    }

    pub(crate) fn legend(&mut self, [admitted, denied]: [&str; 2]) {
        self.add(&format!(
            "<p class=\"legend\"><span><i class=\"a\"></i> {admitted}</span> \
             <span><i class=\"d\"></i> {denied}</span></p>",
        ));
    }

    /// Adds a table; the headings of columns with numbers begin with `#`. The first of `rows` is marked
    /// if it `is_marked`, and so on.
    pub(crate) fn table(
        &mut self,
        headings: &[&str],
        rows: impl IntoIterator<Item = (bool, Vec<Cell>)>,
    ) {
        // A table that is wider than the screen is scrolled by itself; a shadow shows where it is cut.
        let html = &mut self.0;
        *html += "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>";
        for heading in headings {
            *html += &match heading.strip_prefix('#') {
                Some(number) => format!("<th class=\"n\">{number}</th>"),
                None => format!("<th>{heading}</th>"),
            };
        }
        *html += "</tr></thead><tbody>\n";
        for (is_marked, cells) in rows {
            *html += if is_marked {
                "<tr class=\"proposed\">"
            } else {
                "<tr>"
            };
            html.extend(cells.iter().map(Cell::to_string));
            *html += "</tr>\n";
        }
        *html += "</tbody></table></div>\n";
    }
}

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

impl Cell {
    /// Returns two bars whose lengths are shares of `whole`.
    pub(crate) fn bars(bars: [(&'static str, u64); 2], whole: u64) -> Self {
        Self::Bars(bars.map(|(class, part)| (class, thousandths(part, whole))))
    }

    pub(crate) fn count(number: u64) -> Self {
        Self::Number(grouped(number))
    }

    pub(crate) fn share(part: u64, whole: u64) -> Self {
        Self::Number(share(part, whole))
    }
}

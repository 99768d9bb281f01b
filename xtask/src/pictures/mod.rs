//! `cargo xtask pictures`: draws what each algorithm decides about the same calls, a schedule, leases,
//! settlements, reservations, calls that wait or are sent together, and a day of outbound calls; and
//! the charts of the benchmarks.

mod departures;
mod drawing;
mod leases;
mod outbound;
mod pattern;
mod queue;
#[cfg(test)]
mod readable;
mod schedule;
mod settling;

use std::error::Error;

use clap::Args;
use tollgate_core::LimitError;
use xshell::Shell;

use self::pattern::Run;
use self::queue::QUEUES;
use crate::outcome::{Outcome, report};

const FOLDER: &str = "docs/pictures";

/// The settings of one picture.
struct Picture {
    /// The file's name without its extension.
    name: &'static str,
    title: &'static str,
    /// The limit as it is written; every quota is 10 per minute.
    limit: &'static str,
    /// The most that the algorithm ever admits within a window.
    bound: i64,
}

const PICTURES: [Picture; 8] = [
    Picture {
        name: "fixed-window",
        title: "Fixed window, aligned to the clock",
        limit: "fixed-window:10/1m",
        bound: 20,
    },
    Picture {
        name: "fixed-window-anchored",
        title: "Fixed window, anchored at the first call",
        limit: "fixed-window:10/1m,anchored",
        bound: 19,
    },
    Picture {
        name: "gcra",
        title: "GCRA (token bucket)",
        limit: "gcra:10/1m",
        bound: 19,
    },
    Picture {
        name: "gcra-burst",
        title: "GCRA with a smaller burst",
        limit: "gcra:10/1m,burst=3",
        bound: 12,
    },
    Picture {
        name: "sliding-buckets",
        title: "Sliding buckets",
        limit: "sliding-buckets:10/1m,buckets=6",
        bound: 10,
    },
    Picture {
        name: "sliding-counter",
        title: "Sliding counter (approximate)",
        limit: "sliding-counter:10/1m",
        bound: 19,
    },
    Picture {
        name: "sliding-log",
        title: "Sliding log",
        limit: "sliding-log:10/1m",
        bound: 10,
    },
    Picture {
        name: "sliding-log-count-denied",
        title: "Sliding log that counts denied calls",
        limit: "sliding-log:10/1m,count-denied",
        bound: 10,
    },
];

/// Whether to draw or to compare.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Writes nothing, and fails if a picture would change.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// Returns the arguments that write every picture.
    pub(crate) fn write() -> Self {
        Self { check: false }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let all = all(shell)?;
    if arguments.check {
        return report("pictures", &outdated(shell, &all)?);
    }
    for (path, text) in all {
        if shell.read_file(&path).ok().as_ref() != Some(&text) {
            shell.write_file(&path, text)?;
            println!("wrote {path}");
        }
    }
    Ok(())
}

/// Returns the path and text of each picture and chart, and of each page with tables.
fn all(shell: &Shell) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut all = drawn()?;
    let charts = tollgate_report::drawn(shell)?.into_iter();
    all.extend(charts.map(|(name, svg)| (format!("{FOLDER}/{name}.svg"), svg)));
    all.extend(tollgate_report::pages(shell)?);
    Ok(all)
}

/// Returns the path and SVG text of each picture.
fn drawn() -> Result<Vec<(String, String)>, LimitError> {
    let mut pictures = Vec::new();
    for picture in &PICTURES {
        let run = Run::of(picture.limit.parse()?)?;
        let path = format!("{FOLDER}/{}.svg", picture.name);
        pictures.push((path, drawing::draw(picture, &run)));
    }
    pictures.push((format!("{FOLDER}/schedule.svg"), schedule::draw()?));
    pictures.push((format!("{FOLDER}/batches.svg"), departures::draw()?));
    pictures.push((format!("{FOLDER}/leases.svg"), leases::draw()?));
    pictures.push((format!("{FOLDER}/settling.svg"), settling::draw()?));
    pictures.push((format!("{FOLDER}/outbound.svg"), outbound::draw()?));
    for queue in &QUEUES {
        pictures.push((format!("{FOLDER}/{}.svg", queue.name), queue.draw()?));
    }
    Ok(pictures)
}

/// Returns which of `all` are outdated or missing, and the pictures that are superfluous.
fn outdated(shell: &Shell, all: &[(String, String)]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut findings = Vec::new();
    for (path, text) in all {
        if shell.read_file(path).ok().as_ref() != Some(text) {
            findings.push(format!("{path} is outdated: run `cargo xtask pictures`"));
        }
    }
    for path in shell.read_dir(FOLDER)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{FOLDER}/{name}");
        if !all.iter().any(|(other, _)| *other == path) {
            findings.push(format!("{path} is drawn by nothing"));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;

    #[test]
    fn no_run_exceeds_the_bound_it_states() {
        for picture in &PICTURES {
            let run = Run::of(picture.limit.parse().unwrap()).unwrap();
            assert!(run.worst().1 <= picture.bound, "{}", picture.name);
            assert_eq!(run.algorithm.to_string(), picture.limit);
        }
    }

    #[test]
    fn the_committed_pictures_are_up_to_date() {
        let shell = project::shell().unwrap();
        assert_eq!(outdated(&shell, &all(&shell).unwrap()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_picture_that_is_missing_changed_or_left_over_is_found() {
        let shell = project::shell().unwrap();
        let all = all(&shell).unwrap();
        let folder = shell.create_temp_dir().unwrap();
        shell.change_dir(folder.path());
        for (path, text) in &all {
            shell.write_file(path, text).unwrap();
        }
        assert_eq!(outdated(&shell, &all).unwrap(), [""; 0]);
        shell
            .write_file(format!("{FOLDER}/gcra.svg"), "<svg/>")
            .unwrap();
        shell
            .remove_path(format!("{FOLDER}/sliding-log.svg"))
            .unwrap();
        shell.write_file(format!("{FOLDER}/old.svg"), "").unwrap();
        assert_eq!(outdated(&shell, &all).unwrap().len(), 3);
    }
}

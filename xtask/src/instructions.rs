//! `cargo xtask instructions`: counts the instructions of decisions in memory and the bytes that they copy, which
//! are the same in every run and on every machine, and compares them with the recorded ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, Record, report};
use crate::results::{self, PAGE};
use crate::servers;

/// By how many percent a count may exceed the recorded one.
const MARGIN: u64 = 3;
/// How many decisions are made; the difference of both runs is what they cost.
const CALLS: [u64; 2] = [1_000, 31_000];
/// The name of their table.
const TABLE: &str = "instructions";

pub(crate) fn run(shell: &Shell, record: &Record) -> Outcome {
    let has_valgrind = cmd!(shell, "valgrind --version").quiet().ignore_stderr();
    if has_valgrind.read().is_err() {
        println!("instructions are not counted, because there is no valgrind");
        return Ok(());
    }
    let counts = counts(shell)?;
    let compiler = cmd!(shell, "rustc --version").read()?;
    if record.write {
        return save(shell, &compiler, &counts);
    }
    let recorded = results::read(shell, PAGE, TABLE)?;
    if !recorded.starts_with(&by(&compiler)) {
        println!("the recorded counts are of another compiler, so nothing is compared");
        return Ok(());
    }
    report("instructions", &findings(&recorded, &counts))
}

/// What a decision of some kind takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Count {
    /// The instructions of the program itself. Those of the C library depend on the machine: it chooses its `memcpy`
    /// by the processor and by the size of its caches.
    instructions: u64,
    /// The bytes that `memcpy` and its like copy. The compiler copies few bytes by instructions of its own.
    copied: u64,
}

/// Counts what a decision of each kind takes.
fn counts(shell: &Shell) -> Result<BTreeMap<String, Count>, Box<dyn Error>> {
    cmd!(
        shell,
        "cargo build --profile measured --package tollgate-memory --example decide"
    )
    .run()?;
    let program = servers::target(shell).join("measured/examples/decide");
    let kinds = cmd!(shell, "{program}").quiet().read()?;
    let each = kinds.lines().map(|kind| {
        let each = |count: Counter| {
            let [few, many] = CALLS.map(|calls| count(shell, &program, kind, calls));
            // Beside its decisions, a run copies some bytes more or less than another one.
            Ok::<_, Box<dyn Error>>(many?.saturating_sub(few?) / (CALLS[1] - CALLS[0]))
        };
        let count = Count {
            instructions: each(instructions)?,
            copied: each(copied)?,
        };
        let Count {
            instructions,
            copied,
        } = count;
        println!("{kind}: {instructions} instructions, {copied} bytes copied");
        Ok((kind.to_owned(), count))
    });
    each.collect()
}

/// Counts what a run takes that makes this number of decisions of this kind.
type Counter = fn(&Shell, &Path, &str, u64) -> Result<u64, Box<dyn Error>>;

/// Counts the instructions of the program itself in a run.
fn instructions(
    shell: &Shell,
    program: &Path,
    kind: &str,
    calls: u64,
) -> Result<u64, Box<dyn Error>> {
    let profile = servers::target(shell).join("instructions.callgrind");
    let calls = calls.to_string();
    let counted = cmd!(
        shell,
        "valgrind --quiet --tool=callgrind --callgrind-out-file={profile} --compress-strings=no --compress-pos=no {program} {kind} {calls}"
    );
    counted.quiet().run()?;
    let object = program.display().to_string();
    match instructions_of(&object, &shell.read_file(&profile)?) {
        0 => Err(format!("valgrind counted no instruction of {object}").into()),
        count => Ok(count),
    }
}

/// Returns how many instructions of `object` a profile of callgrind counts.
fn instructions_of(object: &str, profile: &str) -> u64 {
    let mut sum = 0;
    let mut is_inside = false;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            is_inside = name == object;
        } else if line.starts_with("calls=") {
            // The next line has the instructions of the function that is called, which stand at that function, too.
            lines.next();
        } else if is_inside && line.starts_with(|first: char| first.is_ascii_digit()) {
            let count = line.split_once(' ').map(|(_, count)| count.parse::<u64>());
            sum += count.and_then(Result::ok).unwrap_or_default();
        }
    }
    sum
}

/// Counts the bytes that are copied in a run.
fn copied(shell: &Shell, program: &Path, kind: &str, calls: u64) -> Result<u64, Box<dyn Error>> {
    let calls = calls.to_string();
    let counted = cmd!(
        shell,
        "valgrind --tool=dhat --mode=copy --dhat-out-file=/dev/null {program} {kind} {calls}"
    );
    let output = counted.quiet().output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let found = text.lines().find_map(|line| line.split_once("Total: "));
    let count = found.and_then(|(_, count)| count.trim_start().split_once(' '));
    let count = count.and_then(|(count, _)| count.replace(',', "").parse().ok());
    count.ok_or_else(|| format!("valgrind did not count: {text}").into())
}

/// Returns the kinds that take more than is recorded, or that are not recorded.
fn findings(recorded: &str, counts: &BTreeMap<String, Count>) -> Vec<String> {
    let mut findings = Vec::new();
    for (kind, count) in counts {
        let row = format!("| {kind} | ");
        let known = recorded.lines().find_map(|line| line.strip_prefix(&row));
        let known = known.and_then(|known| known.strip_suffix(" |")?.split_once(" | "));
        let Some((instructions, copied)) = known else {
            findings.push(format!(
                "{kind} is not recorded: run `cargo xtask instructions --write`"
            ));
            continue;
        };
        for (what, count, known) in [
            ("instructions", count.instructions, instructions),
            ("copied bytes", count.copied, copied),
        ] {
            // What cannot be read permits nothing.
            let most = known.parse::<u64>().unwrap_or_default();
            if count > most + most * MARGIN / 100 {
                findings.push(format!(
                    "{kind} takes {count} {what} instead of {known}: find out why, or record it by `cargo xtask instructions --write`"
                ));
            }
        }
    }
    findings
}

fn save(shell: &Shell, compiler: &str, counts: &BTreeMap<String, Count>) -> Outcome {
    let mut text = format!(
        "{}\n\n| decision | instructions | bytes copied |\n|---|---:|---:|\n",
        by(compiler)
    );
    for (kind, count) in counts {
        let Count {
            instructions,
            copied,
        } = count;
        text += &format!("| {kind} | {instructions} | {copied} |\n");
    }
    results::write(shell, PAGE, TABLE, &text)
}

/// Returns the line that says which compiler the counts are of.
fn by(compiler: &str) -> String {
    format!("By {compiler}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_margin_above_what_is_recorded_is_found() {
        let recorded = "By rustc 1:\n\n| decision | instructions | bytes copied |\n|---|---:|---:|\n\
                        | a | 100 | 0 |\n| b | 1000 | 200 |\n";
        let found = |kind: &str, instructions, copied| {
            let count = Count {
                instructions,
                copied,
            };
            findings(recorded, &BTreeMap::from([(kind.to_owned(), count)]))
        };
        assert_eq!(found("a", 103, 0), [""; 0]);
        assert_eq!(found("b", 900, 206), [""; 0]);
        assert!(found("a", 104, 0)[0].contains("104 instructions instead of 100"));
        assert!(found("a", 100, 1)[0].contains("1 copied bytes instead of 0"));
        assert_eq!(found("b", 1_031, 207).len(), 2);
        assert!(found("c", 1, 0)[0].contains("not recorded"));
    }

    #[test]
    fn instructions_of_libraries_do_not_count() {
        let profile = "events: Ir\nob=/lib/c\nfl=a.c\nfn=memcpy\n3 500\n\nob=/p\nfl=a.rs\nfn=a\n7 20\n\
                       cob=/lib/c\ncfi=a.c\ncfn=memcpy\ncalls=9 3\n8 500\nfi=b.rs\n9 4\n\nfn=b\n1 1\n";
        assert_eq!(instructions_of("/p", profile), 25);
        assert_eq!(instructions_of("/lib/c", profile), 500);
    }
}

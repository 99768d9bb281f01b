//! Prints what criterion measured as a table of ratios to governor, point by point.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What every other subject of a group is compared with.
const PEER: &str = "governor";

/// The median of each subject of each group, in nanoseconds.
type Medians = BTreeMap<String, BTreeMap<String, f64>>;

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let medians = read(&target.join("criterion"))?;
    if medians.is_empty() {
        return Err("nothing was measured yet: run `cargo xtask bench` first".into());
    }
    write_table(&mut io::stdout().lock(), &medians)?;
    Ok(())
}

/// Reads `GROUP/SUBJECT/new/estimates.json` below `folder`.
fn read(folder: &Path) -> Result<Medians, Box<dyn Error>> {
    let mut medians = Medians::new();
    for group in folders(folder)? {
        for subject in folders(&group)? {
            let estimates = subject.join("new/estimates.json");
            if !estimates.exists() {
                continue;
            }
            let estimates: serde_json::Value = serde_json::from_slice(&fs::read(estimates)?)?;
            let median = estimates["median"]["point_estimate"]
                .as_f64()
                .ok_or("criterion's estimates have no median")?;
            medians
                .entry(name(&group))
                .or_default()
                .insert(name(&subject), median);
        }
    }
    medians.retain(|_, subjects| subjects.contains_key(PEER));
    Ok(medians)
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders: Vec<_> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()))?
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    Ok(folders)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn write_table(out: &mut impl Write, medians: &Medians) -> io::Result<()> {
    let subjects: Vec<_> = medians
        .values()
        .flat_map(BTreeMap::keys)
        .filter(|subject| *subject != PEER)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    write!(out, "| calls | {PEER}, ns |")?;
    for subject in &subjects {
        write!(out, " {subject} |")?;
    }
    write!(out, "\n|---|---|")?;
    for _ in &subjects {
        write!(out, "---|")?;
    }
    writeln!(out)?;
    for (group, times) in medians {
        let peer = times[PEER];
        write!(out, "| {} | {peer:.1} |", group.replace('_', ", "))?;
        for subject in &subjects {
            match times.get(*subject) {
                Some(time) => write!(out, " {:.2} |", time / peer)?,
                None => write!(out, " - |")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

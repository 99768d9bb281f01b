//! The mutants that do not change the program's behaviour, so that no test can detect them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;

use xtask::project::Files;

use super::mutant::Mutant;

/// The file with the reasons, and with the mutants that each explains.
const FILE: &str = "xtask/mutants/equivalents.toml";

/// Returns the ids of those `mutants` that the file lists.
///
/// # Errors
///
/// If the file lists others, because the code has changed: they must be judged again. Or if it lists
/// a mutant twice.
pub(super) fn read(files: &Files, mutants: &[Mutant]) -> Result<HashSet<u64>, Box<dyn Error>> {
    let text = files.text(FILE).ok_or_else(|| format!("no {FILE}"))?;
    let reasons: BTreeMap<String, Vec<String>> = toml::from_str(text)?;
    let ids: HashMap<_, _> = mutants.iter().map(|of| (of.name(), of.id)).collect();
    let mut found = HashSet::new();
    let mut wrong = String::new();
    for name in reasons.values().flatten() {
        match ids.get(name) {
            None => wrong += &format!("\nno longer in the code: {name}"),
            Some(&id) if !found.insert(id) => wrong += &format!("\nlisted twice: {name}"),
            Some(_) => {}
        }
    }
    if !wrong.is_empty() {
        return Err(format!("{FILE}:{wrong}").into());
    }
    Ok(found)
}

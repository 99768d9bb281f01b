//! Installs programs with the system's package manager.

use std::error::Error;

use xshell::{Shell, cmd};

use crate::outcome::Outcome;

/// The environment variable that names another program to use instead of `redis-server`.
const VARIABLE: &str = "TOLLGATE_REDIS_SERVER";

/// The server that most tests run against.
const REDIS: [Program; 1] = [Program {
    name: "redis-server",
    // Pacman's provides `redis-server` as a second name of its program.
    packages: ["redis-server", "redis", "redis", "valkey", "redis"],
}];
/// The other programs that tests run.
const OTHERS: [Program; 4] = [
    Program {
        name: "h2load",
        packages: ["nghttp2-client", "nghttp2", "nghttp2", "nghttp2", "nghttp2"],
    },
    Program {
        name: "haproxy",
        packages: ["haproxy"; 5],
    },
    Program {
        name: "nginx",
        packages: ["nginx"; 5],
    },
    // Its package brings `promtool`, too.
    Program {
        name: "prometheus",
        packages: [
            "prometheus",
            "golang-github-prometheus",
            "prometheus",
            "prometheus",
            "prometheus",
        ],
    },
];

/// A program that a package brings.
#[derive(Debug)]
struct Program {
    name: &'static str,
    /// The names of its package for the managers in [`Manager::ALL`].
    packages: [&'static str; 5],
}

/// Makes sure that `redis-server` exists, and installs it if that is permitted.
pub(crate) fn ensure(shell: &Shell) -> Outcome {
    if std::env::var_os(VARIABLE).is_some_and(|name| !name.is_empty()) {
        return Ok(());
    }
    install(shell, &REDIS)
        .map_err(|error| format!("{error}; or set {VARIABLE} to the path of one").into())
}

/// Makes sure that the other programs exist that tests run, and installs them if that is permitted.
pub(super) fn ensure_others(shell: &Shell) -> Outcome {
    install(shell, &OTHERS)
}

/// Installs those of `programs` that are missing.
fn install(shell: &Shell, programs: &[Program]) -> Outcome {
    let missing = || programs.iter().filter(|program| !is_there(shell, program));
    let names = || missing().map(|program| program.name).collect::<Vec<_>>();
    let before = names().join(" and no ");
    if before.is_empty() {
        return Ok(());
    }
    let manager = Manager::ALL
        .into_iter()
        .find(|manager| succeeds(shell, &[manager.program(), "--version"]));
    let manager =
        manager.ok_or_else(|| format!("there is no {before}, and no known package manager"))?;
    let rights = Rights::find(shell)?;
    let packages: Vec<_> = missing().map(|program| manager.package(program)).collect();
    let commands = commands(manager, rights, &packages);
    let by_hand = commands.iter().map(|words| words.join(" "));
    let by_hand = by_hand.collect::<Vec<_>>().join(" && ");
    if rights == Rights::None && manager != Manager::Brew {
        return Err(format!(
            "there is no {before}, and installing is not allowed here: run `{by_hand}` as root"
        )
        .into());
    }
    for words in &commands {
        println!("$ {}", words.join(" "));
        // Errors do not matter if the programs are there in the end. The package list may be complete
        // enough although a part of it was unreachable. A package may be installed although its
        // service does not start, as in a container; tests do not need the service.
        if let Err(error) = run(shell, words) {
            println!("{error}");
        }
    }
    let after = names().join(" and no ");
    if after.is_empty() {
        return Ok(());
    }
    Err(format!("there is no {after}, and this did not help: `{by_hand}`").into())
}

/// A package manager.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Manager {
    Apk,
    Apt,
    Brew,
    Dnf,
    Pacman,
}

impl Manager {
    /// In order of preference: native package managers before one that is available on many
    /// systems.
    const ALL: [Self; 5] = [Self::Apt, Self::Dnf, Self::Apk, Self::Pacman, Self::Brew];

    fn program(self) -> &'static str {
        match self {
            Self::Apk => "apk",
            Self::Apt => "apt-get",
            Self::Brew => "brew",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
        }
    }

    /// Returns the arguments of each call of the program; packages follow those of the last.
    fn arguments(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Apk => &[&["add", "--no-cache"]],
            Self::Apt => &[
                &["update"],
                &["install", "--yes", "--no-install-recommends"],
            ],
            Self::Brew => &[&["install"]],
            Self::Dnf => &[&["install", "--assumeyes"]],
            Self::Pacman => &[&["--sync", "--refresh", "--needed", "--noconfirm"]],
        }
    }

    /// Returns the name of the package that brings `program`.
    fn package(self, program: &Program) -> &'static str {
        let [apt, dnf, apk, pacman, brew] = program.packages;
        match self {
            Self::Apk => apk,
            Self::Apt => apt,
            Self::Brew => brew,
            Self::Dnf => dnf,
            Self::Pacman => pacman,
        }
    }
}

/// The rights of this user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rights {
    None,
    Root,
    /// The rights of root, without a password.
    Sudo,
}

impl Rights {
    fn find(shell: &Shell) -> Result<Self, Box<dyn Error>> {
        if cmd!(shell, "id -u").quiet().read()?.trim() == "0" {
            return Ok(Self::Root);
        }
        let may = succeeds(shell, &["sudo", "-n", "true"]);
        Ok(if may { Self::Sudo } else { Self::None })
    }
}

/// Returns the commands that install `packages`.
fn commands(manager: Manager, rights: Rights, packages: &[&'static str]) -> Vec<Vec<&'static str>> {
    let mut before = Vec::new();
    // Homebrew refuses to run as root.
    if rights == Rights::Sudo && manager != Manager::Brew {
        before.extend(["sudo", "-n"]);
    }
    if manager == Manager::Apt {
        // Never ask questions.
        before.extend(["env", "DEBIAN_FRONTEND=noninteractive"]);
    }
    before.push(manager.program());
    let arguments = manager.arguments().iter();
    let mut commands: Vec<_> = arguments.map(|rest| [&before, *rest].concat()).collect();
    if let Some(last) = commands.last_mut() {
        last.extend(packages);
    }
    commands
}

fn is_there(shell: &Shell, program: &Program) -> bool {
    // Debian has the programs of servers where only root looks for them.
    let script = "PATH=$PATH:/usr/local/sbin:/usr/sbin; command -v $0";
    succeeds(shell, &["sh", "-c", script, program.name])
}

fn succeeds(shell: &Shell, words: &[&str]) -> bool {
    let (program, rest) = words.split_first().unwrap_or((&"false", &[]));
    let command = cmd!(shell, "{program} {rest...}").quiet();
    command.ignore_stderr().read().is_ok()
}

fn run(shell: &Shell, words: &[&str]) -> Outcome {
    let (program, rest) = words.split_first().ok_or("no command")?;
    Ok(cmd!(shell, "{program} {rest...}").quiet().run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(manager: Manager, rights: Rights, programs: &[Program]) -> Vec<String> {
        let packages = programs.iter().map(|program| manager.package(program));
        let commands = commands(manager, rights, &packages.collect::<Vec<_>>());
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn every_manager_installs_without_asking() {
        for manager in Manager::ALL {
            let lines = lines(manager, Rights::Root, &REDIS);
            let last = lines.last().unwrap();
            assert!(
                last.ends_with("redis-server")
                    || last.ends_with("redis")
                    || last.ends_with("valkey")
            );
            assert!(lines.iter().all(|line| !line.contains("sudo")), "{lines:?}");
        }
        assert_eq!(
            lines(Manager::Apt, Rights::Root, &REDIS),
            [
                "env DEBIAN_FRONTEND=noninteractive apt-get update",
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends redis-server",
            ]
        );
        assert_eq!(
            lines(Manager::Pacman, Rights::Root, &OTHERS),
            ["pacman --sync --refresh --needed --noconfirm nghttp2 haproxy nginx prometheus"]
        );
    }

    #[test]
    fn sudo_is_used_only_if_needed() {
        assert_eq!(
            lines(Manager::Dnf, Rights::Sudo, &REDIS),
            ["sudo -n dnf install --assumeyes redis"]
        );
        assert_eq!(
            lines(Manager::Brew, Rights::Sudo, &REDIS),
            ["brew install redis"]
        );
    }

    #[test]
    fn a_missing_program_fails() {
        let shell = Shell::new().unwrap();
        assert!(succeeds(&shell, &["true"]));
        assert!(!succeeds(&shell, &["false"]));
        assert!(!succeeds(&shell, &["no-such-program"]));
        let [there, missing] = ["sh", "no-such-program"].map(|name| Program {
            name,
            packages: [""; 5],
        });
        assert!(is_there(&shell, &there));
        assert!(!is_there(&shell, &missing));
    }
}

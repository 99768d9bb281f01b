//! Installs the system's own server with a package manager.

use std::error::Error;

use xshell::{Shell, cmd};

use crate::Outcome;

/// The environment variable that names another server program to use instead.
const VARIABLE: &str = "TOLLGATE_REDIS_SERVER";

/// Makes sure that `redis-server` exists, and installs it if that is permitted.
pub(crate) fn ensure(shell: &Shell) -> Outcome {
    if std::env::var_os(VARIABLE).is_some_and(|name| !name.is_empty()) || is_there(shell) {
        return Ok(());
    }
    let manager = Manager::ALL
        .into_iter()
        .find(|manager| succeeds(shell, &[manager.program(), "--version"]));
    let manager = manager.ok_or_else(|| {
        format!("there is no redis-server: install Redis, or set {VARIABLE} to the path of one")
    })?;
    let rights = Rights::find(shell)?;
    let commands = commands(manager, rights);
    let by_hand = commands.iter().map(|words| words.join(" "));
    let by_hand = by_hand.collect::<Vec<_>>().join(" && ");
    if rights == Rights::None && manager != Manager::Brew {
        return Err(format!(
            "there is no redis-server, and installing it is not allowed here: run `{by_hand}` as root"
        )
        .into());
    }
    for words in &commands {
        println!("$ {}", words.join(" "));
        // Errors do not matter if there is a server in the end. The package list may be complete
        // enough although a part of it was unreachable. The package may be installed although its
        // service does not start, as in a container; tests do not need the service.
        if let Err(error) = run(shell, words) {
            println!("{error}");
        }
    }
    if is_there(shell) {
        return Ok(());
    }
    Err(format!("there is no redis-server, and this has not installed it: `{by_hand}`").into())
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

    /// Returns the arguments of each call of the program.
    fn arguments(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Apk => &[&["add", "--no-cache", "redis"]],
            Self::Apt => &[
                &["update"],
                &[
                    "install",
                    "--yes",
                    "--no-install-recommends",
                    "redis-server",
                ],
            ],
            Self::Brew => &[&["install", "redis"]],
            Self::Dnf => &[&["install", "--assumeyes", "redis"]],
            // It provides `redis-server` as a second name of its program.
            Self::Pacman => &[&["--sync", "--refresh", "--needed", "--noconfirm", "valkey"]],
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

/// Returns the commands that install a server.
fn commands(manager: Manager, rights: Rights) -> Vec<Vec<&'static str>> {
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
    arguments.map(|rest| [&before, *rest].concat()).collect()
}

fn is_there(shell: &Shell) -> bool {
    succeeds(shell, &["redis-server", "--version"])
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

    fn lines(manager: Manager, rights: Rights) -> Vec<String> {
        let commands = commands(manager, rights);
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn every_manager_installs_without_asking() {
        for manager in Manager::ALL {
            let lines = lines(manager, Rights::Root);
            let last = lines.last().unwrap();
            assert!(
                last.ends_with("redis-server")
                    || last.ends_with("redis")
                    || last.ends_with("valkey")
            );
            assert!(lines.iter().all(|line| !line.contains("sudo")), "{lines:?}");
        }
        assert_eq!(
            lines(Manager::Apt, Rights::Root),
            [
                "env DEBIAN_FRONTEND=noninteractive apt-get update",
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends redis-server",
            ]
        );
    }

    #[test]
    fn sudo_is_used_only_if_needed() {
        assert_eq!(
            lines(Manager::Dnf, Rights::Sudo),
            ["sudo -n dnf install --assumeyes redis"]
        );
        assert_eq!(lines(Manager::Brew, Rights::Sudo), ["brew install redis"]);
    }

    #[test]
    fn a_missing_program_fails() {
        let shell = Shell::new().unwrap();
        assert!(succeeds(&shell, &["true"]));
        assert!(!succeeds(&shell, &["false"]));
        assert!(!succeeds(&shell, &["no-such-program"]));
    }
}

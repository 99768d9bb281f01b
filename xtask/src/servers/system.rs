//! Installs programs with `apt-get`, where that is the system's package manager.

use std::error::Error;

use xshell::{Shell, cmd};

use crate::outcome::Outcome;

/// The environment variable that names another program to use instead of `redis-server`.
const VARIABLE: &str = "TOLLGATE_REDIS_SERVER";

/// A program, and the package that brings it.
type Program = (&'static str, &'static str);

/// The server that most tests run against.
const REDIS: [Program; 1] = [("redis-server", "redis-server")];
/// The other programs that tests run; the package of Prometheus brings `promtool`, too.
const OTHERS: [Program; 5] = [
    ("h2load", "nghttp2-client"),
    ("haproxy", "haproxy"),
    ("initdb", "postgresql"),
    ("nginx", "nginx"),
    ("prometheus", "prometheus"),
];

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

fn install(shell: &Shell, programs: &[Program]) -> Outcome {
    let missing = || programs.iter().filter(|(name, _)| !is_there(shell, name));
    let names = || missing().map(|(name, _)| *name).collect::<Vec<_>>();
    let before = names().join(" and no ");
    if before.is_empty() {
        return Ok(());
    }
    if !succeeds(shell, &["apt-get", "--version"]) {
        return Err(format!("there is no {before}, and no apt-get: install it").into());
    }
    let packages: Vec<_> = missing().map(|(_, package)| *package).collect();
    let rights = rights(shell)?;
    let commands = commands(rights.unwrap_or_default(), &packages);
    let by_hand = commands
        .each_ref()
        .map(|words| words.join(" "))
        .join(" && ");
    if rights.is_none() {
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

/// Returns what comes before a command to run it as root without a password; `None` if nothing does.
fn rights(shell: &Shell) -> Result<Option<&'static [&'static str]>, Box<dyn Error>> {
    if cmd!(shell, "id -u").quiet().read()?.trim() == "0" {
        return Ok(Some(&[]));
    }
    let may = succeeds(shell, &["sudo", "-n", "true"]);
    Ok(may.then_some(&["sudo", "-n"]))
}

/// Returns the commands that install `packages`, and never ask questions.
fn commands(rights: &[&'static str], packages: &[&'static str]) -> [Vec<&'static str>; 2] {
    let apt = [
        rights,
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
    ]
    .concat();
    let install = ["install", "--yes", "--no-install-recommends"];
    [
        [&apt[..], &["update"]].concat(),
        [&apt, &install[..], packages].concat(),
    ]
}

fn is_there(shell: &Shell, name: &str) -> bool {
    // Debian has the programs of servers where only root looks for them.
    let script = "for folder in /usr/local/sbin /usr/sbin /usr/lib/postgresql/*/bin; do PATH=$PATH:$folder; done; \
                  command -v $0";
    succeeds(shell, &["sh", "-c", script, name])
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

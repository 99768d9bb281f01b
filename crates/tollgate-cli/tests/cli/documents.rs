//! The commands in the documents, and in the program's own help: each is run as it stands, by a shell, in a
//! folder with the files that it names, and with a server that does not answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use crate::program::{self, SAMPLE, scratch, stderr, stdout};

/// Nobody listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";
/// The server of the examples.
const EXAMPLE: &str = "redis://127.0.0.1:6379";

/// How a checkout runs the program.
const FROM_CHECKOUT: &str = "cargo run --release --no-default-features -p tollgate-cli -- ";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the text of every page: README.md, those of the crates, and `docs`.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        paths.push(entry.unwrap().path().join("README.md"));
    }
    for folder in ["docs", "docs/internals"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let is_text = |path: &Path| path.extension().is_some_and(|it| it == "md" || it == "yml");
    paths.retain(|path| is_text(path));
    let name = |path: &PathBuf| path.display().to_string();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let pages = paths.iter().map(|path| (name(path), text(path)));
    pages.collect()
}

/// Returns the lines of `text`, those that end in a backslash with the next.
fn joined(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    joined.lines().map(|line| line.trim().to_owned()).collect()
}

/// Returns the command on a line of a block, or in a word of prose.
fn command(line: &str) -> Option<&str> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let arguments = line.strip_prefix("tollgate ");
    let arguments = arguments.or_else(|| line.strip_prefix(FROM_CHECKOUT));
    // An error that the program prints begins so, too.
    arguments.filter(|arguments| !arguments.starts_with("warning"))
}

/// Returns the commands of a page: with arguments, in blocks and in prose.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            let Some((language, block)) = part.split_once('\n') else {
                continue;
            };
            let is_command = |line: &&String| match language {
                "console" => line.starts_with("$ "),
                "sh" => true,
                _ => false,
            };
            let lines = joined(block);
            let lines = lines.iter().filter(is_command);
            let commands = lines.filter_map(|line| command(line));
            found.extend(commands.map(ToOwned::to_owned));
        } else {
            let words = part.split('`').skip(1).step_by(2);
            found.extend(words.filter_map(command).map(ToOwned::to_owned));
        }
    }
    found
}

/// Runs the program with `arguments`, as a shell reads them.
fn run(folder: &Path, arguments: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let system = ["/usr/bin", "/bin"].map(Path::new);
    let path = env::join_paths([program.parent().unwrap(), system[0], system[1]]);
    let line = format!("tollgate {}", arguments.replace(EXAMPLE, NOWHERE));
    Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .env("PATH", path.unwrap())
        .env("TOLLGATE_STORE", NOWHERE)
        .env_remove("TOLLGATE_KEY_SECRET")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The names of commands, of which prose speaks.
fn is_name(arguments: &str) -> bool {
    let mut bytes = arguments.bytes();
    bytes.all(|byte| byte == b' ' || byte.is_ascii_lowercase())
}

#[test]
fn every_command_of_the_documents_runs() {
    let folder = scratch("documents");
    let folder = Path::new(&*folder);
    fs::create_dir_all(folder).unwrap();
    let manual = fs::read_to_string(root().join("crates/tollgate-cli/README.md")).unwrap();
    let operating = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let block = |page: &str, start: &str| {
        let (_, after) = page
            .split_once(start)
            .unwrap_or_else(|| panic!("no {start}"));
        let (block, _) = after.split_once("\n```\n").unwrap();
        block.split("\n$ ").next().unwrap().to_owned()
    };
    fs::copy(SAMPLE, folder.join("access.log")).unwrap();
    fs::write(folder.join("key.txt"), "secret\n").unwrap();
    let limits = format!("login = {}", block(&operating, "```toml\nlogin = "));
    fs::write(folder.join("limits.toml"), limits).unwrap();
    let messages = block(&manual, "$ cat messages.csv\n");
    fs::write(folder.join("messages.csv"), messages).unwrap();
    let line = "2026-03-01 08:00:00 INFO 203.0.113.7 GET user=alice \"/login\"\n";
    fs::write(folder.join("app.log"), line).unwrap();

    let mut all: BTreeSet<(String, String)> = BTreeSet::new();
    for (page, text) in pages() {
        all.extend(commands(&text).into_iter().map(|it| (it, page.clone())));
    }
    let help = |arguments: &str| {
        let output = program::run(&format!("{arguments} --help"));
        assert!(output.status.success(), "{arguments}: {output:?}");
        stdout(&output)
    };
    let listed = help("");
    let names = listed.split("Commands:\n").nth(1).unwrap().lines();
    let names = names.take_while(|line| line.starts_with("  "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let schedule = ["schedule cancel", "schedule list", "schedule plan"];
    for name in names.chain(schedule).filter(|name| *name != "help") {
        let examples = joined(&help(name));
        let examples: Vec<_> = examples.iter().filter_map(|line| command(line)).collect();
        assert!(
            ["demo", "schedule"].contains(&name) || !examples.is_empty(),
            "{name}: no example"
        );
        let page = format!("tollgate {name} --help");
        all.extend(examples.iter().map(|&it| (it.to_owned(), page.clone())));
    }
    // Had they not been found, nothing would be run.
    assert!(all.len() > 60, "{all:#?}");
    let mut wrong = Vec::new();
    for (arguments, page) in &all {
        if is_name(arguments) && arguments != "demo" {
            help(arguments);
            continue;
        }
        let output = run(folder, arguments);
        let text = stderr(&output);
        // That far, it is right: only the server is missing, or a log that this folder has not.
        let stops = ["tollgate: cannot connect to ", "tollgate: cannot read "];
        let has_ended = output.status.success() || stops.iter().any(|stop| text.contains(stop));
        if !has_ended {
            wrong.push(format!("{page}: tollgate {arguments}\n{text}"));
        }
    }
    fs::remove_dir_all(folder).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Runs the program and reads its output.

use std::fs;
use std::ops::Deref;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A real access log of a thousand lines.
pub(crate) const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/access.log");

/// A real access log of ten thousand lines, which may be absent.
pub(crate) const FULL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/access.log"
);

/// Returns a command that runs the program with no input and no inherited settings.
pub(crate) fn tollgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.stdin(Stdio::null());
    for variable in [
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TOLLGATE_KEY_SECRET",
        "TOLLGATE_STORE",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A unique path, whose file is removed on drop.
pub(crate) struct Scratch(String);

impl Deref for Scratch {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may never have been created.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns a unique path that ends in `name`, without creating a file.
pub(crate) fn scratch(name: &str) -> Scratch {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env!("CARGO_TARGET_TMPDIR");
    fs::create_dir_all(folder).unwrap();
    Scratch(format!("{folder}/{}-{count}-{name}", std::process::id()))
}

/// Creates a file with `content`, and returns its path, which ends in `name`.
pub(crate) fn file(name: &str, content: impl AsRef<[u8]>) -> Scratch {
    let path = scratch(name);
    fs::write(&*path, content).unwrap();
    path
}

/// Runs `tollgate replay` with `arguments`.
pub(crate) fn replay(arguments: &[&str]) -> Output {
    tollgate().arg("replay").args(arguments).output().unwrap()
}

/// Runs `tollgate replay --json` with `arguments` and returns the one object that it prints.
pub(crate) fn replay_json(arguments: &[&str]) -> Value {
    let output = replay(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs `tollgate replay` with a standard input that never ends, and panics if it waits for it.
pub(crate) fn replay_without_waiting(arguments: &[&str]) -> Output {
    let mut child = tollgate()
        .arg("replay")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?}: waits for something that never comes");
        }
        sleep(Duration::from_millis(5));
    }
    drop(stdin);
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Checks that `output` is one line that says all of `hints`, with the exit status of failures.
pub(crate) fn fails(output: &Output, hints: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty());
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("tollgate: "), "{text}");
    for hint in hints {
        assert!(text.contains(hint), "no {hint:?} in {text}");
    }
}

/// Returns the first sentence of a report, which says the conclusion.
pub(crate) fn conclusion(html: &str) -> &str {
    let (head, rest) = html.split_once("<p class=\"conclusion\">").unwrap();
    // Nothing but the title is before it.
    let (_, before) = head.split_once("<main>").unwrap();
    assert_eq!(before.matches('<').count(), 3, "{before}");
    rest.split_once("</p>").unwrap().0
}

//! Runs the program and reads its output.

use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A real access log of a hundred lines.
pub(crate) const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/access.log");

/// Returns a real access log of ten thousand lines, unless it is absent.
#[expect(
    clippy::print_stderr,
    reason = "a check that is not made is not passed over in silence"
)]
pub(crate) fn full() -> Option<&'static str> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/access.log"
    );
    let is_there = fs::exists(path).unwrap();
    if !is_there {
        eprintln!("not used, for it is not there: {path}");
    }
    is_there.then_some(path)
}

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

/// Returns the words of a command line; one that holds spaces, or none at all, is in single quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

pub(crate) fn run(line: &str) -> Output {
    tollgate().args(words(line)).output().unwrap()
}

pub(crate) fn with_input(mut command: Command, input: impl AsRef<[u8]>) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have ended before.
    let _ = stdin.write_all(input.as_ref());
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// Returns a command that replays `log` with the words of `options`.
fn replaying(log: &str, options: &str) -> Command {
    let mut command = tollgate();
    command.args(["replay", log]).args(words(options));
    command
}

pub(crate) fn replay(log: &str, options: &str) -> Output {
    replaying(log, options).output().unwrap()
}

/// Returns the one JSON object that a command with this exit status prints.
#[track_caller]
pub(crate) fn answer(output: &Output, status: i32) -> Value {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs `tollgate replay --json` and returns the one object that it prints.
pub(crate) fn replay_json(log: &str, options: &str) -> Value {
    answer(&replay(log, &format!("{options} --json")), 0)
}

/// Runs `tollgate replay` with a standard input that never ends: a test hangs if it waits for it.
pub(crate) fn replay_without_waiting(log: &str, options: &str) -> Output {
    let mut command = replaying(log, options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let _stdin = child.stdin.take();
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in {text}");
}

/// Checks that an answer has every one of `fields`, such as `allowed=true & limits.*.remaining=[4, 5]`.
///
/// A name `a.0.b` is the field `b` of the first element of the list `a`, and with `*` of each element; `a.#` is the
/// length of `a`. A value is
/// JSON, or `none` for a field that is not there; `low..high` is a number in between, and after `~` instead of `=`
/// comes a part of a text.
#[track_caller]
pub(crate) fn has_fields(answer: &Value, fields: &str) {
    for field in fields.split(" & ").filter(|field| !field.is_empty()) {
        let at = field.find(['=', '~']).unwrap();
        let (found, expected) = (find(answer, &field[..at]), &field[at + 1..]);
        let bounds = expected.split_once("..");
        let bounds =
            bounds.and_then(|(low, high)| Some(low.parse().ok()?..high.parse::<u64>().ok()?));
        let holds = if field[at..].starts_with('~') {
            found.is_some_and(|found| found.as_str().unwrap().contains(expected))
        } else if let Some(bounds) = bounds {
            found.is_some_and(|found| bounds.contains(&found.as_u64().unwrap()))
        } else {
            let json = (expected != "none").then(|| serde_json::from_str(expected));
            found
                == json
                    .transpose()
                    .unwrap_or_else(|_| panic!("no JSON: {expected}"))
        };
        assert!(holds, "{field} in {answer}");
    }
}

fn find(answer: &Value, path: &str) -> Option<Value> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match (name, answer) {
        ("", found) => Some(found.clone()),
        ("#", Value::Array(all)) => Some(all.len().into()),
        ("*", Value::Array(all)) => {
            let found = all.iter().map(|one| find(one, rest).unwrap_or_default());
            Some(found.collect())
        }
        (index, Value::Array(all)) => find(all.get(index.parse::<usize>().unwrap())?, rest),
        _ => find(answer.get(name)?, rest),
    }
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

/// Checks that what `run` does for each line of `cases` fails, and says all hints after the line's `=>`.
pub(crate) fn all_fail(cases: &str, run: impl Fn(&str) -> Output) {
    for case in cases.lines() {
        let (line, hints) = case.split_once(" => ").unwrap();
        fails(&run(line), &hints.split(", ").collect::<Vec<_>>());
    }
}

/// Checks that a report on the file `source` is whole, and loads no other file.
#[track_caller]
pub(crate) fn stands_alone(html: &str, source: &str) {
    for tag in ["table", "tr", "td", "i", "section", "div", "span"] {
        let open = [format!("<{tag}>"), format!("<{tag} ")];
        let open: usize = open.iter().map(|open| html.matches(&**open).count()).sum();
        let close = html.matches(&format!("</{tag}>")).count();
        assert!(open == close && open > 0, "{tag}: {open} and {close}");
    }
    for outside in [
        "http:", "https:", "//", "src=", "href=", "url(", "@import", "<link", "<script", "<iframe",
    ] {
        assert!(!html.replace(source, "").contains(outside), "{outside}");
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

//! Tests of patches, and of a run in which one lives.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::*;
use xtask::project;

const LOCK: &str = "crates/tollgate-memory/src/lock.rs";
const TEXT: &str = "fn f() {\n    lock();\n    change();\n    unlock();\n}\n";

/// Returns a patch of [`LOCK`] with these lines below the head of its only hunk.
fn patch(head: &str, lines: &str) -> Result<Patch, String> {
    let text = format!("# The lock is not taken.\n--- a/{LOCK}\n+++ b/{LOCK}\n{head}\n{lines}");
    Patch::parse("memory/lock", &text)
}

fn no_lock() -> Patch {
    patch(
        "@@ -1,3 +1,2 @@",
        " fn f() {\n-    lock();\n     change();\n",
    )
    .unwrap()
}

#[test]
fn every_patch_of_the_project_applies_to_it() {
    let files = Files::read(&project::shell().unwrap()).unwrap();
    let patches = Patch::all(&files).unwrap();
    assert!(!patches.is_empty());
    for patch in patches {
        let changed = patch.apply(&files).unwrap();
        assert_ne!(changed.text(patch.file()), files.text(patch.file()));
        assert!(!patch.mutant().packages().is_empty(), "{}", patch.name);
    }
}

#[test]
fn patch_changes_lines_wherever_they_are() {
    let expected = "fn f() {\n    change();\n    unlock();\n}\n";
    for before in ["", "//! A lock.\n\n"] {
        let files = Files::of(&[(LOCK, &format!("{before}{TEXT}"))]);
        let changed = no_lock().apply(&files).unwrap();
        assert_eq!(changed.text(LOCK), Some(&*format!("{before}{expected}")));
    }
    assert_eq!(no_lock().broken, "The lock is not taken.");
    assert_eq!(no_lock().file(), LOCK);
}

#[test]
fn patch_of_lines_that_are_gone_or_there_twice_is_refused() {
    for (text, advice) in [
        (TEXT.replace("change", "alter"), "make the patch again"),
        (TEXT.repeat(2), "git diff -U10"),
        // The end of another line is not a line.
        (format!("pub {TEXT}"), "make the patch again"),
    ] {
        let error = no_lock().apply(&Files::of(&[(LOCK, &text)])).unwrap_err();
        assert!(error.starts_with("memory/lock: "), "{error}");
        assert!(error.contains(advice), "{error}");
    }
    assert!(no_lock().apply(&Files::of(&[])).is_err());
}

#[test]
fn malformed_patch_is_refused() {
    let lines = " fn f() {\n-    lock();\n     change();\n";
    for (head, lines, advice) in [
        ("@@ -1,4 +1,3 @@", lines, "`@@ -1,4 +1,3 @@` says"),
        ("@@ -1,2 +1,2 @@", lines, "`@@ -1,2 +1,2 @@` says"),
        ("@@ 1,3 1,2 @@", lines, "cannot read"),
        ("", "", "changes nothing"),
    ] {
        let error = patch(head, lines).unwrap_err();
        assert!(error.contains(advice), "{error}");
    }
    let text = format!("--- a/{LOCK}\n+++ b/{LOCK}\n@@ -1 +1 @@\n-a\n+b\n");
    let refused = |name, text: &str| Patch::parse(name, text).unwrap_err();
    assert!(refused("memory/lock", &text).contains("the first line"));
    let text = format!("# The lock is not taken.\n{text}");
    assert!(refused("core/lock", &text).contains("crates/tollgate-core/src/"));
    assert!(Patch::parse("memory/lock", &text).is_ok());
}

/// Returns a test that is a shell script.
fn script(folder: &Path, name: &str, text: &str) -> Test {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let binary = Binary {
        package: "tollgate-memory".to_owned(),
        target: "lib".to_owned(),
        path,
        folder: folder.to_owned(),
    };
    Test {
        binary,
        name: name.to_owned(),
        cost: Duration::ZERO,
        reaches: HashSet::new(),
    }
}

#[test]
fn patch_lives_unless_a_test_fails_twice() {
    let shell = project::shell().unwrap();
    let folder = shell.create_temp_dir().unwrap();
    let folder = folder.path();
    let workers = [Worker::new(folder, 0).unwrap()];
    let fate = |tests: &[Test]| fate(tests, &workers).unwrap();
    let passes = || script(folder, "passes", "exit 0");
    let fails = || script(folder, "fails", "exit 1");
    let unsteady = || {
        script(
            folder,
            "unsteady",
            "mkdir once 2>/dev/null && exit 1; exit 0",
        )
    };
    assert_eq!(fate(&[passes()]), Fate::Alive);
    assert_eq!(fate(&[unsteady(), passes()]), Fate::Alive);
    let killed = fate(&[passes(), fails()]);
    assert_eq!(killed, Fate::Killed("tollgate-memory lib fails".to_owned()));
    assert!(finish(&[(&no_lock(), killed)]).is_ok());
    assert!(finish(&[(&no_lock(), Fate::Alive)]).is_err());
}

//! The list of mutants stays one of the code as it is.

use std::collections::BTreeSet;

use super::*;
use crate::project;

#[test]
fn every_mutant_has_its_place() {
    let files = Files::read(&project::shell().unwrap()).unwrap();
    assert_eq!(findings(&files, MUTANTS), [""; 0]);
}

#[test]
fn every_mutant_changes_something_and_has_a_name() {
    for mutant in MUTANTS {
        assert_ne!(mutant.before, mutant.after, "{}", mutant.wrong);
    }
    let names: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.wrong).collect();
    assert_eq!(names.len(), MUTANTS.len());
}

#[test]
fn a_mutant_without_a_place_is_found() {
    let mutant = Mutant {
        file: "a.rs",
        wrong: "it is larger",
        before: "a < b",
        after: "a > b",
    };
    for (text, found) in [
        ("if a < b {}", 0),
        ("if b < a {}", 1),
        ("a < b == a < b", 1),
    ] {
        let files = Files::of(&[("a.rs", text)]);
        assert_eq!(findings(&files, &[mutant]).len(), found, "{text}");
    }
    let elsewhere = Files::of(&[("b.rs", "a < b")]);
    assert_eq!(findings(&elsewhere, &[mutant]).len(), 1);
}

#[test]
fn the_document_shows_every_mutant() {
    let files = Files::read(&project::shell().unwrap()).unwrap();
    let document = files.text("docs/mutants.md").unwrap();
    for mutant in MUTANTS {
        let row = format!("| `{}` | {} | ", mutant.place(), mutant.wrong);
        assert!(document.contains(&row), "{row} is not there");
    }
}

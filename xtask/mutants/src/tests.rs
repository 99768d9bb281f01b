//! Tests of the generated mutants, and of a run in which a mutant survives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::copy::last_name;
use super::point::render;
use super::suite::Test;
use super::trial::promise;
use super::*;

/// Returns the changes of a Rust snippet, without their places.
fn rust(source: &str) -> Vec<String> {
    let generated = rust::generate("a.rs", source, &BTreeSet::new()).unwrap();
    generated.mutants.iter().map(Mutant::change).collect()
}

/// Returns the changes within a function that consists of `statements`.
fn body(statements: &str) -> Vec<String> {
    let mut changes = rust(&format!("fn f() {{ {statements} let _ = (); }}"));
    assert_eq!(changes.remove(0), "`fn f` → `return`");
    changes
}

#[test]
fn comparisons_are_moved_by_one_and_decided() {
    let changes = [
        "`a < b` → `a <= b`",
        "`a < b` → `true`",
        "`a < b` → `false`",
    ];
    assert_eq!(body("let x = a < b;"), changes);
    assert_eq!(body("if a < b {}"), changes);
    // A loop that never ends would only time out.
    assert_eq!(body("while a < b {}"), [changes[0], changes[2]]);
    assert_eq!(
        body("if let Some(a) = b {}"),
        ["`let Some(a) = b` → `false`"]
    );
}

#[test]
fn each_side_of_a_condition_counts() {
    let changes = body("if a.is_x() && !b {}");
    let expected = [
        "`a.is_x() && !b` → `a.is_x() || !b`",
        "`a.is_x() && !b` → `true`",
        "`a.is_x() && !b` → `false`",
        "`a.is_x()` → `true`",
        "`!b` → `true`",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn numbers_and_sums_are_changed() {
    assert_eq!(
        body("let x = a + 5;"),
        ["`a + 5` → `a - 5`", "`5` → `6`", "`5` → `4`"]
    );
    assert_eq!(
        body("let x = a - b;"),
        ["`a - b` → `a + b`", "`a - b` → `a`"]
    );
    assert_eq!(body("let x = 0_u8;"), ["`0_u8` → `1u8`"]);
    assert_eq!(
        body("a += b;"),
        ["`a += b;` left out", "`a += b` → `a -= b`"]
    );
}

#[test]
fn methods_have_counterparts() {
    assert_eq!(
        body("let x = a.min(b);"),
        [
            "`a.min(b)` → `a.max(b)`",
            "`a.min(b)` → `a`",
            "`a.min(b)` → `b`"
        ]
    );
    assert_eq!(
        body("let x = a.div_ceil(b);"),
        ["`a.div_ceil(b)` → `a / b`"]
    );
    assert_eq!(
        body("let x = a.all(|b| b);"),
        ["`a.all(|b| b)` → `a.any(|b| b)`"]
    );
    assert_eq!(
        body("let x = a.checked_add(b);"),
        ["`a.checked_add(b)` → `Some(a.wrapping_add(b))`"]
    );
}

#[test]
fn statements_and_arms_are_left_out() {
    assert_eq!(
        body("f(); g()?;"),
        [
            "`f();` left out",
            "`g()?;` left out",
            "`g()?;` → `let _ = g();`"
        ]
    );
    assert_eq!(
        body("match a { A(x) if x => {} B => {} _ => {} }"),
        ["`x` → `true`", "`x` → `false`", "`B =>` left out"]
    );
    // If the last arm is not a catch-all, no arm can be deleted.
    assert_eq!(body("match a { Some(x) => {} None => {} }"), [""; 0]);
}

#[test]
fn functions_return_at_once() {
    let of = |output: &str| rust(&format!("fn f() -> {output} {{ x }}"));
    assert_eq!(
        of("bool"),
        ["`fn f` → `return true`", "`fn f` → `return false`"]
    );
    assert_eq!(of("u64"), ["`fn f` → `return 0`", "`fn f` → `return 1`"]);
    assert_eq!(
        of("Result<A, B>"),
        ["`fn f` → `return Ok(Default::default())`"]
    );
    assert_eq!(of("impl A"), [""; 0]);
    assert_eq!(rust("fn f() -> bool { false }"), ["`fn f` → `return true`"]);
}

#[test]
fn tests_constants_and_macros_are_not_mutated() {
    for source in [
        "#[cfg(test)] mod tests { fn f() { a = 1; } }",
        "#[cfg(test)] fn f() { a = 1; }",
        "#[cfg(all(test, feature = \"a\"))] mod tests { fn b() { a = 1; } }",
        "#[cfg(all(feature = \"a\", all(unix, test)))] fn b() { a = 1; }",
        "#[cfg(not(target_os = \"linux\"))] impl A { fn b() { a = 1; } }",
        "const A: u64 = 1 + 2;",
        "static A: [u64; 3] = [1; 3];",
        "macro_rules! m { () => { 1 + 1 } }",
        "fn f() -> A { m!(1 + 1) }",
    ] {
        let found = rust(source);
        assert!(
            found.iter().all(|change| change.contains("fn f")),
            "{found:?}"
        );
    }
}

#[test]
fn code_that_is_not_only_for_tests_is_mutated() {
    for condition in [
        "unix",
        "not(test)",
        "any(test, unix)",
        "all(unix, feature = \"a\")",
        "feature = \"test\"",
    ] {
        let found = rust(&format!("#[cfg({condition})] fn b() {{ c(1); d(); }}"));
        assert!(!found.is_empty(), "{condition}");
    }
}

#[test]
fn equal_mutants_have_different_names() {
    let source = "impl A { fn f() -> B { a(1); a(1) } }";
    let generated = rust::generate("crates/c/src/a.rs", source, &BTreeSet::new()).unwrap();
    let shown: Vec<_> = generated.mutants.iter().map(ToString::to_string).collect();
    let ones: Vec<_> = shown.iter().filter(|shown| shown.contains("`1`")).collect();
    assert_eq!(
        ones,
        [
            "crates/c/src/a.rs:1 A::f: `1` → `2`",
            "crates/c/src/a.rs:1 A::f: `1` → `0`",
            "crates/c/src/a.rs:1 A::f: `1` → `2` (no. 2)",
            "crates/c/src/a.rs:1 A::f: `1` → `0` (no. 2)",
        ]
    );
    let ids: BTreeSet<_> = generated.mutants.iter().map(|mutant| mutant.id).collect();
    assert_eq!(ids.len(), generated.mutants.len());
    // An additional line before it does not change the ids.
    let moved = format!("\n{source}");
    let moved = rust::generate("crates/c/src/a.rs", &moved, &BTreeSet::new()).unwrap();
    assert!(moved.mutants.iter().all(|mutant| ids.contains(&mutant.id)));
}

#[test]
fn all_changes_are_built_in_behind_switches() {
    let source = "const fn f(a: u64) -> u64 { g(a + h(1)) }";
    let generated = rust::generate("a.rs", source, &BTreeSet::new()).unwrap();
    let ids: Vec<_> = generated.mutants.iter().map(|mutant| mutant.id).collect();
    let [zero, one, minus, left, two, none] = ids[..] else {
        panic!("{:?}", generated.mutants);
    };
    let rendered = render(source, &generated.points, "on", &BTreeSet::new());
    let literal = format!("(if on({two}) {{ 2 }} else if on({none}) {{ 0 }} else {{ 1 }})");
    let sum = format!(
        "(match ((a), (h({literal}))) {{ (__left, __right) => if on({minus}) \
         {{ __left - __right }} else if on({left}) {{ __left }} else {{ __left + __right }} }})"
    );
    let returns = format!("if on({zero}) {{ return 0; }} if on({one}) {{ return 1; }} ");
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        squeezed(&rendered.text),
        squeezed(&format!(" fn f(a: u64) -> u64 {{{returns} g({sum}) }}"))
    );
    // Mutants that do not compile are left out, and functions that must be `const` are left alone.
    let dropped = ids.iter().copied().filter(|&id| id != two).collect();
    let rendered = render(source, &generated.points, "on", &dropped);
    assert_eq!(
        squeezed(&rendered.text),
        format!("fn f(a: u64) -> u64 {{ g(a + h((if on({two}) {{ 2 }} else {{ 1 }}))) }}")
    );
    let constant = BTreeSet::from(["f".to_owned()]);
    let generated = rust::generate("a.rs", source, &constant).unwrap();
    assert!(generated.mutants.is_empty());
}

#[test]
fn what_has_a_name_is_not_moved() {
    let rendered = |source: &str| {
        let generated = rust::generate("a.rs", source, &BTreeSet::new()).unwrap();
        let id = generated.mutants.last().unwrap().id;
        let others = generated.mutants.iter().map(|mutant| mutant.id);
        let others = others.filter(|&other| other != id).collect();
        let rendered = render(source, &generated.points, "on", &others).text;
        rendered.replace(&id.to_string(), "0")
    };
    assert_eq!(
        rendered("fn f() -> X { g(a.b.is_some()) }"),
        "fn f() -> X { g((if on(0) { a.b.is_none() } else { a.b.is_some() })) }"
    );
    assert_eq!(
        rendered("fn f() -> X { g(a.saturating_sub(b())) }"),
        "fn f() -> X { g((match (b()) { __right => if on(0) { a } \
         else { a.saturating_sub(__right) } })) }"
    );
}

#[test]
fn the_project_is_rust_with_all_mutants_built_in() {
    let files = Files::read(&project::shell().unwrap()).unwrap();
    let sources = sources::rust(&files, &BTreeSet::new()).unwrap();
    for source in &sources {
        let rendered = render(&source.text, &source.points, "on", &BTreeSet::new());
        let parsed = syn::parse_file(&rendered.text);
        assert!(parsed.is_ok(), "{}: {:?}", source.path, parsed.err());
    }
    let is_known = |name: &str| sources.iter().any(|source| source.path.ends_with(name));
    assert!(is_known("tollgate-core/src/algorithm/gcra/mod.rs"));
    assert!(is_known("tollgate-http/src/outbound/service.rs"));
    // A program has no `lib.rs`.
    assert!(is_known("tollgate-cli/src/input/shape/json.rs"));
    assert!(!is_known("tests.rs"));
}

#[test]
fn texts_of_scripts_are_chosen_when_they_are_used() {
    let source = "const A: &str = include_str!(\"a.lua\"); \
                  const B: T = T { b: include_str!(\"b.lua\") }; \
                  const C: T = T { e: M::SCRIPT, f: M::OTHER }; \
                  fn f() -> X { g(A, c, self.b.d(), &self.b[i..], self.e.d(), self.f.d(), [A]) }";
    let generated = rust::generate("a.rs", source, &BTreeSet::new()).unwrap();
    let ids = generated.mutants.iter().map(|mutant| mutant.id).collect();
    let rendered = render(source, &generated.points, "::core::__mutants::on", &ids).text;
    let text = "::core::__mutants::text";
    let expected = format!(
        "g({text}(A), c, {text}(self.b).d(), &{text}(self.b)[i..], {text}(self.e).d(), self.f.d(), [{text}(A)])"
    );
    assert!(rendered.contains(&expected), "{rendered}");
}

/// Returns the changed lines for a line of Lua.
fn lua(line: &str) -> Vec<String> {
    let mutants = lua::generate("a.lua", line);
    mutants.into_iter().map(|mutant| mutant.after).collect()
}

#[test]
fn lines_of_lua_are_changed() {
    assert_eq!(
        lua("if a < 1 then b = c + d end -- 2 > 1"),
        [
            "if a <= 1 then b = c + d end -- 2 > 1",
            "if a >= 1 then b = c + d end -- 2 > 1",
            "if a < 2 then b = c + d end -- 2 > 1",
            "if a < 0 then b = c + d end -- 2 > 1",
            "if a < 1 then b = c - d end -- 2 > 1",
            "if true then b = c + d end -- 2 > 1",
            "if false then b = c + d end -- 2 > 1",
            "if a < 1 then end -- 2 > 1",
        ]
    );
    assert_eq!(
        lua("local a = min(b, -1)"),
        [
            "local a = max(b, -1)",
            "local a = min(b, 1)",
            "local a = min(b, -2)",
            "local a = min(b, -0)",
        ]
    );
    assert_eq!(lua("call('SET', key, 'a < 1')"), [""]);
    assert_eq!(lua("@reads"), [""; 0]);
    let sections = lua::generate("a.lua", "--@ fits\na == b\n");
    assert_eq!(sections[0].place, "fits");
    assert_eq!(sections[0].line, 2);
    assert_eq!(sections[0].text.as_deref(), Some("--@ fits\na ~= b\n"));
}

/// Returns a test that fails only for the mutant `id`.
fn noticing(folder: &Path, name: &str, id: u64) -> Test {
    let path = folder.join(name);
    let text = format!("#!/bin/sh\n[ \"$TOLLGATE_MUTANT\" != {id} ]\n");
    fs::write(&path, text).unwrap();
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
fn a_surviving_mutant_is_reported() {
    let shell = project::shell().unwrap();
    let folder = shell.create_temp_dir().unwrap();
    let folder = folder.path();
    let source = "fn f() -> bool { x }\nfn g() -> X { h(1) }";
    let generated = rust::generate("crates/tollgate-memory/src/a.rs", source, &BTreeSet::new());
    let candidates = generated.unwrap().mutants;
    let id = |index: usize| candidates[index].id;
    let mut tests = [noticing(folder, "a", id(0)), noticing(folder, "b", id(2))];
    for test in &mut tests {
        test.reaches = [id(0), id(1), id(2)].into();
    }
    let trial = Trial {
        tests: &tests,
        folder,
        killers: Mutex::default(),
    };
    let workers = [Worker::new(folder, 0).unwrap()];
    let fates = trial.all(&candidates, &HashSet::new(), &workers).unwrap();
    assert_eq!(
        fates[&id(0)],
        Fate::Killed("tollgate-memory lib a".to_owned())
    );
    assert_eq!(fates[&id(1)], Fate::Alive);
    assert_eq!(
        fates[&id(2)],
        Fate::Killed("tollgate-memory lib b".to_owned())
    );
    assert_eq!(fates[&id(3)], Fate::Unreached);
    let all: Vec<_> = candidates.iter().map(|of| (of, &fates[&of.id])).collect();
    assert!(report::finish(&all[..1]).is_ok());
    assert!(report::finish(&all).is_err());
}

#[test]
fn table_of_mutants_that_were_hardly_tried_is_not_written() {
    let shell = project::shell().unwrap();
    let folder = shell.create_temp_dir().unwrap();
    let path = folder.path().join("results");
    let source = "fn f() -> bool { x }\nfn g() -> bool { y }";
    let generated = rust::generate("a.rs", source, &BTreeSet::new()).unwrap();
    let all: Vec<_> = generated.mutants.iter().collect();
    let table = || report::table(&all, 0, &HashSet::new(), &Results::read(&path));
    let mut is_written = Vec::new();
    for mutant in &all {
        is_written.push(table().is_ok());
        report::append(&path, mutant.id, &Fate::Alive).unwrap();
    }
    assert_eq!(is_written, [false, false, true, true]);
    assert!(table().unwrap().contains("| all | 4 | 0 | 0 | 4 | 0 |"));
}

#[test]
fn every_mutant_listed_as_equivalent_exists() {
    let files = Files::read(&project::shell().unwrap()).unwrap();
    let sources = sources::rust(&files, &BTreeSet::new()).unwrap();
    let rust = sources.into_iter().flat_map(|source| source.mutants);
    let lua = sources::lua(&files)
        .into_iter()
        .flat_map(|(_, mutants)| mutants);
    let all: Vec<_> = rust.chain(lua).collect();
    equivalent::read(&files, &all).unwrap();
    let numbers: BTreeSet<_> = all.iter().map(|mutant| mutant.id).collect();
    assert_eq!(numbers.len(), all.len());
    let names: BTreeSet<_> = all.iter().map(Mutant::name).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn list_with_a_mutant_that_is_gone_or_repeated_is_refused() {
    let path = "crates/tollgate-memory/src/a.rs";
    let generated = rust::generate(path, "fn f() -> bool { x }", &BTreeSet::new()).unwrap();
    let read = |list: &str| {
        let files = Files::of(&[("xtask/mutants/equivalents.toml", list)]);
        equivalent::read(&files, &generated.mutants).map_err(|error| error.to_string())
    };
    let name = "\"tollgate-memory/src/a.rs f: `fn f` → `return true`\"";
    let id = generated.mutants[0].id;
    assert_eq!(read(&format!("why = [{name}]")), Ok([id].into()));
    let repeated = read(&format!("why = [{name}]\nbecause = [{name}]")).unwrap_err();
    assert!(repeated.contains("listed twice: tollgate-memory/src/a.rs f: "));
    let gone = read("why = [\"tollgate-memory/src/a.rs g: `a` → `b`\"]").unwrap_err();
    assert!(gone.ends_with("no longer in the code: tollgate-memory/src/a.rs g: `a` → `b`"));
}

#[test]
fn a_promise_is_the_same_on_every_connection() {
    assert_eq!(
        promise("tollgate-a conformance on_a::conformance::gcra::b"),
        "conformance::gcra::b"
    );
    assert_eq!(promise("tollgate-a cluster b"), "tollgate-a cluster b");
}

#[test]
fn the_last_name_of_a_path_is_without_generic_arguments() {
    assert_eq!(last_name("Twin::of::<FixedWindow>"), "of");
    assert_eq!(last_name("Vec<u64>::new"), "new");
    assert_eq!(last_name("f"), "f");
}

//! Tests of `Script`.

use super::*;

#[test]
fn assembled_scripts_have_no_gaps() {
    let twins: Vec<_> = TWINS.iter().collect();
    let later = TWINS.iter().filter(|t| !t.section("delay").is_empty());
    let later: Vec<_> = later.collect();
    let texts = [
        few(&twins, Act::Consume, false),
        few(&twins, Act::Consume, true),
        few(&twins, Act::Peek, false),
        few(&later, Act::Reserve, true),
    ];
    let sets = (1..SETS).flat_map(|set| [many(set, false), many(set, true), batch(set)]);
    for text in texts.into_iter().chain(sets) {
        assert!(!text.contains('@'), "{text}");
    }
}

#[test]
fn the_readme_shows_an_assembled_script() {
    let windows = TWINS.iter().filter(|twin| twin.name == "fixed-window");
    let windows: Vec<_> = windows.flat_map(|window| [window; 2]).collect();
    let script = few(&windows, Act::Consume, false);
    let shown = format!("```lua\n{script}```\n");
    assert!(include_str!("README.md").contains(&shown), "{script}");
}

#[test]
fn scripts_have_no_comments() {
    let frame = "-- Reads @read.\n  -- It is short.\nlocal a = @read\n";
    let text = with_names(&fill(frame, &|name| format!("{name}(1)")));
    assert!(text.ends_with("\nlocal a = read(1)\n"), "{text}");
    assert!(!text.contains("--"), "{text}");
    assert!(!batch(SETS - 1).contains("--"));
}

/// A section that declared one of these would hide it from the frame of a batch.
#[test]
fn sections_hide_no_names_of_the_batch() {
    let of_frame = [
        "admits", "admitted", "answers", "base", "calls", "denies", "each", "left", "replied",
        "state", "ttl", "values",
    ];
    for name in of_frame {
        let holds = MACHINE_ALONE.contains(name) || BATCH.contains(name);
        assert!(holds, "{name}");
        for twin in &TWINS {
            for section in ["read", "remaining", "fits", "answer", "commit"] {
                let text = twin.section(section);
                let mut declared = text.lines().filter_map(|line| {
                    let names = line.trim().strip_prefix("local ")?;
                    Some(names.split('=').next().unwrap_or(names))
                });
                let hides = |names: &str| names.split(',').any(|of| of.trim() == name);
                assert!(
                    !declared.any(hides),
                    "{name} in {} of {}",
                    section,
                    twin.name
                );
            }
        }
    }
}

#[test]
fn scripts_define_only_the_functions_they_call() {
    let text = with_names("local x = floor(1) + my_ceil(2) + a.max(3) + admin(4) + x2rep(5)\n");
    assert!(text.starts_with("local floor = math.floor\n"), "{text}");
}

/// A batch has a `format` of its own, which is for these only.
#[test]
fn sections_format_whole_numbers_only() {
    let sections = ["read", "answer", "commit", "block", "reserve", "refund"];
    for (twin, section) in TWINS.iter().flat_map(|t| sections.map(|s| (t, s))) {
        let text = twin.section(section);
        let mut formats = text.split("format(").skip(1);
        let are_whole = formats.all(|rest| rest.starts_with("'%d', "));
        assert!(are_whole, "{section} of {}", twin.name);
    }
}

//! Rooms: the top-level modules of a crate, from the ground up. A room may use those below it.

use crate::project::Files;

/// The rooms of a crate.
struct House {
    /// The folder with its sources.
    sources: &'static str,
    /// From the ground up, separated by spaces; each is a file or a folder.
    rooms: &'static str,
}

const HOUSES: [House; 4] = [
    House {
        sources: "crates/tollgate-core/src/",
        rooms: "error time clock instants text cover calendar key one_or_many quota call_id companion \
                verdict algorithm limit store decision contract limiter lease schedule serde \
                inside",
    },
    House {
        sources: "crates/tollgate-wire/src/",
        rooms: "hash pauses wait redact script options failure engine fault no_connection keyspace \
                codec runner batch wrappers store plain lease schedule admin",
    },
    House {
        sources: "crates/tollgate-redis/src/",
        rooms: "lock home failure connection commands cluster no_cluster engine redis_store \
                plain builder operate",
    },
    House {
        sources: "xtask/src/",
        rooms: "outcome project servers layers names tidy results replay bench instructions lint \
                features readme release fuzz mutants test ci",
    },
];

/// Returns the rooms that use one above them, and those that are not listed.
pub(super) fn findings(files: &Files) -> Vec<String> {
    HOUSES
        .iter()
        .flat_map(|house| house.findings(files))
        .collect()
}

impl House {
    fn findings(&self, files: &Files) -> Vec<String> {
        let mut findings = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        for (path, text) in files.iter() {
            let Some(module) = path
                .strip_prefix(self.sources)
                .and_then(|path| path.strip_suffix(".rs"))
            else {
                continue;
            };
            let module: Vec<&str> = module.split('/').filter(|part| *part != "mod").collect();
            let room = module[0];
            if matches!(module[..], ["lib" | "main"]) || module.last() == Some(&"tests") {
                continue;
            }
            let Some(floor) = self.floor(room) else {
                findings.push(format!("{path} is in no room: list `{room}`"));
                continue;
            };
            seen.push(room);
            for used in used(text, module.len()) {
                let above = match self.floor(&used) {
                    Some(other) => other > floor,
                    None => {
                        findings.push(format!("{path} uses `{used}`, which is no room"));
                        continue;
                    }
                };
                if above {
                    findings.push(format!("{path} uses `{used}`, which is above `{room}`"));
                }
            }
        }
        let empty = self.rooms.split(' ').filter(|room| !seen.contains(room));
        findings
            .extend(empty.map(|room| format!("{}{room} is listed, but not there", self.sources)));
        findings
    }

    fn floor(&self, room: &str) -> Option<usize> {
        self.rooms.split(' ').position(|other| other == room)
    }
}

/// Returns what the code of a module at this `depth` uses from the root of its crate. Tests and
/// comments may use anything.
fn used(text: &str, depth: usize) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut used = Vec::new();
    let supers = "super::".repeat(depth);
    for root in ["crate::", &supers] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            // What an exported macro names with `$crate` is used where the macro is.
            let is_path =
                before.is_some_and(|c| matches!(c, '$' | ':' | '_') || c.is_alphanumeric());
            if !is_path {
                used.extend(first_names(&code[at + root.len()..]));
            }
        }
    }
    used
}

/// Returns the first name of a path, or of each path in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let text = text.trim_start();
        text.chars()
            .take_while(|c| *c == '_' || c.is_alphanumeric())
            .collect()
    };
    let Some(group) = path.strip_prefix('{') else {
        let name = name(path);
        // Exported macros are in no room.
        return if name == "super" || path[name.len()..].starts_with('!') {
            Vec::new()
        } else {
            vec![name]
        };
    };
    let mut names = vec![name(group)];
    let mut open = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => break,
            '}' => open -= 1,
            ',' if open == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House = House {
        sources: "a/src/",
        rooms: "low middle high",
    };

    /// Returns the findings in a house whose middle room has this code, in this file.
    fn found(path: &str, code: &str) -> usize {
        let all = [
            ("a/src/lib.rs", "mod low;"),
            ("a/src/low.rs", ""),
            ("a/src/high.rs", "use crate::middle;"),
            (path, code),
        ];
        HOUSE.findings(&Files::of(&all)).len()
    }

    #[test]
    fn rooms_use_only_what_is_below() {
        for (path, code, wrong) in [
            ("a/src/middle.rs", "use crate::low::{A, B};", 0),
            ("a/src/middle/mod.rs", "use super::low::A;", 0),
            (
                "a/src/middle/part.rs",
                "use super::high::Own;\nuse super::super::low;",
                0,
            ),
            (
                "a/src/middle.rs",
                "// use crate::high;\n#[cfg(test)]\nuse crate::high;",
                0,
            ),
            ("a/src/middle.rs", "use tollgate_crate::high;", 0),
            ("a/src/middle.rs", "crate::exported!(Own);", 0),
            ("a/src/middle.rs", "use $crate::exported;", 0),
            ("a/src/middle.rs", "use crate::high::Thing;", 1),
            ("a/src/middle.rs", "fn f() { super::high::g() }", 1),
            ("a/src/middle.rs", "use crate::{low::{A, B},\n    high};", 1),
            ("a/src/middle/part.rs", "use super::super::high;", 1),
            ("a/src/middle.rs", "use crate::Thing;", 1),
            // Not listed, and the middle room is not there.
            ("a/src/other.rs", "", 2),
        ] {
            assert_eq!(found(path, code), wrong, "{code}");
        }
    }
}

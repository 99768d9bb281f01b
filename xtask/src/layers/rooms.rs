//! Rooms: the top-level modules of a crate, from the ground up. A room may use those below it.

use crate::project::Files;

/// Folders with the sources of crates, or of large rooms, each with its rooms from the ground up: its files
/// and folders.
const HOUSES: &str = "\
crates/tollgate-cas/src/ marks key rows book batch group cas_store
crates/tollgate-cli/src/ signals text failure secrets output progress file trace input decisions store \
    doubt lanes time limits report subject verdict change commands
crates/tollgate-cli/src/input/ record address key options instant wanted pattern table account callers \
    json lines w3c parser
crates/tollgate-conformance/src/ bound naive families harness watched plan clock history race machine \
    session scene promises leases list schedules suite
crates/tollgate-core/src/ error time bytes clock instants text cover cycle calendar key one_or_many quota \
    call_id companion verdict algorithm limit store decision contract limiter lease schedule serde inside
crates/tollgate-core/src/algorithm/ change state machine text twin block calendar_window fixed_window gcra \
    sliding_buckets sliding_counter sliding_log list
crates/tollgate-core/src/lease/ terms answer request store call state
crates/tollgate-core/src/limiter/ per_limit left call settle_error change zones amounts
crates/tollgate-core/src/schedule/ zone calendar closed event operation quota terms request answer cover \
    store call search events
crates/tollgate-core/src/store/ source check fingerprint receipt operation verdicts begun request bytes evaluation \
    lateness
crates/tollgate-fred/src/ connection failure places engine fred_store builder operate
crates/tollgate-http/src/ limit_hint times spelled standard hints inbound outbound
crates/tollgate-http/src/inbound/ body prefix text client_key forwarded client_ip key_by grpc fields policy \
    question extensions warning outage refusal rule shared diagnosis error passing service
crates/tollgate-http/src/outbound/ costs error host refusals report unsent service
crates/tollgate-layers/src/ clock key forward sync breaker deny_cache observed fallback lazy limits shuttle \
    prefetch share stack
crates/tollgate-layers/src/prefetch/ changes hand hot table sweeper units driver shuttle
crates/tollgate-memory/src/ counter clock probe shard tables memory_store answers composite families
crates/tollgate-redis/src/ lock home failure connection commands cluster no_cluster engine redis_store \
    plain builder operate
crates/tollgate-scenarios/src/ client secured refusals faults batches clear conformance diagnose extremes \
    leases outage published redacted
crates/tollgate-sql/src/ column failure swept postgres sqlite sql_rows
crates/tollgate-testkit/src/ connection folder flavor port process tls server cluster fake program postgres \
    proxy sentinel shared
crates/tollgate-tokio/src/ late blocking key random costs queue lease wait meter outbound pace inside
crates/tollgate-wire/src/ hash pauses wait redact script options failure engine fault no_connection keyspace \
    codec runner batch wrappers store plain lease schedule admin
crates/tollgate-wire/src/admin/ names latest states clear finding slot probe setup diagnose facts find
xtask/src/ outcome project servers layers names tidy results bench instructions lint features readme \
    release fuzz mutants test ci";

/// The rooms of a folder.
struct House<'a> {
    sources: &'a str,
    rooms: Vec<&'a str>,
}

/// Returns the rooms that use one above them, and those that are not listed.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let houses = HOUSES.lines().map(House::of);
    houses.flat_map(|house| house.findings(files)).collect()
}

impl<'a> House<'a> {
    fn of(line: &'a str) -> Self {
        let (sources, rooms) = line.split_once(' ').unwrap_or((line, ""));
        let rooms = rooms.split(' ').collect();
        Self { sources, rooms }
    }

    fn findings(&self, files: &Files) -> Vec<String> {
        let (_, folder) = self.sources.split_once("/src/").unwrap_or_default();
        let root = format!("crate::{}", folder.replace('/', "::"));
        let roots = ["lib.rs", "main.rs", "mod.rs"].map(|file| format!("{}{file}", self.sources));
        let roots = roots.iter().filter_map(|path| files.text(path));
        let exports: Vec<_> = roots.flat_map(|text| exports(text, &root)).collect();
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
            if matches!(module[..], [] | ["lib" | "main"]) || module.last() == Some(&"tests") {
                continue;
            }
            let room = module[0];
            let Some(floor) = self.floor(room) else {
                findings.push(format!("{path} is in no room: list `{room}`"));
                continue;
            };
            seen.push(room);
            for used in used(text, &root, module.len()) {
                let export = exports.iter().find(|(name, _)| *name == used);
                // What is in no room is the root's own.
                let other = self.floor(&used).or_else(|| self.floor(export?.1));
                if other > Some(floor) {
                    findings.push(format!("{path} uses `{used}`, which is above `{room}`"));
                }
            }
        }
        let empty = self.rooms.iter().filter(|room| !seen.contains(room));
        findings
            .extend(empty.map(|room| format!("{}{room} is listed, but not there", self.sources)));
        findings
    }

    fn floor(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|other| *other == room)
    }
}

/// Returns what a root re-exports, each with the room that it is in.
fn exports<'t>(text: &'t str, root: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let uses = text.split("use ").skip(1);
    let paths = uses.filter_map(move |used| {
        let (path, _) = used.split_once(';')?;
        let path = path.strip_prefix("self::").unwrap_or(path);
        path.strip_prefix(root).unwrap_or(path).split_once("::")
    });
    paths.flat_map(|(room, names)| {
        let names = names.split(|c: char| c != '_' && !c.is_alphanumeric());
        names.map(move |name| (name, room))
    })
}

/// Returns what the code of a module at this `depth` uses from its `root`. Tests and comments may use
/// anything.
fn used(text: &str, root: &str, depth: usize) -> Vec<String> {
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut used = Vec::new();
    let supers = "super::".repeat(depth);
    for root in [root, &supers] {
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

    /// Returns the findings in the house of this file, which has this code.
    fn found(path: &str, code: &str) -> usize {
        let all = [
            (
                "a/src/lib.rs",
                "mod low;\npub use self::high::{Other,\n    Thing};",
            ),
            ("a/src/low.rs", ""),
            ("a/src/high/mod.rs", "pub use two::Two;"),
            ("a/src/high/two.rs", "use crate::middle;"),
            (path, code),
        ];
        let houses = ["a/src/high/ one two", "a/src/ low middle high"].map(House::of);
        let house = houses.iter().find(|house| path.starts_with(house.sources));
        house.unwrap().findings(&Files::of(&all)).len()
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
                "// use crate::high;\n#[cfg(test)]\nmod tests {\nuse crate::high;",
                0,
            ),
            ("a/src/middle.rs", "use tollgate_crate::high;", 0),
            ("a/src/middle.rs", "crate::exported!(Own);", 0),
            ("a/src/middle.rs", "use $crate::exported;", 0),
            ("a/src/middle.rs", "use crate::high::Thing;", 1),
            ("a/src/middle.rs", "fn f() { super::high::g() }", 1),
            ("a/src/middle.rs", "use crate::{low::{A, B},\n    high};", 1),
            ("a/src/middle/part.rs", "use super::super::high;", 1),
            (
                "a/src/middle.rs",
                "#[cfg(test)]\nmod tests;\nuse crate::high;",
                1,
            ),
            // The root's own, and what it re-exports.
            ("a/src/middle.rs", "use crate::{Own, low};", 0),
            ("a/src/middle.rs", "use crate::{Own, Thing};", 1),
            // Rooms in a room.
            ("a/src/high/one.rs", "use crate::{low, two};", 0),
            ("a/src/high/one.rs", "use super::{Own, Two};", 1),
            ("a/src/high/one.rs", "use crate::high::two::Own;", 1),
            // Not listed, and the middle room is not there.
            ("a/src/other.rs", "", 2),
        ] {
            assert_eq!(found(path, code), wrong, "{code}");
        }
    }
}

//! Checks that links lead to files and headings that exist, and that those of published crates also work
//! outside of the repository.

use crate::project::Files;

/// What follows the repository's address in the address of a file, and of a folder.
const BRANCHES: [&str; 2] = ["/blob/main/", "/tree/main/"];

/// Returns the links that do not work, in documents and in the documentation of code.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let published = files.published();
    let mut findings = Vec::new();
    let documents = files
        .ending("md")
        .map(|(path, text)| (path, text.to_owned()));
    let code = files
        .ending("rs")
        .map(|(path, text)| (path, documentation(text)));
    for (path, text) in documents.chain(code) {
        let leaves = published.iter().any(|name| {
            let inside = path.strip_prefix(&format!("crates/{name}/"));
            inside.is_some_and(|path| {
                path == "README.md" || path.starts_with("src/") && path.ends_with(".rs")
            })
        });
        for target in links(&text) {
            if let Some(wrong) = wrong(files, path, target, leaves) {
                findings.push(format!("{path} links to {target}, {wrong}"));
            }
        }
    }
    findings
}

/// Returns what is wrong with a link to `target` in the file at `path`. If the file `leaves` the repository,
/// links may not be relative.
fn wrong(files: &Files, path: &str, target: &str, leaves: bool) -> Option<&'static str> {
    let address = files.repository().unwrap_or("https://example.invalid");
    let inside = target.strip_prefix(address).and_then(|rest| {
        let mut inside = BRANCHES
            .iter()
            .filter_map(|branch| rest.strip_prefix(branch));
        inside.next()
    });
    if inside.is_none() && target.contains("://") {
        return None;
    }
    if inside.is_none() && leaves && !target.starts_with('#') {
        return Some("which is not there on docs.rs: write its public address");
    }
    let target = inside.unwrap_or(target);
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = match (inside, file) {
        (Some(_), file) => file.trim_end_matches('/').to_owned(),
        (None, "") => path.to_owned(),
        (None, file) => resolve(path, file),
    };
    let is_there = files.iter().any(|(other, _)| {
        let rest = other.strip_prefix(&*file);
        file.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if !is_there {
        return Some("which is not there");
    }
    // Other files have lines, and code has items, whose links rustdoc checks.
    let is_named = heading.is_empty() || !file.ends_with(".md");
    let mut lines = prose(files.text(&file).unwrap_or_default());
    let is_heading = |line: &str| line.starts_with('#') && anchor(line) == heading;
    (!is_named && !lines.any(is_heading)).then_some("but no heading there is called that")
}

/// Returns the targets of the links in `markdown` to files, headings and sites.
fn links(markdown: &str) -> impl Iterator<Item = &str> {
    let targets = prose(markdown).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets.filter(|target| {
        // A target without a dot or slash is an item of the crate, whose link rustdoc checks.
        let is_path = target.contains(['.', '/']) && !target.contains("::");
        is_path || target.starts_with('#')
    })
}

/// Returns the lines of `markdown` outside of code.
fn prose(markdown: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    markdown.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Returns the lines of Rust `code` that are documentation, without their slashes.
fn documentation(code: &str) -> String {
    let lines = code.lines().map(str::trim_start);
    let lines = lines.filter_map(|line| {
        ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the name by which links address a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the path from the root to `target`, which is relative to the folder of `path`.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of links that are found to be wrong in a file with this text.
    fn found(path: &str, text: &str) -> usize {
        let files = [
            ("Cargo.toml", "repository = \"https://example.org/o/p\"\n"),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", "publish = false"),
            ("docs/b.md", "# B\n## Part\n```\n# Code\n```\n## `a.b`, c\n"),
            (path, text),
        ];
        findings(&Files::of(&files)).len()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for (link, wrong) in [
            ("#a", 0),
            ("b.md#part", 0),
            ("b.md#ab-c", 0),
            ("../docs/b.md", 0),
            ("../docs/", 0),
            ("https://example.com/c.md", 0),
            ("https://example.org/o/p", 0),
            ("https://example.org/o/p/blob/main/docs/b.md#part", 0),
            ("https://example.org/o/p/tree/main/docs", 0),
            ("crate::Thing", 0),
            ("#b", 1),
            ("c.md", 1),
            ("../b.md", 1),
            ("b.md#code", 1),
            ("https://example.org/o/p/blob/main/docs/c.md", 1),
            ("https://example.org/o/p/blob/main/docs/b.md#c", 1),
        ] {
            let text = format!("# A\nSee [here]({link}).\n\n```\nfn f() [0](no/code)\n```\n");
            assert_eq!(found("docs/a.md", &text), wrong, "{link}");
        }
    }

    #[test]
    fn a_published_crate_links_by_public_addresses() {
        let (public, relative) = (
            "[b](https://example.org/o/p/blob/main/docs/b.md)",
            "[b](../../docs/b.md)",
        );
        assert_eq!(found("crates/a/README.md", public), 0);
        assert_eq!(found("crates/a/README.md", relative), 1);
        assert_eq!(found("crates/b/README.md", relative), 0);
        assert_eq!(
            found("crates/a/src/lib.rs", &format!("/// See {relative}.\n")),
            1
        );
        assert_eq!(
            found("crates/a/src/lib.rs", &format!("// See {relative}.\n")),
            0
        );
    }
}

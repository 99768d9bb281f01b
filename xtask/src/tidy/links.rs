//! Checks that links lead to files and headings that exist, and that those of published crates also work
//! outside of the repository.

use std::collections::HashMap;

use crate::project::Files;

/// What follows the repository's address in the address of a file, and of a folder.
const BRANCHES: [&str; 2] = ["/blob/main/", "/tree/main/"];
/// Where the documentation of published crates is.
const DOCS: &str = "https://docs.rs/";

/// Returns the links that do not work, in documents and in the documentation of code.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let published = files.published();
    let mut findings = Vec::new();
    let mut check = |path: &str, text: &str| {
        let leaves = published.iter().any(|name| {
            let inside = path.strip_prefix(&format!("crates/{name}/"));
            inside.is_some_and(|path| {
                path == "README.md" || path.starts_with("src/") && path.ends_with(".rs")
            })
        });
        for target in links(text) {
            let wrong = wrong(files, &published, path, target, leaves);
            findings.extend(wrong.map(|wrong| format!("{path} links to {target}, {wrong}")));
        }
    };
    for (path, text) in files.ending("md") {
        check(path, text);
    }
    for (path, text) in files.ending("rs") {
        check(path, &documentation(text));
    }
    findings
}

/// Returns what is wrong with a link to `target` in the file at `path`. If the file `leaves` the repository,
/// links may not be relative.
fn wrong(
    files: &Files,
    published: &[&str],
    path: &str,
    target: &str,
    leaves: bool,
) -> Option<String> {
    let address = files.repository().unwrap_or("https://example.invalid");
    if let Some(rest) = target.strip_prefix(address) {
        let inside = BRANCHES.iter().find_map(|branch| rest.strip_prefix(branch));
        return match inside {
            Some(inside) => missing(files, path, &format!("/{inside}")),
            None if rest.is_empty() => None,
            None => Some(format!("which must go on with {}", BRANCHES[0])),
        };
    }
    if let Some(rest) = target.strip_prefix(DOCS) {
        let name = rest.split(['/', '#']).next().unwrap_or_default();
        let is_ours = files.text(&format!("crates/{name}/Cargo.toml")).is_some();
        return (is_ours && !published.contains(&name))
            .then(|| "which is not published".to_owned());
    }
    if target.contains("://") {
        let mut inside = BRANCHES
            .iter()
            .filter_map(|branch| Some(target.split_once(branch)?.1));
        let is_ours = inside.any(|inside| missing(files, path, &format!("/{inside}")).is_none());
        return is_ours.then(|| format!("which is in this repository: {address}"));
    }
    if leaves && !target.starts_with('#') {
        let (file, _) = target.split_once('#').unwrap_or((target, ""));
        return Some(format!(
            "which is not there on docs.rs: write {address}{}{}",
            BRANCHES[0],
            resolve(path, file)
        ));
    }
    missing(files, path, target)
}

/// Returns that `target`, a path from the file at `path`, or from the root if it begins with a slash, is not
/// there, or has no such heading.
fn missing(files: &Files, path: &str, target: &str) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = match file {
        "" => path.to_owned(),
        file => resolve(path, file),
    };
    if !exists(files, &file) {
        return Some("which is not there".to_owned());
    }
    // Other files have lines, and code has items, whose links rustdoc checks.
    if heading.is_empty() || !file.ends_with(".md") {
        return None;
    }
    let text = files.text(&file).unwrap_or_default();
    let is_there = headings(text).iter().any(|found| found == heading);
    (!is_there).then(|| format!("but no heading of {file} is called that"))
}

/// Returns the targets of the links in `markdown` to files, headings and sites.
pub(super) fn links(markdown: &str) -> Vec<&str> {
    prose(markdown)
        .flat_map(|line| line.split("](").skip(1))
        .map(|rest| rest.split(')').next().unwrap_or_default())
        .filter(|target| {
            // A target without a dot or slash is an item of the crate, whose link rustdoc checks.
            let is_path = target.contains(['.', '/']) && !target.contains("::");
            is_path || target.starts_with('#')
        })
        .collect()
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
    let lines = code.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the names by which links address the headings of `markdown`.
fn headings(markdown: &str) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::new();
    for line in prose(markdown).filter(|line| line.starts_with('#')) {
        // A link in a heading counts as its text.
        let mut text = String::new();
        for (index, part) in line.trim_start_matches('#').trim().split("](").enumerate() {
            let shown = if index == 0 {
                Some(part)
            } else {
                part.split_once(')').map(|(_, rest)| rest)
            };
            text += shown.unwrap_or_default();
        }
        let name: String = text
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .flat_map(char::to_lowercase)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let count = counts.entry(name.clone()).or_default();
        names.push(match *count {
            0 => name,
            count => format!("{name}-{count}"),
        });
        *count += 1;
    }
    names
}

/// Resolves `target` to a path from the root. It is relative to the folder of `path`, unless it begins with a
/// slash.
pub(super) fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => path.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns whether a file or folder exists at `path`.
fn exists(files: &Files, path: &str) -> bool {
    let folder = format!("{path}/");
    files.text(path).is_some() || files.iter().any(|(other, _)| other.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = (
        "Cargo.toml",
        "[workspace.package]\nrepository = \"https://example.org/o/p\"\n",
    );

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let documents = |link: &str| {
            let text = format!("# A\nSee [here]({link}).\n\n```\nfn f() [0](no/code)\n```\n");
            let b = "# B\n## Part\n```\n# Code\n```\n## `a.b`, [c](d.md)\n## Part\n";
            findings(&Files::of(&[
                MANIFEST,
                ("docs/a.md", &text),
                ("docs/b.md", b),
                ("docs/d.md", ""),
            ]))
        };
        for good in [
            "#a",
            "b.md",
            "b.md#part",
            "b.md#part-1",
            "b.md#ab-c",
            "../docs/b.md",
            "../docs/",
            "https://example.com/c.md",
            "https://example.com/blob/main/c.md",
            "https://example.org/o/p",
            "https://example.org/o/p/blob/main/docs/b.md#part",
            "https://example.org/o/p/tree/main/docs",
            "https://docs.rs/tokio",
            "crate::Thing",
        ] {
            assert_eq!(documents(good), [""; 0], "{good}");
        }
        for bad in [
            "#b",
            "c.md",
            "../b.md",
            "docs/b.md",
            "b.md#code",
            "b.md#part-2",
            "https://example.com/blob/main/docs/b.md",
            "https://example.org/o/p/docs/b.md",
            "https://example.org/o/p/blob/main/docs/c.md",
            "https://example.org/o/p/blob/main/docs/b.md#c",
        ] {
            assert_eq!(documents(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_published_crate_links_by_public_addresses() {
        let found = |path: &str, text: &str| {
            findings(&Files::of(&[
                MANIFEST,
                ("crates/a/Cargo.toml", ""),
                ("crates/b/Cargo.toml", "publish = false"),
                ("docs/c.md", "# C\n"),
                (path, text),
            ]))
            .len()
        };
        for (text, wrong) in [
            ("[c](../../docs/c.md)", 1),
            ("[c](../../../docs/c.md)", 1),
            ("[c](https://example.org/o/p/blob/main/docs/c.md#c)", 0),
            ("[c](https://example.org/o/p/blob/main/docs/c.md#d)", 1),
            ("[a](https://docs.rs/a/latest/a/)", 0),
            ("[b](https://docs.rs/b)", 1),
        ] {
            assert_eq!(found("crates/a/README.md", text), wrong, "{text}");
            let code = format!("    /// See {text}.\nfn f() {{}}\n");
            assert_eq!(found("crates/a/src/lib.rs", &code), wrong, "{code}");
        }
        let relative = "[c](../../docs/c.md)";
        assert_eq!(found("crates/b/README.md", relative), 0);
        assert_eq!(
            found("crates/a/src/lib.rs", &format!("// See {relative}.")),
            0
        );
    }
}

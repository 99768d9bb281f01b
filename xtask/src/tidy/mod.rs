//! `cargo xtask tidy`: checks what the compiler does not.

mod definitions;
mod documents;
mod examples;
mod features;
mod folders;
mod heads;
mod links;
mod manifests;
mod packages;
mod promises;
mod top_level;
mod words;

use xshell::Shell;

use crate::outcome::{Outcome, report};
use crate::project::Files;

pub(crate) fn run(shell: &Shell) -> Outcome {
    report("tidy", &findings(&Files::read(shell)?))
}

fn findings(files: &Files) -> Vec<String> {
    [
        top_level::findings,
        heads::findings,
        folders::findings,
        manifests::findings,
        promises::findings,
        definitions::findings,
        words::findings,
        documents::findings,
        links::findings,
        packages::findings,
        examples::findings,
        features::findings,
    ]
    .into_iter()
    .flat_map(|check| check(files))
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::project;

    #[test]
    fn the_project_is_tidy() {
        let files = project::Files::read(&project::shell().unwrap()).unwrap();
        assert_eq!(super::findings(&files), [""; 0]);
    }
}

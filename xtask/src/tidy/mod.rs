//! `cargo xtask tidy`: checks what the compiler does not.

mod facts;
mod heads;
mod links;

use xshell::Shell;

use crate::outcome::{Outcome, report};
use crate::project::Files;

pub(crate) fn run(shell: &Shell) -> Outcome {
    let files = Files::read(shell)?;
    report("tidy", &findings(&files))
}

fn findings(files: &Files) -> Vec<String> {
    [heads::findings, facts::findings, links::findings]
        .into_iter()
        .flat_map(|check| check(files))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;

    #[test]
    fn the_project_is_tidy() {
        let files = Files::read(&project::shell().unwrap()).unwrap();
        assert_eq!(findings(&files), [""; 0]);
    }
}

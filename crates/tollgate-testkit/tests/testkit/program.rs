//! Tests of servers that do not speak Redis's protocol; Redis's stands for one.

use tollgate_testkit::{Flavor, Program};

#[test]
#[should_panic(expected = "cargo xtask servers")]
fn a_missing_program_fails_with_the_command_that_installs_it() {
    let _ = Program::start("no-such-program", |_, _| Vec::new());
}

#[test]
#[should_panic(expected = "does not listen; it says")]
fn a_program_that_ends_shows_what_it_said() {
    let path = Flavor::System.binary().display().to_string();
    let wrong = ["--port", "wrong"].map(str::to_owned);
    let _ = Program::start(&path, |_, _| wrong.to_vec());
}
